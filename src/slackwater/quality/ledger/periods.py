"""The ring of a ledger: results made and results lost, by buckets of event time.

A period of a target is a number of buckets in a row. Once a bucket has left the ring, the verdict on its periods is
final, and what is still to be noted for them is summed up in `beyond`.

Invariant: a bucket that stands in the ring has all that was noted for it.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt

from slackwater.core.batch import Floats, Words
from slackwater.core.collections import ring
from slackwater.core.collections.ring import NEVER
from slackwater.core.jit import in_place, inner

COLUMNS = ("made", "lost", "expected", "most", "false")
"""What stands in a bucket."""
PERSISTED = ("beyond", "number", *COLUMNS)


class Periods(NamedTuple):
    """Results by the bucket of event time they belong to: a ring of buckets of equal width."""

    number: Words
    """Which bucket stands in each place of the ring."""
    made: Floats
    lost: Floats
    expected: Floats
    """What the synopsis expects of tuples that were not counted in full."""
    most: Floats
    """The most that these can have cost, under the bucket of the tuple: its results may be later by its window."""
    false: Floats
    """Rows that left and turned out not to be true; they are not among those made."""
    final: Words
    """The bucket before which the first period ends whose verdict is not final; how many buckets a period has; the
    bucket before which the first period of all ends."""
    beyond: Floats
    """What was noted for periods whose verdict is final: how often, how many results, how many expected; each once for
    every such period."""
    width: int


def no_periods(buckets: int, width: int) -> Periods:
    """An empty ring."""
    made, lost, expected, most, false = np.zeros((5, buckets))
    final, beyond = np.array([NEVER, 1, NEVER]), np.zeros(3)
    return Periods(ring.ring(buckets), made, lost, expected, most, false, final, beyond, width)


@inner
def turn_to(periods: Periods, ts: int) -> int:
    """The place of the bucket that an event time belongs to, emptied if an older one stood there; -1 if too old."""
    return ring.turn_to(empty, periods.number, periods, ts // periods.width)


@inner
def empty(periods: Periods, at: int) -> None:
    """Another bucket begins at this place."""
    periods.made[at], periods.lost[at], periods.expected[at], periods.most[at] = 0.0, 0.0, 0.0, 0.0
    periods.false[at] = 0.0


@inner
def spoiled(periods: Periods, ts: int, reach: int) -> int:
    """How many periods with a final verdict have a bucket from this event time on, up to so many buckets later."""
    following = ts // periods.width + 1
    ends = min(periods.final[0], following + periods.final[1] + reach)
    return max(0, ends - max(following, periods.final[2]))


@inner
def note_lost(periods: Periods, ts: int, multiplicity: float) -> None:
    """Write lost results down; a bucket so old that another has taken its place is not known any more."""
    at = turn_to(periods, ts)
    if at >= 0:
        periods.lost[at] += multiplicity
    final = spoiled(periods, ts, 0)
    periods.beyond[0] += final
    periods.beyond[1] += final * multiplicity


@in_place
def note_true(periods: Periods, ts: Words) -> None:
    """Write true results down; each is lost until it turns out to have been made."""
    for i in range(len(ts)):
        at = turn_to(periods, ts[i])
        if at >= 0:
            periods.lost[at] += 1.0


@in_place
def note_made(periods: Periods, ts: Words, multiplicities: Words, counted_exactly: bool) -> None:
    """Write results down that were made; `multiplicities` is empty where each line is one. `counted_exactly`: they
    count as lost too."""
    for i in range(len(ts)):
        at = turn_to(periods, ts[i])
        if at >= 0:
            multiplicity = multiplicities[i] if len(multiplicities) > 0 else 1
            periods.made[at] += multiplicity
            if counted_exactly:
                periods.lost[at] -= multiplicity


@in_place
def note_lost_results(periods: Periods, ts: Words, each: float) -> None:
    """Write down that results are lost, or after all not."""
    for i in range(len(ts)):
        note_lost(periods, ts[i], each)


@in_place
def note_false(periods: Periods, ts: Words, each: float) -> None:
    """Write down that rows turned out not to be true, or after all to be."""
    for i in range(len(ts)):
        at = turn_to(periods, ts[i])
        if at >= 0:
            periods.false[at] += each


@in_place
def add_buckets(
    periods: Periods, numbers: Words, made: Floats, lost: Floats, expected: Floats, most: Floats, false: Floats
) -> None:
    """Add to buckets what a shard has noted; what falls into periods whose verdict is final is summed up."""
    for i in range(len(numbers)):
        at = ring.turn_to(empty, periods.number, periods, numbers[i])
        if at >= 0:
            periods.made[at] += made[i]
            periods.lost[at] += lost[i]
            periods.expected[at] += expected[i]
            periods.most[at] += most[i]
            periods.false[at] += false[i]
        final = spoiled(periods, numbers[i] * periods.width, 0)
        if final > 0 and (lost[i] != 0.0 or most[i] != 0.0):
            periods.beyond[0] += final
            periods.beyond[1] += final * lost[i]
            periods.beyond[2] += final * expected[i]


def as_arrays(periods: Periods) -> dict[str, npt.NDArray[Any]]:
    """All of the ring but `final`, which its meter persists."""
    return {name: getattr(periods, name) for name in PERSISTED}


def restore(periods: Periods, arrays: Mapping[str, npt.NDArray[Any]]) -> None:
    """Take over what `as_arrays` gave."""
    for name in PERSISTED:
        getattr(periods, name)[:] = arrays[name]
