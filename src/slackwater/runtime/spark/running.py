"""Started queries: their progress, their end, and what may be changed while they run.

Invariant: a change takes effect at a micro-batch, for all shards at once, exactly once, and stays in force over
restarts. What may not be changed is refused before anything starts, in one sentence. Of several queries the results of
the others are not touched by it.
"""

from __future__ import annotations

import threading
import time as wall
from contextlib import suppress
from dataclasses import dataclass, replace
from html import escape
from types import TracebackType
from typing import Any, Self

from pyspark.sql.streaming.query import StreamingQuery

from slackwater.core.errors import UsageError
from slackwater.core.quality import Quality, clause
from slackwater.language.dialect import parse_quality
from slackwater.observe.value import QueryProgress
from slackwater.observe.views import ProgressHistory
from slackwater.runtime.follow import Source
from slackwater.runtime.spark import requests
from slackwater.runtime.spark.batches import Sinks, folders_of
from slackwater.runtime.spark.control import DONE, DROP, END, PAUSE, RESUME, TARGET, Known, Message
from slackwater.runtime.spark.failures import JvmEndedError, as_ours, one_sentence
from slackwater.runtime.spark.members import ALONE, named_texts
from slackwater.runtime.spark.progress import parsed, polled, progress
from slackwater.runtime.spark.requests import Request, RequestInbox
from slackwater.runtime.spark.started import Started
from slackwater.runtime.targets import settable

WHILE_READING = 0.2
"""Seconds from one look at a query that reads a history to the next."""
PAST = 100
"""Micro-batches of earlier starts whose progress is kept."""


class Running:
    """What has been started as one streaming query of Spark. A `with` block stops it at its end."""

    def __init__(self, started: Started, flush: bool, available: bool) -> None:
        self._of, self._log, self._available = started, started.log, available
        self._stopped = threading.Event()
        self._query = started.start()
        self._name = str(self._query.name or self._query.id)
        """Asked for while Spark's JVM is there."""
        self._starting: threading.Thread | None = None
        """What starts the query again: behind a history, and for a flush."""
        self._failure: BaseException | None = None
        if flush or started.in_history:
            self._starting = threading.Thread(target=self._start_again, args=(flush,), name="slackwater", daemon=True)
            self._starting.start()
        if self._log.here is not None and not available:
            RequestInbox(self._log.here.parent, self._do, self._stopped, lambda: self.is_active)

    @property
    def query(self) -> StreamingQuery:
        """Spark's own handle."""
        return self._query

    @property
    def is_active(self) -> bool:
        """Whether it still runs."""
        try:
            with one_sentence():
                return self._query.isActive or (self._starting is not None and self._starting.is_alive())
        except JvmEndedError:
            return False

    def wait(self, timeout: int | None = None) -> bool:
        """Wait until it has ended, so many seconds at most; whether it has. A failure is raised as one sentence."""
        begun = wall.monotonic()
        if not self._started_again(timeout):
            return False
        return self._ended(None if timeout is None else max(0, round(timeout - (wall.monotonic() - begun))))

    def _started_again(self, timeout: int | None = None) -> bool:
        """Wait until nothing is left but the query that runs now; whether that is so."""
        if self._starting is None:
            return True
        self._starting.join(timeout)
        if self._failure is not None:
            raise self._failure
        return not self._starting.is_alive()

    def _ended(self, timeout: int | None) -> bool:
        with one_sentence():
            if timeout is None:
                self._query.awaitTermination()
                return True
            return bool(self._query.awaitTermination(timeout))

    def process_all_available(self) -> None:
        """Wait until everything that has arrived by now is processed; for tests and notebooks."""
        self._started_again()
        with one_sentence():
            self._query.processAllAvailable()

    def stop(self) -> None:
        """Stop it where it is; a start from the same checkpoint goes on from there."""
        self._stopped.set()
        with suppress(JvmEndedError), one_sentence():
            self._query.stop()
        if self._starting is not None:
            self._starting.join()

    def _start_again(self, flush: bool) -> None:
        try:
            if self._of.in_history:
                self._read_history()
            if flush and not self._stopped.is_set():
                self._flush()
        except Exception as error:
            # Re-raised by `wait()`.
            self._failure = error

    def _read_history(self) -> None:
        """When all of it is announced, run until it is read, and then over the streams."""
        while not self._of.all_announced.wait(WHILE_READING) and self._query.isActive:
            pass
        if not self._of.reads_last and not self._stopped.is_set():
            # It has failed, and says why.
            self._ended(None)
        if not self._stopped.is_set() and self._of.all_announced.is_set():
            self._query.stop()
            self._run()
        self._ended(None)
        if not self._stopped.is_set():
            self._of.begin_live()
            self._run()

    def _run(self) -> None:
        self._query = self._of.start()
        if self._stopped.is_set():
            self._query.stop()

    def _flush(self) -> None:
        """When all that was there is processed, say that the input has ended, and run once more to hear it."""
        self._ended(None)
        if self._stopped.is_set():
            return
        if not self._log.ending:
            self._log.say(Message(END))
        self._run()
        self._ended(None)
        if not self._stopped.is_set():
            self._log.say(Message(DONE))

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        self.stop()

    def __repr__(self) -> str:
        return f"<{type(self).__name__} {self._name}, {self._state()}>"

    def _state(self) -> str:
        """`running`, `ended`, or that it has failed and why."""
        if self.is_active:
            return "running"
        try:
            with one_sentence():
                failure = self._query.exception()
        except JvmEndedError as ended:
            return f"failed: {ended}"
        return "ended" if failure is None else f"failed: {as_ours(str(failure))}"

    def _do(self, asked: Request) -> None:
        """What another process asks for."""
        if asked.change == requests.TARGET:
            self._set_target(asked.query, asked.target or "", asked.at_most)
        elif asked.change in (requests.PAUSE, requests.RESUME):
            self._tell(asked.query, PAUSE if asked.change == requests.PAUSE else RESUME)
        else:
            raise UsageError(f"this query cannot be asked to {asked.change}; sets of queries can")

    def _known(self, name: str) -> Known:
        self._refuse_available()
        with self._of.lock:
            known = self._log.queries
        if name not in known:
            raise UsageError(f"there is no query {name}; there are {', '.join(known) or 'none'}")
        return known[name]

    def _refuse_in_history(self) -> None:
        if self._of.in_history:
            raise UsageError("the history is still being read; wait until the streams have begun")

    def _refuse_available(self) -> None:
        if self._available:
            raise UsageError(
                f"{self._of.what} over what is there now cannot be told anything; start it again without 'available'"
            )

    def _set_target(self, name: str, target: Quality | str, at_most: str | None) -> None:
        known = self._known(name)
        plan = self._of.stated.plan(name, known.text)
        stated = clause(plan.quality)
        wanted = clause(settable(plan, target, at_most, known.target_now(stated)))
        # To say what is in force would have all shards read their state again.
        if (wanted, stated) != (known.target, known.target_of):
            self._tell(name, TARGET, wanted, stated)

    def _tell(self, name: str, kind: str, target: str | None = None, text: str | None = None) -> None:
        known = self._known(name)
        if known.failure is not None:
            raise UsageError(f"query {name} has failed: {known.failure}; drop it, and add it again")
        if kind == PAUSE:
            self._refuse_in_history()
        with self._of.lock, one_sentence():
            self._log.say(Message(kind, query=name, generation=known.generation, target=target, text=text))


class RunningQuery(Running):
    """A streaming query; `slackwater.start` makes one. A `with` block stops it at its end."""

    def progress(self) -> ProgressHistory:
        """How it does: the latest micro-batch and the recent ones."""
        return progress(self._query)

    def set_target(self, target: Quality | str, at_most: str | None = None) -> None:
        """Ask for another quality from the next micro-batch on, such as `slackwater.recall(0.99)`; `at_most` bounds the
        slack that is chosen for it.

        Of what the target does not state (period, confidence, cap) nothing changes. It stays in force over restarts,
        until it is set again or the query is started with another target in its text.
        """
        self._set_target(ALONE, target, at_most)

    def pause(self) -> None:
        """Pause it from the next micro-batch on: it takes nothing in, and its state stays."""
        self._tell(ALONE, PAUSE)

    def resume(self) -> None:
        """Go on after a rest, from the next micro-batch on."""
        self._tell(ALONE, RESUME)

    def _source(self) -> Source:
        name = self._query.name or str(self._query.id)
        set_target = None if self._available else lambda _, target: self.set_target(target)
        return polled(self, {name: self._of.stated.plans[ALONE]}, set_target)

    def _repr_html_(self) -> str:
        return self.progress()._repr_html_()


@dataclass(frozen=True)
class Status:
    """Where one query of a set stands."""

    text: str
    state: str
    """`running`, `paused`, `failed`, or `ended`, as the whole set has."""
    reason: str | None
    """Why it has failed."""
    target: str
    """The quality that is asked for now."""


class RunningQueries(Running):
    """A set of queries that runs as one streaming query. A `with` block stops it at its end."""

    def __init__(self, started: Started, flush: bool, available: bool) -> None:
        self._past: list[Any] = []
        self._restart = threading.RLock()
        super().__init__(started, flush, available)

    @property
    def is_active(self) -> bool:
        # Who changes the set has stopped it, and starts it again.
        with self._restart:
            return super().is_active

    def _do(self, asked: Request) -> None:
        if asked.change == requests.ADD:
            self.add(asked.query, asked.text or "", dict(asked.sinks or {}) or None)
        elif asked.change == requests.DROP:
            self.drop(asked.query)
        else:
            super()._do(asked)

    @property
    def names(self) -> list[str]:
        """The queries of the set, paused and failed ones among them."""
        with self._of.lock:
            return list(self._log.queries)

    def status(self) -> dict[str, Status]:
        """Where every query stands, by its name."""
        with self._of.lock:
            known = self._log.queries
        found = {}
        whole, _, why = self._state().partition(": ")
        for one in known.values():
            state = "failed" if one.failure is not None else "paused" if one.paused else whole
            stated = clause(self._of.stated.plan(one.name, one.text).quality)
            if whole == "failed" and one.failure is None:
                one, state = replace(one, failure=why), "failed"
            found[one.name] = Status(one.text, state, one.failure, str(parse_quality(one.target_now(stated))))
        return found

    def progress(self) -> dict[str, ProgressHistory]:
        """How every query does: its latest micro-batch and the recent ones, by its name; `failure` says why one has
        stopped."""
        with self._of.lock:
            known = self._log.queries
        keys = {one.key: one.name for one in known.values()}
        found: dict[str, list[QueryProgress]] = {name: [] for name in keys.values()}
        with one_sentence():
            recent = self._query.recentProgress
        for reported in [*self._past, *recent]:
            for key, one in parsed(reported).items():
                if key in keys:
                    found[keys[key]].append(one)
        # One that had failed before this start has no micro-batch in it.
        failed = {
            name: {"none_yet": f"query {name} has failed: {one.failure}"} for name, one in known.items() if one.failure
        }
        return {name: ProgressHistory(tuple(mine), **failed.get(name, {})) for name, mine in found.items()}

    def add(self, name: str, text: str, sinks: Sinks | None = None) -> None:
        """Add a query; it begins with a micro-batch that comes now, with whatever arrives from then on.

        The streaming query is stopped and started again on its checkpoint for that, between two micro-batches; what
        the other queries give is not touched. `sinks` is as for `start`. It stays over restarts; folders are known
        again by the next start, other sinks must be given to it.
        """
        with self._restart, self._of.lock:
            self._refuse_available()
            self._refuse_in_history()
            if name in self._log.queries:
                raise UsageError(f"there is a query {name} already; drop it first, or take another name")
            added = self._of.adding(*named_texts({name: text}).popitem())
            self._of.write_to(Known(name, 0, text, "", None, False), sinks, new=True)
            self._change(replace(added, sinks=folders_of(sinks)))

    def drop(self, name: str) -> None:
        """End a query: it emits nothing more, and its state is let go of. The streaming query starts again, as for
        `add`."""
        with self._restart, self._of.lock:
            self._refuse_in_history()
            self._change(Message(DROP, query=name, generation=self._known(name).generation))

    def pause(self, name: str) -> None:
        """Pause a query from the next micro-batch on: it takes nothing in, and its state stays."""
        self._tell(name, PAUSE)

    def resume(self, name: str) -> None:
        """Go on with a query that rests, from the next micro-batch on."""
        self._tell(name, RESUME)

    def _repr_html_(self) -> str:
        shown = (f"<h4>{escape(name)}</h4>{one._repr_html_()}" for name, one in self.progress().items())
        return "".join(shown) or "<p>the set has no query</p>"

    def _source(self) -> Source:
        with self._of.lock:
            known = self._log.queries
        plans = {name: self._of.stated.plan(name, one.text) for name, one in known.items()}
        return polled(self, plans, None if self._available else self.set_target, lambda: self.names)

    def set_target(self, name: str, target: Quality | str, at_most: str | None = None) -> None:
        """Ask for another quality of one query from the next micro-batch on, as `RunningQuery.set_target` does."""
        self._set_target(name, target, at_most)

    def _change(self, message: Message) -> None:
        """Send a message that only another start can follow, and start again."""
        if not super().is_active:
            raise UsageError("the set does not run any more; start it again")
        with one_sentence():
            self._log.say(message)
        # A micro-batch that is under way waits for the lock if a query fails in it.
        self._of.lock.release()
        try:
            with one_sentence():
                self._query.stop()
        finally:
            self._of.lock.acquire()
        self._past = [*self._past, *self._query.recentProgress][-PAST:]
        self._query = self._of.start()

    def _ended(self, timeout: int | None) -> bool:
        deadline = None if timeout is None else wall.monotonic() + timeout
        while True:
            query = self._query
            with one_sentence():
                if deadline is None:
                    query.awaitTermination()
                elif not query.awaitTermination(max(0.001, deadline - wall.monotonic())):  # type: ignore[arg-type]
                    return False
            # Who changes the set has stopped it, and starts it again.
            with self._restart:
                if query is self._query:
                    return True
