"""What a plan costs, and which of two plans is better.

A plan is a tree and an engine for each of its operators. Its parts are its row operators, one by one, and its fragments
on the column engine. The *utilisation* of a plan is the sum of the costs of its parts (Eq. 6.6), its *bottleneck* the
largest of them (Eq. 6.5). A part can keep up if it costs at most a second a second. The paper lets all parts run beside
each other, so there a plan is feasible if its bottleneck is at most 1. In a shard of ours all parts take turns on one
core, so here its utilisation must be; `one_core` tells which of the two is meant.

Better (Definition 6.1) is: feasible rather than not; of two feasible plans the one of less utilisation; of two others
the one that is less overloaded, which is the one that holds the higher rate.

Invariant: `parts_of` is the definition of a plan's cost; the search must find what is best by it.

References: 004 §6.3.1, Eq. 6.4 to 6.6, Definition 6.1 (§6.3.2).
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from slackwater.expressions.relational import Placement
from slackwater.operators.instant.fragments import COLUMN, ROW
from slackwater.plan.placement.operator_costs import OperatorCosts, stays_by_tuple

Floats = npt.NDArray[np.float64]


@dataclass(frozen=True)
class Cost:
    """The cost of a plan, or of a part of it."""

    bottleneck: float
    utilisation: float


@dataclass(frozen=True)
class Objective:
    """What the best plan is."""

    feasibility: bool = True
    """Whether it is asked if a plan can keep up; without, the plan of least utilisation is the best."""
    one_core: bool = True
    """Whether parts take turns, as in a shard; else each has a core of its own, as in the paper."""

    def load(self, cost: Cost) -> float:
        """What must be at most 1 for a plan to keep up."""
        return cost.utilisation if self.one_core else cost.bottleneck

    def is_feasible(self, cost: Cost) -> bool:
        return self.load(cost) <= 1

    def rank(self, cost: Cost) -> tuple[int, float]:
        """Of two plans the better one has the lower rank; of equal ranks, both are as good as each other."""
        if not self.feasibility or self.is_feasible(cost):
            return 0, cost.utilisation
        return 1, self.load(cost)

    def is_better(self, cost: Cost, other: Cost) -> bool:
        """Whether a plan is strictly better than another (Definition 6.1)."""
        return self.rank(cost) < self.rank(other)

    def order(self, bottleneck: Floats, utilisation: Floats) -> npt.NDArray[np.intp]:
        """Positions of plans, best first. Where ranks are equal, less utilisation comes first."""
        load = utilisation if self.one_core else bottleneck
        over = (load > 1) & self.feasibility
        return np.lexsort((utilisation, np.where(over, load, utilisation), over))

    def best(self, bottleneck: Floats, utilisation: Floats) -> int:
        """The position of the first of `order`."""
        load = utilisation if self.one_core else bottleneck
        over = (load > 1) & self.feasibility
        if not over.all():
            return int(np.argmin(np.where(over, np.inf, utilisation)))
        return int(np.lexsort((utilisation, load))[0])


@dataclass(frozen=True)
class Part:
    """A row operator, or a fragment on the column engine."""

    engine: str
    operators: tuple[int, ...]
    """Numbers of its operators, the topmost one last."""
    cost: float
    transfer_in: float = 0.0
    transfer_out: float = 0.0
    """Of a fragment: how much of its cost is for rows that go over and come back; a statement is with the latter."""


def parts_of(operators: OperatorCosts, placement: Placement) -> tuple[Part, ...]:
    """The parts of a plan with their costs, each after those it reads."""
    found: list[Part] = []
    engines = iter(placement)
    engine_of = {number: next(engines) for number, one in enumerate(operators.tree) if one.is_operator}
    by_tuple: dict[int, bool] = {}
    open_parts: dict[int, Part] = {}
    for number, one in enumerate(operators.tree):
        if not one.is_operator:
            by_tuple[number] = True
        elif engine_of[number] == ROW:
            for below in one.inputs:
                if below in open_parts:
                    found.append(_ended(operators, open_parts.pop(below)))
            kept = len(one.inputs) == 1 and by_tuple[one.inputs[0]]
            by_tuple[number] = kept and stays_by_tuple(one.node)
            found.append(Part(ROW, (number,), operators.by_row(number, kept)))
        else:
            by_tuple[number] = False
            merged = [open_parts.pop(below) for below in one.inputs if below in open_parts]
            crossing = sum(
                operators.transfer_in(below, by_tuple[below])
                for below in one.inputs
                if engine_of.get(below, ROW) == ROW
            ) + sum(part.transfer_in for part in merged)
            numbers = tuple(inside for part in merged for inside in part.operators)
            executed = operators.by_column(number) + sum(part.cost for part in merged)
            open_parts[number] = Part(COLUMN, (*numbers, number), executed, crossing)
    for part in open_parts.values():
        found.append(_ended(operators, part))
    return tuple(found)


def _ended(operators: OperatorCosts, part: Part) -> Part:
    out = operators.transfer_out(part.operators[-1])
    return Part(COLUMN, part.operators, part.cost + part.transfer_in + out, part.transfer_in, out)


def cost_of(parts: tuple[Part, ...]) -> Cost:
    """Bottleneck and utilisation of a plan with these parts (Eq. 6.5, 6.6)."""
    return Cost(max((part.cost for part in parts), default=0.0), sum(part.cost for part in parts))
