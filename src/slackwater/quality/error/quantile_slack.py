"""How much slack windows need: bins, and distributions over them.

Invariant of the bins: bin 0 needs no slack; a need k >= 0, which slack K meets iff K > k, lies in the bin whose edge is
the least slack on the grid above k. Edges are `unit` apart up to 64 of them and within 1/32 of each other from there
on, so that every bin tells delays apart to 3 %. There are bins for every time that 62 bits hold: none is cut off.
"""

from __future__ import annotations

import numpy as np

from slackwater.core.batch import Floats, Words
from slackwater.core.jit import in_place, inner

FINISHED = 64
"""Bins of one unit each; above, every octave has half as many."""
BINS = 1 + FINISHED + 32 * 56


@inner
def bin_of(need: int, unit: int) -> int:
    """The bin of a need: how far the clock was past the end of a window when a tuple of it came."""
    units = need // unit
    if units < FINISHED:
        return 1 + units
    octave = 0
    while (units >> octave) >= FINISHED:
        octave += 1
    return 1 + FINISHED + (octave - 1) * 32 + (units >> octave) - 32


@in_place
def edge_of(into: int, unit: int) -> int:
    """The least slack that meets every need in a bin."""
    if into <= FINISHED:
        return into * unit
    octave, rest = (into - FINISHED - 1) // 32 + 1, (into - FINISHED - 1) % 32 + 32
    return ((rest + 1) << octave) * unit


@in_place
def bin_met_by(slack: int, unit: int) -> int:
    """The largest bin whose needs this slack meets."""
    return bin_of(slack, unit) - 1


@in_place
def least_bin(weights: Floats, share: float) -> int:
    """The least bin with at most this share of the weight above it.

    >>> least_bin(np.array([0.0, 96.0, 2.0, 2.0]), 0.03), least_bin(np.zeros(3), 0.03)
    (2, 0)
    """
    total = 0.0
    for b in range(len(weights)):
        total += weights[b]
    above = 0.0
    for b in range(len(weights) - 1, 0, -1):
        above += weights[b]
        # Weight that was moved from bin to bin leaves a trace of rounding.
        if above > share * total + 1e-9 * total:
            return b
    return 0


def no_weights() -> Floats:
    """Nothing seen yet."""
    return np.zeros(BINS)


@in_place
def note_required_slack(weights: Floats, required: Words, unit: int) -> None:
    """Count required slacks by their bins; 0 and less do not count."""
    for i in range(len(required)):
        if required[i] > 0:
            # A delay of k is waited for by slack k, a required slack of k only by more.
            weights[bin_of(required[i] - 1, unit)] += 1.0
