"""What emitted answers leave behind, so that late tuples can say later how far off they were.

Invariant: `summaries` fills the records that `quality.error.answers` goes on with; `note_near` the part of them that
needs the values of a window, which only the operator has.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from slackwater.core.batch import Floats, Words
from slackwater.core.collections.bisection import first_where
from slackwater.core.collections.records import NONE
from slackwater.core.jit import in_place, inner
from slackwater.core.schema import Kind
from slackwater.disorder.meters import AnswerLog, Asked
from slackwater.operators.aggregate import state as st
from slackwater.operators.aggregate.algebra import AggregateSpec, Layout
from slackwater.operators.aggregate.holistic_values import (
    ARGUMENT,
    COUNTS_AT,
    IS_FLOAT,
    NEAR_AT,
    WRITTEN_AT,
    comparable,
    float_of,
    gather,
    is_null,
    number_of,
    word_of,
)
from slackwater.operators.aggregate.near_rank import BEGIN, BELOW, LENGTH, ROOM, make_near, not_before
from slackwater.quality.error import answers as of

NEAR_COLUMNS = 1 + of.RANK_WORDS
"""Of a quantile: how many values it was made of, and what `quality.error.answers` has of a rank."""
NOTHING_NEAR = np.zeros((0, 0))
"""Where no aggregate is a quantile."""
MOST_INT, LEAST_INT = 2**63 - 1, -(2**63)


def asked_of(aggregates: Sequence[AggregateSpec]) -> tuple[Asked, ...]:
    """The aggregates as a controller knows them."""
    return tuple(Asked(a.function, a.row, a.kind is Kind.FLOAT, a.parameter, a.kind) for a in aggregates)


def log_for(aggregates: Sequence[AggregateSpec], bound: float) -> AnswerLog | None:
    """A log where answers are to be noted, None where sums tell enough."""
    noted = of.answered(asked_of(aggregates), bound)
    return AnswerLog(noted.bound) if len(noted.asked) else None


def summaries(
    aggregates: Sequence[AggregateSpec], layout: Layout, state: Words, results: Sequence[Words], near: Floats
) -> Floats:
    """What is to be known of every line, from its partial, its results, and what stands near its quantiles."""
    noted = of.answered(asked_of(aggregates), 0.0)
    found = np.zeros((len(state), of.width_of(noted)))
    others = [n for n, one in enumerate(aggregates) if one.function not in of.EXACT]
    quantile = 0
    for n, (how, at) in zip(others, noted.asked[:, [of.HOW, of.AT]].tolist(), strict=True):
        aggregate, result, own = aggregates[n], results[n], found[:, at:]
        is_float = aggregate.kind is Kind.FLOAT or how not in (of.LEAST, of.GREATEST, of.DISTINCT)
        own[:, of.ANSWER] = result.view(np.float64) if is_float else result
        if how == of.RANK:
            own[:, of.VALUES] = near[:, quantile]
            own[:, of.OWN : of.OWN + of.RANK_WORDS] = near[:, quantile + 1 : quantile + NEAR_COLUMNS]
            quantile += NEAR_COLUMNS
        elif how == of.DISTINCT:
            own[:, of.VALUES] = result
        elif how in (of.VARIANCE, of.DEVIATION):
            own[:, of.VALUES], own[:, of.MEAN] = _count_and_mean(aggregate, layout, state)
            spread = own[:, of.ANSWER] ** 2 if how == of.DEVIATION else own[:, of.ANSWER]
            own[:, of.SQUARES] = np.where(own[:, of.VALUES] < 2, 0.0, spread * (own[:, of.VALUES] - 1.0))
        else:
            own[:, of.VALUES] = state[:, layout.offset(aggregate.components[0])]
            own[:, of.TRUTH] = own[:, of.ANSWER]
    return found


def _count_and_mean(aggregate: AggregateSpec, layout: Layout, state: Words) -> tuple[Floats, Floats]:
    at = layout.offset(aggregate.components[0])
    if aggregate.kind is Kind.FLOAT:
        floats = state.view(np.float64)
        return floats[:, at].copy(), floats[:, at + 1].copy()
    count = state[:, at].astype(np.float64)
    low, high = state[:, at + 1], state[:, at + 2]
    # What most totals have in the high word is the sign of the low one: nothing is rounded where that is all.
    total = low + (high - (low >> 63)) * 2.0**64
    return count, total / np.maximum(count, 1.0)


@in_place
def note_near(t: st.Tables, g: int, closed: st.Closed, line: int) -> None:
    """Of every quantile of a group: what stands at the ends of what its truth may be.

    It is no part of the loop that calls it, which is seldom asked for this.
    """
    at = 0
    for a in range(len(t.asked)):
        if t.asked[a, NEAR_AT] == NONE:
            continue
        h = t.asked[a, ARGUMENT]
        size = t.groups[g, t.arguments[h, COUNTS_AT]]
        closed.near[line, at] = size
        if size > 0:
            answer = float_of(closed.state[line, t.asked[a, WRITTEN_AT]])
            low = first_not_below(t, h, of.low_end(answer, closed.bound))
            high = first_above(t, h, of.high_end(answer, closed.bound))
            found = closed.near[line]
            known = stands_near(t, g, a, low, size, found, at + 1)
            if not (stands_near(t, g, a, high, size, found, at + 4) and known):
                find_around(t, g, h, low, high, found, at + 1)
                first, last = int(found[at + 1]), int(found[at + 4])
                near = t.asked[a, NEAR_AT]
                if 4 * (last - first) <= 3 * t.groups[g, near + ROOM]:
                    # All of them have room among those near the rank, where they are found without a search.
                    t.groups[g, near + LENGTH] = 0
                    make_near(t.near, t.groups, g, near, (first + last) // 2, t.gathered, gather(t, g, h))
        at += NEAR_COLUMNS


@inner
def first_not_below(t: st.Tables, h: int, value: float) -> int:
    """The least word whose value is not below a number."""
    if t.arguments[h, IS_FLOAT] == 1:
        return comparable(t, h, word_of(value))
    return MOST_INT if not value < 2.0**63 else LEAST_INT if value < -(2.0**63) else int(np.ceil(value))


@inner
def first_above(t: st.Tables, h: int, value: float) -> int:
    """The least word whose value is above a number."""
    if t.arguments[h, IS_FLOAT] == 1:
        return comparable(t, h, word_of(value)) + 1
    return MOST_INT if not value < 2.0**63 - 1024 else LEAST_INT if value < -(2.0**63) else int(np.floor(value)) + 1


@inner
def note_around(t: st.Tables, h: int, below: int, before: int, after: int, size: int, found: Floats, at: int) -> None:
    """How many values are below, the last of them, and the first one that is not."""
    found[at] = below
    found[at + 1] = number_of(t, h, before) if below > 0 else -np.inf
    found[at + 2] = number_of(t, h, after) if below < size else np.nan


@inner
def stands_near(t: st.Tables, g: int, a: int, word: int, size: int, found: Floats, at: int) -> bool:
    """Note the values around a word, if they are among those near the rank."""
    near = t.asked[a, NEAR_AT]
    n, below, begin = t.groups[g, near + LENGTH], t.groups[g, near + BELOW], t.groups[g, near + BEGIN]
    place = first_where(not_before, t.near.words, word, 0, begin, begin + n)
    if (place == begin and below > 0) or (place == begin + n and below + n < size):
        return False
    before, after = t.near.words[max(place - 1, begin)], t.near.words[min(place, begin + n - 1)]
    note_around(t, t.asked[a, ARGUMENT], below + place - begin, before, after, size, found, at)
    return True


@inner
def find_around(t: st.Tables, g: int, h: int, low: int, high: int, found: Floats, at: int) -> None:
    """Note the values around two words, by looking at all values."""
    size, below_low, below_high = 0, 0, 0
    before_low, after_low, before_high, after_high = LEAST_INT, MOST_INT, LEAST_INT, MOST_INT
    e = t.groups[g, st.NEWEST]
    while e != NONE:
        b = t.partials[e, st.VALUES]
        while b != NONE:
            for i in range(st.WORD + h * st.BLOCK, st.WORD + h * st.BLOCK + t.blocks[b, st.FILLED]):
                if not is_null(t, h, t.blocks[b, i]):
                    value = comparable(t, h, t.blocks[b, i])
                    size += 1
                    if value < low:
                        below_low += 1
                        before_low = max(before_low, value)
                    else:
                        after_low = min(after_low, value)
                    if value < high:
                        below_high += 1
                        before_high = max(before_high, value)
                    else:
                        after_high = min(after_high, value)
            b = t.blocks[b, st.LINK]
        e = t.partials[e, st.OLDER]
    note_around(t, h, below_low, before_low, after_low, size, found, at)
    note_around(t, h, below_high, before_high, after_high, size, found, at + 3)
