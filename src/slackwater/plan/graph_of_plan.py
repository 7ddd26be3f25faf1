"""From a physical plan to the graph of its nodes.

A join is source -> slack -> synchronizer -> join, for each of its streams. Where tuples are joined as they leave their
slack (Filter-Order) the synchronizer stands behind the join instead, and brings its results into order; where results
leave on arrival there is none. In a tree of joins and in a query of several operators, every operator of several inputs
has a synchronizer of its own, and what an operator below gives needs no slack: it is in order.

Invariant: nothing is decided here. A node tells what the plan says of it, and a graph can be built from any plan.

The keys of attributes, by kind of node:

- source: stream, source, time, columns (what is shipped), clock_by
- filter: stream, conditions
- slack: stream, quality, at_once (whether tuples pass as they arrive, and slack is how long they stay findable),
  max_ahead_us, max_behind_us, idle_timeout_us, idle_after, initial_slack_us
- synchronizer: inputs (their names), strategy, alpha, of ("tuples" before an operator, "results" behind one)
- operator: operator ("join", "asof", "aggregate", "selection", "union", "distinct", "top"), streams, columns,
  needs_order; of joins shape, windows, between, equalities, conditions, algorithm, because, probe_order, counted; of
  as-of joins outer, equalities, conditions, strict, within_us; of aggregates windows, keys, aggregates, having; of
  distinct windows, keys; of top most, keys, order, range_us
- relation_to_stream: relation_to_stream ("ISTREAM", "DSTREAM", "RSTREAM"), every_us, holds, and in `emit`: kind,
  every_us, error, correctable_us, change_key
- output: columns, counted, quality, quality_stated, shard_keys, one_shard_because, join_orders (of windows that follow
  rates: order, because, and where rates are known expected_tuples and expected_bytes); of joins that are cut by rows
  parts_by_rows (for some numbers of shards, in how many parts each stream is cut), of joins that are cut by place tiles
  (home: the stream that is not copied; axes: columns of both streams, and how wide a tile is)
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import Any

from slackwater.core.results import ADAPTIVE, FILTER
from slackwater.disorder.release.state import NO_PARTITION
from slackwater.expressions.render import render
from slackwater.operators.description import Described, Detail
from slackwater.operators.inputs import node_of, reads_node
from slackwater.plan.explain_emission import describe_emission
from slackwater.plan.explain_rates import explain_order
from slackwater.plan.explain_waiting import explain_ordering, explain_waiting
from slackwater.plan.fragments import upper
from slackwater.plan.graph import ROW, NodeKind, PlanGraph, PlanNode
from slackwater.plan.grid import Grid
from slackwater.plan.names import aliases_of, columns_given, columns_shipped, describe_node, row_name
from slackwater.plan.physical import InputPlan, PhysicalPlan
from slackwater.plan.placement.explain import operator_nodes, placement_notes
from slackwater.plan.placement.place import Placed
from slackwater.plan.rate_order import JoinOrder
from slackwater.plan.tiling import Tiling

TOLD_SHARDS = (4, 16)
"""For so many shards it is told how a join without a key is cut; it has the fewer unless more are asked for."""


def graph_of(plan: PhysicalPlan, quality_stated: bool = True) -> PlanGraph:
    """The graph of one query; `quality_stated` says whether its text has a WITH clause."""
    builder = _Builder(plan, quality_stated)
    last = builder.operators()
    builder.results(last)
    notes = [explain_waiting(plan, quality_stated), *map(explain_order, plan.orders), Detail(_sharded(plan))]
    if plan.placed is not None:
        aliases = [one.stream.alias for one in plan.inputs]
        notes += placement_notes(plan.placed, aliases, adapts=plan.options.engine in (None, "auto"))
    return PlanGraph(tuple(builder.nodes), tuple(notes))


class _Builder:
    """Collects the nodes of a plan, each behind those it reads."""

    def __init__(self, plan: PhysicalPlan, quality_stated: bool) -> None:
        self._plan, self._quality_stated = plan, quality_stated
        self._operators = 0
        self.nodes: list[PlanNode] = []

    def _add(
        self,
        kind: NodeKind,
        name: object,
        described: Described,
        inputs: Sequence[str] = (),
        engine: str = ROW,
    ) -> str:
        """Add a node; returns its id. Names of streams are free, so two could make the same id."""
        id_ = f"{kind}.{name}" if name != "" else str(kind)
        while any(node.id == id_ for node in self.nodes):
            id_ += "'"
        node = PlanNode(
            id_, kind, described.label, tuple(inputs), described.attributes, tuple(described.details), engine
        )
        self.nodes.append(node)
        return id_

    def operators(self) -> str:
        """All operators with what they read; returns the id of the last one, or of what brings its results in order.

        They are counted as in the graph of operators, and raw streams are called what reports call them.
        """
        plan, nodes = self._plan, self._plan.operator.all_nodes
        raw = [] if plan.nodes else [self._raw(one) for one in plan.inputs]
        if plan.placed is not None:
            return self._relations(plan.placed, raw)
        made: list[str] = []
        for number, node in enumerate(nodes):
            own = plan.nodes[number] if plan.nodes else plan
            described, reads = describe_node(plan, number)
            ids, taken = [], []
            for at, read in enumerate(node.inputs):
                if not reads_node(read):
                    ids.append(raw[read] if raw else self._raw(plan.inputs[read]))
                elif plan.nodes:
                    one, below = own.inputs[at], node_of(read)
                    ids.append(self._filtered(one, made[below], f"operator.{below + 1}"))
                    taken.append(Detail(f"takes of {one.stream.alias}: {', '.join(columns_shipped(one))}"))
                else:
                    ids.append(made[node_of(read)])
            last = number + 1 == len(nodes)
            given = [Detail(f"output: {', '.join(columns_given(own))}")] if plan.nodes and not last else []
            described = replace(described, details=(*given, *taken, *described.details))
            made.append(self._operator(own, described, list(reads), ids, last))
        return made[-1]

    def _relations(self, placed: Placed, raw: list[str]) -> str:
        """The operators of a query over instantaneous windows, each with its engine."""
        windows = dict(enumerate(raw))
        if len(raw) > 1:
            inputs = [one.stream.alias for one in self._plan.inputs]
            windows = dict.fromkeys(windows, self._synchronizer(1, inputs, raw, last=True, results=False))
        self.nodes += operator_nodes(placed, windows, [one.stream.alias for one in self._plan.inputs])
        return self.nodes[-1].id

    def _raw(self, one: InputPlan) -> str:
        """A raw stream up to where it leaves its slack."""
        plan, stream = self._plan, one.stream
        alias, columns = stream.alias, columns_shipped(one)
        reading = "" if stream.source in (alias, "") else f", reading {stream.source}"
        clock_by = None if one.partition_slot == NO_PARTITION else plan.options.clock_by
        attributes: dict[str, Any] = {"stream": alias, "source": stream.source, "time": stream.schema.time}
        attributes |= {"columns": columns, "clock_by": clock_by}
        ships = (Detail(f"ships {', '.join(columns)}"),)
        below = self._add(NodeKind.SOURCE, alias, Described(f"source {alias}{reading}", attributes, ships))
        below = self._filtered(one, below, alias)
        release, options = plan.release, plan.options
        slack = {
            "stream": alias,
            "quality": str(plan.quality),
            "at_once": release.at_once,
            "max_ahead_us": options.max_ahead,
            "max_behind_us": release.max_behind,
            "idle_timeout_us": release.idle_timeout,
            "idle_after": release.idle_after,
            "initial_slack_us": options.initial_slack,
        }
        passing = ": tuples pass at once" if release.at_once else ""
        passing += ", windows wait" if passing and not plan.emit.on_arrival else ""
        label = f"slack of {alias}, WITH {plan.quality}{passing}"
        return self._add(NodeKind.SLACK, alias, Described(label, slack, ()), [below])

    def _filtered(self, one: InputPlan, below: str, name: str) -> str:
        """What of an input passes the conditions on it alone."""
        conditions = [render(condition) for condition in one.stream.filters]
        if not conditions:
            return below
        attributes = {"stream": one.stream.alias, "conditions": conditions}
        return self._add(
            NodeKind.FILTER, name, Described(f"filter {' and '.join(conditions)}", attributes, ()), [below]
        )

    def _operator(
        self, plan: PhysicalPlan, described: Described, names: list[str], inputs: list[str], last: bool
    ) -> str:
        """An operator, with a synchronizer before it, or behind it where it takes tuples before their turn; with none
        where it takes them as they arrive."""
        self._operators += 1
        number = self._operators
        several, early = len(inputs) > 1 and not plan.operator.at_once, self._plan.ordering.strategy == FILTER
        if several and not early:
            inputs = [self._synchronizer(number, names, inputs, last, results=False)]
        made = self._add(NodeKind.OPERATOR, number, described, inputs, plan.engine)
        return self._synchronizer(number, names, [made], last, results=True) if several and early else made

    def _synchronizer(self, number: int, names: list[str], inputs: list[str], last: bool, results: bool) -> str:
        ordering = self._plan.ordering
        of = "results of " if results else ""
        attributes = {
            "inputs": names,
            "strategy": ordering.strategy,
            "alpha": ordering.alpha if ordering.strategy == ADAPTIVE else None,
            "of": "results" if results else "tuples",
        }
        details = tuple(explain_ordering(self._plan)) if last else ()
        label = f"synchronizer of {of}{', '.join(names)}, in event-time order"
        return self._add(NodeKind.SYNCHRONIZER, number, Described(label, attributes, details), inputs)

    def results(self, last: str) -> None:
        """How results are emitted, and as what."""
        plan = self._plan
        last = self._add(NodeKind.RELATION_TO_STREAM, "", describe_emission(plan), [last])
        columns = columns_given(plan)
        attributes: dict[str, Any] = {
            "columns": columns,
            "counted": plan.count_only,
            "quality": str(plan.quality),
            "quality_stated": self._quality_stated,
            "shard_keys": _shard_keys(plan),
            "one_shard_because": plan.partitioning.why or None,
            "last_operator": _last_operator(plan),
            "join_orders": [_join_order(order) for order in plan.orders],
        }
        if plan.partitioning.axes:
            attributes["tiles"] = _tiles(plan)
        elif plan.partitioning.rates:
            attributes["parts_by_rows"] = {str(count): _parts(plan, count) for count in TOLD_SHARDS}
        label = "output: counted by second" if plan.count_only else f"output: {', '.join(columns)}"
        self._add(NodeKind.OUTPUT, "", Described(label, attributes, ()), [last])


def _last_operator(plan: PhysicalPlan) -> dict[str, Any] | None:
    """How the last operator is cut, where it is apart from the others."""
    above = plan.partitioning.above
    return None if above is None else {"shard_keys": _shard_keys(upper(plan)), "one_shard_because": above.why or None}


def _parts(plan: PhysicalPlan, shards: int) -> dict[str, int]:
    """In how many parts every input is cut, where it is cut by rows."""
    grid = plan.partitioning.cut(shards)
    assert isinstance(grid, Grid)
    return {one.stream.alias: parts for one, parts in zip(plan.inputs, grid.parts, strict=True)}


def _cut(plan: PhysicalPlan, shards: int) -> str:
    parts = _parts(plan, shards)
    cut = [f"{alias} in {count} parts" for alias, count in parts.items() if count > 1]
    whole = [f"{alias} goes to all" for alias, count in parts.items() if count == 1]
    return ", ".join(cut + whole)


def _tiles(plan: PhysicalPlan) -> dict[str, Any]:
    """Where a join is cut by place: the stream that is not copied, and along what."""
    tiling = plan.partitioning.cut(TOLD_SHARDS[0])
    assert isinstance(tiling, Tiling)
    aliases = aliases_of(plan)
    axes = [
        {
            "columns": {aliases[one.stream]: row_name(plan, one.stream, one.row) for one in (band.left, band.right)},
            "width": width,
        }
        for band, width in zip(tiling.axes, tiling.widths, strict=True)
    ]
    return {"home": aliases[tiling.home], "axes": axes}


def _placed(plan: PhysicalPlan) -> str:
    tiles = _tiles(plan)
    home, axes = tiles["home"], tiles["axes"]
    (other,) = (alias for alias in aliases_of(plan) if alias != home)
    widths = " by ".join(f"{axis['width']:.6g}" for axis in axes)
    columns = ", ".join(f"{alias}.{axis['columns'][alias]}" for alias in (home, other) for axis in axes)
    return (
        f"without a common key, in shards by place: tiles of {widths} on {columns}; a tuple of {home} goes to"
        f" the shard of its tile, one of {other} to those of all tiles within reach"
    )


def _shard_keys(plan: PhysicalPlan) -> dict[str, list[str]] | None:
    """The columns of every input that choose the shard."""
    keys = plan.partitioning.keys
    if keys is None or plan.partitioning.rates:
        return None
    return {
        one.stream.alias: [row_name(plan, at, row) for row in rows]
        for at, (one, rows) in enumerate(zip(plan.inputs, keys, strict=True))
    }


def _join_order(chosen: JoinOrder) -> dict[str, Any]:
    cost = chosen.cost
    return {
        "order": [chosen.aliases[number] for number in chosen.order],
        "because": chosen.why,
        "expected_tuples": None if cost is None else cost.tuples,
        "expected_bytes": None if cost is None else cost.bytes,
    }


def _sharded(plan: PhysicalPlan) -> str:
    above = plan.partitioning.above
    if above is None:
        return f"on Spark: {_cut_into_shards(plan)}"
    last = _cut_into_shards(upper(plan))
    return f"on Spark: in two steps; the first {_cut_into_shards(plan)}; the last operator {last}"


def _cut_into_shards(plan: PhysicalPlan) -> str:
    if plan.partitioning.axes:
        return _placed(plan)
    if plan.partitioning.rates and len(plan.inputs) == 1:
        return "in shards by rows, as partial results"
    if plan.partitioning.rates:
        told = "; ".join(f"of {count} shards, {_cut(plan, count)}" for count in TOLD_SHARDS)
        return f"without a common key, in shards by rows: {told}"
    keys = _shard_keys(plan)
    if keys is None:
        return f"in one shard, because {plan.partitioning.why}"
    return f"in shards by {', '.join(f'{alias}.{name}' for alias, names in keys.items() for name in names)}"
