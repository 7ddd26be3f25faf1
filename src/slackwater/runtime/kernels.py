"""From a physical plan to the kernel that every runtime hosts."""

from __future__ import annotations

from slackwater.disorder.chosen import controller_for
from slackwater.operators.aggregate import WindowAggregate
from slackwater.operators.pipeline import Epochs, Operator, Pipeline
from slackwater.plan.physical import PhysicalPlan
from slackwater.plan.ways_out import way_out
from slackwater.sources.codebook import Codebook


def kernel_for(plan: PhysicalPlan, epochs: Epochs, codebook: Codebook, max_ahead: int | None = None) -> Pipeline:
    """A fresh kernel for a plan; text literals get their codes from the codebook.

    `max_ahead` replaces the plan's where the runtime judges poisoned clocks itself.
    """
    spec = plan.operator
    outgoing = way_out(plan)
    operator: Operator
    if outgoing is not None:
        operator = outgoing.build(codebook.code)
    else:
        operator = spec.build() if isinstance(spec, WindowAggregate) else spec.build(codebook.code)
    options = plan.options
    controller = controller_for(plan.quality, options, plan.windows)
    ahead = options.max_ahead if max_ahead is None else max_ahead
    return Pipeline(spec, operator, controller, epochs, ahead, options.idle_timeout, plan.part_rows)
