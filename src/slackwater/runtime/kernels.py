"""From a physical plan to the kernel that every runtime hosts."""

from __future__ import annotations

from slackwater.disorder.registry import learning_key
from slackwater.expressions.columnar import Coding
from slackwater.model.errors import UsageError
from slackwater.model.quality import uncapped
from slackwater.operators.composed.registry import controller_of
from slackwater.operators.contract import BuildContext, OperatorSpec
from slackwater.operators.ordering.build import IN_TURN, build_ordered, may_be_eager
from slackwater.operators.pipeline import Epochs, Pipeline
from slackwater.plan.ordering import in_turn, ordering_of
from slackwater.plan.physical import PhysicalPlan
from slackwater.plan.relation_to_stream import relation_to_stream
from slackwater.plan.sizes import weights_of
from slackwater.sources.codebook import Codebook


def kernel_for(plan: PhysicalPlan, epochs: Epochs, codebook: Codebook, max_ahead: int | None = None) -> Pipeline:
    """A fresh kernel for a plan; text literals get their codes from the codebook.

    `max_ahead` replaces the plan's where the runtime judges poisoned clocks itself.
    """
    options, quality = plan.options, plan.quality
    spec: OperatorSpec = relation_to_stream(plan) or plan.operator
    ordering = ordering_of(options, spec.streams, in_turn(plan.query)) if may_be_eager(spec) else IN_TURN
    context = BuildContext(Coding(codebook), codebook.table)
    operator = build_ordered(spec, context, ordering if epochs.each_tuple else IN_TURN)
    if options.idle_after is not None and epochs.each_tuple:
        raise UsageError(
            "option idle_after is for epochs, in which time moves with all streams together: say --epoch '1 s', or"
            " epochs=slackwater.Epochs(span=1_000_000); tuple by tuple, idle_timeout does it"
        )
    return Pipeline(
        spec,
        operator,
        controller_of(spec, operator, quality, options, plan.windows),
        epochs,
        options.max_ahead if max_ahead is None else max_ahead,
        options.idle_timeout,
        plan.partition_slots,
        weights_of(plan),
        str(uncapped(quality)),
        learning_key(quality, options, plan.windows) + operator.learning_key(quality),
        options.max_behind,
        options.idle_after,
        options.retention is None,
    )
