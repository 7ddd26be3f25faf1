"""Constants are found again from what plans take, also where measurements are not exact."""

from __future__ import annotations

import random

import numpy as np
import pytest

from slackwater.plan.placement.calibration import PlanToRun, calibrated, plans_to_run
from slackwater.plan.placement.costs import CONSTANTS, Costs
from slackwater.plan.placement.fitting import errors_of, non_negative, units_of
from slackwater.plan.placement.place import operator_costs
from slackwater.plan.placement.plan_cost import cost_of, parts_of

STORED = 2e-7
"""What a tuple costs before any operator sees it."""


def other_machine(seed: int) -> Costs:
    chance = random.Random(seed)
    return Costs(**{name: getattr(Costs(), name) * 4 ** chance.uniform(-1, 1) for name in CONSTANTS})


def estimated(plan: PlanToRun, costs: Costs) -> float:
    return cost_of(parts_of(operator_costs(plan.relation, plan.statistics, costs), plan.placement)).utilisation


@pytest.mark.parametrize("noise", [0.0, 0.1])
def test_the_costs_of_another_machine_are_found(noise: float) -> None:
    for seed in range(3):
        truth, chance = other_machine(seed), random.Random(seed)

        def run(plan: PlanToRun, truth: Costs = truth, chance: random.Random = chance) -> float:
            streams = len(plan.statistics.rates)
            return (estimated(plan, truth) + streams * plan.rate * STORED) * (1 + noise * chance.uniform(-1, 1))

        found, plans = calibrated(run, "there")
        assert found.measured == "there"
        exact = [estimated(plan, truth) for plan in plans_to_run()]
        ratio = [estimated(plan, found) / one for plan, one in zip(plans_to_run(), exact, strict=True)]
        assert np.quantile(ratio, [0.1, 0.9]) == pytest.approx([1, 1], abs=0.25)
        before = [estimated(plan, Costs()) / one for plan, one in zip(plans_to_run(), exact, strict=True)]
        assert np.std(np.log(ratio)) < 0.3 * np.std(np.log(before))
        assert len(errors_of(plans, found)) == len(plans)


def test_every_constant_is_told_by_some_plan() -> None:
    told = sum(
        units_of(plan) > 0 for plan in calibrated(lambda plan: 1.0, "")[1]
    )  # fmt: skip
    assert [name for name, n in zip(CONSTANTS, told, strict=True) if n == 0] == []


def test_no_constant_is_negative() -> None:
    chance = np.random.default_rng(0)
    for _ in range(200):
        equations, wanted = chance.normal(size=(12, 5)), chance.normal(size=12)
        found = non_negative(equations, wanted)
        assert (found >= 0).all()
        gradient = equations.T @ (wanted - equations @ found)
        assert (gradient <= 1e-8).all(), "nothing is gained by more of any"
        assert np.abs(gradient[found > 0]).max(initial=0) < 1e-8
