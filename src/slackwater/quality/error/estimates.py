"""What the estimates of a query are made with, learned from its windows: the factor of a slack, and how far it is off.

1. What is missing from a window under a slack is learned by bin (`completeness`): the factor of answers that close.
2. A window has settled when no more than a small part of the bound still comes for it. Then it is known which slack its
   estimate needed; the controller goes by these needs as it does without estimates.
3. What was estimated of settled windows beside the truth is remembered. Between what the truth lies are quantiles of
   that, in spreads: a small group is off by more than a large one, and the spread is fitted to both. The level of the
   quantiles follows how many of the intervals that were given held the truth, so that it is the confidence asked for.

Invariant: a window teaches by what it was estimated as when it closed, before anything it teaches was known.

References: Angelopoulos, Bates, A Gentle Introduction to Conformal Prediction, 2021; Gibbs, Candès, Adaptive Conformal
Inference under Distribution Shift, NeurIPS 2021.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
import numpy.typing as npt

from slackwater.core.batch import Floats, Words
from slackwater.core.quality import RelativeError
from slackwater.core.time import AFTER_ALL, BEFORE_ALL, MINUTE, SECOND
from slackwater.disorder.meters import Report, Scaling, interval
from slackwater.quality.error.completeness import (
    all_edges,
    bins_for_estimates,
    factors_of,
    note_profile,
    note_residuals,
    old_enough,
)
from slackwater.quality.error.quantile_slack import BINS, bin_met_by
from slackwater.quality.error.required_slack import changed_windows, filled_between
from slackwater.quality.error.window_losses import CHANGED
from slackwater.quality.error.windows import WindowLosses
from slackwater.quality.stats.keyed_sums import NO_LINE

NEEDS, NEEDS_SCALED = "needs", "needs scaled"
WAYS = (NEEDS, NEEDS_SCALED)
"""In a report, by way of answering: (window, bin) where what one needs has changed. A window may be answered by what
has come, or by that scaled."""
AS_IT_IS, SCALED = range(2)
LATE, WINDOWS, OFF = "late", "profile", "off"
"""In a report: (bin, amount) of what came late to the windows that are looked at; (age, amount) of these; and, by way,
what the answers of settled windows were off by."""
HALF_LIFE = MINUTE
"""A window as old as this, or as ten windows, weighs half in the profile."""
LOOKED_AT = 256
"""At most so many windows make the profile."""
FEWEST = 5
"""With fewer windows that have ended nothing is known of what is missing."""
SETTLED_BY = 8.0
"""What may still come to a settled window, as a part of the bound."""
REMEMBERED = 1024
"""Estimates beside their truth."""
ENOUGH = 20
"""With fewer of them, nothing is said of between what the truth lies."""
GROUPS = 16
"""At most so many groups of a window are remembered."""
RATE = 0.02
"""How fast the level of an end follows the answers that lie beyond it."""
WIDEST = 5.0
"""How many times as wide as all that is remembered an interval may become, where answers lie beyond it again."""
LEAST_SHARE = 1e-3
"""What is expected to be missing is taken to be at least this."""
BETTER = 0.8
"""The other way is taken once it asks for less than this part of the slack."""


class Estimates:
    """The way of answering in force, what it is learned from, and what it has been off by."""

    def __init__(self, losses: WindowLosses, target: RelativeError, scaling: Scaling) -> None:
        self._scaling, self._target = scaling, target
        watched, windows = losses.watched, len(losses.ledger.late.lines)
        self._edges = all_edges(losses.watch.unit)
        self._half_life = max(HALF_LIFE, 10 * max(watched.range, watched.slide))
        self._factors = np.ones(BINS)
        self._settled = NO_LINE
        tail = (1.0 - target.confidence) / 2
        self._ways = [Way(windows, len(watched.aggregates), tail) for _ in WAYS]
        self.way = AS_IT_IS
        self._given = Closed(windows)

    def slack_of(self, way: int) -> int:
        """What a way asks for."""
        return self._ways[way].slack

    @property
    def unsettled(self) -> int:
        """How long after its end a window may still get tuples that matter."""
        enough = 1.0 + self._target.bound / SETTLED_BY
        return int(self._edges[int(np.argmax(self._factors <= enough))]) + SECOND

    def close(self, losses: WindowLosses, watermark: int, slack: int) -> None:
        """Windows have closed, up to where the watermark stands, under this slack."""
        if watermark in (BEFORE_ALL, AFTER_ALL):
            return
        windows, last, unit = len(losses.ledger.late.lines), losses.last_ended(watermark), losses.watch.unit
        self._given.note(last, bin_met_by(slack, unit), self._scaling.factor, windows)
        for number, way in enumerate(self._ways):
            own = slack if number == self.way else way.slack
            way.closed.note(last, bin_met_by(own, unit), way.factor, windows, way.share)

    def factors_between(self, first: int, last: int) -> Floats:
        """The factors that windows from a number to another were answered with."""
        return self._given.factors(first, last)

    def report(self, losses: WindowLosses, clock: int, allowed: Floats, scratch: Floats) -> Report:
        """What this shard knows at a clock of windows that have ended."""
        first, last = self._settled + 1, self.settled_at(losses, clock)
        first = max(first, last - len(losses.ledger.late.lines) // 2)
        filled = np.empty(max(0, last + 1 - first), np.int64)
        filled = filled[: filled_between(losses.watch, losses.ledger, first, last, filled)]
        highest = int(np.flatnonzero(self._factors > 1.0).max(initial=-1))
        now = np.empty((2, losses.ledger.marks[CHANGED]), np.int64)
        changed = np.empty((2, now.shape[1] + len(filled)), np.int64)
        count = bins_for_estimates(
            losses.watch, losses.ledger, allowed, self._factors, highest, scratch, first, filled, changed
        )
        changed_windows(losses.watch, losses.ledger, allowed, scratch, now)
        late, windows = self._profile(losses, clock)
        found: dict[str, npt.NDArray[Any]] = {NEEDS: now, NEEDS_SCALED: changed[:, :count].copy()}
        found |= {LATE: late, WINDOWS: windows}
        for number, way in enumerate(self._ways):
            found[f"{OFF} {number}"] = way.residuals(losses, filled, scratch)
        return found

    def settled_at(self, losses: WindowLosses, clock: int) -> int:
        """The newest window that has settled at a clock."""
        return losses.last_ended(clock - self.unsettled)

    def _profile(self, losses: WindowLosses, clock: int) -> tuple[Floats, Floats]:
        watch, newest = losses.watch, losses.last_ended(clock)
        reach = min(len(losses.ledger.late.lines) // 2, int(6 * self._half_life // watch.slide) + FEWEST)
        every = max(1, reach // LOOKED_AT)
        windows = np.arange((newest - reach) // every + 1, newest // every + 1, dtype=np.int64) * every
        ages = np.asarray(clock - (windows * watch.slide + watch.range))
        weights = np.exp2(-ages / self._half_life)
        late, has = np.zeros(BINS), np.zeros(len(windows))
        note_profile(watch, losses.ledger, windows, ages, weights, self._edges, late, has)
        bins = np.flatnonzero(late)
        own = has > 0
        return np.vstack([bins, late[bins]]), np.vstack([ages[own], has[own]])

    def hear(self, reports: Sequence[Report], last: int) -> None:
        """Take in what all shards have reported; windows up to the last have settled."""
        self._settled = max(self._settled, last)
        windows = np.concatenate([one[WINDOWS] for one in reports], axis=1)
        if windows.shape[1] >= FEWEST:
            late = np.zeros(BINS)
            for one in reports:
                np.add.at(late, one[LATE][0].astype(np.int64), one[LATE][1])
            self._factors = factors_of(late, old_enough(windows[0].astype(np.int64), windows[1], self._edges))
        for number, way in enumerate(self._ways):
            way.learn(np.concatenate([one[f"{OFF} {number}"] for one in reports]))

    def choose(self, wanted: Sequence[int], unit: int) -> int:
        """Windows close from now on in the way that wants the least slack; returns that."""
        for way, slack in zip(self._ways, wanted, strict=True):
            way.slack = slack
        other = 1 - self.way
        if wanted[other] < BETTER * wanted[self.way]:
            self.way = other
        if self._factors[0] > 1.0:
            for way in self._ways:
                way.expect(1.0 - 1.0 / float(self._factors[bin_met_by(way.slack, unit)]))
        self._ways[SCALED].factor = float(self._factors[bin_met_by(wanted[SCALED], unit)])
        self._scaling.factor, self._scaling.terms = self._ways[self.way].factor, self._ways[self.way].terms
        return wanted[self.way]

    def as_arrays(self) -> dict[str, npt.NDArray[Any]]:
        """All state."""
        known = int(np.flatnonzero(self._factors > 1.0).max(initial=-1)) + 1
        found: dict[str, npt.NDArray[Any]] = {"marks": np.array([self.way, self._settled])}
        found |= {"factors": self._factors[:known].copy()}
        found |= {f"given_{name}": array for name, array in self._given.as_arrays().items()}
        for number, way in enumerate(self._ways):
            found |= {f"way{number}_{name}": array for name, array in way.as_arrays().items()}
        return found

    def restore(self, arrays: Mapping[str, npt.NDArray[Any]]) -> None:
        """Take over what `as_arrays` gave."""
        self.way, self._settled = arrays["marks"].tolist()
        self._factors[: len(arrays["factors"])] = arrays["factors"]
        self._given.restore(_under("given_", arrays))
        for number, way in enumerate(self._ways):
            way.restore(_under(f"way{number}_", arrays))
        self._scaling.factor, self._scaling.terms = self._ways[self.way].factor, self._ways[self.way].terms


class Way:
    """A way of answering windows: the slack it asks for, its factor, and what it is or would have been off by."""

    def __init__(self, windows: int, aggregates: int, tail: float) -> None:
        self.slack, self.factor, self.share = 0, 1.0, np.nan
        """`share`: what is expected to be missing; NaN before anything is known of it."""
        self.terms = np.full((aggregates, 4), np.nan)
        self._learned = np.full((aggregates, 4), np.nan)
        """The terms where all is expected to be missing."""
        self.closed = Closed(windows)
        self._tail = tail
        self._levels = np.full((aggregates, 2), tail)
        """By aggregate and end: which share of what was off lies beyond it."""
        self._memory = np.zeros((REMEMBERED, 2 + aggregates))
        """By answer: tuples that it was made of, by aggregate the truth against it, what was expected to be missing."""
        self._noted = 0

    def residuals(self, losses: WindowLosses, settled: Words, scratch: Floats) -> Floats:
        """Of the settled windows, what was off; of overlapping ones only of those that are half a window apart."""
        watch = losses.watch
        apart = max(1, watch.range // (2 * watch.slide))
        found = [np.empty((0, self._memory.shape[1]))]
        for window in settled[settled % apart == 0].tolist():
            met, factor, share = self.closed.of(window)
            if met >= 0 and share == share:
                some = np.full((GROUPS, self._memory.shape[1]), share)
                count = note_residuals(watch, losses.ledger, window, met, factor, scratch, some)
                found.append(some[:count])
        return np.concatenate(found)

    def learn(self, off: Floats) -> None:
        """Answers of windows that have settled, beside the truth."""
        if not len(off):
            return
        for at in range(len(self.terms)):
            self._follow(at, off[:, 0], off[:, 1 + at], off[:, -1])
        for line in off:
            self._memory[self._noted % REMEMBERED] = line
            self._noted += 1
        memory = self._memory[: min(self._noted, REMEMBERED)]
        for at in range(len(self.terms)):
            known = ~np.isnan(memory[:, 1 + at])
            if known.sum() >= ENOUGH:
                share = memory[known, -1]
                off = (memory[known, 1 + at] - 1.0) / share
                self._learned[at] = ends_of(memory[known, 0] * share, off, np.maximum(self._levels[at], 0.0))
                beyond = np.maximum(-self._levels[at], 0.0) / self._tail
                self._learned[at, :2] += np.array([-1.0, 1.0]) * beyond * np.abs(self._learned[at, :2]).max()

    def expect(self, share: float) -> None:
        """This share of a window is expected to be missing from now on."""
        self.share = max(share, LEAST_SHARE)
        self.terms = self._learned * np.array([1.0, 1.0, self.share, self.share * self.share])

    def _follow(self, at: int, tuples: Floats, truth: Floats, share: Floats) -> None:
        """Level both ends of an aggregate by the answers that came true beyond them."""
        low, high, known = interval(self._learned[at], tuples * share)
        if known:
            low, high = 1.0 + (low - 1.0) * share, 1.0 + (high - 1.0) * share
            for end, beyond in enumerate((truth < low - 1e-12, truth > high + 1e-12)):
                for one in beyond[~np.isnan(truth)]:
                    level = self._levels[at, end] + RATE * (self._tail - one)
                    self._levels[at, end] = min(max(level, -(WIDEST - 1) * self._tail), 0.5)

    def as_arrays(self) -> dict[str, npt.NDArray[Any]]:
        """All state."""
        found = {"own": np.array([self.slack, self._noted]), "expected": np.array([self.factor, self.share])}
        found |= {"levels": self._levels.copy(), "terms": self.terms.copy(), "learned": self._learned.copy()}
        found |= {"memory": self._memory[: self._noted].copy()}
        return found | {f"closed_{name}": array for name, array in self.closed.as_arrays().items()}

    def restore(self, arrays: Mapping[str, npt.NDArray[Any]]) -> None:
        """Take over what `as_arrays` gave."""
        self.slack, self._noted = arrays["own"].tolist()
        self.factor, self.share = arrays["expected"].tolist()
        self._levels, self.terms = np.array(arrays["levels"]), np.array(arrays["terms"])
        self._learned = np.array(arrays["learned"])
        self._memory[: len(arrays["memory"])] = arrays["memory"]
        self.closed.restore(_under("closed_", arrays))


def _under(prefix: str, arrays: Mapping[str, npt.NDArray[Any]]) -> dict[str, npt.NDArray[Any]]:
    return {name.removeprefix(prefix): array for name, array in arrays.items() if name.startswith(prefix)}


def ends_of(tuples: Floats, off: Floats, levels: Floats) -> Floats:
    """Both ends of the interval in spreads, and the parts of the squared spread, by what estimates were off by.

    >>> ends_of(np.array([4.0, 4.0, 4.0, 4.0]), np.array([-0.1, 0.0, 0.0, 0.2]), np.array([0.2, 0.2])).round(2).tolist()
    [-0.89, 1.79, 0.0, 0.01]
    """
    falling, lasting = spread_of(tuples, off * off)
    spread = np.sqrt(falling / tuples + lasting)
    ranked = np.sort(np.divide(off, spread, out=np.zeros(len(off)), where=spread > 0))
    count = len(ranked)
    # As many lie beyond an end as its level says, one that is still to come among them.
    low, high = (int(np.floor(level * (count + 1))) for level in levels)
    return np.array([ranked[max(0, low - 1)], ranked[min(count - 1, count - high)], falling, lasting])


def spread_of(tuples: Floats, squares: Floats) -> tuple[float, float]:
    """The squared error of estimates as what falls with the tuples they are made of, and what does not: the two that
    fit best, none less than 0."""
    falls = 1.0 / tuples
    mean, level = falls.mean(), squares.mean()
    varies = ((falls - mean) ** 2).mean()
    falling = 0.0 if varies < 1e-6 * mean * mean else ((falls - mean) * (squares - level)).mean() / varies
    falling = float(min(max(falling, 0.0), level / mean))
    return falling, float(level - falling * mean)


class Closed:
    """Under which slack each of the last windows closed, and the factor of its estimates, in a ring."""

    def __init__(self, windows: int) -> None:
        self._number = np.full(windows, NO_LINE)
        self._met, self._factor, self._share = np.full(windows, -1), np.ones(windows), np.ones(windows)
        self._last = NO_LINE

    def note(self, last: int, met: int, factor: float, windows: int, share: float = 1.0) -> None:
        """The windows up to the last have closed; there is to be room for so many."""
        if windows > len(self._number):
            known = self.as_arrays()
            self._number, self._met = np.full(windows, NO_LINE), np.full(windows, -1)
            self._factor, self._share = np.ones(windows), np.ones(windows)
            self.restore(known)
        first = max(self._last + 1, last - len(self._number) + 1)
        if first <= last:
            numbers = np.arange(first, last + 1)
            at = numbers % len(self._number)
            self._number[at], self._met[at], self._factor[at], self._share[at] = numbers, met, factor, share
            self._last = last

    def of(self, window: int) -> tuple[int, float, float]:
        """The bin that the slack met, the factor, and what was expected to be missing; the first is -1 where a window
        is not known to have closed."""
        at = window % len(self._number)
        if self._number[at] != window:
            return -1, 1.0, 1.0
        return int(self._met[at]), float(self._factor[at]), float(self._share[at])

    def factors(self, first: int, last: int) -> Floats:
        """The factors of the windows between two numbers."""
        numbers = np.arange(first, last + 1)
        at = numbers % len(self._number)
        return np.where(self._number[at] == numbers, self._factor[at], 1.0)

    def as_arrays(self) -> dict[str, npt.NDArray[Any]]:
        """All state, oldest window first."""
        at = np.flatnonzero(self._number != NO_LINE)
        at = at[np.argsort(self._number[at])]
        found = {"number": self._number, "met": self._met, "factor": self._factor, "share": self._share}
        return {name: column[at] for name, column in found.items()}

    def restore(self, arrays: Mapping[str, npt.NDArray[Any]]) -> None:
        """Take over what `as_arrays` gave."""
        numbers = arrays["number"][-len(self._number) :]
        at = numbers % len(self._number)
        kept = slice(len(arrays["number"]) - len(numbers), None)
        self._number[at], self._met[at] = numbers, arrays["met"][kept]
        self._factor[at], self._share[at] = arrays["factor"][kept], arrays["share"][kept]
        self._last = int(numbers.max(initial=NO_LINE))
