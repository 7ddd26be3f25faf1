"""What is remembered of recent windows: what they needed, and whether they got it; as arrays, and how it is persisted.

Invariant: what sums up the ring (`bins`, and how many windows they have) can be counted again from it.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt

from slackwater.core.batch import Floats, Words
from slackwater.quality.error.quantile_slack import BINS
from slackwater.quality.stats.keyed_sums import NO_LINE

# Rows of `RequiredSlack.ring`, which has a column a window: its number; the bin of its need; the largest bin that the
# slack at closing met, OPEN before; what became of it; and 1 while it is among `weights`.
NUMBER, INTO, MET, VERDICT, WEIGHS = range(5)
# Rows of `RequiredSlack.bins`.
WEIGHTS, LATELY = range(2)
# Places in `RequiredSlack.marks`: the newest window that entered, was closed, was judged, and the newest block that was
# looked at; the largest bin so far; how many windows `weights` and `lately` have; how many of the running period
# failed; where the next finding goes; the clock at the last choice, how often was chosen, and how often the cap was too
# little; what is wanted in the long run, whatever the cap; how many windows there have been; since when delays have
# been growing, and what windows needed before.
(
    ENTERED, CLOSED, JUDGED, STRIDE, HIGHEST, HELD, HELD_LATELY, SPENT, FOUND, CLOCK, CHOICES, BOUND, WANTED, KNOWN,
    GROWING, BASE,
) = range(16)  # fmt: skip
MARKS = 16
# Places in `RequiredSlack.scalars`: the margin; what the cap reaches; and for how much of the last periods that was too
# little.
MARGIN, REACHED, SHORT = range(3)
LARGEST_MARGIN = 0.9
WINDOWS_A_SLICE = 64
"""Windows that are persisted together."""
FINDINGS = 256
OPEN = NOT_YET = -1
UNKNOWN, FINISHED, FAILED = range(3)


class RequiredSlack(NamedTuple):
    """The ring of windows, and what sums it up."""

    ring: Words
    bins: Words
    findings: Words
    """(clock, bin): the largest need that came out at each of the last choices."""
    scalars: Floats
    marks: Words


class Judging(NamedTuple):
    """How windows move slack and margin; lengths in windows, but for the last ones."""

    delta: float
    """The share of failures that is allowed."""
    aim: float
    """The share of failures at which the margin rests."""
    gain: float
    period: int
    alarm: int
    """More failures than this in the running period, and what came out lately decides."""
    lately: int
    """The last periods, which are never forgotten."""
    block: int
    """What is forgotten at once."""
    stride: int
    """How often the past is looked through: for what was another regime."""
    times: float
    """How much more another regime needed."""
    slide: int
    overlap: int
    """How many windows a tuple belongs to."""
    newest: int
    """For how long what came out is news, in microseconds."""
    ahead: float
    """How far ahead of growth slack is once a period has spent all it may, as a share."""
    calming: int
    """For how long there must be no news before growth is over, in microseconds."""
    settling: int
    """Microseconds after which, beyond twice the slack, a window that has not failed is taken for fine."""
    patience: float
    """In microseconds: how long the cap must be too little before the target is out of reach."""
    unsettled: int = 0
    """For how long after the end of a window its need counts as none, in microseconds."""


def no_required_slack(windows: int, margin: float) -> RequiredSlack:
    """Nothing known, with a ring of so many windows."""
    ring = np.zeros((5, windows), np.int64)
    ring[NUMBER] = NO_LINE
    marks = np.zeros(MARKS, np.int64)
    marks[[ENTERED, CLOSED, JUDGED, STRIDE, CLOCK, GROWING]] = NO_LINE
    findings = np.zeros((FINDINGS, 2), np.int64)
    findings[:, 0] = NO_LINE
    return RequiredSlack(ring, np.zeros((2, BINS), np.int64), findings, np.array([margin, 1.0, 0.0]), marks)


def required_as_arrays(n: RequiredSlack) -> dict[str, npt.NDArray[Any]]:
    """All state; the ring by slices of windows, without those that hold none. What sums it up can be counted again."""
    found: dict[str, npt.NDArray[Any]] = {
        "findings": n.findings.copy(), "scalars": n.scalars.copy(), "marks": n.marks.copy(),
    }  # fmt: skip
    for begin in range(0, n.ring.shape[1], WINDOWS_A_SLICE):
        one = n.ring[:, begin : begin + WINDOWS_A_SLICE]
        if (one[NUMBER] != NO_LINE).any():
            found[f"from_{begin}"] = one.copy()
    return found


def required_slack_of(windows: int, lately: int, arrays: Mapping[str, npt.NDArray[Any]]) -> RequiredSlack:
    """What `required_as_arrays` gave, in a ring of so many windows: the newest of them, if it was longer."""
    n = no_required_slack(windows, 0.0)
    for name in ("findings", "scalars", "marks"):
        getattr(n, name)[:] = arrays[name]
    slices = [n.ring[:, :0], *(one for name, one in arrays.items() if name.startswith("from_"))]
    ring = np.concatenate(slices, axis=1)
    ring = ring[:, ring[NUMBER] > max(NO_LINE, int(n.marks[ENTERED]) - windows)]
    n.ring[:, ring[NUMBER] % windows] = ring
    weighs = ring[:, ring[WEIGHS] == 1]
    recent = ring[:, ring[NUMBER] > n.marks[ENTERED] - lately]
    for row, held, some in ((WEIGHTS, HELD, weighs), (LATELY, HELD_LATELY, recent)):
        n.bins[row] = np.bincount(some[INTO], minlength=BINS)
        n.marks[held] = some.shape[1]
    return n
