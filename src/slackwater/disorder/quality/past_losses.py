"""What every slack would have lost, stretch by stretch of the recent past.

Invariant: for each stretch there is a curve over candidate slacks: the share of results that the model says this slack
would have lost there, by the delays of that very stretch. A period is a window of stretches; so for any slack one can
ask in how many of the past periods it would have lost more than is allowed. What is older counts less.

Candidates are dense where slack is short and some percent apart where it is long: nobody needs 10.01 s told from 10 s.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt

from slackwater.compiled import in_place, inner
from slackwater.model.batch import Floats, Words

DENSE = 32
"""So many candidates one bin apart."""
STEP = 1.05
"""From there on each is so many times the one before."""
MOST_BINS = 2**16
LATELY = 5
"""Stretches that tell a change from a burst."""


def candidates() -> Words:
    """Candidate slacks in bins.

    >>> candidates()[[0, 1, 32, 33, 34]].tolist(), len(candidates())
    ([0, 1, 32, 34, 36], 185)
    """
    found = list(range(DENSE + 1))
    while found[-1] < MOST_BINS:
        found.append(int(np.ceil(found[-1] * STEP)))
    return np.array(found, np.int64)


class Past(NamedTuple):
    """A ring of stretches: their curves, summed over tuples, and how many tuples they had."""

    loss: npt.NDArray[np.float32]
    tuples: Floats
    weight: Floats
    """What a period that ends with this stretch counts, by its place from the newest."""


@inner
def missed_share(past: Past, newest: int, used: int, span: int, k: int, allowed: float) -> float:
    """In what share of the past periods candidate k would have lost more than `allowed`."""
    size = len(past.tuples)
    bad = periods = loss = tuples = 0.0
    # From the oldest stretch to the newest, with sums over the last `span` of them.
    for age in range(used - 1, -1, -1):
        at = (newest - age) % size
        loss += past.loss[at, k]
        tuples += past.tuples[at]
        if age + span < used:
            gone = (newest - age - span) % size
            loss -= past.loss[gone, k]
            tuples -= past.tuples[gone]
        if tuples > 0.5:
            periods += past.weight[age]
            if loss > allowed * tuples:
                bad += past.weight[age]
    return bad / periods if periods > 0 else 0.0


@inner
def lossy_lately(past: Past, newest: int, used: int, of: int, k: int, allowed: float) -> bool:
    """Whether candidate k would have lost more than `allowed` in all of the last `of` stretches but one."""
    lossy = 0
    for age in range(min(of, used)):
        at = (newest - age) % len(past.tuples)
        if past.loss[at, k] > allowed * past.tuples[at]:
            lossy += 1
    return lossy >= of - 1


@in_place
def least_candidate(
    past: Past, newest: int, used: int, span: int, of: int, allowed: float, missing: float, most: int
) -> int:
    """The least of the candidates 0..most that does; longer slack never loses more, so they can be bisected."""
    lo, hi = 0, most
    while lo < hi:
        k = (lo + hi) >> 1
        if missed_share(past, newest, used, span, k, allowed) > missing or lossy_lately(
            past, newest, used, of, k, allowed
        ):
            lo = k + 1
        else:
            hi = k
    return lo


class PastLosses:
    """The curves of the last so many stretches.

    >>> past = PastLosses(stretches=4, span=2, memory=100.0)
    >>> for lost in (0.5, 0.0, 0.0):
    ...     past.note(np.array([lost, 0.0]), tuples=10)
    ...     past.next_stretch()
    >>> [past.least(allowed, missing=0.05) for allowed in (0.1, 0.6)]
    [1, 0]
    """

    def __init__(self, stretches: int, span: int, memory: float) -> None:
        self.span, self._newest, self._used = span, 0, 1
        self._past = Past(
            np.zeros((stretches, len(candidates())), np.float32),
            np.zeros(stretches),
            np.exp(-np.arange(stretches) / memory),
        )

    def note(self, curve: Floats, tuples: int) -> None:
        """So many tuples have come in the newest stretch, and this is what each slack would have lost of them.

        A curve may end early: longer slacks lose nothing.
        """
        at = self._newest % len(self._past.tuples)
        self._past.loss[at, : len(curve)] += curve * tuples
        self._past.tuples[at] += tuples

    def next_stretch(self) -> None:
        """Begin another stretch; the oldest is forgotten."""
        self._newest += 1
        self._used = min(self._used + 1, len(self._past.tuples))
        at = self._newest % len(self._past.tuples)
        self._past.loss[at] = 0
        self._past.tuples[at] = 0

    @property
    def known(self) -> float:
        """How far the past can be trusted: after n periods the next one is worse than all with chance 1 / (n + 1)."""
        periods = self._used / self.span
        return periods / (periods + 1)

    def least(self, allowed: float, missing: float) -> int:
        """The least candidate that would have lost more than `allowed` in no more than this share of the periods.

        Nor in nearly all of the last few stretches: a change that lasts is answered before it has spoilt a period.
        """
        past, most = self._past, len(self._past.loss[0]) - 1
        return least_candidate(past, self._newest, self._used, self.span, LATELY, allowed, missing, most)

    def as_arrays(self) -> dict[str, npt.NDArray[Any]]:
        """All state; stretches from the oldest on, candidates as far as any of them loses something."""
        order = np.arange(self._newest - self._used + 1, self._newest + 1) % len(self._past.tuples)
        losing = np.flatnonzero(self._past.loss[order].any(axis=0))
        return {
            "loss": self._past.loss[order, : int(losing[-1]) + 1 if len(losing) else 1],
            "tuples": self._past.tuples[order],
        }

    def restore(self, arrays: Mapping[str, npt.NDArray[Any]]) -> None:
        """Take over what `as_arrays` of another one, made with the same arguments, gave."""
        loss, tuples = arrays["loss"], arrays["tuples"]
        self._past.loss[:], self._past.tuples[:] = 0, 0
        self._used, self._newest = len(tuples), len(tuples) - 1
        self._past.loss[: len(tuples), : loss.shape[1]], self._past.tuples[: len(tuples)] = loss, tuples
