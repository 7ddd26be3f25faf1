"""What missing rows cost the windows of the top aggregate: the loops.

A row that came too late for its node is missing from every window it belongs to, also from those that are open still.
So it stands in the ledger of each of its windows with its own need, where a tuple of a lone aggregate stands with how
far each window had ended. Only what windows need that have ended is asked for.

Invariant: `totals` has the true rows, `made` those that reached the top, both by piece of event time; what is missing
from a window and group is the difference.
"""

from __future__ import annotations

import numpy as np

from slackwater.core.batch import TS, Flags, Floats, Words
from slackwater.core.collections.records import NONE
from slackwater.core.jit import in_place, inner
from slackwater.quality.error.answers import DOUBTFUL, OFF, WITHIN
from slackwater.quality.error.quantile_slack import bin_of
from slackwater.quality.error.window_losses import (
    AMOUNT,
    CLOCK,
    FIRST_ARGUMENT,
    TUPLES,
    Watch,
    WindowLedger,
    add,
    group_of,
    is_first,
    is_off,
    is_whole_off,
    last_piece,
    mark_changed,
    total_of,
)
from slackwater.quality.stats.keyed_sums import (
    GROUP,
    NEXT,
    NODES,
    RECORDS,
    Table,
    first_record,
    found_or_made,
    node_of,
)


@inner
def piece_of(w: Watch, ts: int) -> int:
    """The piece of event time that a row lies in."""
    slide = ts // w.slide
    return 2 * slide + (1 if ts - slide * w.slide >= w.range % w.slide else 0)


@in_place
def absorb_rows(w: Watch, b: WindowLedger, words: Words, floats: Floats, need: Words, begin: int, entered: int) -> int:
    """Note true rows; returns how many were noted before a table was full. Windows up to `entered` have ended."""
    most = w.range // w.slide + 2
    for i in range(begin, words.shape[1]):
        full = b.totals.used[RECORDS] == len(b.totals.records)
        if need[i] > 0:
            full |= b.late.used[RECORDS] + most > len(b.late.records) or b.late.used[NODES] + most > len(b.late.nodes)
        if full:
            return i
        ts = words[TS, i]
        b.marks[CLOCK] = max(b.marks[CLOCK], ts)
        group = group_of(w, words, i)
        r = found_or_made(b.totals, piece_of(w, ts), group)
        if r != NONE:
            add(w, b.totals.sums, r, words, floats, i)
        if need[i] > 0:
            window = (ts - w.range) // w.slide + 1
            while window * w.slide <= ts:
                r = found_or_made(b.late, window, group)
                if r != NONE:
                    # A need of k is met by a slack of k; the bins are of what is met by more.
                    node = node_of(b.late, r, bin_of(need[i] - 1, w.unit))
                    add(w, b.late.node_sums, node, words, floats, i)
                    if window <= entered:
                        mark_changed(b, window)
                window += 1
    return words.shape[1]


@in_place
def mark_ended(b: WindowLedger, first: int, last: int) -> None:
    """These windows have ended: whatever is known to be missing from them counts from now on."""
    for window in range(max(first, last - len(b.late.lines) + 1), last + 1):
        mark_changed(b, window)


@in_place
def note_made(w: Watch, made: Table, words: Words, floats: Floats, begin: int) -> int:
    """Note rows that have reached the top; returns how many were noted before the table was full."""
    for i in range(begin, words.shape[1]):
        if made.used[RECORDS] == len(made.records):
            return i
        r = found_or_made(made, piece_of(w, words[TS, i]), group_of(w, words, i))
        if r != NONE:
            add(w, made.sums, r, words, floats, i)
    return words.shape[1]


@in_place
def note_sums(t: Table, sums: Words, floats: Floats, begin: int) -> int:
    """Note rows of one group as `WindowLosses.sums_of` adds them up; returns how many sums were noted before the table
    was full."""
    for i in range(begin, sums.shape[1]):
        if t.used[RECORDS] == len(t.records):
            return i
        r = found_or_made(t, sums[0, i], 0)
        if r != NONE:
            for c in range(t.sums.shape[1]):
                t.sums[r, c] += floats[2 + c, i]
    return sums.shape[1]


@in_place
def judge_rows(
    w: Watch, totals: Table, made: Table, allowed: Floats, factors: Floats, scratch: Floats, coarse: bool,
    known_off: Flags, first: int, last: int,
) -> tuple[int, int, int]:  # fmt: skip
    """Of the windows between two numbers, how many have true rows, are not within the bound, and are only doubtful;
    `factors` are what their answers were multiplied by, `scratch` has three lines, `known_off` tells of windows what
    sums do not tell. `coarse`: a row that was made stands
    for many true ones, so only sums can be compared."""
    filled = off = doubtful = 0
    for window in range(first, last + 1):
        any_row, worst = False, OFF if known_off[window - first] else WITHIN
        for piece in range(2 * window, last_piece(w, window) + 1):
            r = first_record(totals, piece)
            any_row |= r != NONE
            while r != NONE and worst < OFF:
                group = totals.records[r, GROUP]
                if is_first(totals, 2 * window, piece, group):
                    factor = factors[window - first]
                    worst = max(worst, verdict_of(w, totals, made, allowed, factor, scratch, coarse, window, group))
                r = totals.records[r, NEXT]
        filled += 1 if any_row else 0
        off += 1 if worst > WITHIN else 0
        doubtful += 1 if worst == DOUBTFUL else 0
    return filled, off, doubtful


@inner
def verdict_of(
    w: Watch, totals: Table, made: Table, allowed: Floats, factor: float, scratch: Floats, coarse: bool, window: int,
    group: int,
) -> int:  # fmt: skip
    """Whether the answer of a window and group is within what is allowed; DOUBTFUL where sums do not tell of it, for
    which everything is allowed, and they are not all of it."""
    total, got, missing = scratch[0], scratch[1], scratch[2]
    total_of(w, totals, window, group, total)
    total_of(w, made, window, group, got)
    if not coarse and got[TUPLES] == total[TUPLES]:
        return OFF if is_whole_off(w, allowed, factor) else WITHIN
    for c in range(len(total)):
        missing[c] = total[c] - got[c]
        is_count = c < FIRST_ARGUMENT or (c - FIRST_ARGUMENT) % 2 == 0
        if coarse and is_count:
            missing[c] = 0.0 if got[c] > 0 else total[c]
    if is_off(w, allowed, total, missing, factor):
        return OFF
    for n in range(len(w.judged)):
        c = w.judged[n, AMOUNT]
        if allowed[n] == np.inf and (missing[c] != 0 or abs(missing[c + 1]) > 1e-9 * abs(total[c + 1])):
            return DOUBTFUL
    return WITHIN
