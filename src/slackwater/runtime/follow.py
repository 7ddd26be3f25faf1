"""Following queries: whatever runs, in this process or on Spark, its progress reaches every reader that asks for it.

A query in this process hands its progress over while it works. One on Spark is polled a few times a second for what
Spark reports of it anyway. `slackwater.log_events` has a log follow queries.

Invariant: a reader can never end a query. What it raises is a warning, once, and it is not called again.
"""

from __future__ import annotations

import os
import threading
import warnings
from collections.abc import Callable, Container, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import IO, Any, Protocol, Self

from slackwater.core.errors import UsageError
from slackwater.observe.events import QUIET, EventLog, event_writer
from slackwater.observe.value import QueryProgress
from slackwater.plan.graph_of_plan import graph_of
from slackwater.plan.physical import PhysicalPlan
from slackwater.runtime.watching import EVERY, Publish

UNNAMED = "query"
POLLED = 0.5
"""Seconds from one poll to the next."""
SetTarget = Callable[[str], None]


class Reader(Protocol):
    """Takes the progress of queries: a page, metrics, a log, a view."""

    def expect(
        self,
        query: str,
        *,
        resumed: bool = False,
        plan: Mapping[str, Any] | None = None,
        set_target: SetTarget | None = None,
    ) -> None:
        """A query will report progress; `resumed`: it goes on from a checkpoint."""

    def publish(self, progress: QueryProgress) -> None:
        """Its next progress."""

    def ended(self, query: str, failure: str | None = None) -> None:
        """It runs no more; its last progress may have said so, and it may never have reported anything."""


@dataclass(frozen=True)
class Source:
    """What a running query offers to those that follow it: it is polled, or watched."""

    plans: Mapping[str, PhysicalPlan | None]
    """Of its queries, by the names they report under."""
    set_target: Callable[[str, str], None] | None = None
    """Asks for another target of one of them."""
    poll: Callable[[], Sequence[QueryProgress]] | None = None
    """The progress since the last call."""
    over: Callable[[], str | bool] = lambda: False
    """Whether it has ended, or why it has failed."""
    watch: Callable[[str, Publish, float], Any] | None = None
    """Hands over its progress itself, under a name."""
    names: Callable[[], Container[str]] | None = None
    """Of a set: the queries that are in it now."""


@dataclass
class Following:
    """Queries that are followed, until it is stopped."""

    _stop: threading.Event = field(default_factory=threading.Event)
    _threads: list[threading.Thread] = field(default_factory=list)
    _polled: list[_Polled] = field(default_factory=list)

    def look(self) -> None:
        """Report which queries were dropped from their sets meanwhile."""
        for one in self._polled:
            one.drop()

    def stop(self) -> None:
        """Follow them no longer."""
        self._stop.set()
        for thread in self._threads:
            thread.join(5)

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: Any) -> None:
        self.stop()


def follow(queries: Any, reader: Reader, name: str | None = None, every: float = EVERY) -> Following:
    """Report the progress of a query, or of several by name, to a reader from now on.

    A query goes by `name`, by the name that Spark has for it, or is called 'query'. A set has names of its own. Of a
    query that rows are pushed into there is progress `every` so many seconds, or, with 0, at every push.
    """
    given = queries if isinstance(queries, Mapping) else {name: queries}
    if not given:
        raise UsageError("no query was given; pass a running query, or several as {'name': query}")
    sources = [(called, source_of(query)) for called, query in given.items()]
    following = Following()
    for called, source in sources:
        if source.watch is not None:
            _watch(source, source.watch, reader, str(called or UNNAMED), every, following._stop)
        else:
            polled = _Polled(source, reader, None if called is None or source.names is not None else str(called))
            thread = threading.Thread(target=polled.run, args=(following._stop,), name="slackwater follow", daemon=True)
            following._threads.append(thread)
            following._polled.append(polled)
            thread.start()
    return following


def source_of(query: Any) -> Source:
    """How a query is followed; what cannot be is refused."""
    offered = getattr(query, "_source", None)
    if offered is not None:
        return offered()
    if hasattr(query, "recentProgress"):
        from slackwater.runtime.spark.progress import polled

        return polled(query)
    raise UsageError(
        f"{type(query).__name__} is no running query; give what slackwater.start, slackwater.live or"
        " writeStream...start() gives"
    )


def _watch(
    source: Source, watch: Callable[..., Any], reader: Reader, name: str, every: float, stopped: threading.Event
) -> None:
    """Follow a query that hands over its progress itself."""
    publish = harmless(reader.publish)
    [plan] = source.plans.values()
    reader.expect(name, plan=drawn(plan), set_target=_setter(source, name))
    watch(name, lambda progress: None if stopped.is_set() else publish(progress), every)


class _Polled:
    """Polls a query on Spark, or a set, in a thread of its own, until it has ended."""

    def __init__(self, source: Source, reader: Reader, name: str | None) -> None:
        """`name` is what the reader calls it, where that is not its own."""
        self._source, self._reader, self._name = source, reader, name
        self._publish = harmless(reader.publish)
        self._latest: dict[str, QueryProgress | None] = {}
        self._lock = threading.Lock()
        for own, plan in source.plans.items():
            called = name or own
            self._latest[called] = None
            reader.expect(called, plan=drawn(plan), set_target=_setter(source, own))

    def run(self, stopped: threading.Event) -> None:
        """Poll until it has ended, or is no longer followed."""
        over: str | bool = False
        while not over and not stopped.wait(POLLED):
            over = self._source.over()
            try:
                for progress in self._source.poll() if self._source.poll is not None else ():
                    self._take(progress if self._name is None else replace(progress, query=self._name))
                self.drop()
            except Exception as error:
                # Whatever is wrong with it, a reader must not be what stops a program.
                over = over or str(error).splitlines()[0]
        if over:
            failure = over if isinstance(over, str) else None
            for name, latest in self._latest.items():
                self._end(name, latest, failure)

    def _take(self, progress: QueryProgress) -> None:
        if self._latest.get(progress.query) is None:
            # What goes on from a checkpoint counts on.
            self._reader.expect(progress.query, resumed=progress.batch > 0)
        with self._lock:
            self._latest[progress.query] = progress
        self._publish(progress)

    def drop(self) -> None:
        """Queries that are in the set no more have ended."""
        known = None if self._source.names is None else self._source.names()
        with self._lock:
            gone = [] if known is None else [one for one in self._latest if one not in known]
            for name in gone:
                del self._latest[name]
        for name in gone:
            self._reader.ended(name)

    def _end(self, name: str, latest: QueryProgress | None, failure: str | None) -> None:
        if latest is not None:
            self._publish(without_news(replace(latest, over=True, failure=latest.failure or failure)))
        self._reader.ended(name, failure)


def without_news(progress: QueryProgress) -> QueryProgress:
    """The same again, without what has come since the progress before."""
    streams = {name: replace(one, samples=()) for name, one in progress.streams.items()}
    return replace(progress, delays={}, streams=streams)


def _setter(source: Source, name: str) -> SetTarget | None:
    set_target = source.set_target
    if set_target is None:
        return None

    def asked(target: str) -> None:
        try:
            set_target(name, target)
        except ValueError as error:
            raise UsageError(str(error)) from None

    return asked


def drawn(plan: PhysicalPlan | None, quality_stated: bool = True) -> dict[str, Any] | None:
    """The plan as a graph, for a page."""
    return None if plan is None else graph_of(plan, quality_stated).as_json()


def harmless(publish: Publish) -> Publish:
    """The same, but what it raises is a warning, once, and it is not called again."""
    broken = False

    def tried(progress: QueryProgress) -> None:
        nonlocal broken
        if broken:
            return
        try:
            publish(progress)
        except Exception as error:
            broken = True
            warnings.warn(f"query {progress.query} is not followed any more: {error!r}", stacklevel=2)

    return tried


def log_events(
    query: Any,
    to: str | os.PathLike[str] | IO[str] | None = None,
    *,
    quiet: float = QUIET,
    name: str | None = None,
) -> EventLog:
    """Log what happens to a running query, or to several as {'name': query}: JSON, one object a line.

    `to` is a path, which is appended to, or a text stream; without it the logger `slackwater` of `logging` is used. An
    event is logged once. A condition that comes and goes, such as a missed target, is logged at most every `quiet`
    seconds.
    """
    log = EventLog(event_writer(to), quiet)
    follow(query, log, name)
    return log
