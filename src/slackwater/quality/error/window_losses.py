"""What late tuples would cost every window, for every slack at once: the loops.

A tuple that comes when the clock has passed the end e of one of its windows by k = clock - e is missing from it under
slack K iff K <= k; the clock is the one before the epoch. So a window's missing tuples, sorted by k, say what its
answer would have been under any slack.

Invariant: `totals` has what arrived, by piece of event time; `late` has, by window, what came after its end, binned by
k. A window's pieces are those from its start to its end; each slide is cut in two at `range mod slide`.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from slackwater.core.batch import TS, Floats, Words
from slackwater.core.collections.hash_table import mixed
from slackwater.core.collections.records import NONE
from slackwater.core.jit import in_place, inner
from slackwater.core.schema import NULL_WORD
from slackwater.core.time import BEFORE_ALL
from slackwater.quality.error.quantile_slack import bin_of
from slackwater.quality.stats.keyed_sums import (
    BEHIND,
    BIN,
    CHAIN,
    GROUP,
    NEXT,
    NO_LINE,
    NODES,
    RECORDS,
    Table,
    find,
    first_record,
    found_or_made,
    node_of,
    place_of,
)

# Components of every sum: tuples, tuples that really were missing, and per argument how many values and their sum.
TUPLES, MISSED, FIRST_ARGUMENT = range(3)
# Columns of `Watch.judged`: how an answer is judged, and by which component.
KIND, AMOUNT = range(2)
SHARE, SUM, MEAN = range(3)
# Places in `WindowLedger.marks`.
CLOCK, WATERMARK, CHANGED, DEEPEST, NEEDED = range(5)


class Watch(NamedTuple):
    """The windows, the groups and what is asked of the answers."""

    range: int
    slide: int
    retention: int
    most: int
    """The longest that retention may become; what is further behind does not make it longer."""
    unit: int
    keys: Words
    arguments: Words
    """(row, 1 for a float) per argument."""
    judged: Words
    """(kind, component) per aggregate."""


class WindowLedger(NamedTuple):
    """All that is known about the windows."""

    totals: Table
    late: Table
    changed: Words
    """Windows with new late tuples, the first `marks[CHANGED]` of them."""
    is_changed: Words
    """By place in the ring of `late`."""
    marks: Words
    """NEEDED is the oldest piece of the windows that are not counted yet: none from there on is given up for others."""


@inner
def last_piece(w: Watch, window: int) -> int:
    """The newest piece of a window; its oldest is twice its number."""
    return 2 * (window + w.range // w.slide) - (1 if w.range % w.slide == 0 else 0)


@inner
def end_of(w: Watch, window: int) -> int:
    """The end of a window."""
    return window * w.slide + w.range


@inner
def last_ended(w: Watch, time: int) -> int:
    """The newest window that has ended at an event time."""
    return (time - w.range) // w.slide


def last_to_count(w: Watch, b: WindowLedger, watermark: int, reach: int) -> int | None:
    """The newest window that has ended and is behind the clock by more than `reach`; None while there is no time."""
    clock = int(b.marks[CLOCK])
    if BEFORE_ALL in (clock, watermark):
        return None
    return (min(watermark, clock - reach) - w.range) // w.slide


@in_place
def reach(b: WindowLedger, clock: int, slack: int) -> int:
    """Where the watermark stands at a clock, with the slack that was in force until now."""
    b.marks[CLOCK] = max(b.marks[CLOCK], clock)
    b.marks[WATERMARK] = max(b.marks[WATERMARK], clock - slack)
    return int(b.marks[WATERMARK])


@inner
def group_of(w: Watch, words: Words, i: int) -> int:
    """The group of tuple i, as one word."""
    group = 0
    for row in w.keys:
        group = mixed(words[row, i], group)
    return group


@in_place
def absorb(w: Watch, b: WindowLedger, words: Words, floats: Floats, behind: Words, begin: int, slack: int) -> int:
    """Note arrivals; returns how many were noted before a table was full, or a piece in the way that is needed."""
    most = min(w.range, w.retention) // w.slide + 2
    cut = w.range % w.slide
    # Neighbours mostly lie in one slide and one record, so neither is looked for again.
    start, slide = words[TS, begin] // w.slide * w.slide, words[TS, begin] // w.slide
    piece, of_group, r = NO_LINE, 0, NONE
    for i in range(begin, words.shape[1]):
        full = b.totals.used[RECORDS] == len(b.totals.records)
        if behind[i] > 0:
            full |= b.late.used[RECORDS] + most > len(b.late.records) or b.late.used[NODES] + most > len(b.late.nodes)
        ts = words[TS, i]
        if not start <= ts < start + w.slide:
            slide = ts // w.slide
            start = slide * w.slide
        if full or 2 * slide + 1 - len(b.totals.lines) >= b.marks[NEEDED]:
            return i
        b.marks[CLOCK] = max(b.marks[CLOCK], ts)
        group = group_of(w, words, i)
        into = 2 * slide + (1 if ts - start >= cut else 0)
        if into != piece or group != of_group or r == NONE:
            r = found_or_made(b.totals, into, group)
            piece, of_group = into, group
        if r != NONE:
            add(w, b.totals.sums, r, words, floats, i)
        if behind[i] > 0:
            b.marks[WATERMARK] = max(b.marks[WATERMARK], ts + behind[i] - slack)
            if b.marks[DEEPEST] < behind[i] <= w.most:
                b.marks[DEEPEST] = behind[i]
            note_late(w, b, words, floats, i, group, ts + behind[i])
    return words.shape[1]


@in_place
def absorb_sums(w: Watch, b: WindowLedger, sums: Words, floats: Floats, begin: int) -> int:
    """Note sums of arrivals of one group that came before the clock had passed them, as `WindowLosses.sums_of` has
    them; returns how many were noted before the table was full, or a piece in the way that is needed."""
    for i in range(begin, sums.shape[1]):
        piece = sums[0, i]
        if b.totals.used[RECORDS] == len(b.totals.records) or (piece | 1) - len(b.totals.lines) >= b.marks[NEEDED]:
            return i
        b.marks[CLOCK] = max(b.marks[CLOCK], sums[1, i])
        r = found_or_made(b.totals, piece, 0)
        if r != NONE:
            for c in range(b.totals.sums.shape[1]):
                b.totals.sums[r, c] += floats[2 + c, i]
    return sums.shape[1]


@inner
def note_late(w: Watch, b: WindowLedger, words: Words, floats: Floats, i: int, group: int, clock: int) -> None:
    """Tuple i came at this clock: note it with all its windows that had ended, as far back as retention reaches."""
    ts = words[TS, i]
    window = max((ts - w.range) // w.slide, (clock - w.retention - w.range - 1) // w.slide) + 1
    while window * w.slide <= ts and end_of(w, window) <= clock:
        r = found_or_made(b.late, window, group)
        if r != NONE:
            node = node_of(b.late, r, bin_of(clock - end_of(w, window), w.unit))
            add(w, b.late.node_sums, node, words, floats, i)
            if end_of(w, window) <= b.marks[WATERMARK]:
                b.late.node_sums[node, MISSED] += 1.0
            mark_changed(b, window)
        window += 1


@inner
def mark_changed(b: WindowLedger, window: int) -> None:
    """What a window needs is to be looked at again."""
    at = place_of(b.late, window)
    if at != NONE and b.is_changed[at] == 0:
        b.is_changed[at] = 1
        b.changed[b.marks[CHANGED]] = window
        b.marks[CHANGED] += 1


@inner
def add(w: Watch, sums: Floats, r: int, words: Words, floats: Floats, i: int) -> None:
    """Add tuple i to the sums of a record; a null or NaN is no value."""
    sums[r, TUPLES] += 1.0
    at = FIRST_ARGUMENT
    for a in range(len(w.arguments)):
        row = w.arguments[a, 0]
        if w.arguments[a, 1] == 1:
            value = floats[row, i]
            if value == value:
                sums[r, at] += 1.0
                sums[r, at + 1] += value
        elif words[row, i] != NULL_WORD:
            sums[r, at] += 1.0
            sums[r, at + 1] += words[row, i]
        at += 2


@inner
def total_of(w: Watch, totals: Table, window: int, group: int, total: Floats) -> None:
    """All that has come of a window and group, into `total`."""
    for c in range(len(total)):
        total[c] = 0.0
    for piece in range(2 * window, last_piece(w, window) + 1):
        if place_of(totals, piece) != NONE:
            r = find(totals, piece, group)
            if r != NONE:
                for c in range(len(total)):
                    total[c] += totals.sums[r, c]


@inner
def is_first(t: Table, first: int, piece: int, group: int) -> bool:
    """Whether a group has no record in the pieces of a window before this one."""
    before = first
    while before < piece and (place_of(t, before) == NONE or find(t, before, group) == NONE):
        before += 1
    return before == piece


@inner
def newest_piece(w: Watch, totals: Table, window: int) -> int:
    """The newest piece of a window that has tuples, or NO_LINE."""
    for piece in range(last_piece(w, window), 2 * window - 1, -1):
        if place_of(totals, piece) != NONE:
            return piece
    return NO_LINE


@inner
def needed_bin(w: Watch, b: WindowLedger, window: int, allowed: Floats, total: Floats, missing: Floats) -> int:
    """The bin of the least slack with which every group's answer is good; `total` and `missing` are scratch."""
    worst = 0
    r = first_record(b.late, window)
    while r != NONE:
        total_of(w, b.totals, window, b.late.records[r, GROUP], total)
        for c in range(len(missing)):
            missing[c] = 0.0
        node = b.late.records[r, CHAIN]
        while node != NONE and b.late.nodes[node, BIN] > worst:
            for c in range(len(missing)):
                missing[c] += b.late.node_sums[node, c]
            if is_bad(w, allowed, total, missing):
                worst = b.late.nodes[node, BIN]
            node = b.late.nodes[node, BEHIND]
        r = b.late.records[r, NEXT]
    return worst


@inner
def is_bad(w: Watch, allowed: Floats, total: Floats, missing: Floats) -> bool:
    """Whether an answer without what is missing is further off than allowed; absolutely where the truth is 0."""
    if missing[TUPLES] >= total[TUPLES]:
        return True
    for n in range(len(w.judged)):
        c = w.judged[n, AMOUNT]
        if w.judged[n, KIND] == SHARE:
            if missing[c] > allowed[n] * total[c]:
                return True
            continue
        if total[c] > 0 and missing[c] >= total[c]:
            return True
        if w.judged[n, KIND] == SUM:
            truth, off = abs(total[c + 1]), abs(missing[c + 1])
        elif total[c] > 0:
            truth = abs(total[c + 1] / total[c])
            off = abs((total[c + 1] - missing[c + 1]) / (total[c] - missing[c]) - total[c + 1] / total[c])
        else:
            continue
        # Sums of the same numbers in another order differ by their rounding.
        if off > allowed[n] * (truth if truth != 0 else 1.0) + 1e-12 * truth:
            return True
    return False


@inner
def allowed_factors(w: Watch, allowed: Floats, total: Floats, missing: Floats) -> tuple[float, float]:
    """Between which factors the estimates of a group are within what is allowed; the first is infinite if none is."""
    low, high = 0.0, np.inf
    if missing[TUPLES] >= total[TUPLES]:
        return np.inf, high
    for n in range(len(w.judged)):
        c, kind, bound = w.judged[n, AMOUNT], w.judged[n, KIND], allowed[n] + 1e-12
        if bound == np.inf or total[c] == 0:
            continue
        if missing[c] >= total[c]:
            return np.inf, high
        if kind == MEAN:
            truth = total[c + 1] / total[c]
            off = abs((total[c + 1] - missing[c + 1]) / (total[c] - missing[c]) - truth)
            if off > bound * (abs(truth) if truth != 0 else 1.0):
                return np.inf, high
            continue
        truth = total[c] if kind == SHARE else total[c + 1]
        made = truth - (missing[c] if kind == SHARE else missing[c + 1])
        if truth == 0:
            if made != 0:
                high = min(high, bound / abs(made))
        elif made * truth <= 0:
            return np.inf, high
        else:
            low, high = max(low, (1.0 - bound) * truth / made), min(high, (1.0 + bound) * truth / made)
    return low, high


@inner
def has_whole_group(w: Watch, b: WindowLedger, lost: Table, window: int) -> bool:
    """Whether a window has a group that has lost nothing."""
    for piece in range(2 * window, last_piece(w, window) + 1):
        r = first_record(b.totals, piece)
        while r != NONE:
            if place_of(lost, window) == NONE or find(lost, window, b.totals.records[r, GROUP]) == NONE:
                return True
            r = b.totals.records[r, NEXT]
    return False


@inner
def is_whole_off(w: Watch, allowed: Floats, factor: float) -> bool:
    """The same of an answer from which nothing is missing."""
    if factor != 1.0:
        for n in range(len(w.judged)):
            if w.judged[n, KIND] != MEAN and abs(factor - 1.0) > allowed[n] + 1e-12:
                return True
    return False


@inner
def is_off(w: Watch, allowed: Floats, total: Floats, missing: Floats, factor: float) -> bool:
    """Whether an answer without what is missing is further off than allowed, once it is multiplied by a factor."""
    if factor == 1.0:
        return is_bad(w, allowed, total, missing)
    low, high = allowed_factors(w, allowed, total, missing)
    return not low <= factor <= high


@in_place
def coverage_of(w: Watch, b: WindowLedger, window: int) -> float:
    """N_rcv / (N_rcv + N_miss) of a window, all groups together (004 Alg. 4.3); -1 where no tuple of it has come."""
    came = 0.0
    for piece in range(2 * window, last_piece(w, window) + 1):
        r = first_record(b.totals, piece)
        while r != NONE:
            came += b.totals.sums[r, TUPLES]
            r = b.totals.records[r, NEXT]
    if came == 0:
        return -1.0
    missed = 0.0
    r = first_record(b.late, window)
    while r != NONE:
        node = b.late.records[r, CHAIN]
        while node != NONE:
            missed += b.late.node_sums[node, MISSED]
            node = b.late.nodes[node, BEHIND]
        r = b.late.records[r, NEXT]
    return 1.0 - missed / came
