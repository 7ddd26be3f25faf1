"""From a physical plan to the kernel that every runtime hosts."""

from __future__ import annotations

from slackwater.disorder.controllers import controller_for
from slackwater.operators.aggregate import WindowAggregate
from slackwater.operators.pipeline import Epochs, Pipeline
from slackwater.plan.physical import PhysicalPlan
from slackwater.sources.codebook import Codebook


def kernel_for(plan: PhysicalPlan, epochs: Epochs, codebook: Codebook) -> Pipeline:
    """A fresh kernel for a plan; text literals get their codes from the codebook."""
    spec = plan.operator
    operator = spec.build() if isinstance(spec, WindowAggregate) else spec.build(codebook.code)
    options = plan.options
    controller = controller_for(plan.quality, options)
    return Pipeline(spec, operator, controller, epochs, options.max_ahead, options.idle_timeout)
