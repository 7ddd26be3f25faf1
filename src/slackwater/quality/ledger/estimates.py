"""What tuples have lost that came so late that some of what they could have been joined with was forgotten.

The synopsis of all tuples says of such a tuple that it has lost at most so much, and probably so much up to a factor.
The factor is learned from tuples that are counted both ways, in what is retained and by the synopsis; and while there
are few of these, from what tuples in time have made.

Invariant: what is found of such a tuple is a part of what it has lost, and `sums[MOST]` bounds the rest.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence, Set
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt

from slackwater.core.batch import TS, Floats, Words
from slackwater.core.jit import inner
from slackwater.core.time import AFTER_ALL, BEFORE_ALL
from slackwater.quality.ledger import synopsis
from slackwater.quality.ledger.periods import Periods, spoiled, turn_to
from slackwater.quality.ledger.synopsis import Key, Synopsis, bound, note_tuple

EACH = 16
"""Of so many tuples one is counted by the synopsis, to learn what its estimates are worth."""
AT_FIRST = 512
"""So many late tuples are all looked at for it."""
FORGET = 8192
"""When so many have been looked at, half of what they taught is forgotten."""
TRUSTED = 32
"""So many late tuples whose losses are known say as much about others as all results that were made."""
# What is summed up over tuples that were not counted in full: the most that they cost beyond what was found, and what
# the synopsis expects of it. Then of tuples beyond the most slack allowed: the results found, and those expected.
MOST, EXPECTED, FAR_LOST, FAR_EXPECTED = range(4)
# What the factor is learned from. Of tuples whose losses are known: how many, their losses, what the synopsis expects.
# Of tuples that made results: how many were looked at, what it expects of them, how many there were.
COUNTED, LOST_RESULTS, OF_COUNTED, LOOKED_AT, OF_LOOKED_AT, MAKING = range(6)


class Estimating(NamedTuple):
    """What is needed to count what a tuple has lost without its partners."""

    synopsis: Synopsis
    unknown: Words
    """Per stream, the tuples that were not counted in full."""
    sums: Floats
    factor: Floats
    lateness: Words
    begun: int
    """Results before this event time are not in the ledger."""


@inner
def note_loss(
    rough: Estimating, periods: Periods, s: int, words: Words, i: int, watermark: int, found: float, known: int,
    window: int, passes_by: bool, is_counted: bool, far: bool,
) -> None:  # fmt: skip
    """Tuple i of stream s has lost what was found, of partners from `known` on, less their windows: estimate the rest,
    or learn what estimates are worth; then note it in the synopsis.

    `is_counted` says whether anything was looked for, `far` that no slack that is allowed would have kept it in time.
    """
    ts, factor, expected = words[TS, i], rough.factor, 0.0
    if is_counted and ts < known:
        if ts >= rough.begun - window:
            since = AFTER_ALL if passes_by else known
            expected = estimate(rough, periods, s, words, i, found, since, window)
    elif is_counted:
        factor[COUNTED] += 1
        if factor[COUNTED] < AT_FIRST or factor[COUNTED] % EACH == 0:
            learn(rough, s, words, i, found)
    else:
        factor[MAKING] += 1
        if factor[MAKING] % EACH == 0:
            factor[LOOKED_AT] += 1
            factor[OF_LOOKED_AT] += bound(rough.synopsis, s, words, i, AFTER_ALL)[2]
    if far and ts < watermark:
        rough.sums[FAR_LOST] += found
        rough.sums[FAR_EXPECTED] += expected
    note_tuple(rough.synopsis, s, words, i)


@inner
def estimate(
    rough: Estimating, periods: Periods, s: int, words: Words, i: int, found: float, known: int, window: int
) -> float:
    """Estimate the results of a tuple by the synopsis, beside what was found of its partners: all from `known` on, less
    their windows.

    Returns what the synopsis expects of the rest.
    """
    every, older, expected, newer = bound(rough.synopsis, s, words, i, known)
    rough.factor[COUNTED] += 1
    rough.factor[LOST_RESULTS] += found
    rough.factor[OF_COUNTED] += newer
    most = older if known < AFTER_ALL else every
    most = min(most, every - found)
    if most <= 0:
        return 0.0
    rough.unknown[s] += 1
    rough.sums[MOST] += most
    rough.sums[EXPECTED] += expected
    at = turn_to(periods, words[TS, i])
    if at >= 0:
        periods.most[at] += most
    periods.beyond[0] += spoiled(periods, words[TS, i], 1 + window // periods.width)
    # Partners that are older leave a result at the tuple's own time, newer ones at theirs.
    ts = words[TS, i] + window // 4
    at = turn_to(periods, ts)
    if at >= 0:
        periods.expected[at] += expected
    periods.beyond[2] += expected * spoiled(periods, ts, 0)
    return expected


@inner
def learn(rough: Estimating, s: int, words: Words, i: int, lost_results: float) -> None:
    """A tuple has been counted exactly: what does the synopsis say?"""
    factor = rough.factor
    factor[LOST_RESULTS] += lost_results
    factor[OF_COUNTED] += bound(rough.synopsis, s, words, i, AFTER_ALL)[2]


class Estimates:
    """The estimates of one ledger; `lateness` is counted by whoever decides how much is retained."""

    def __init__(
        self, classes: Sequence[Set[Key]], windows: Words, most: Words | None, lateness: Words, longest: int = 0
    ) -> None:
        self.arrays = Estimating(
            synopsis.synopsis_of(classes, windows, most, longest), np.zeros(len(windows), np.int64), np.zeros(4),
            np.zeros(6), lateness, BEFORE_ALL,
        )  # fmt: skip

    @property
    def unknown(self) -> int:
        """Late tuples that came after some of what they could have been joined with was forgotten."""
        return int(self.arrays.unknown.sum())

    def begin_at(self, watermark: int) -> None:
        """Results before this event time are not in the ledger."""
        self.arrays = self.arrays._replace(begun=watermark)

    def forget(self) -> None:
        """What was learned long ago counts less."""
        factor = self.arrays.factor
        if factor[COUNTED] > FORGET:
            factor[[COUNTED, LOST_RESULTS, OF_COUNTED]] /= 2

    def factor(self, made: float) -> float:
        """What a result is worth that the synopsis expects, where so many results have been made: learned from late
        tuples whose losses are known, and while there are few of them from what tuples in time have made."""
        factor = self.arrays.factor
        by_made = 0.0
        if factor[OF_LOOKED_AT] > 0 and factor[MAKING] > 0:
            by_made = (made / factor[MAKING]) / (factor[OF_LOOKED_AT] / factor[LOOKED_AT])
        if factor[OF_COUNTED] <= 0:
            return float(by_made)
        trust = factor[COUNTED] / (factor[COUNTED] + TRUSTED) if factor[LOOKED_AT] else 1.0
        return float(trust * factor[LOST_RESULTS] / factor[OF_COUNTED] + (1 - trust) * by_made)

    def lost(self, factor: float) -> tuple[float, float]:
        """The most results that were lost beyond those found, and how many probably were."""
        most, expected = self.arrays.sums[[MOST, EXPECTED]].tolist()
        return most, min(most, factor * expected)

    def lost_to_far(self, factor: float) -> float:
        """The results that were lost to tuples beyond the most slack allowed, estimates among them."""
        _, expected, found, of_far = self.arrays.sums.tolist()
        _, likely = self.lost(factor)
        return float(found + (likely * of_far / expected if expected > 0 else 0.0))

    def note_all(self, stream: int, words: Words) -> None:
        """Tuples have been processed of which nothing is to be counted."""
        synopsis.note_all(self.arrays.synopsis, stream, np.ascontiguousarray(words))

    def as_arrays(self) -> dict[str, npt.NDArray[Any]]:
        """All state but lateness."""
        own = {"unknown": self.arrays.unknown, "sums": self.arrays.sums, "factor": self.arrays.factor}
        own |= {"begun": np.array([self.arrays.begun])}
        return own | {f"synopsis_{name}": one for name, one in synopsis.as_arrays(self.arrays.synopsis).items()}

    def restore(self, arrays: Mapping[str, npt.NDArray[Any]]) -> None:
        """Take over what `as_arrays` gave."""
        for name in ("unknown", "sums", "factor"):
            getattr(self.arrays, name)[:] = arrays[name]
        self.begin_at(int(arrays["begun"][0]))
        counts = {n.removeprefix("synopsis_"): a for n, a in arrays.items() if n.startswith("synopsis_")}
        synopsis.restore(self.arrays.synopsis, counts)
