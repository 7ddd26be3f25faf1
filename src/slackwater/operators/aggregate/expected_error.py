"""How wrong a row of an open window is expected to be.

The expected completeness of a window is the share of its tuples that should have arrived: of a tuple of event time t
that is `P(delay <= clock - t)`, by the delays of all tuples so far, and the times of a window are equally likely. What
a row is worth at some completeness nobody can derive for any aggregate and any stream; it is measured. Windows leave
trials behind: rows as they were on the way, which are compared with the final ones. The expected error of a row is what
95 % of the trials at its stage of completeness have kept to, its last `SAMPLES`; nothing is known of a stage before
there are so many that the largest of them covers that share.

Invariant: of exchangeable windows, a row's error is at most the expected one with a probability of 95 % or more. A row
is as wrong as the worst of its aggregates; relatively, where the final value is not 0.

References: Vovk, Gammerman, Shafer: Algorithmic Learning in a Random World, 2005 (conformal prediction).
"""

from __future__ import annotations

import numpy as np

from slackwater.core.batch import Floats, Words
from slackwater.core.schema import NULL_FLOAT, NULL_WORD, Kind
from slackwater.core.state import StateUpdate
from slackwater.expressions.aggregates import FUNCTIONS
from slackwater.operators.aggregate.operator import WindowAggregate
from slackwater.operators.array_checkpoint import ArrayCheckpoint

EXPECTED = "expected"
COVERED = 0.95
SAMPLES = 512
"""Trials that are remembered of a stage, the last ones."""
FEWEST = 19
"""With fewer the largest error does not cover its share."""
TRIALS = 256
"""Rows that are tried at a time."""
PHASES = 4
"""Windows that are tried within the range of one."""
CELLS = 2048
"""Cells of delays, up to twice the range of a window."""
EVEN, FINE = 8, 28
"""Stages: so many of equal width up to a half; from there on four each time that what is missing is halved."""
STAGES = EVEN + FINE
WINDOW, STAGE, KEY = range(3)
"""Columns of trials; the key and the values follow."""


def stages_of(completeness: Floats) -> Words:
    """The stage of each completeness.

    >>> stages_of(np.array([0.0, 0.49, 0.5, 0.75, 0.999, 1.0])).tolist()
    [0, 7, 8, 12, 35, 35]
    """
    missing = np.maximum(1 - completeness, 2.0**-20)
    fine = np.minimum(np.floor(-4 * np.log2(2 * missing)), FINE - 1)
    return np.where(completeness < 0.5, 2 * EVEN * completeness, EVEN + fine).astype(np.int64)


class ExpectedError:
    """What has been learned of one aggregate."""

    def __init__(self, aggregate: WindowAggregate) -> None:
        self._range, grid = aggregate.range, aggregate.grid
        self._each = max(1, grid.whole // PHASES)
        """Every so manieth window is tried: those that overlap much are nearly the same."""
        self._keys = len(aggregate.keys)
        self._kinds = [FUNCTIONS[one.function].kind_of(one.kind) for one in aggregate.aggregates]
        self._width = max(1, -(-2 * self._range // CELLS))
        self._delays = np.zeros(CELLS + 1, np.int64)
        """Tuples by delay: none, more than none and up to one cell, and so on; the last is for longer ones."""
        self._trials = np.zeros((0, KEY + self._keys + len(self._kinds)), np.int64)
        self._errors = np.full((STAGES, SAMPLES), np.nan)
        self._counts = np.zeros(STAGES, np.int64)
        self._known = np.full(STAGES, np.nan)
        self._kept = ArrayCheckpoint(EXPECTED)

    def saw(self, delays: Words) -> None:
        """Tuples have come with these delays."""
        cells = np.minimum(-(-delays // self._width), CELLS)
        self._delays += np.bincount(cells, minlength=CELLS + 1)

    def completeness(self, start: Words, clock: int) -> Floats:
        """The share of tuples that should have arrived, of windows that begin there."""
        total = self._delays.sum()
        if total == 0:
            return np.zeros(len(start))
        edges = self._width * np.arange(CELLS)
        arrived = np.cumsum(self._delays[:CELLS]) / total
        until = np.concatenate([[0.0], np.cumsum((arrived[1:] + arrived[:-1]) / 2) * self._width])
        begin = np.clip(clock - start - self._range, 0, edges[-1] - self._range)
        age = np.minimum(np.maximum(clock - start, 0), begin + self._range)
        return np.asarray((np.interp(age, edges, until) - np.interp(begin, edges, until)) / self._range)

    def of(self, completeness: Floats) -> Floats:
        """The expected error of rows; NaN where nothing is known."""
        return self._known[stages_of(completeness)]

    def try_out(self, window: Words, keys: Words, values: Words, completeness: Floats) -> None:
        """Rows of open windows as they are now, to be compared with what they come to. A window is tried when it comes
        to a stage, as a row leaves when its window comes to a stage that is good enough: later it is better."""
        stage = stages_of(completeness)
        before = self._trials[:, WINDOW] * STAGES + self._trials[:, STAGE]
        tried = np.flatnonzero((window % self._each == 0) & ~np.isin(window * STAGES + stage, before))
        tried = tried[:: max(1, -(-len(tried) // TRIALS))]
        if len(tried):
            trials = np.column_stack([window[tried], stage[tried], keys[tried], values[tried]])
            self._trials = np.concatenate([self._trials, trials])

    def closed(self, window: Words, keys: Words, values: Words) -> None:
        """Final rows, with nothing left to come of windows up to theirs."""
        over = self._trials[:, WINDOW] <= window.max(initial=0)
        trials, self._trials = self._trials[over], self._trials[~over]
        if not len(trials):
            return
        tried = np.concatenate(
            [np.column_stack([window, keys]), np.delete(trials[:, : KEY + self._keys], STAGE, axis=1)]
        )
        _, of = np.unique(tried, axis=0, return_inverse=True)
        of = of.ravel()
        line = np.full(of.max() + 1, -1)
        line[of[: len(window)]] = np.arange(len(window))
        final = line[of[len(window) :]]
        # The rest of a window may be in another output.
        found = final >= 0
        again = trials[~found]
        self._trials = np.concatenate([again[again[:, WINDOW] == window.max()], self._trials])
        errors = self._errors_of(trials[found, KEY + self._keys :], values[final[found]])
        self._learn(trials[found, STAGE], errors)

    def _errors_of(self, before: Words, final: Words) -> Floats:
        worst = np.zeros(len(before))
        for kind, was, came in zip(self._kinds, before.T, final.T, strict=True):
            worst = np.maximum(worst, relative_errors(kind, was, came))
        return worst

    def _learn(self, stages: Words, errors: Floats) -> None:
        for stage in np.unique(stages).tolist():
            new = errors[stages == stage][-SAMPLES:]
            self._errors[stage, (self._counts[stage] + np.arange(len(new))) % SAMPLES] = new
            self._counts[stage] += len(new)
        self._know()

    def _know(self) -> None:
        """The expected error of every stage, by its trials and those of later stages."""
        known = np.full(STAGES, np.nan)
        for stage in np.flatnonzero(self._counts >= FEWEST).tolist():
            count = min(int(self._counts[stage]), SAMPLES)
            rank = int(np.ceil(COVERED * (count + 1) + np.sqrt(COVERED * (1 - COVERED) * count)))
            known[stage] = np.sort(self._errors[stage, :count])[min(rank, count) - 1]
        later = np.fmax.accumulate(known[::-1])[::-1]
        self._known = np.where(np.isnan(known), np.nan, later)

    def snapshot_delta(self) -> list[StateUpdate]:
        """What to persist since the last call."""
        arrays = {"delays": self._delays, "trials": self._trials, "errors": self._errors, "counts": self._counts}
        return list(self._kept.snapshot_delta(arrays))

    def restore(self, entries: list[StateUpdate]) -> None:
        """Take over persisted state."""
        # They are changed in place, and what was persisted is not.
        arrays = {name: array.copy() for name, array in self._kept.restore(entries).items()}
        self._delays, self._trials = arrays["delays"], arrays["trials"]
        self._errors, self._counts = arrays["errors"], arrays["counts"]
        self._know()


def relative_errors(kind: Kind, was: Words, came: Words) -> Floats:
    """How far values were from what they came to; infinite where there was none, or of what has no size.

    >>> relative_errors(Kind.INT, np.array([9, 1, NULL_WORD]), np.array([10, 0, 4])).tolist()
    [0.1, 1.0, inf]
    """
    if kind not in (Kind.INT, Kind.DECIMAL, Kind.FLOAT):
        return np.where(was == came, 0.0, np.inf)
    null = NULL_FLOAT if kind is Kind.FLOAT else NULL_WORD
    as_number = (lambda words: np.ascontiguousarray(words).view(np.float64)) if kind is Kind.FLOAT else np.float64
    one, other = as_number(was), as_number(came)
    with np.errstate(invalid="ignore", divide="ignore"):
        error = np.abs(one - other) / np.where(other == 0, 1.0, np.abs(other))
    none = (was == null) | (came == null) | np.isnan(error)
    return np.where(was == came, 0.0, np.where(none, np.inf, error))
