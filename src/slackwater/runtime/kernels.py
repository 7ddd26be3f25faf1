"""From a physical plan to the kernel that every runtime hosts."""

from __future__ import annotations

from slackwater.disorder.registry import controller_for
from slackwater.expressions.columnar import Coding
from slackwater.model.errors import UsageError
from slackwater.model.ordering import SYNC
from slackwater.operators.aggregate import WindowAggregate
from slackwater.operators.composed.registry import composed_controller
from slackwater.operators.contract import Operator
from slackwater.operators.graph import OperatorGraph
from slackwater.operators.graph_operator import GraphOperator
from slackwater.operators.join.operator import WindowJoin
from slackwater.operators.join.tree import JoinTree
from slackwater.operators.ordering.join import OrderedJoin
from slackwater.operators.ordering.operator import OrderedOperator
from slackwater.operators.ordering.tree import OrderedTree
from slackwater.operators.pipeline import Epochs, Pipeline
from slackwater.operators.union import StreamUnion
from slackwater.plan.physical import PhysicalPlan
from slackwater.sources.codebook import Codebook


def kernel_for(plan: PhysicalPlan, epochs: Epochs, codebook: Codebook, max_ahead: int | None = None) -> Pipeline:
    """A fresh kernel for a plan; text literals get their codes from the codebook.

    `max_ahead` replaces the plan's where the runtime judges poisoned clocks itself.
    """
    spec = plan.operator
    outgoing = plan.relation_to_stream
    operator: Operator
    if outgoing is not None:
        operator = outgoing.build(codebook.code, codebook.table)
    elif isinstance(spec, WindowAggregate):
        operator = spec.build(codebook.table)
    elif isinstance(spec, StreamUnion):
        operator = spec.build()
    elif isinstance(spec, OperatorGraph):
        operator = spec.build(Coding(codebook), codebook.table)
    else:
        operator = _joining(plan, spec, epochs, codebook)
    options = plan.options
    if options.idle_after is not None and epochs.each_tuple:
        raise UsageError(
            "option idle_after is for epochs, in which time moves with all streams together: say --epoch '1 s', or"
            " epochs=slackwater.Epochs(span=1_000_000); tuple by tuple, idle_timeout does it"
        )
    if isinstance(operator, GraphOperator) and isinstance(spec, OperatorGraph):
        controller = composed_controller(plan.quality, options, operator, spec.streams)
    else:
        controller = controller_for(plan.quality, options, plan.windows)
    ahead = options.max_ahead if max_ahead is None else max_ahead
    return Pipeline(
        spec, operator, controller, epochs, ahead, options.idle_timeout, plan.partition_slots, plan.weights,
        plan.target, plan.learning_key, options.max_behind, options.idle_after, options.retention is None,
    )  # fmt: skip


def _joining(plan: PhysicalPlan, spec: WindowJoin | JoinTree, epochs: Epochs, codebook: Codebook) -> Operator:
    """The operator of a join; in tuple release with its strategy for order."""
    ordering = plan.ordering
    if ordering.strategy == SYNC or not epochs.each_tuple:
        return spec.build(codebook.code)
    if isinstance(spec, JoinTree):
        return OrderedTree(spec.whole, spec.nodes, codebook.code, ordering)
    return OrderedOperator(OrderedJoin(spec, codebook.code), ordering)
