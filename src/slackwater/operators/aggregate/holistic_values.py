"""Holistic aggregates in compiled code: the values of partials, and what is known of those inside the window.

A partial keeps its values for as long as its pane lives, some to a block. When its pane enters the window and leaves it
again, they are counted out to their group: how many there are, which different ones, and what stands near a quantile.
So a slide costs by what came and went, not by what the window holds.

Invariant: a group knows exactly the values of its partials inside the window, nulls left out. Values are compared as
words, so a float is one of the same order: -0.0 is 0.0, all NaN are one and the largest. Where different values are
counted, one that stands inside the window has one record with its times for every group and argument.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from slackwater.core.batch import Words
from slackwater.core.collections.hash_table import mixed
from slackwater.core.collections.records import FIRST_FIELD, NONE, find, give_back, hang, take_free, unhang
from slackwater.core.collections.selection import sort
from slackwater.core.jit import in_place, inner
from slackwater.core.schema import NULL_FLOAT, NULL_WORD, Kind
from slackwater.operators.aggregate import state as st
from slackwater.operators.aggregate.algebra import AggregateSpec
from slackwater.operators.aggregate.near_rank import (
    BEGIN,
    BELOW,
    NEAR_WORDS,
    begin_near,
    comes_near,
    end_near,
    goes_from,
    has_ranks,
    make_near,
)
from slackwater.operators.aggregate.partials import add_compensated, add_wide

# A value: whose it is, itself, and how many of it there are; 0 in a free record.
OWNER, VALUE, TIMES = range(FIRST_FIELD, FIRST_FIELD + 3)
DIFFERENT_WORDS = FIRST_FIELD + 3
ONLY_LINE = 0


@inner
def bucket_of(t: st.Tables, owner: int, value: int) -> int:
    """Where a value of a group belongs."""
    return mixed(owner, value) & (len(t.different) - 1)


@inner
def is_value(t: st.Tables, r: int, owner: int, value: int, unused: int) -> bool:
    """Whether a record is that of a value of a group."""
    return t.different[r, OWNER] == owner and t.different[r, VALUE] == value


@inner
def find_value(t: st.Tables, owner: int, value: int) -> int:
    """The record of a value of a group, or NONE."""
    return find(is_value, t.different, t.different_buckets, ONLY_LINE, bucket_of(t, owner, value), t, owner, value, 0)


@inner
def one_more(t: st.Tables, owner: int, value: int) -> bool:
    """A value comes; returns whether its group had none of it."""
    r = find_value(t, owner, value)
    if r != NONE:
        t.different[r, TIMES] += 1
        return False
    r = take_free(t.different, t.scalars, st.FREE_DIFFERENT, st.DIFFERENT)
    t.different[r, OWNER], t.different[r, VALUE], t.different[r, TIMES] = owner, value, 1
    hang(t.different, t.different_buckets, ONLY_LINE, bucket_of(t, owner, value), r)
    return True


@inner
def one_less(t: st.Tables, owner: int, value: int) -> bool:
    """A value goes; returns whether it was the last of its kind in its group."""
    r = find_value(t, owner, value)
    t.different[r, TIMES] -= 1
    if t.different[r, TIMES] > 0:
        return False
    unhang(t.different, t.different_buckets, ONLY_LINE, bucket_of(t, owner, value), r)
    give_back(t.different, t.scalars, st.FREE_DIFFERENT, st.DIFFERENT, r)
    return True


@in_place
def hang_different(t: st.Tables) -> None:
    """Put all records into buckets that are empty."""
    for r in range(len(t.different)):
        if t.different[r, TIMES] > 0:
            b = bucket_of(t, t.different[r, OWNER], t.different[r, VALUE])
            hang(t.different, t.different_buckets, ONLY_LINE, b, r)


# Columns of an argument: whether it is a float, whether its different values are counted, where in its line a group has
# how many values it has, and behind that how many different ones.
IS_FLOAT, DISTINCT, COUNTS_AT = range(3)
# Columns of what is asked: of which argument, the share of values below a quantile as the bits of a float, and where in
# its line a group has what is near that; NONE where different values are asked for, ADDED or COUNTED in place of the
# share. Then where the answer is written.
ARGUMENT, SHARE, NEAR_AT, WRITTEN_AT = range(4)
COUNTED, ADDED = range(2)
SUM_WORDS = 3
"""A count, and a sum of two words."""
NAN_WORD = 0x7FF8_0000_0000_0000
INFINITY_WORD = 0x7FF0_0000_0000_0000
SIGN = -(2**63)
UNSIGNED = 2**63 - 1


def holistic_of(aggregates: Sequence[AggregateSpec], first_word: int, width: int) -> tuple[Words, Words, Words, int]:
    """Rows of arguments, the arguments, what is asked of them, and the words that a group has for it from one on.
    Answers are written behind a partial result of this width."""
    wanted = [one for one in aggregates if one.holistic]
    kinds = {one.row: one.kind for one in wanted}
    rows = list(kinds)
    counted = {one.row for one in wanted if one.function == "COUNT_DISTINCT"}
    arguments = np.zeros((len(rows), 3), np.int64)
    for h, (row, kind) in enumerate(kinds.items()):
        arguments[h] = kind is Kind.FLOAT, row in counted, first_word + 2 * h
    end = first_word + 2 * len(rows)
    asked = np.zeros((len(wanted), 4), np.int64)
    for line, one in zip(asked, wanted, strict=True):
        line[[ARGUMENT, NEAR_AT, WRITTEN_AT]] = rows.index(one.row), NONE, width
        width += one.words
        if one.of_different is not None:
            line[SHARE] = ADDED
        elif one.function != "COUNT_DISTINCT":
            line[SHARE] = np.float64(0.5 if one.parameter is None else one.parameter).view(np.int64)
            line[NEAR_AT] = end
            end += NEAR_WORDS
    return np.array(rows, np.int64), arguments, asked, end - first_word


@inner
def begin_values(t: st.Tables, g: int) -> None:
    """A new group has no values."""
    for h in range(len(t.arguments)):
        at = t.arguments[h, COUNTS_AT]
        t.groups[g, at], t.groups[g, at + 1] = 0, 0
    for a in range(len(t.asked)):
        if t.asked[a, NEAR_AT] != NONE:
            begin_near(t.near, t.groups, g, t.asked[a, NEAR_AT])


@inner
def end_values(t: st.Tables, g: int) -> None:
    """A group without values is forgotten."""
    for a in range(len(t.asked)):
        if t.asked[a, NEAR_AT] != NONE:
            end_near(t.near, t.groups, g, t.asked[a, NEAR_AT])


@inner
def block_with_room(t: st.Tables, e: int) -> int:
    """The block that takes the next value of partial e."""
    b = t.partials[e, st.VALUES]
    if b == NONE or t.blocks[b, st.FILLED] == st.BLOCK:
        b = take_free(t.blocks, t.scalars, st.FREE_BLOCK, st.BLOCKS)
        t.blocks[b, st.LINK], t.blocks[b, st.FILLED] = t.partials[e, st.VALUES], 0
        t.partials[e, st.VALUES] = b
    return b


@inner
def keep(t: st.Tables, e: int, words: Words, rows: Words, i: int) -> None:
    """Keep the values of tuple i with partial e."""
    b = block_with_room(t, e)
    for h in range(len(rows)):
        t.blocks[b, st.WORD + h * st.BLOCK + t.blocks[b, st.FILLED]] = words[rows[h], i]
    t.blocks[b, st.FILLED] += 1
    t.scalars[st.VALUES_KEPT] += 1


@inner
def keep_again(t: st.Tables, e: int, blocks: Words, of: int, v: int) -> None:
    """Keep a value of a block of another aggregate with partial e, too."""
    b = block_with_room(t, e)
    for h in range(len(t.arguments)):
        t.blocks[b, st.WORD + h * st.BLOCK + t.blocks[b, st.FILLED]] = blocks[of, st.WORD + h * st.BLOCK + v]
    t.blocks[b, st.FILLED] += 1
    t.scalars[st.VALUES_KEPT] += 1


@inner
def is_null(t: st.Tables, h: int, word: int) -> bool:
    """Whether a word of an argument is no value."""
    return word == (NULL_FLOAT if t.arguments[h, IS_FLOAT] == 1 else NULL_WORD)


@inner
def in_order(word: int) -> int:
    """The bits of a float as a word that compares as the float does; and back again."""
    return word ^ UNSIGNED if word < 0 else word


@inner
def comparable(t: st.Tables, h: int, word: int) -> int:
    """A value as a word that compares as the value does."""
    if t.arguments[h, IS_FLOAT] == 0:
        return word
    if word == SIGN:
        return 0
    return NAN_WORD if word & UNSIGNED > INFINITY_WORD else in_order(word)


@inner
def value_enters(t: st.Tables, g: int, h: int, word: int) -> None:
    """A value of a group is inside the window from now on."""
    if is_null(t, h, word):
        return
    value, at = comparable(t, h, word), t.arguments[h, COUNTS_AT]
    t.groups[g, at] += 1
    if t.arguments[h, DISTINCT] == 1 and one_more(t, g * len(t.arguments) + h, value):
        t.groups[g, at + 1] += 1
    for a in range(len(t.asked)):
        if t.asked[a, ARGUMENT] == h and t.asked[a, NEAR_AT] != NONE:
            others = t.groups[g, at] - 1
            rank = int(float_of(t.asked[a, SHARE]) * others)
            comes_near(t.near, t.groups, g, t.asked[a, NEAR_AT], value, others, rank)


@inner
def value_leaves(t: st.Tables, g: int, h: int, word: int) -> None:
    """A value of a group is inside the window no more."""
    if is_null(t, h, word):
        return
    value, at = comparable(t, h, word), t.arguments[h, COUNTS_AT]
    t.groups[g, at] -= 1
    if t.arguments[h, DISTINCT] == 1 and one_less(t, g * len(t.arguments) + h, value):
        t.groups[g, at + 1] -= 1
    for a in range(len(t.asked)):
        if t.asked[a, ARGUMENT] == h and t.asked[a, NEAR_AT] != NONE:
            goes_from(t.near, t.groups, g, t.asked[a, NEAR_AT], value)


@inner
def tuple_enters(t: st.Tables, g: int, words: Words, rows: Words, i: int) -> None:
    """The values of tuple i, whose pane has entered already, are inside the window from now on."""
    for h in range(len(rows)):
        value_enters(t, g, h, words[rows[h], i])
    t.scalars[st.VALUES_INSIDE] += 1


@inner
def values_enter(t: st.Tables, e: int) -> None:
    """All values of a partial are inside the window from now on."""
    b = t.partials[e, st.VALUES]
    while b != NONE:
        for h in range(len(t.arguments)):
            for i in range(st.WORD + h * st.BLOCK, st.WORD + h * st.BLOCK + t.blocks[b, st.FILLED]):
                value_enters(t, t.partials[e, st.GROUP], h, t.blocks[b, i])
        t.scalars[st.VALUES_INSIDE] += t.blocks[b, st.FILLED]
        b = t.blocks[b, st.LINK]


@inner
def values_leave(t: st.Tables, e: int) -> None:
    """All values of a partial leave the window and are forgotten."""
    b = t.partials[e, st.VALUES]
    while b != NONE:
        for h in range(len(t.arguments)):
            for i in range(st.WORD + h * st.BLOCK, st.WORD + h * st.BLOCK + t.blocks[b, st.FILLED]):
                value_leaves(t, t.partials[e, st.GROUP], h, t.blocks[b, i])
        t.scalars[st.VALUES_INSIDE] -= t.blocks[b, st.FILLED]
        b = t.blocks[b, st.LINK]
    discard(t, e)


@inner
def discard(t: st.Tables, e: int) -> None:
    """Forget the values of a partial."""
    b = t.partials[e, st.VALUES]
    while b != NONE:
        following = t.blocks[b, st.LINK]
        t.scalars[st.VALUES_KEPT] -= t.blocks[b, st.FILLED]
        give_back(t.blocks, t.scalars, st.FREE_BLOCK, st.BLOCKS, b)
        b = following
    t.partials[e, st.VALUES] = NONE


@inner
def write_answers(t: st.Tables, g: int, closed: st.Closed, line: int) -> None:
    """All that is asked of a group's values inside the window."""
    for a in range(len(t.asked)):
        if t.asked[a, NEAR_AT] == NONE and t.asked[a, SHARE] == ADDED:
            write_sum(t, g, a, closed, line)
        else:
            closed.state[line, t.asked[a, WRITTEN_AT]] = answer(t, g, a)


@inner
def answer(t: st.Tables, g: int, a: int) -> int:
    """The word of what is asked, of a group's values inside the window."""
    h, near = t.asked[a, ARGUMENT], t.asked[a, NEAR_AT]
    size = t.groups[g, t.arguments[h, COUNTS_AT]]
    if near == NONE:
        return t.groups[g, t.arguments[h, COUNTS_AT] + 1]
    if size == 0:
        return NULL_FLOAT
    rank = float_of(t.asked[a, SHARE]) * (size - 1)
    below = int(rank)
    above = below + 1 if rank > below else below
    if not has_ranks(t.groups, g, near, below, above):
        make_near(t.near, t.groups, g, near, below, t.gathered, gather(t, g, h))
    at = t.groups[g, near + BEGIN] - t.groups[g, near + BELOW]
    low, high = number_of(t, h, t.near.words[at + below]), number_of(t, h, t.near.words[at + above])
    found = low + (high - low) * (rank - below) if rank > below else low
    return NAN_WORD if found != found else word_of(found)


@inner
def write_sum(t: st.Tables, g: int, a: int, closed: st.Closed, line: int) -> None:
    """The count and the sum of a group's different values as a partial result. They are added in their order, so the
    sum is always the same."""
    h, at = t.asked[a, ARGUMENT], t.asked[a, WRITTEN_AT]
    n = gather(t, g, h)
    sort(t.gathered, 0, n)
    for w in range(SUM_WORDS):
        closed.state[line, at + w] = 0
    for i in range(n):
        value = t.gathered[i]
        if i == 0 or value != t.gathered[i - 1]:
            closed.state[line, at] += 1
            if t.arguments[h, IS_FLOAT] == 1:
                add_compensated(closed.floats, line, at + 1, number_of(t, h, value))
            else:
                add_wide(closed.state, line, at + 1, value, value >> 63)


@inner
def gather(t: st.Tables, g: int, h: int) -> int:
    """All values of a group inside the window, of one argument; returns how many there are."""
    n = 0
    e = t.groups[g, st.NEWEST]
    while e != NONE:
        b = t.partials[e, st.VALUES]
        while b != NONE:
            for i in range(st.WORD + h * st.BLOCK, st.WORD + h * st.BLOCK + t.blocks[b, st.FILLED]):
                if not is_null(t, h, t.blocks[b, i]):
                    t.gathered[n] = comparable(t, h, t.blocks[b, i])
                    n += 1
            b = t.blocks[b, st.LINK]
        e = t.partials[e, st.OLDER]
    return n


@inner
def number_of(t: st.Tables, h: int, word: int) -> float:
    """The number that a comparable word of an argument stands for."""
    return float_of(in_order(word)) if t.arguments[h, IS_FLOAT] == 1 else float(word)


@inner
def float_of(word: int) -> float:
    """The float with these bits."""
    return np.int64(word).view(np.float64)


@inner
def word_of(value: float) -> int:
    """The bits of a float."""
    return np.float64(value).view(np.int64)  # type: ignore[return-value]  # an int to numba


@in_place
def values_of(t: st.Tables, members: Words, owner: Words, kept: Words) -> int:
    """The values of partials, a line for each argument, and the places of their partials; returns how many."""
    n = 0
    for m in range(len(members)):
        b = t.partials[members[m], st.VALUES]
        while b != NONE:
            for i in range(t.blocks[b, st.FILLED]):
                owner[n] = m
                for h in range(len(kept)):
                    kept[h, n] = t.blocks[b, st.WORD + h * st.BLOCK + i]
                n += 1
            b = t.blocks[b, st.LINK]
    return n
