"""A handle on a running query, which a program asks for the next time step; and which streams are slow: those that hold
the others back for longer than the program wants to wait.

Invariant: steps never go back in time, whoever asks; a step is whole unless a stream is slow and the step without it is
fresher. Asking stops nobody: while a reduced step is worked out, no lock is held. The stream that is furthest ahead is
never slow, so there is always something left to answer from.
"""

from __future__ import annotations

import time
import warnings
from abc import ABC, abstractmethod
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from datetime import datetime
from threading import Condition
from types import TracebackType
from typing import Any, Generic, Self

import pyarrow as pa

from slackwater.core.emitting import ONCE
from slackwater.core.errors import SlackwaterError, UsageError
from slackwater.core.time import BEFORE_ALL, MINUTE, SECOND, format_duration, parse_duration
from slackwater.language.bound import BoundQuery, raw_streams
from slackwater.plan.degraded import can_reduce, reach
from slackwater.plan.physical import PhysicalPlan
from slackwater.runtime.request.reduction import Degraded, Recent
from slackwater.runtime.request.step import Fresh, Rows, Step, micros_of, moment_of
from slackwater.runtime.side_outputs.collectors import BufferedSideOutput

Patience = str | Mapping[str, str]
"""One duration for all streams, or one a stream; a stream that is not named is waited for."""


@dataclass
class SourceClocks:
    """What is known of the time of every stream.

    >>> clocks = SourceClocks(("radar", "metar"), at=0)
    >>> clocks.begin(0, now=1)
    >>> clocks.note("metar", 0, now=1)
    >>> clocks.note("radar", 90_000_000, now=2)
    >>> clocks.slow(limits("1 minute", ("radar", "metar")), now=2)
    ('metar',)
    """

    sources: tuple[str, ...]
    at: int
    """When the first tuple came, before that when one could have; microseconds."""

    def __post_init__(self) -> None:
        self.clocks = dict.fromkeys(self.sources, BEFORE_ALL)
        self._spoke: dict[str, int] = {}
        self._first = BEFORE_ALL

    def begin(self, ts: int, now: int) -> None:
        """The first tuple of all has this event time; later calls do nothing."""
        if self._first == BEFORE_ALL:
            self._first, self.at = ts, now

    def note(self, source: str, clock: int, now: int) -> None:
        """The clock of a stream stands there; where it has moved, the stream has spoken at this moment."""
        if clock != self.clocks[source]:
            self.clocks[source] = clock
            self._spoke[source] = now

    @property
    def largest(self) -> int:
        return max(self.clocks.values())

    def slow(self, allowed: Mapping[str, int], now: int) -> tuple[str, ...]:
        """The streams behind the largest clock by more than their limit, or behind it and silent for longer.

        A stream that has said nothing yet counts as if it had stood where the first tuple of all did.
        """
        return tuple(source for source in self.sources if source in allowed and self._is_slow(source, allowed, now))

    def _is_slow(self, source: str, allowed: Mapping[str, int], now: int) -> bool:
        clock = self.clocks[source] if source in self._spoke else self._first
        behind, silent = self.largest - clock, now - self._spoke.get(source, self.at)
        if source not in self._spoke:
            return self._first != BEFORE_ALL and max(behind, silent) > allowed[source]
        return behind > 0 and max(behind, silent) > allowed[source]


def limits(patience: Patience | None, sources: tuple[str, ...]) -> dict[str, int]:
    """Per stream, for how long it is waited for; none at all: for ever."""
    if patience is None:
        return {}
    if not isinstance(patience, str | Mapping):
        raise UsageError(f"patience: {patience!r} is no duration; write '5 seconds', or one for each stream by name")
    stated = dict.fromkeys(sources, patience) if isinstance(patience, str) else patience
    for name in stated:
        if name not in sources:
            raise UsageError(f"patience: there is no stream '{name}'; the streams are {', '.join(sources)}")
    try:
        return {name: parse_duration(duration) for name, duration in stated.items()}
    except ValueError as error:
        raise UsageError(f"patience: {error}") from None


KEEP = 10 * MINUTE
"""Beside what a result reaches back, so much of the streams is kept where a program does not say how much."""
Clock = Callable[[], float]
GLANCE = 0.05
"""How often, in seconds, who waits looks whether a stream has become slow: silence wakes nobody."""


class Handle(ABC, Generic[Rows]):
    """What handles of all runtimes have in common; everything below `_changed` is touched only while it is held."""

    def __init__(
        self,
        query: BoundQuery,
        plan: PhysicalPlan,
        schema: pa.Schema,
        fresh: Fresh[Rows],
        *,
        patience: Patience | None,
        keep: str | None,
        time_unit: str,
        clock: Clock,
        side_output: BufferedSideOutput,
    ) -> None:
        if plan.emit != ONCE:
            raise UsageError(
                f"EMIT {plan.emit} is for queries with sinks: a program that asks for time steps is given every row"
                " once, with its step; leave EMIT out, or say where rows go (sw.start(..., results=...), sw.replay)"
            )
        self._query, self._plan, self._schema = query, plan, schema
        self._unit, self._clock = time_unit, clock
        self._sources = tuple(dict.fromkeys(stream.source for stream in raw_streams(query)))
        self._patience = limits(patience, self._sources)
        self._changed = Condition()
        self._version = 0
        self._fresh = fresh
        self._source_clocks = SourceClocks(self._sources, self._now())
        self._recent = Recent(plan, _kept(keep, query))
        self._side_output = side_output
        self._last: Step | None = None
        self._reductions: dict[tuple[str, ...], Degraded] = {}
        self._worked_out: tuple[int, tuple[str, ...], Step | None] | None = None
        self._failure: BaseException | None = None
        self._closed = False
        self._steps = {"given": 0, "degraded": 0}

    @abstractmethod
    def _table(self, rows: list[Rows]) -> pa.Table:
        """Results as one table."""

    @abstractmethod
    def _slack(self) -> int:
        """The slack in force, in microseconds."""

    @abstractmethod
    def _look(self) -> None:
        """Called before a request is answered: whatever time alone changes may be changed now."""

    def next(
        self,
        after: datetime | None = None,
        *,
        patience: Patience | None = None,
        timeout: float | None = 0.0,
    ) -> Step | None:
        """The freshest time step that is newer than `after`; None where there is none within `timeout` seconds.

        A step has all result rows of one event time, and no more of them can come. Without `after` it is the freshest,
        also if it was given before. While a stream holds the others back for longer than `patience` (by default that
        of the handle), steps are made without it: `degraded` is true and `missing` names it. A duration for all
        streams, or one a stream; streams that come seldom need more. `timeout=None` waits for ever.
        """
        floor = _floor(after)
        allowed = self._patience if patience is None else limits(patience, self._sources)
        if not isinstance(timeout, float | int | None) or timeout != timeout:
            raise UsageError(f"timeout: {timeout!r} is no number of seconds; write one, or None to wait for ever")
        until = None if timeout is None else time.monotonic() + timeout
        while True:
            step, seen = self._ask(floor, allowed)
            if step is not None:
                return step
            with self._changed:
                left = GLANCE if until is None else min(GLANCE, until - time.monotonic())
                if left <= 0 or self._closed:
                    return None
                if self._version == seen:
                    self._changed.wait(left)

    def _ask(self, floor: int, allowed: dict[str, int]) -> tuple[Step | None, int]:
        with self._changed:
            self._check()
            if not self._closed:
                self._look()
            seen = self._version
            missing = self._missing(allowed)
            if not missing:
                return self._give(None, floor), seen
            known = self._worked_out
            degraded_step, kept, bound = self._degraded(missing), self._recent.now(), self._bound(missing)
        degraded = known[2] if known is not None and known[:2] == (seen, missing) else degraded_step.step(kept, bound)
        with self._changed:
            self._worked_out = (seen, missing, degraded)
            return self._give(degraded, floor), seen

    def _missing(self, allowed: dict[str, int]) -> tuple[str, ...]:
        """The streams that are not waited for; none of a query that cannot do without."""
        if self._closed or not allowed or not can_reduce(self._query):
            return ()
        return self._source_clocks.slow(allowed, self._now())

    def _bound(self, missing: tuple[str, ...]) -> int:
        """Up to where everything has come of the streams that are there, as the slack has it."""
        return (
            min(clock for source, clock in self._source_clocks.clocks.items() if source not in missing) - self._slack()
        )

    def _degraded(self, missing: tuple[str, ...]) -> Degraded:
        if missing not in self._reductions:
            self._reductions[missing] = Degraded(self._query, missing, self._schema, self._unit)
        return self._reductions[missing]

    def _give(self, degraded: Step | None, floor: int) -> Step | None:
        """The freshest of what is whole, what is reduced and what was given last; a whole one before a reduced one."""
        last = self._last
        if degraded is not None and (last is None or degraded.time > last.time):
            last = degraded
        whole = self._fresh.time
        if whole != BEFORE_ALL and (last is None or whole >= micros_of(last.time) + (not last.degraded)):
            last = Step(moment_of(whole), self._table(self._fresh.rows())) if whole > floor else None
        if last is None or micros_of(last.time) <= floor:
            return None
        if last is not self._last:
            self._steps["given"] += 1
            self._steps["degraded"] += last.degraded
            if not last.degraded:
                self._fresh.give()
        self._last = last
        return last

    def _check(self) -> None:
        if isinstance(self._failure, SlackwaterError):
            raise self._failure
        if self._failure is not None:
            raise SlackwaterError(f"the query has failed: {self._failure}") from self._failure

    def _tell(self) -> None:
        """Something has changed; who waits looks again."""
        self._version += 1
        self._changed.notify_all()

    def _now(self) -> int:
        return round(self._clock() * SECOND)

    def _known(self, source: str) -> str:
        if source not in self._sources:
            raise UsageError(f"the query reads no stream '{source}'; it reads {', '.join(self._sources)}")
        return source

    @property
    def steps(self) -> dict[str, int]:
        """How many steps were given, how many of them degraded, and result rows that nobody asked for in time."""
        with self._changed:
            return {**self._steps, "rows_passed_over": self._fresh.passed_over}

    def take_side_outputs(self) -> pa.Table:
        """The rows that came late or were rejected since the last call: stream, reason, and the row as JSON."""
        with self._changed:
            return self._side_output.take()

    @abstractmethod
    def close(self) -> Any:
        """End the query."""

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()


def _floor(after: datetime | None) -> int:
    if after is not None and not isinstance(after, datetime):
        raise UsageError(f"after: {after!r} is no datetime; pass the time of a step, as in next(after=step.time)")
    return BEFORE_ALL if after is None else micros_of(after)


def _kept(stated: str | None, query: BoundQuery) -> int:
    """How much of the streams is kept; a step without a slow one takes more than its members reach back."""
    needed = reach(query) if can_reduce(query) else 0
    if stated is None:
        return needed + KEEP
    try:
        kept = parse_duration(stated)
    except ValueError as error:
        raise UsageError(f"keep: {error}") from None
    if kept <= needed:
        warnings.warn(
            f"keep = '{stated}': members of a result may be {format_duration(needed)} older than it, so once the query"
            " has run for longer there are no steps without a slow stream; keep more than that",
            stacklevel=5,
        )
    return kept
