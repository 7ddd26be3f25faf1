"""The order of a join's probes, chosen anew now and then by what they have found.

Invariant: the results of a join are the same on any route; so a choice may be made at any tuple, and is not persisted:
after a restore the join begins with the routes of its plan, and learns again.

References: Viglas, Naughton, Burger: MJoin, VLDB 2003; Babu et al.: Adaptive ordering of pipelined stream filters,
SIGMOD 2004.
"""

from __future__ import annotations

from collections.abc import Callable

import numpy as np

from slackwater.core.batch import Floats, Words
from slackwater.operators.join.cells import HashIndex
from slackwater.operators.join.probe_order import cheapest_probe_order, cost_of
from slackwater.operators.join.probe_stats import probe_stats_of
from slackwater.operators.join.probing import Linkage, ProbeOrder, ProbePlan, plan_probes
from slackwater.operators.join.search import Probes, probes_of
from slackwater.operators.join.selectivity import Learned, Selectivities

EARLY, MORE = 1 << 10, 4
"""Work counted before the first choice, and how much more there is to be before each further one."""
LATE = 1 << 12
"""What stops this growth, for every set of streams that may be bound and each stream to come after it: choosing looks
at all of these, which takes about a hundredth of the time that so much work does."""
DEAD_BAND = 0.8
"""A route is left only for one that costs less than this part of it."""

Choose = Callable[[Linkage, int, ProbeOrder, Selectivities], ProbeOrder]


def cheaper(linkage: Linkage, root: int, now: ProbeOrder, known: Selectivities) -> ProbeOrder:
    """The cheapest route, where it is worth leaving the present one."""
    best, cost = cheapest_probe_order(linkage, root, known)
    return best if cost < DEAD_BAND * cost_of(linkage, root, now, known) else now


class AdaptiveProbes:
    """The probes of a join, as they are now."""

    def __init__(
        self,
        linkage: Linkage,
        windows: Words,
        most: Words | None,
        count_only: bool,
        in_time_only: bool = False,
        choose: Choose = cheaper,
        early: int = EARLY,
    ) -> None:
        self._linkage, self._windows, self._most, self._count_only, self._choose = (
            linkage,
            windows,
            most,
            count_only,
            choose,
        )
        self._in_time_only = in_time_only
        self.probe_orders = [linkage.probe_order(root) for root in range(linkage.streams)]
        self._learned = Learned(linkage)
        # With two streams there is one way to go; only where several classes link them is there something to choose.
        self._wait = early if linkage.streams > 2 or len(linkage.classes) > 1 else 0
        self.switches = 0
        """How many routes have been left for another."""
        self._plan = self._planned()

    def _planned(self, indexes: tuple[HashIndex, ...] = ()) -> ProbePlan:
        plan = plan_probes(self._linkage, self.probe_orders, indexes)
        self.probes: Probes = probes_of(plan, self._windows, self._most, self._count_only, self._in_time_only)
        self.probe_stats = probe_stats_of(plan, self._wait)
        return plan

    @property
    def indexes(self) -> tuple[HashIndex, ...]:
        """The hash indexes that the probes use; one that was used before stays."""
        return self._plan.indexes

    def choose(self, live: Words) -> bool:
        """Learn from what was found, and take better routes; tells whether the windows must be indexed anew."""
        there: Floats = live.astype(np.float64)
        self._learned.learn(self._plan, self.probe_stats, there)
        known = self._learned.selectivities(there)
        before, indexes = self.probe_orders, self.indexes
        self.probe_orders = [self._choose(self._linkage, root, now, known) for root, now in enumerate(before)]
        self.switches += sum(new != old for new, old in zip(self.probe_orders, before, strict=True))
        streams = self._linkage.streams
        self._wait = min(MORE * self._wait, max(self._wait, LATE * streams << streams))
        if self.probe_orders != before:
            self._plan = self._planned(indexes)
        else:
            self.probe_stats = probe_stats_of(self._plan, self._wait)
        return self.indexes != indexes
