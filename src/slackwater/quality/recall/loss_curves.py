"""What each slack would have lost of a join's results, by the slack that its tuples needed.

Slacks that come into question are at the same time the bins in which needed slack is counted: g apart up to 32 g, then
5 % apart, up to a hundred years. 10.01 s need not be distinguished from 10 s, and no delay is beyond the last bin.

Invariant: bin k holds the tuples that needed more than slack k - 1 and no more than slack k. So with F(x) the share of
a stream's tuples that needed x at most, F is exact at every slack of the list, and taken to be linear in between.

A result is made by its last member, while the others are in their windows. Under slack K a tuple of stream i is in time
with F_i(K). A tuple of stream j that is a older than that one has been waited for longer by a, so its window of length
W_j holds the mean of F_j(K + a) over 0 <= a <= W_j of what it should: (G_j(K + W_j) - G_j(K)) / W_j, with G_j the
integral of F_j. Hence

    loss(K) = 1 - sum_i w_i F_i(K) prod_{j != i} (G_j(K + W_j) - G_j(K)) / W_j

This is Eq. 4.6 with one selectivity and basic windows of no length; `recall_model` has the published form.

References: 004 §4.2.4 (Eq. 4.4-4.7); 003 §IV.
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import lru_cache
from typing import NamedTuple

import numpy as np

from slackwater.core.batch import Floats, Words
from slackwater.core.collections.bisection import first_where
from slackwater.core.jit import in_place, inner
from slackwater.core.time import DAY

DENSE = 32
"""So many slacks one granularity apart."""
STEP = 1.05
"""From there on each is so many times the one before."""
LONGEST_SLACK = 100 * 366 * DAY


@lru_cache(maxsize=8)
def _multiples(longest: int) -> Words:
    found = list(range(DENSE + 1))
    while found[-1] < longest:
        found.append(int(np.ceil(found[-1] * STEP)))
    return np.array(found, np.int64)


def slacks_of(granularity: int) -> Words:
    """The slacks that come into question, in microseconds.

    >>> slacks_of(10)[[0, 1, 32, 33, 34]].tolist(), len(slacks_of(10_000))
    ([0, 10, 320, 340, 360], 500)
    """
    return _multiples(-(-LONGEST_SLACK // granularity)) * granularity


def place_of(slacks: Words, slack: int) -> int:
    """The place of the longest slack that is not longer than this one.

    >>> place_of(slacks_of(10), 349)
    33
    """
    return int(np.searchsorted(slacks, slack, side="right")) - 1


class JoinShape(NamedTuple):
    """What a curve needs to know about a join."""

    slacks: Words
    windows: Floats
    weights: Floats
    """The share of the results that tuples of each stream complete."""


def shape_of(windows: Sequence[int], granularity: int) -> JoinShape:
    """The shape of a join with these windows; microseconds."""
    weights = np.array(trigger_weights(tuple(windows)))
    return JoinShape(slacks_of(granularity), np.array(windows, np.float64), weights / weights.sum())


@inner
def bin_of(slacks: Words, needed: int) -> int:
    """The first slack that is enough."""
    if needed <= 0:
        return 0
    granularity = slacks[1]
    if needed <= DENSE * granularity:
        return int((needed - 1) // granularity) + 1
    return first_where(is_enough, slacks, needed, 0, DENSE + 1, len(slacks) - 1)


@inner
def is_enough(slacks: Words, sequence: int, needed: int, unused: int) -> bool:
    """Whether a slack is enough."""
    return slacks[sequence] >= needed


@in_place
def count_needed(slacks: Words, stream: Words, needed: Words, counts: Words) -> None:
    """Count tuples by their stream and the slack they needed."""
    for i in range(len(stream)):
        counts[stream[i], bin_of(slacks, needed[i])] += 1


@inner
def top_of(counts: Words) -> int:
    """The last bin that holds a tuple; 0 where none does."""
    for k in range(counts.shape[1] - 1, 0, -1):
        for s in range(counts.shape[0]):
            if counts[s, k] > 0:
                return k
    return 0


@inner
def curve_of(shape: JoinShape, counts: Words, top: int, shares: Floats, integrals: Floats, out: Floats) -> None:
    """The share of results that the slacks 0..top would have lost; longer ones lose nothing.

    A stream without tuples loses nothing. `shares` and `integrals` (a line a stream) are scratch.
    """
    slacks, streams = shape.slacks, counts.shape[0]
    for s in range(streams):
        total = 0
        for k in range(top + 1):
            total += counts[s, k]
        seen, area = 0, 0.0
        for k in range(top + 1):
            seen += counts[s, k]
            shares[s, k] = seen / total if total > 0 else 1.0
            if k > 0:
                area += (shares[s, k - 1] + shares[s, k]) * 0.5 * (slacks[k] - slacks[k - 1])
            integrals[s, k] = area
    for k in range(top + 1):
        out[k] = 0.0
    for i in range(streams):
        # The product of the shares of the streams is built up in place, so that nothing is stored but one curve.
        for k in range(top + 1):
            integrals[streams, k] = shape.weights[i] * shares[i, k]
        for j in range(streams):
            if j != i:
                _multiply_by_coverage(slacks, shape.windows[j], top, shares[j], integrals[j], integrals[streams])
        for k in range(top + 1):
            out[k] += integrals[streams, k]
    for k in range(top + 1):
        out[k] = max(0.0, 1.0 - out[k])


@inner
def _multiply_by_coverage(slacks: Words, window: float, top: int, share: Floats, area: Floats, out: Floats) -> None:
    """Multiply by what a window holds of what it should, under each slack."""
    if window <= 0:
        for k in range(top + 1):
            out[k] *= share[k]
        return
    m = 0
    for k in range(top + 1):
        end = slacks[k] + window
        while m < top and slacks[m + 1] <= end:
            m += 1
        rest = end - slacks[m]
        upto = area[m] + rest * share[m]
        if m < top:
            upto += 0.5 * rest * rest * (share[m + 1] - share[m]) / (slacks[m + 1] - slacks[m])
        out[k] *= min(1.0, (upto - area[k]) / window)


@in_place
def losses(shape: JoinShape, counts: Words, shares: Floats, integrals: Floats, out: Floats) -> int:
    """Write the curve of these counts; returns the last slack that it is about."""
    top = top_of(counts)
    curve_of(shape, counts, top, shares, integrals, out)
    return top


@lru_cache
def trigger_weights(windows: tuple[int, ...]) -> list[float]:
    """The product of the other windows, for each stream; equal ones where all such products are 0."""
    weights = [float(np.prod([float(w) for j, w in enumerate(windows) if j != i])) for i in range(len(windows))]
    return weights if any(weights) else [1.0] * len(windows)
