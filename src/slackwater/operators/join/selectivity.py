"""What is known about how selective the parts of a join are, from what its probes have found.

Every class of equalities and every condition is applied once on any route, so what is measured on one route tells what
another one would find, as far as classes and conditions have nothing to do with each other. Shares are kept by arriving
stream; where a tuple of one stream has asked too rarely, what those of the others have found stands in for it.

Invariant: what a route no longer asks is remembered as it was; what it does ask is forgotten by half with every choice.

References: Selinger et al.: Access path selection, SIGMOD 1979 (selectivities multiply).
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from slackwater.core.batch import Floats, Words
from slackwater.operators.join.cells import ANY_KEY
from slackwater.operators.join.probe_stats import ASKED, EMPTY, MET, PASSED, TESTED, ProbeStats
from slackwater.operators.join.probing import (
    CHECK_BEGIN,
    CHECK_END,
    COND_BEGIN,
    COND_END,
    INDEX,
    SCAN,
    STREAM,
    Linkage,
    ProbePlan,
)

ENOUGH = 16.0
"""So often something must have been asked before the answer counts."""
UNKNOWN_CONDITION = 1 / 3
UNKNOWN_EMPTY = 0.1


@dataclass(frozen=True)
class Selectivities:
    """All shares that a choice of routes goes by."""

    live: Floats
    """Tuples in the window of every stream."""
    classes: Floats
    """[root, class, stream]: the share of a stream's window that has the key asked for."""
    conditions: Floats
    """[root, condition]: the share that passes."""
    empty: Floats
    """[root, stream]: how often a step to a stream finds nothing."""


class Learned:
    """Shares with the weight of what they were measured on."""

    def __init__(self, linkage: Linkage) -> None:
        streams = linkage.streams
        self._linkage = linkage
        self._classes = np.zeros((2, streams, len(linkage.classes), streams))
        self._conditions = np.zeros((2, streams, len(linkage.conditions)))
        self._empty = np.zeros((2, streams, streams))
        self._class_of = {place: c for c, members in enumerate(linkage.classes) for place in members}

    def learn(self, plan: ProbePlan, probe_stats: ProbeStats, live: Floats) -> None:
        """Take over what was counted while windows had about so many tuples."""
        for root in range(self._linkage.streams):
            bound = [root]
            for d, step in enumerate(plan.steps[root].tolist()):
                asked, met, empty = (int(probe_stats.steps[root, d, field]) for field in (ASKED, MET, EMPTY))
                stream = step[STREAM]
                if asked:
                    self._learn_step(plan, root, step, bound, asked, met, live)
                    _note(self._empty, (root, stream), asked, empty / asked)
                for c in range(step[CHECK_BEGIN], step[CHECK_END]):
                    if probe_stats.checks[c, TESTED]:
                        place = root, self._class_of[stream, int(plan.checks[c, 0])], stream
                        _note(self._classes, place, *_share(probe_stats.checks[c]))
                for c in range(step[COND_BEGIN], step[COND_END]):
                    if probe_stats.conditions[c, TESTED]:
                        _note(self._conditions, (root, int(plan.conditions[c])), *_share(probe_stats.conditions[c]))
                if d < plan.leaves[root]:
                    bound.append(stream)

    def _learn_step(
        self, plan: ProbePlan, root: int, step: list[int], bound: list[int], asked: int, met: int, live: Floats
    ) -> None:
        stream, row = step[STREAM], SCAN if step[INDEX] == SCAN else plan.indexes[step[INDEX]][1]
        if row in (SCAN, ANY_KEY):
            return
        there = max(1.0, live[stream] * self._linkage.time_left(stream, bound))
        place = root, self._class_of[stream, row], stream
        _note(self._classes, place, asked, min(1.0, met / asked / there))

    def selectivities(self, live: Floats) -> Selectivities:
        """What is known, or else what is usual."""
        usual = np.broadcast_to(1 / np.maximum(live, 1.0), self._classes.shape[1:])
        return Selectivities(
            live,
            _best_known(self._classes, usual),
            _best_known(self._conditions, UNKNOWN_CONDITION),
            _best_known(self._empty, UNKNOWN_EMPTY),
        )


def _share(test: Words) -> tuple[float, float]:
    return float(test[TESTED]), float(test[PASSED] / test[TESTED])


def _note(known: Floats, place: tuple[int, ...], weight: float, share: float) -> None:
    weights, shares = known
    before = weights[place] / 2
    shares[place] = (before * shares[place] + weight * share) / (before + weight)
    weights[place] = before + weight


def _best_known(known: Floats, usual: Floats | float) -> Floats:
    """By arriving stream where it has asked often enough, else over all of them, else as usual."""
    weights, shares = known
    all_weights = weights.sum(axis=0)
    of_all = (weights * shares).sum(axis=0) / np.maximum(all_weights, 1e-9)
    return np.where(weights >= ENOUGH, shares, np.where(all_weights >= ENOUGH, of_all, usual))
