"""Constants found from whole plans: what units of work must cost so that estimates come near to what was measured.

The cost of a plan is linear in the constants: each constant times the units of that work that the plan does in a
second. So plans that were run give one equation each, and the constants are the least squares of their relative errors.
Tuples cost something before any operator sees them (they are stored in windows, on either engine alike); that is one
more unknown, and of no use to a comparison of plans.

Invariant: a constant is never negative, and never less than a small part of what it was: nothing is free. One of which
the measured plans tell nothing stays what it was.

References: 004 §6.3.2, unit processing costs.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import asdict, dataclass
from typing import Any

import numpy as np

from slackwater.expressions.relational import Placement, Relation, scans
from slackwater.plan.placement.costs import CONSTANTS, Costs
from slackwater.plan.placement.operator_costs import OperatorCosts
from slackwater.plan.placement.plan_cost import Floats, cost_of, parts_of
from slackwater.plan.placement.sizes import numbered, sizes_of
from slackwater.plan.placement.statistics import Statistics

BELIEF = 0.1
"""How much a constant holds on to what it was: a relative error of one in one constant weighs as much as this relative
error of a plan."""
LEAST = 0.05
"""The least part of what it was that a constant can become."""


@dataclass(frozen=True)
class MeasuredPlan:
    """A plan that was run over streams whose statistics are known."""

    relation: Relation
    placement: Placement
    statistics: Statistics
    seconds: float
    """What it took for the tuples of one second."""


def units_of(plan: MeasuredPlan) -> Floats:
    """How many units of each constant's work a plan does in a second."""
    tree = numbered(plan.relation)
    sizes = sizes_of(tree, plan.statistics)

    def cost(**constants: Any) -> float:
        unit = Costs(**{**dict.fromkeys(CONSTANTS, 0.0), **constants})
        return cost_of(parts_of(OperatorCosts(tree, sizes, plan.statistics.slides, unit), plan.placement)).utilisation

    return np.array([cost(**{name: 1.0}) for name in CONSTANTS])


def fitted(plans: Sequence[MeasuredPlan], before: Costs, measured: str) -> Costs:
    """The constants that explain measured plans best."""
    old = np.array([getattr(before, name) for name in CONSTANTS])
    old = np.where(old > 0, old, 1e-9)
    units = [units_of(plan) for plan in plans]
    # A machine that is slower in everything says nothing about one constant beside another.
    old *= np.median([plan.seconds / float(one @ old) for plan, one in zip(plans, units, strict=True)])
    rows, wanted = [], []
    for plan, one in zip(plans, units, strict=True):
        taken = sum(plan.statistics.rate(stream) for stream in {window.stream for window in scans(plan.relation)})
        # Unknowns are multiples of the old constants; the last one is what storing a tuple costs.
        rows.append(np.append(one * old, taken * before.row_add) / plan.seconds)
        wanted.append(1.0)
    belief = BELIEF * np.eye(len(old) + 1)[:-1]
    found = non_negative(np.vstack([*rows, belief]), np.array([*wanted, *[BELIEF] * len(old)]))[:-1]
    constants = dict(zip(CONSTANTS, (np.maximum(found, LEAST) * old).tolist(), strict=True))
    return Costs(**{**asdict(before), **constants, "measured": measured})


def non_negative(equations: Floats, wanted: Floats) -> Floats:
    """The least squares of `equations @ x = wanted` with no x below zero, by active sets.

    >>> non_negative(np.array([[1.0, 0.0], [0.0, 1.0], [1.0, 1.0]]), np.array([2.0, -1.0, 1.0])).round(3).tolist()
    [1.5, 0.0]
    """
    n = equations.shape[1]
    inside = np.zeros(n, np.bool_)
    found = np.zeros(n)
    for _ in range(3 * n):
        gradient = equations.T @ (wanted - equations @ found)
        gradient[inside] = -np.inf
        best = int(np.argmax(gradient))
        if gradient[best] <= 1e-10:
            break
        inside[best] = True
        while True:
            tried = np.zeros(n)
            tried[inside] = np.linalg.lstsq(equations[:, inside], wanted, rcond=None)[0]
            if (tried[inside] > 0).all():
                break
            below = inside & (tried <= 0)
            # As far towards the new point as nothing becomes negative; what is zero there leaves.
            step = float(np.min(found[below] / (found[below] - tried[below])))
            found = found + step * (tried - found)
            inside &= found > 1e-15
            found[~inside] = 0.0
            if not inside.any():
                return found
        found = tried
    return found


def errors_of(plans: Sequence[MeasuredPlan], costs: Costs) -> Floats:
    """Estimated over measured seconds, for each plan."""
    old = np.array([getattr(costs, name) for name in CONSTANTS])
    return np.array([float(units_of(plan) @ old) / plan.seconds for plan in plans])
