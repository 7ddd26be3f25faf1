"""The progress of a query as its kernel knows it; and that of a run in this process, made while it goes on.

Invariant: what is reported are the numbers of the run's own observation. Making progress takes no more than a 150th of
the time: one that was expensive is followed by the next one later.
"""

from __future__ import annotations

import json
import time
from abc import ABC, abstractmethod
from collections.abc import Callable
from dataclasses import replace
from typing import Any

from slackwater.observe.delays import Buckets, DelayTally
from slackwater.observe.report import name_of_part, named_odd_clocks
from slackwater.observe.value import MOST_PARTITIONS, MOST_SAMPLES, QueryProgress, Sample, StreamProgress
from slackwater.observe.waiting import Waiting
from slackwater.operators.query_kernel import QueryKernel
from slackwater.plan.physical import PhysicalPlan
from slackwater.sources.codebook import Codebook

Publish = Callable[[QueryProgress], None]
EVERY = 0.1
"""Seconds from one progress to the next, at least."""
SHARE = 150
"""The next progress is made after so many times what this one took."""


def progress_of(plan: PhysicalPlan, kernel: QueryKernel, codebook: Codebook, names_parts: bool = True) -> QueryProgress:
    """What a kernel knows of its query, by the names that users have for things; partitions only where asked for."""
    seen, idle = kernel.observe(), kernel.release.state.clock.idle
    streams, odd = {}, named_odd_clocks(plan, codebook, seen)
    for position, one in enumerate(plan.inputs):
        mine = [part for part in seen.parts if part.stream == position]
        slowest = sorted(mine, key=lambda part: part.clock)[:MOST_PARTITIONS] if names_parts else []
        streams[one.stream.alias] = StreamProgress(
            reached=seen.clocks[position],
            idle=bool(idle[position] == 1),
            parts={_named(name_of_part(plan, codebook, position, part.name)): part.clock for part in slowest},
            partitions_in_all=len(mine),
        )
    return QueryProgress(
        target=str(plan.quality),
        emit=str(plan.emit),
        amends=plan.emit.amends,
        observed=replace(seen, parts=(), odd_clocks=()),
        streams=streams,
        batch=seen.epochs,
        trade_off=kernel.trade_off(),
        wrong_clocks=tuple(one for one in odd if not one.waited_for),
        lagging=tuple(one for one in odd if one.waited_for),
    )


def _named(part: Any) -> str:
    return "NULL" if part is None else str(part)


class Watchable(ABC):
    """A run that can be looked at between two steps."""

    _watcher: Watcher | None = None
    _delays: DelayTally | None = None
    """Counted from when it is first watched."""

    def watch(self, name: str, publish: Publish, every: float = EVERY) -> Watcher:
        """Publish its progress while it goes on, under the name of its query; who asks for it ends it."""
        if self._watcher is None:
            self._delays = self._tally()
            self._watcher = Watcher(name, self, publish, every)
        else:
            self._watcher.also(name, publish, every)
        return self._watcher

    def _tally(self) -> DelayTally | None:
        """What counts delays; None where they are known otherwise."""
        return None

    def _delays_taken(self) -> Buckets:
        """The delays since the last call."""
        return {} if self._delays is None else self._delays.take()

    def _looked_at(self) -> None:
        """A step is done."""
        if self._watcher is not None:
            self._watcher.look()

    @abstractmethod
    def progress(self) -> QueryProgress:
        """How it is doing: delays since the last call, and all else since it began."""

    @abstractmethod
    def samples(self, most: int) -> list[tuple[str, str, Any]]:
        """The newest late and rejected rows: stream, reason, row."""


class Watcher:
    """Makes the progress of one run, and hands it over."""

    def __init__(self, name: str, run: Watchable, publish: Publish, every: float = EVERY) -> None:
        """`every` is the least time between two, in seconds; 0 makes one at every look, whatever it costs."""
        self.name, self._run, self._publish, self._every = name, run, publish, every
        self._due = 0.0
        self._last: QueryProgress | None = None
        self._before = (0.0, 0, Waiting())
        self._rows: dict[str, int] = {}
        self._sampled = (0, 0)

    def look(self) -> None:
        """Publish progress, unless that was done just now."""
        if time.perf_counter() < self._due:
            return
        # What this thread worked, not how long it waited for others.
        begun = time.thread_time()
        self._publish(self._made())
        if self._every:
            self._due = time.perf_counter() + max(self._every, SHARE * (time.thread_time() - begun))

    def also(self, name: str, publish: Publish, every: float = EVERY) -> None:
        """Publish to one more reader, who knows the query by this name; of a run that is over, its last progress."""

        def called(progress: QueryProgress) -> None:
            publish(progress if progress.query == name else replace(progress, query=name))

        if self._last is not None:
            called(self._last)
            return
        earlier, self._every = self._publish, min(self._every, every)

        def both(progress: QueryProgress) -> None:
            earlier(progress)
            called(progress)

        self._publish = both

    def end(self, failure: str | None = None) -> None:
        """The last progress; there is one."""
        if self._last is None:
            self._last = replace(self._made(), over=True, failure=failure)
            self._publish(self._last)

    def _made(self) -> QueryProgress:
        now = self._run.progress()
        seconds, tuples, waiting = self._before
        self._before = now.seconds, now.observed.tuples, now.waiting
        worked, taken = now.seconds - seconds, now.observed.tuples - tuples
        samples = self._samples(now)
        for name, buckets in now.delays.items():
            self._rows[name] = self._rows.get(name, 0) + sum(count for _, count in buckets)
        return replace(
            now,
            query=self.name,
            time=round(time.time(), 3),
            seconds=round(worked, 6),
            rows_per_second=round(taken / worked, 1) if worked > 0 else None,
            waiting=now.waiting.since(waiting),
            streams={
                name: replace(one, rows=self._rows.get(name), samples=samples.get(name, ()))
                for name, one in now.streams.items()
            },
        )

    def _samples(self, now: QueryProgress) -> dict[str, tuple[Sample, ...]]:
        """The newest rows, where there are new ones."""
        counted = now.late, sum(now.rejected.values())
        if counted == self._sampled:
            return {}
        self._sampled = counted
        found: dict[str, tuple[Sample, ...]] = {}
        for stream, reason, row in self._run.samples(MOST_SAMPLES):
            text = row if isinstance(row, str) else json.dumps(row, default=str)
            found[stream] = (*found.get(stream, ()), Sample.of(reason, text))
        return found
