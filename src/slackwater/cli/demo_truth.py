"""What a contender of the demo has found of the truth, over time.

Invariant: results leave in timestamp order, so at any time those emitted are to be compared with the true ones up to
the watermark, and over a period with those between two watermarks.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass

import numpy as np

from slackwater.core.batch import Words
from slackwater.core.state import Emission
from slackwater.core.time import AFTER_ALL, BEFORE_ALL
from slackwater.observe.value import QueryProgress


@dataclass(frozen=True)
class Truth:
    """The true results by their timestamps, as a running count.

    >>> truth = Truth(np.array([5, 7]), np.array([2, 3]))
    >>> truth.total, truth.up_to(4), truth.up_to(5), truth.up_to(100)
    (3, 0, 2, 3)
    """

    times: Words
    counts: Words

    @classmethod
    def of(cls, emissions: Iterable[Emission]) -> Truth:
        """The results of a run that lost none."""
        parts = [(one.ts, np.ones_like(one.ts) if one.multiplicity is None else one.multiplicity) for one in emissions]
        nothing = np.zeros(0, np.int64)
        times = np.concatenate([nothing, *(ts for ts, _ in parts)])
        weights = np.concatenate([nothing, *(multiplicity for _, multiplicity in parts)])
        order = np.argsort(times, kind="stable")
        return cls(times[order], np.cumsum(weights[order]))

    @property
    def total(self) -> int:
        return int(self.counts[-1]) if len(self.counts) else 0

    def up_to(self, time: int) -> int:
        """How many results have a timestamp up to this one."""
        before = int(np.searchsorted(self.times, time, "right"))
        return int(self.counts[before - 1]) if before else 0


def recent_recall(progress: Sequence[QueryProgress], truth: Truth, period: int) -> list[float | None]:
    """Each time the recall of the results of the last period, or since the beginning; None before there is any.

    >>> from dataclasses import replace
    >>> from slackwater.observe.value import nothing_observed
    >>> truth = Truth(np.array([0, 10, 20, 30]), np.array([1, 2, 3, 4]))
    >>> course = ((BEFORE_ALL, 0), (10, 1), (20, 1), (30, 2))
    >>> seen = [replace(nothing_observed(2), watermark=time, results=results) for time, results in course]
    >>> recent_recall([QueryProgress(observed=one) for one in seen], truth, period=20)
    [None, 0.5, 0.3333333333333333, 0.5]
    """
    found: list[float | None] = []
    before = 0
    seen = [one.observed for one in progress]
    for i, now in enumerate(seen):
        if now.watermark == BEFORE_ALL:
            found.append(None)
            continue
        watermark = now.watermark
        if watermark == AFTER_ALL and len(truth.times):
            # Once everything is emitted the period ends with the last result.
            watermark = int(truth.times[-1])
        while before + 1 < i and seen[before + 1].watermark <= watermark - period:
            before += 1
        since = seen[before] if seen[before].watermark <= watermark - period else None
        true = truth.up_to(watermark) - (0 if since is None else truth.up_to(since.watermark))
        made = now.results - (0 if since is None else since.results)
        found.append(min(1.0, made / true) if true else None)
    return found
