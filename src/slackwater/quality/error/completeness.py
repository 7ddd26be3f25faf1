"""How much of a window has arrived when it closes, by the slack it closes under: learned from windows that have ended.

A tuple that comes k behind the end of its window is missing under every slack that does not meet k. So the share of a
window that is missing under a slack is a sum over bins, and the share of a bin is what came late by so much to all
windows that are old enough to know, by what these windows have.

Invariant: nothing is assumed of delays, of rates, or of how late tuples depend on each other; groups share the profile
of their stream. Of windows that have not waited for a bin nothing is said of it. Newer windows weigh more.
"""

from __future__ import annotations

import numpy as np

from slackwater.core.batch import Floats, Words
from slackwater.core.collections.records import NONE
from slackwater.core.jit import in_place, inner
from slackwater.core.time import LONGEST
from slackwater.quality.error.quantile_slack import BINS, edge_of
from slackwater.quality.error.window_losses import (
    AMOUNT,
    CHANGED,
    KIND,
    MEAN,
    SHARE,
    TUPLES,
    Watch,
    WindowLedger,
    allowed_factors,
    has_whole_group,
    is_first,
    last_piece,
    total_of,
)
from slackwater.quality.stats.keyed_sums import BEHIND, BIN, CHAIN, GROUP, NEXT, find, first_record, place_of


@in_place
def note_profile(
    w: Watch, b: WindowLedger, windows: Words, ages: Words, weights: Floats, edges: Words, late: Floats, has: Floats
) -> None:  # fmt: skip
    """Of each of these windows what it has, and by bin what came late to them as far as all of that can have come;
    both by the weight of the window."""
    for n in range(len(windows)):
        window = windows[n]
        for piece in range(2 * window, last_piece(w, window) + 1):
            r = first_record(b.totals, piece)
            while r != NONE:
                has[n] += weights[n] * b.totals.sums[r, TUPLES]
                r = b.totals.records[r, NEXT]
        r = first_record(b.late, window)
        while r != NONE:
            node = b.late.records[r, CHAIN]
            while node != NONE:
                if edges[b.late.nodes[node, BIN]] <= ages[n]:
                    late[b.late.nodes[node, BIN]] += weights[n] * b.late.node_sums[node, TUPLES]
                node = b.late.nodes[node, BEHIND]
            r = b.late.records[r, NEXT]


def old_enough(ages: Words, has: Floats, edges: Words) -> Floats:
    """By bin: what the windows have that are as old as its edge.

    >>> old_enough(np.array([5, 1]), np.array([10.0, 4.0]), np.array([0, 1, 2, 6])).tolist()
    [14.0, 14.0, 10.0, 0.0]
    """
    order = np.argsort(ages, kind="stable")
    beyond = np.append(np.cumsum(has[order][::-1])[::-1], 0.0)
    return np.asarray(beyond[np.searchsorted(ages[order], edges)])


def factors_of(late: Floats, has: Floats) -> Floats:
    """By bin: what an answer is multiplied by that closes under a slack that meets the needs of this bin; `late` is
    what came late by so much, and `has` what the windows have that are old enough to tell.

    >>> factors_of(np.array([0.0, 1.0, 2.0, 0.0]), np.array([10.0, 10.0, 5.0, 0.0])).tolist()
    [2.0, 1.6666666666666667, 1.0, 1.0]
    """
    share = np.divide(late, has, out=np.zeros(len(late)), where=has > 0)
    beyond = np.append(np.cumsum(share[::-1])[::-1][1:], 0.0)
    factors: Floats = 1.0 / np.maximum(1.0 - beyond, 1.0 / 64)
    return factors


@inner
def worst_bin(factors: Floats, first: int, last: int, low: float, high: float) -> int:
    """One above the largest of these bins whose factor is not between the two; 0 where all are. Factors of larger bins
    are smaller."""
    if last < first:
        return 0
    if factors[last] < low:
        return last + 1
    if factors[first] <= high:
        return 0
    # The largest bin whose factor is too large.
    while first < last:
        middle = (first + last + 1) // 2
        if factors[middle] > high:
            first = middle
        else:
            last = middle - 1
    return first + 1


@inner
def bin_for_estimate(
    w: Watch, b: WindowLedger, window: int, allowed: Floats, factors: Floats, highest: int, total: Floats,
    missing: Floats,
) -> int:  # fmt: skip
    """The bin of the least slack from which on every group's estimate is good; `highest` is the largest bin with a
    factor of its own, `total` and `missing` are scratch."""
    worst = 0
    if has_whole_group(w, b, b.late, window):
        bound = np.inf
        for n in range(len(w.judged)):
            if w.judged[n, KIND] != MEAN:
                bound = min(bound, allowed[n])
        worst = worst_bin(factors, 0, highest, 1.0 - bound, 1.0 + bound)
    r = first_record(b.late, window)
    while r != NONE:
        total_of(w, b.totals, window, b.late.records[r, GROUP], total)
        for c in range(len(missing)):
            missing[c] = 0.0
        node, last, found = b.late.records[r, CHAIN], highest, 0
        if node != NONE:
            last = max(last, b.late.nodes[node, BIN])
        while found == 0 and last >= worst:
            first = 0 if node == NONE else b.late.nodes[node, BIN]
            low, high = allowed_factors(w, allowed, total, missing)
            found = worst_bin(factors, first, last, low, high)
            if node == NONE:
                break
            for c in range(len(missing)):
                missing[c] += b.late.node_sums[node, c]
            last, node = first - 1, b.late.nodes[node, BEHIND]
        worst = max(worst, found)
        r = b.late.records[r, NEXT]
    return worst


@in_place
def bins_for_estimates(
    w: Watch, b: WindowLedger, allowed: Floats, factors: Floats, highest: int, scratch: Floats, first: int,
    settled: Words, changed: Words,
) -> int:  # fmt: skip
    """(window, bin) of the `settled` windows, the first of which has this number, and of those before to which
    something has come since the last call; how many."""
    count = 0
    for i in range(b.marks[CHANGED]):
        if b.changed[i] < first and place_of(b.late, b.changed[i]) != NONE:
            changed[0, count] = b.changed[i]
            count += 1
    for window in settled:
        changed[0, count] = window
        count += 1
    for i in range(count):
        changed[1, i] = bin_for_estimate(
            w, b, changed[0, i], allowed, factors, highest, scratch[0], scratch[1]
        )  # fmt: skip
    return count


@in_place
def note_residuals(
    w: Watch, b: WindowLedger, window: int, met: int, factor: float, scratch: Floats, found: Floats
) -> int:
    """Of the groups of a window that has settled: how many tuples each had when the window closed under a slack that
    met the needs of a bin, and by aggregate the truth against what was estimated; a line each.
    Returns how many."""
    count = 0
    total, missing = scratch[0], scratch[1]
    for piece in range(2 * window, last_piece(w, window) + 1):
        r = first_record(b.totals, piece)
        while r != NONE and count < len(found):
            group = b.totals.records[r, GROUP]
            if is_first(b.totals, 2 * window, piece, group):
                total_of(w, b.totals, window, group, total)
                missing_under(b, window, group, met, missing)
                if total[TUPLES] > missing[TUPLES]:
                    found[count, 0] = total[TUPLES] - missing[TUPLES]
                    for n in range(len(w.judged)):
                        found[count, 1 + n] = truth_to_estimate(w, n, total, missing, factor)
                    count += 1
            r = b.totals.records[r, NEXT]
    return count


@inner
def missing_under(b: WindowLedger, window: int, group: int, met: int, missing: Floats) -> None:
    """What is missing from a window and group under a slack that meets the needs of a bin."""
    for c in range(len(missing)):
        missing[c] = 0.0
    r = NONE if place_of(b.late, window) == NONE else find(b.late, window, group)
    if r != NONE:
        node = b.late.records[r, CHAIN]
        while node != NONE and b.late.nodes[node, BIN] > met:
            for c in range(len(missing)):
                missing[c] += b.late.node_sums[node, c]
            node = b.late.nodes[node, BEHIND]


@inner
def truth_to_estimate(w: Watch, n: int, total: Floats, missing: Floats, factor: float) -> float:
    """The true answer of an aggregate by its estimate; NaN where one of them is nothing."""
    c = w.judged[n, AMOUNT]
    if total[c] <= missing[c]:
        return np.nan
    if w.judged[n, KIND] == SHARE:
        return total[c] / (factor * (total[c] - missing[c]))
    made = total[c + 1] - missing[c + 1]
    if made == 0:
        return np.nan
    if w.judged[n, KIND] == MEAN:
        return (total[c + 1] / total[c]) / (made / (total[c] - missing[c]))
    return total[c + 1] / (factor * made)


def all_edges(unit: int) -> Words:
    """The edge of every bin; of those beyond all time, the end of it."""
    return np.array([min(edge_of(b, unit), LONGEST) for b in range(BINS)], np.int64)
