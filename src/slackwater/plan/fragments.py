"""A query that runs in two fragments: where no key is common to all that its operators bring together, the last one is
cut off, and the shards of what is below hand on their rows to shards of its own.

Invariant: both fragments together give what the query gives in one shard. All shards of the lower one have the same
watermark after a micro-batch, and have handed on every row up to it and none beyond. So the upper one waits for nobody,
and no row from below comes late to it; a tuple of a stream that the last operator reads itself is late there iff it was
late below.
"""

from __future__ import annotations

from dataclasses import replace

from slackwater.core.batch import ROW
from slackwater.core.quality import Complete, Delay, NoWait, Recall, RelativeError, asks_estimates
from slackwater.disorder.meters import Watched
from slackwater.disorder.release.state import NO_PARTITION
from slackwater.operators.contract import GraphNode, WithoutKey
from slackwater.operators.graph import OperatorGraph
from slackwater.operators.handing import Handing, PanePartials
from slackwater.plan.physical import ONE_SHARD, PhysicalPlan
from slackwater.quality.error.answers import EXACT
from slackwater.quality.registry import STEADY


def may_be_cut(plan: PhysicalPlan) -> bool:
    """Whether a query that has no common key has a last operator that can run apart from the others: one above others,
    or an aggregate of a stream with partial results."""
    if plan.emit.changes:
        # What changes later is known where the last operator has all that it was made of.
        return False
    if plan.nodes:
        # The events of a combination are told apart by their numbers, which are those of one shard.
        return plan.options.size_by is None
    return plan.operator.without_key is WithoutKey.AS_PARTIALS


def learned(plan: PhysicalPlan) -> str | None:
    """Why a query that may be cut is not: its target."""
    if isinstance(plan.quality, Delay | NoWait | Complete):
        return None
    watched = plan.operator.watched
    if plan.options.controller in (None, STEADY) and not asks_estimates(plan.quality):
        if plan.nodes and plan.operator.windowed:
            # The rows that an aggregate should be given are found where rows are made, and judged above.
            return None
        told = watched is not None and all(one.function in (*EXACT, "MIN", "MAX") for one in watched.aggregates)
        if isinstance(plan.quality, RelativeError) and told:
            # Of an aggregate of a stream, what sums tell of adds up; and how much of a window may be missing that an
            # extreme is asked of follows from the target alone.
            return None
    return f"what {'RECALL' if isinstance(plan.quality, Recall) else 'ERROR'} must know is known where all rows meet"


def all_rows(plan: PhysicalPlan, stream: int) -> tuple[int, ...]:
    """The rows that choose a shard where any will do: all but the number of a tuple."""
    return tuple(row for row in range(plan.inputs[stream].rows) if row != ROW)


def summed(plan: PhysicalPlan) -> Watched | None:
    """The windows of the last of several operators, where sums of rows by piece are enough to judge their error."""
    watched = plan.operator.all_nodes[-1].operator.watched
    if not isinstance(plan.quality, RelativeError) or watched is None or watched.keys:
        return None
    return watched if all(one.function in EXACT for one in watched.aggregates) else None


def lower(plan: PhysicalPlan) -> PhysicalPlan:
    """The plan of the lower fragment: everything but the last operator, whose tuples are handed on."""
    operator, made = plan.operator, plan.operator.pane_partials
    if made is not None:
        return replace(plan, operator=PanePartials(made), outputs=(), emitted=())
    *below, top = operator.all_nodes
    handing = GraphNode(Handing(len(top.inputs), top.operator.rows, summed(plan)), top.inputs)
    return replace(plan, operator=OperatorGraph((*below, handing), operator.rows), outputs=(), emitted=())


def upper(plan: PhysicalPlan) -> PhysicalPlan:
    """The plan of the upper fragment: the last operator over what is handed on, as if that were streams."""
    last = plan.nodes[-1] if plan.nodes else plan
    return replace(
        last,
        inputs=tuple(replace(one, position=at, partition_slot=NO_PARTITION) for at, one in enumerate(last.inputs)),
        query=plan.query, quality=plan.quality, nodes=(), weights=plan.weights[-1:],
        options=replace(plan.options, clock_by=None, idle_timeout=None, idle_after=None),
        partitioning=plan.partitioning.above or ONE_SHARD,
        below=plan.operator if plan.nodes and isinstance(plan.quality, Recall | RelativeError) else None,
    )  # fmt: skip
