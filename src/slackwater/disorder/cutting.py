"""Epochs: how a runtime cuts time, and where they end.

Invariant: whatever cuts an epoch is a whole number, of tuples or of microseconds; with neither, each call ends one. A
recording is cut in the same places wherever it is replayed; wrong clocks move no cut, because the clock that cuts
follows a vote, tuple by tuple.
"""

from __future__ import annotations

from dataclasses import dataclass
from numbers import Integral
from typing import NamedTuple

import numpy as np

from slackwater.core.batch import Words
from slackwater.core.errors import UsageError
from slackwater.core.jit import compiled, in_place, inner
from slackwater.core.time import BEFORE_ALL, LONGEST, format_duration
from slackwater.disorder.clock_vote import ARRIVALS, CLOCK, MOST, ClockVote, advance_by_tuple, clock_vote, tolerance_of

MOST_TUPLES = 10**12
"""No epoch waits for more."""


@dataclass(frozen=True)
class Epochs:
    """How a runtime cuts time: tuple release, or epochs of n tuples, of a span of event time, or as the caller says."""

    each_tuple: bool = False
    tuples: int = 0
    span: int = 0

    def __post_init__(self) -> None:
        if not isinstance(self.tuples, Integral) or not isinstance(self.span, Integral):
            raise UsageError("an epoch is a whole number of tuples, or of microseconds")
        if not 0 <= self.tuples <= MOST_TUPLES:
            raise UsageError(f"an epoch of {self.tuples:,} tuples: there are 1 to {MOST_TUPLES:,}")
        if not 0 <= self.span <= LONGEST:
            raise UsageError(f"an epoch of {format_duration(self.span)}: it lasts {format_duration(LONGEST)} at most")


def check_epochs(epochs: object) -> None:
    """Refuse what does not say how time is cut."""
    if epochs is not None and not isinstance(epochs, Epochs):
        raise UsageError(
            f"epochs: a {type(epochs).__name__} is none; write slackwater.Epochs(tuples=1000), for example"
        )


class Cutting(NamedTuple):
    """Where epochs end: after each tuple, after so many, when the largest clock has come so far, or with each call."""

    each: bool
    tuples: int
    span: int


@in_place
def end_of_epoch(
    cutting: Cutting, cutter: ClockVote, begun: Words, stream: Words, ts: Words, arrival_time: Words, begin: int,
    seen: int, end: bool, max_ahead: int, tolerance: int,
) -> int:  # fmt: skip
    """Where the epoch that begins here ends; -1 where it has not ended, beyond all tuples where the input ends in it.

    Tuples before `seen` were shown before.
    """
    n = len(ts)
    if cutting.each:
        return begin + 1
    if cutting.tuples > 0:
        return begin + cutting.tuples if end or begin + cutting.tuples <= n else -1
    if cutting.span == 0:
        return n
    for i in range(max(begin, seen), n):
        if cut_after(cutter, begun, cutting.span, stream[i], ts[i],
        arrival_time[i] if len(arrival_time) > 0 else BEFORE_ALL,
                     max_ahead, tolerance):  # fmt: skip
            return i + 1
    return n + 1 if end else -1


@inner
def cut_after(
    cutter: ClockVote, begun: Words, span: int, s: int, t: int, arrived_at: int, max_ahead: int, tolerance: int
) -> bool:
    """Whether an epoch ends after this tuple: the largest clock has come a span further since the epoch began."""
    advance_by_tuple(cutter, s, t, arrived_at, max_ahead, tolerance)
    clock = cutter.marks[s, CLOCK]
    if begun[0] == BEFORE_ALL and clock != BEFORE_ALL:
        # The first epoch begins with the oldest of those that have agreed.
        begun[0] = clock
        for i in range(min(cutter.marks[s, ARRIVALS], MOST)):
            if clock - max_ahead <= cutter.run[s, i] < begun[0]:
                begun[0] = cutter.run[s, i]
    if clock != BEFORE_ALL and clock - begun[0] >= span:
        begun[0] = clock
        return True
    return False


def epochs_by_span(stream: Words, ts: Words, arrival_time: Words, streams: int, span: int, max_ahead: int) -> Words:
    """The number of the epoch of each arrival, where epochs end as the largest clock moves on."""
    return numbered_epochs(clock_vote(streams), stream, ts, arrival_time, span, max_ahead, tolerance_of(max_ahead))


@compiled
def numbered_epochs(
    cutter: ClockVote, stream: Words, ts: Words, arrival_time: Words, span: int, max_ahead: int, tolerance: int
) -> Words:
    """`epochs_by_span`, for a cutter that has heard nothing."""
    begun = np.array([BEFORE_ALL])
    epoch = np.empty(len(ts), np.int64)
    current = 0
    for i in range(len(ts)):
        epoch[i] = current
        arrived_at = arrival_time[i] if len(arrival_time) > 0 else BEFORE_ALL
        if cut_after(cutter, begun, span, stream[i], ts[i], arrived_at, max_ahead, tolerance):
            current += 1
    return epoch
