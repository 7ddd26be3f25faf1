"""Queries inside queries: every one of them planned as a node, and the nodes put together into a graph.

Invariant: a node is planned as if each of its sub-queries were a stream; the projection between two nodes then does for
results what taking in does for rows. Raw streams are numbered in the order of the text.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable
from dataclasses import replace
from typing import Any

from slackwater.core.batch import FIRST_COLUMN
from slackwater.core.options import Options
from slackwater.language.bound import BoundQuery, UnionQuery, raw_streams
from slackwater.language.derived import columns_of_result, result_schema
from slackwater.operators.contract import GraphNode, OperatorSpec
from slackwater.operators.graph import OperatorGraph
from slackwater.operators.inputs import from_node
from slackwater.operators.projection import Carried, Projection
from slackwater.operators.union import StreamUnion
from slackwater.plan.physical import IN_TURN, InputPlan, OutputColumn, PhysicalPlan
from slackwater.plan.sizes import carrying, members_carried

PlanOne = Callable[[Any], PhysicalPlan]
"""Plans one of the queries by itself."""


def plan_chain(query: BoundQuery, plan_one: PlanOne) -> PhysicalPlan:
    """The plan of a query that has others inside it."""
    builder = _Builder(query, plan_one)
    builder.add(query, ())
    nodes = [plan for plan, _ in builder.nodes]
    rows = max(one.rows for one in builder.inputs)
    graph = OperatorGraph(
        tuple(
            GraphNode(_with_rows(plan.operator, rows), inputs, builder.outlets.get(number))
            for number, (plan, inputs) in enumerate(builder.nodes)
        ),
        rows,
    )
    return replace(
        nodes[-1], query=query, inputs=tuple(builder.inputs), operator=graph, quality=query.quality,
        options=query.options, nodes=tuple(nodes), ordering=IN_TURN,
    )  # fmt: skip


def _with_rows(operator: Any, rows: int) -> OperatorSpec:
    """The operator of a node, with room for every row of a raw tuple."""
    widened: OperatorSpec = replace(operator, rows=max(rows, operator.rows))
    return widened


class _Builder:
    """Collects nodes, each behind those it reads, and the raw streams they read."""

    def __init__(self, query: BoundQuery, plan_one: PlanOne) -> None:
        self._plan_one = plan_one
        # What is said for the whole query and is not of one operator.
        asked = query.options
        self._options = Options(clock_by=asked.clock_by, sampling=asked.sampling, size_by=asked.size_by)
        self._aliases = Counter(stream.alias for stream in raw_streams(query))
        self.inputs: list[InputPlan] = []
        self.nodes: list[tuple[PhysicalPlan, tuple[int, ...]]] = []
        self.outlets: dict[int, Projection] = {}

    def add(self, query: BoundQuery, path: tuple[str, ...], carries: bool = False) -> int:
        """Add a query and all inside it; returns the number of its node.

        `carries`: its results say which events they are made of.
        """
        alone = replace(query, options=self._options)
        plan = self._plan_one(alone)
        plan = carrying(plan) if carries else plan
        read = []
        for one in plan.inputs:
            stream = one.stream
            if stream.query is None:
                named = replace(stream, alias=self._label(stream.alias, path))
                read.append(len(self.inputs))
                self.inputs.append(replace(one, stream=named, position=len(self.inputs)))
            else:
                below = self.add(stream.query, (*path, stream.alias), carries=bool(one.members))
                self.outlets[below] = _projection(self.nodes[below][0], one)
                read.append(from_node(below))
        self.nodes.append((plan, tuple(read)))
        return len(self.nodes) - 1

    def _label(self, alias: str, path: tuple[str, ...]) -> str:
        """What a raw stream is called in reports: its alias, and where two have the same, with the way to it."""
        return alias if self._aliases[alias] == 1 else ".".join((*path, alias))


def _projection(below: PhysicalPlan, above: InputPlan) -> Projection:
    given = {column.name: column for column in below.outputs}
    read = tuple(Carried(name, row, given[name].source, given[name].expr) for name, _, row in above.columns)
    return Projection(
        below.emitted,
        above.stream.schema.time,
        read + members_carried(len(below.emitted), above),
        above.stream.filters,
        above.computed,
        above.rows,
        above.all_rows,
    )


def plan_union(query: UnionQuery, count_only: bool, identities: bool) -> PhysicalPlan:
    """Every sub-query puts its columns into the same rows."""
    width = len(query.outputs)
    inputs = []
    for position, stream in enumerate(query.streams):
        own = enumerate(columns_of_result(stream.schema), FIRST_COLUMN)
        columns = tuple((field.name, field.kind, row) for row, field in own)
        inputs.append(InputPlan(stream, position, columns, (), FIRST_COLUMN + width, FIRST_COLUMN + width))
    fields = columns_of_result(result_schema(query))
    outputs = tuple(OutputColumn(field.name, field.kind, field.arrow, at) for at, field in enumerate(fields))
    emitted = tuple((0, field.name) for field in fields)
    operator = StreamUnion(len(inputs), width, FIRST_COLUMN + width)
    return PhysicalPlan(query, tuple(inputs), operator, outputs, emitted, query.quality, query.options)
