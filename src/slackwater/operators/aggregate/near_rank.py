"""A quantile of a group's values inside the window: the values near its rank in order, and a count of those below.

Only a segment of the sorted values is kept, around the rank that is wanted. A value that comes or goes before the
segment changes a count, one behind it nothing, one within it takes or leaves its place. When the rank has left the
segment, it is made anew from all values of the group, with more room on the side where the rank has gone.

Of n values in no particular order, half of root n more or less stand below any of them from one window to the next. A
segment is at least four roots long, so it lasts for thousands of values. Where values rise or fall, the rank moves by
one with each; a segment that did not last is made twice as long, up to half of the values. So a value that moves costs
O(root n) at worst, and next to nothing as a rule.

Invariant: a segment of LENGTH > 0 is a run of the sorted values of its group. BELOW values stand before its FIRST, none
greater than that; all others stand behind its LAST, none less. A segment of LENGTH 0 says nothing.

References: Munro, Paterson: Selection and sorting with limited storage, TCS 12, 1980 (values around the median, and
counts of the others); Huang, Yang, Tang: A fast two-dimensional median filtering algorithm, IEEE TASSP 27, 1979.
"""

from __future__ import annotations

from slackwater.core.batch import Words
from slackwater.core.collections.bisection import first_where
from slackwater.core.collections.records import NONE
from slackwater.core.collections.segments import SHORTEST, Segments, give_back, take
from slackwater.core.collections.selection import bring_to, sort
from slackwater.core.jit import inner

# A segment near a rank: where it begins, how long it may become and is; values below it, its first and its last one;
# values that have moved since it was made.
BEGIN, ROOM, LENGTH, BELOW, FIRST, LAST, MOVED = range(7)
NEAR_WORDS = 7
ROOTS = 4
"""How many times the root of the number of values a segment is long, at least."""
LASTING = 4
"""A segment has not lasted where fewer values have moved than so many times its length."""


@inner
def begin_near(s: Segments, near: Words, g: int, at: int) -> None:
    """A segment that says nothing yet, in line g of an array from word `at` on."""
    near[g, at + BEGIN], near[g, at + ROOM] = take(s, SHORTEST), SHORTEST
    near[g, at + LENGTH], near[g, at + BELOW], near[g, at + MOVED] = 0, 0, 0


@inner
def end_near(s: Segments, near: Words, g: int, at: int) -> None:
    """A segment is needed no more."""
    give_back(s, near[g, at + BEGIN], near[g, at + ROOM])


@inner
def is_behind(words: Words, place: int, word: int, unused: int) -> bool:
    """Whether the word at a place is greater than one."""
    return words[place] > word


@inner
def not_before(words: Words, place: int, word: int, unused: int) -> bool:
    """Whether the word at a place is not less than one."""
    return words[place] >= word


@inner
def note_ends(s: Segments, near: Words, g: int, at: int, length: int) -> None:
    """The segment has this length, and maybe other ends."""
    near[g, at + LENGTH] = length
    if length > 0:
        begin = near[g, at + BEGIN]
        near[g, at + FIRST], near[g, at + LAST] = s.words[begin], s.words[begin + length - 1]


@inner
def comes_near(s: Segments, near: Words, g: int, at: int, word: int, others: int, rank: int) -> None:
    """A value comes to so many others; `rank` is wanted from now on."""
    n, below = near[g, at + LENGTH], near[g, at + BELOW]
    near[g, at + MOVED] += 1
    if n == 0 or (word > near[g, at + LAST] and below + n < others):
        return
    if word < near[g, at + FIRST] and below > 0:
        near[g, at + BELOW] += 1
        return
    begin = near[g, at + BEGIN]
    end = begin + n
    place = first_where(is_behind, s.words, word, 0, begin, end)
    # Where there is no room, the end that is farther from the rank goes, be it the value itself.
    full = n == near[g, at + ROOM]
    if full and rank - below > n // 2:
        near[g, at + BELOW] += 1
        for i in range(begin, place - 1):
            s.words[i] = s.words[i + 1]
        if place > begin:
            s.words[place - 1] = word
    else:
        last = end - 1 if full else end
        for i in range(last, place, -1):
            s.words[i] = s.words[i - 1]
        if place <= last:
            s.words[place] = word
    note_ends(s, near, g, at, n if full else n + 1)


@inner
def goes_from(s: Segments, near: Words, g: int, at: int, word: int) -> None:
    """A value goes that the group has."""
    n = near[g, at + LENGTH]
    near[g, at + MOVED] += 1
    if n == 0 or word > near[g, at + LAST]:
        return
    if word < near[g, at + FIRST]:
        near[g, at + BELOW] -= 1
        return
    begin = near[g, at + BEGIN]
    place = first_where(not_before, s.words, word, 0, begin, begin + n)
    for i in range(place, begin + n - 1):
        s.words[i] = s.words[i + 1]
    note_ends(s, near, g, at, n - 1)


@inner
def has_ranks(near: Words, g: int, at: int, rank: int, last: int) -> bool:
    """Whether the values from one rank to another are in the segment."""
    below, n = near[g, at + BELOW], near[g, at + LENGTH]
    return n > 0 and below <= rank and last < below + n


@inner
def make_near(s: Segments, near: Words, g: int, at: int, rank: int, values: Words, n: int) -> None:
    """Make a segment around a rank from the first n of `values`, which are put into another order."""
    fit_room(s, near, g, at, n)
    room, begin = near[g, at + ROOM], near[g, at + BEGIN]
    before = room // 2
    if near[g, at + LENGTH] > 0:
        before = room // 4 if rank >= near[g, at + BELOW] else room - room // 4
    length = min(room, n)
    below = max(0, min(rank - before, n - length))
    if length < n:
        first = 0
        for end in (below, below + length - 1):
            bring_to(values, first, n, end)
            first = end
    for i in range(length):
        s.words[begin + i] = values[below + i]
    sort(s.words, begin, begin + length)
    near[g, at + BELOW], near[g, at + MOVED] = below, 0
    note_ends(s, near, g, at, length)


@inner
def fit_room(s: Segments, near: Words, g: int, at: int, n: int) -> None:
    """Take as much room as n values want, unless there is none or it makes little difference."""
    wanted, room = SHORTEST, near[g, at + ROOM]
    while wanted * wanted < ROOTS * ROOTS * n:
        wanted *= 2
    if near[g, at + MOVED] < LASTING * room:
        wanted = max(wanted, 2 * room if 4 * room <= n else room)
    if wanted > room or 4 * wanted < room:
        begin = take(s, wanted)
        if begin != NONE:
            give_back(s, near[g, at + BEGIN], room)
            near[g, at + BEGIN], near[g, at + ROOM] = begin, wanted
