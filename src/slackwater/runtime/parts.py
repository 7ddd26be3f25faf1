"""The names of the parts of streams whose clocks are wrong."""

from __future__ import annotations

from typing import Any

import numpy as np

from slackwater.kernel import Observation
from slackwater.model.schema import Kind
from slackwater.model.wrong_clocks import WrongClock, wrong_clocks
from slackwater.plan.physical import PhysicalPlan
from slackwater.sources.codebook import Codebook


def named_wrong_clocks(plan: PhysicalPlan, codebook: Codebook, seen: Observation) -> tuple[WrongClock, ...]:
    """Which parts have wrong clocks, by the values of the column that tells them apart."""
    found = wrong_clocks(seen.parts, plan.options.max_ahead, plan.options.max_behind)
    return tuple(WrongClock(plan.inputs[p.stream].stream.alias, _name(plan, codebook, p.stream, p.name), ahead)
                 for p, ahead in found)  # fmt: skip


def _name(plan: PhysicalPlan, codebook: Codebook, stream: int, word: int) -> Any:
    one = plan.inputs[stream]
    kinds = [kind for _, kind, row in one.columns if row == one.partition_slot]
    if Kind.TEXT in kinds:
        return codebook.decode(np.array([word])).to_pylist()[0]
    return word
