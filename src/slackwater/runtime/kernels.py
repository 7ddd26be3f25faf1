"""From a physical plan to the kernel that every runtime hosts."""

from __future__ import annotations

from slackwater.core.errors import UsageError
from slackwater.expressions.columnar import Coding
from slackwater.operators.composed.registry import controller_of
from slackwater.operators.contract import BuildContext, OperatorSpec
from slackwater.operators.in_order.build import IN_TURN, build_ordered, may_be_eager
from slackwater.operators.pipeline import Epochs, Pipeline
from slackwater.plan.physical import PhysicalPlan
from slackwater.sources.codebook import Codebook


def kernel_for(plan: PhysicalPlan, epochs: Epochs, codebook: Codebook, max_ahead: int | None = None) -> Pipeline:
    """A fresh kernel for a plan; text literals get their codes from the codebook.

    `max_ahead` replaces the plan's where the runtime judges poisoned clocks itself.
    """
    options = plan.options
    if options.idle_after is not None and epochs.each_tuple:
        raise UsageError(
            "option idle_after is for epochs, in which time moves with all streams together: say --epoch '1 s', or"
            " epochs=slackwater.Epochs(span=1_000_000); tuple by tuple, idle_timeout does it"
        )
    spec: OperatorSpec = plan.relation_to_stream or plan.operator
    ordering = plan.ordering if may_be_eager(spec) and epochs.each_tuple else IN_TURN
    operator = build_ordered(spec, BuildContext(Coding(codebook), codebook.table), ordering)
    return Pipeline(
        spec,
        operator,
        controller_of(spec, operator, plan.quality, options, plan.windows),
        epochs,
        options.max_ahead if max_ahead is None else max_ahead,
        options.idle_timeout,
        plan.partition_slots,
        plan.weights,
        plan.target,
        plan.learning_key,
        options.max_behind,
        options.idle_after,
        options.retention is None,
    )
