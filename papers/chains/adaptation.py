"""When the configuration of a subplan changes at run time: triggers, and whether a change is worth what it costs.

A query's controller reports a slack, kappa, again and again. A trigger says at which report the configuration is
computed anew:

- *eager*: at each that differs from the slack in force.
- *lazy*: when every query has reported since the last adaptation.
- *lambda-lazy*: when a share lambda of the queries has.

What is *in force*: an adaptation takes all slacks as they were last reported. Until the next one that is made, each
query waits for the slack it had then, whatever is reported meanwhile; the release that goes with an adaptation is
already by the new slacks. Before the first, the slacks that the subplan started with are in force. A trigger that fires
while every slack last reported equals the one in force makes no adaptation, and starts to count anew.

Moving tuples takes time, in which no query gets anything. An adaptation that only takes slack away is made for shorter
latency, so it is left out if its *latency penalty* LP is not smaller than the largest slack that it takes away. LP is
linear in the number of tuples to move, and learned from what adaptations took. One that gives slack to any query is
made for quality, and always made.

Invariant: a kernel knows no time, so who runs the subplan says how long adaptations took.

References: 004 §5.5.1 (triggers), §5.5.2 (latency penalty).
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from math import ceil

from papers.chains.chain import Out, SharedSlack
from papers.chains.configuration import Configuration
from papers.chains.placement import Placement, opt
from papers.chains.subplan import Demand, Number, Subplan

NAIVE_REUSE, SMART_REUSE = "naive", "smart"


@dataclass
class Trigger:
    """Says at which report the configuration is computed anew; a share of 0 is eager, of 1 lazy."""

    share: float = 0.0
    _reported: set[int] = field(default_factory=set)

    def fires(self, leaf: int, differs: bool, leaves: int) -> bool:
        """One query has reported; `differs`: not what is in force.

        >>> lazy = Trigger(share=1.0)
        >>> [lazy.fires(leaf, True, leaves=2) for leaf in (1, 1, 2, 2)]
        [False, False, True, False]
        """
        if self.share == 0:
            return differs
        self._reported.add(leaf)
        if len(self._reported) < ceil(self.share * leaves):
            return False
        self._reported.clear()
        return True


TRIGGERS: dict[str, float] = {"eager": 0.0, "lazy": 1.0, "0.5-lazy": 0.5}
"""The share of queries, by the names of the paper."""


@dataclass
class LatencyPenalty:
    """LP: what an adaptation takes (in microseconds), as a line over the number of tuples it moves.

    The line is the least-squares one through all adaptations so far. Before two different numbers were seen it is flat.

    >>> penalty = LatencyPenalty()
    >>> for moved, took in ((0, 10.0), (100, 30.0), (200, 50.0)):
    ...     penalty.learn(moved, took)
    >>> penalty.of(1000)
    210.0
    """

    _n: int = 0
    _mean_moved: float = 0.0
    _mean_took: float = 0.0
    _spread: float = 0.0
    _together: float = 0.0

    def learn(self, moved: int, took: float) -> None:
        """An adaptation moved so many tuples, and took so long."""
        self._n += 1
        off = moved - self._mean_moved
        self._mean_moved += off / self._n
        self._mean_took += (took - self._mean_took) / self._n
        self._spread += off * (moved - self._mean_moved)
        self._together += off * (took - self._mean_took)

    def of(self, moved: int) -> float:
        """What one that moves so many is taken to take."""
        slope = self._together / self._spread if self._spread else 0.0
        return max(0.0, self._mean_took + slope * (moved - self._mean_moved))


class AdaptiveSlack:
    """The buffers of a subplan, kept at what its queries need."""

    def __init__(
        self,
        plan: Subplan,
        demand: Demand,
        placement: Placement = opt,
        trigger: Trigger | None = None,
        smart: bool = True,
    ) -> None:
        self.plan = plan
        self.placement = placement
        self.smart = smart
        self.trigger = trigger or Trigger()
        self.penalty = LatencyPenalty()
        self.in_force: list[Number] = list(demand.kappa)
        """By operator; of leaves only."""
        self.reported: list[Number] = list(demand.kappa)
        self.adaptations = self.suppressed = 0
        self.slack = SharedSlack(plan, placement(plan, demand))

    def report(self, leaf: int, kappa: Number) -> bool:
        """A query's controller has chosen; says whether the configuration is to be computed anew."""
        self.reported[leaf] = kappa
        return self.trigger.fires(leaf, kappa != self.in_force[leaf], len(self.plan.leaves)) and (
            self.reported != self.in_force
        )

    def computed(self, selectivity: Sequence[Number]) -> Configuration:
        """The configuration for what is reported now."""
        return self.placement(self.plan, Demand(selectivity, self.reported))

    def profitless(self, configuration: Configuration) -> bool:
        """Whether a change takes slack away only, and no more of it than the change would take time."""
        given = [new - old for new, old in zip(self.reported, self.in_force, strict=True)]
        if max(given) > 0:
            return False
        return self.penalty.of(self.slack.to_move(configuration, self.smart)) >= -min(given)

    def adapt(self, configuration: Configuration) -> tuple[Out, int] | None:
        """Change to a configuration that was computed, unless that is profitless, and release what is due.

        Returns what reached leaves, and how many tuples were moved or copied.
        """
        moved = self.change(configuration)
        return None if moved is None else (self.slack.release(), moved)

    def change(self, configuration: Configuration) -> int | None:
        """As `adapt`, but nothing is released yet; returns how many tuples were moved or copied."""
        if self.profitless(configuration):
            self.suppressed += 1
            return None
        moved = self.slack.change(configuration, self.smart)
        self.in_force = list(self.reported)
        self.adaptations += 1
        return moved
