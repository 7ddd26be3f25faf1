"""The ledger of a join: what every late tuple cost, counted exactly by probing what was processed before it.

A result is lost when its last member, in processing order, comes late: all the others have been processed, and a late
tuple makes no results of its own. So the price of a late tuple is the number of its combinations with the tuples
processed before it, late ones included; every lost result is counted once, under its own timestamp.

Where several operators make the results, as in a tree of joins, a result may be lost in other ways too. There every
tuple is priced, whether late or not: each true result is counted once, at whichever of its members comes last, and is
lost unless it has been made.

Invariant: results made + results lost = true results, of all results whose members lie within the retention.
"""

from __future__ import annotations

from typing import NamedTuple

from slackwater.compiled import in_place, inner
from slackwater.expressions.compile import refine_listed_at
from slackwater.model.batch import TS, Floats, Words
from slackwater.operators.join.any_order import Reach, combinations
from slackwater.operators.join.search import Arriving, Probes, Search
from slackwater.operators.join.store import Windows, insert, place

FINE, OVERFLOW = 0, -1
NEVER = -(2**62)
"""The number of a place in a ring of stretches in which none stands yet."""


class Periods(NamedTuple):
    """Results by the stretch of event time they belong to: a ring of stretches of equal width."""

    number: Words
    """Which stretch stands in each place of the ring."""
    made: Floats
    lost: Floats
    width: int


@in_place
def settle(
    condition: int, plan: Probes, new: Arriving, price: Floats, w: Windows, search: Search, reach: Reach,
    periods: Periods, retention: int, price_all: bool,
) -> tuple[int, int]:  # fmt: skip
    """Price the late tuples of a run, or all, and note all; returns (tuples too late to be priced, status)."""
    refine_listed = refine_listed_at(condition)
    unknown = 0
    for i in range(new.words.shape[1]):
        s, ts = new.stream[i], new.words[TS, i]
        price[i] = 0.0
        if ts < new.cutoff[i] - plan.sizes[s] - retention:
            unknown += 1
            continue
        search.slots[s] = place(w, s, new.words, i)
        if price_all or ts < new.cutoff[i]:
            price[i] = combinations(note, periods, refine_listed, plan, w, s, ts, search, reach)
            if price[i] < 0:
                return unknown, OVERFLOW
        insert(w, s)
    return unknown, FINE


@inner
def note(periods: Periods, search: Search, ts: int, ways: float) -> None:
    """Write lost results down; a stretch so old that another has taken its place is not known any more."""
    at = turn_to(periods, ts)
    if at >= 0:
        periods.lost[at] += ways


@inner
def turn_to(periods: Periods, ts: int) -> int:
    """The place of the stretch that an event time belongs to, emptied if an older one stood there; -1 if too old."""
    number = ts // periods.width
    at = number % len(periods.number)
    if periods.number[at] < number:
        periods.number[at], periods.made[at], periods.lost[at] = number, 0.0, 0.0
    return at if periods.number[at] == number else -1


@in_place
def note_made(periods: Periods, ts: Words, weight: Words, priced: bool) -> None:
    """Write results down that were made; `weight` is empty where each line is one. `priced`: they count as lost too."""
    for i in range(len(ts)):
        at = turn_to(periods, ts[i])
        if at >= 0:
            ways = weight[i] if len(weight) > 0 else 1
            periods.made[at] += ways
            if priced:
                periods.lost[at] -= ways
