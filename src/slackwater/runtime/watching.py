"""Moments of a run in this process, for whoever watches it: made between two batches, and not more often than is cheap.

Invariant: what is told are the numbers of the run's own observation. Making moments takes no more than a 150th of
the time: one that was expensive is followed by the next one later.
"""

from __future__ import annotations

import json
import time
from abc import ABC, abstractmethod
from collections.abc import Callable, Iterable, Sequence
from dataclasses import replace
from typing import Any

from slackwater.core.state import Observation
from slackwater.core.trade_off import TradeOff
from slackwater.core.wrong_clocks import PartitionClock, WrongClock
from slackwater.observe.delays import Buckets
from slackwater.observe.moment import (
    MOST_PARTITIONS,
    MOST_SAMPLES,
    Moment,
    PartitionSeen,
    Sample,
    StreamSeen,
    duration_ms,
    event_ms,
    latency_seen,
    outlook_seen,
    quality_seen,
    shortened,
    trade_off_seen,
)
from slackwater.observe.report import name_of_part
from slackwater.observe.waiting import PARTS, Causes
from slackwater.plan.physical import PhysicalPlan
from slackwater.sources.codebook import Codebook

Publish = Callable[[Moment], None]
EVERY = 0.1
"""Seconds from one moment to the next, at least."""
SHARE = 150
"""So many times what a moment cost passes before the next one."""


class Watchable(ABC):
    """A run that can be looked at between two steps."""

    plan: PhysicalPlan

    @abstractmethod
    def observe(self) -> Observation:
        """Clocks, slack and counts as they are now."""

    @property
    @abstractmethod
    def seconds(self) -> float:
        """What the work took."""

    @abstractmethod
    def watched_causes(self) -> Causes:
        """What results have waited for so far."""

    @abstractmethod
    def watched_unreadable(self) -> dict[str, int]:
        """Rows rejected before they could move a clock, by reason."""

    @abstractmethod
    def watched_samples(self, most: int) -> list[tuple[str, str, Any]]:
        """The newest late and rejected rows: stream, reason, row."""

    def wrong_clocks(self) -> tuple[WrongClock, ...]:
        """Parts of streams whose clocks are wrong, by name."""
        return ()

    def take_delays(self) -> Buckets:
        """Delays of what has arrived since the last call, where they are counted."""
        return {}

    def trade_off(self) -> TradeOff | None:
        """The slack that other targets would ask for."""
        return None

    def idle_now(self) -> Sequence[bool]:
        """Per stream, whether nobody waits for it."""
        return ()

    def partitions(self) -> list[PartitionNamed]:
        """The clocks of the parts of streams."""
        return []


PartitionNamed = tuple[str, str, int]
"""Stream, part and clock."""


def named_partitions(plan: PhysicalPlan, codebook: Codebook, parts: Iterable[PartitionClock]) -> list[PartitionNamed]:
    """The slowest parts of every stream, by name."""
    found: list[PartitionNamed] = []
    by_stream: dict[int, list[PartitionClock]] = {}
    for part in parts:
        by_stream.setdefault(part.stream, []).append(part)
    for stream, mine in by_stream.items():
        alias = plan.inputs[stream].stream.alias
        for part in sorted(mine, key=lambda one: one.clock)[:MOST_PARTITIONS]:
            found.append((alias, str(name_of_part(plan, codebook, stream, part.name)), part.clock))
    return found


class Watcher:
    """Makes moments of one run, and hands them over."""

    def __init__(self, name: str, run: Watchable, publish: Publish, every: float = EVERY) -> None:
        """`every` is the least time between two moments, in seconds; 0 makes one at every look, whatever it costs."""
        self.name, self._run, self._publish, self._every = name, run, publish, every
        self._due = 0.0
        self._last: Moment | None = None
        self._before: dict[str, int] | None = None
        self._seconds, self._tuples = 0.0, 0
        self._rows: dict[str, int] = {}
        self._told = (0, 0)

    def look(self) -> None:
        """A moment, unless there was one just now."""
        if time.perf_counter() < self._due:
            return
        # What this thread worked, not how long it waited for others.
        begun = time.thread_time()
        self._publish(self._moment())
        if self._every:
            self._due = time.perf_counter() + max(self._every, SHARE * (time.thread_time() - begun))

    def also(self, name: str, publish: Publish, every: float = EVERY) -> None:
        """Hand moments to one more, who knows the query by this name; of a run that is over, its last one."""

        def called(moment: Moment) -> None:
            publish(moment if moment.query == name else replace(moment, query=name))

        if self._last is not None:
            called(self._last)
            return
        earlier, self._every = self._publish, min(self._every, every)

        def both(moment: Moment) -> None:
            earlier(moment)
            called(moment)

        self._publish = both

    def end(self, failure: str | None = None) -> None:
        """The last moment; there is one."""
        if self._last is None:
            self._last = replace(self._moment(), ended=True, failure=failure)
            self._publish(self._last)

    def _moment(self) -> Moment:
        run = self._run
        seen, plan = run.observe(), run.plan
        delays = run.take_delays()
        for name, buckets in delays.items():
            self._rows[name] = self._rows.get(name, 0) + sum(count for _, count in buckets)
        unreadable = run.watched_unreadable()
        rejected = dict(unreadable) | ({"ahead": seen.ahead} if seen.ahead else {})
        seconds, tuples = run.seconds - self._seconds, seen.tuples - self._tuples
        self._seconds, self._tuples = run.seconds, seen.tuples
        memory = None if seen.memory is None else seen.memory.query
        return Moment(
            query=self.name,
            batch=seen.epochs,
            at=round(time.time(), 3),
            seconds=round(seconds, 6),
            rows_per_second=round(tuples / seconds, 1) if seconds > 0 else None,
            target=str(plan.quality),
            slack=duration_ms(seen.slack),
            watermark=event_ms(seen.watermark),
            streams=self._streams(seen),
            in_time=seen.in_time,
            late=seen.late,
            filtered=seen.filtered,
            held=seen.held,
            results=seen.results,
            rejected=rejected,
            state_rows=seen.state_rows + seen.held,
            state_bytes=0 if memory is None else memory.bytes,
            quality=quality_seen(seen.quality),
            latency=latency_seen(self._latency(), stream=self._slowest(seen)),
            outlook=outlook_seen(plan.quality, seen.outlook),
            trade_off=trade_off_seen(run.trade_off()),
            delays=delays,
            wrong_clocks=tuple(one.as_json() for one in run.wrong_clocks()[:MOST_PARTITIONS]),
            samples=self._samples(seen.late, sum(rejected.values())),
        )

    def _streams(self, seen: Observation) -> tuple[StreamSeen, ...]:
        idle, parts = list(self._run.idle_now()), self._run.partitions()
        found = []
        for position, one in enumerate(self._run.plan.inputs):
            alias = one.stream.alias
            mine = tuple(PartitionSeen(name, event_ms(clock)) for stream, name, clock in parts if stream == alias)
            count = sum(part.stream == position for part in seen.parts)
            clock = event_ms(seen.clocks[position])
            silent = bool(idle[position]) if position < len(idle) else False
            found.append(StreamSeen(alias, clock, self._rows.get(alias), silent, {}, mine, max(count, len(mine))))
        return tuple(found)

    def _latency(self) -> dict[str, float] | None:
        """Waiting by cause since the moment before."""
        now = self._run.watched_causes().reported()
        before = self._before or dict.fromkeys(now, 0)
        self._before = now
        results = now["results"] - before["results"]
        return {name: (now[name] - before[name]) / results for name in PARTS} if results > 0 else None

    def _slowest(self, seen: Observation) -> str | None:
        smallest = min(seen.clocks)
        behind = smallest < max(seen.clocks)
        return self._run.plan.inputs[seen.clocks.index(smallest)].stream.alias if behind else None

    def _samples(self, late: int, rejected: int) -> tuple[Sample, ...]:
        if (late, rejected) == self._told:
            return ()
        self._told = late, rejected
        rows = self._run.watched_samples(MOST_SAMPLES)
        return tuple(
            Sample(stream, reason, shortened(row if isinstance(row, str) else json.dumps(row, default=str)))
            for stream, reason, row in rows
        )
