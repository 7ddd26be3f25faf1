"""From a bound query to a physical plan.

Equalities between two streams become hash keys, everything else a residual condition; filters stay with their input.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import replace
from typing import Any

import pyarrow as pa

from slackwater.core.errors import UsageError
from slackwater.core.join_kinds import JoinKind
from slackwater.core.options import Options
from slackwater.core.quality import asks_estimates
from slackwater.core.results import DSTREAM, ISTREAM
from slackwater.core.schema import UTC, Kind
from slackwater.core.window_graph import WindowGraph
from slackwater.expressions.functions import text_of_one
from slackwater.expressions.tree import Call, Column, Expr, columns_of, streams_of
from slackwater.language.asof import AsOfQuery
from slackwater.language.bound import AggregateQuery, BoundQuery, InstantQuery, JoinQuery, UnionQuery, is_chain
from slackwater.language.derived import aggregate_leaves_as, groups_of, leaves_as
from slackwater.language.distinct import DistinctQuery
from slackwater.language.estimates import estimate_columns
from slackwater.language.top import TopQuery
from slackwater.operators.aggregate.algebra import AggregateSpec
from slackwater.operators.aggregate.having import Having
from slackwater.operators.contract import OperatorSpec
from slackwater.operators.join.absence import OuterJoin
from slackwater.operators.join.algorithms import ALGORITHMS
from slackwater.operators.join.operator import WindowJoin
from slackwater.operators.join.probing import Equality
from slackwater.operators.join.tree import JoinTree, left_deep
from slackwater.operators.relation_to_stream import RelationToStream
from slackwater.plan.asof import plan_as_of
from slackwater.plan.distinct import plan_distinct
from slackwater.plan.emission import emitting
from slackwater.plan.graph_builder import plan_chain, plan_union
from slackwater.plan.instant import on_engines, plan_instant
from slackwater.plan.layout import InputLayout, partition_columns
from slackwater.plan.ordering import check_no_join_options, in_turn, ordering_of
from slackwater.plan.other_windows import aggregate_over, counting, landmarks_of
from slackwater.plan.partitioning import partitioning_of
from slackwater.plan.physical import InputPlan, OutputColumn, PhysicalPlan
from slackwater.plan.rate_model import Expected
from slackwater.plan.rate_order import in_order
from slackwater.plan.selected import emitted_for, identities, nulls_of, output_column
from slackwater.plan.sizes import check_sizes, kept_places, weights_of
from slackwater.plan.top import plan_top

MULTIWAY, BINARY = "multiway", "binary"
SHAPES = (MULTIWAY, BINARY)
PlanKind = Callable[[Any, bool, bool], PhysicalPlan]
"""Plans a query of one kind by itself: whether results are only counted, and whether to add what identifies them."""


def plan(
    query: BoundQuery,
    *,
    count_only: bool = False,
    identities: bool = False,
    expected: Mapping[str, Expected] | None = None,
) -> PhysicalPlan:
    """The plan of a query.

    `identities` adds what tells results apart: a column `_row_<alias>` per stream of a join, keys and aggregates not
    selected, and what change rows say to a judge (`core.emitting`).
    `expected` says what is known of streams beforehand, by alias or by source.
    """
    ordered, orders = in_order(query, expected or {})
    made = on_engines(emitting(_plan(ordered, count_only, identities)), expected or {})
    if _holds_results(made.query):
        made = replace(made, operator=RelationToStream(made.operator, made.query.out.every or 0))
    if identities and made.emit.changes:
        made = replace(made, judged=True)
    return replace(made, orders=orders, partitioning=partitioning_of(made, expected), weights=weights_of(made))


def _plan(query: BoundQuery, count_only: bool, identities: bool) -> PhysicalPlan:
    if is_chain(query):
        return _plan_chain(query, count_only, identities)
    _check_relation_to_stream(query, count_only)
    physical = _plan_one(query, count_only, identities)
    _check_parts(query, physical.inputs)
    check_sizes(query)
    return physical


def _plan_one(query: BoundQuery, count_only: bool, identities: bool) -> PhysicalPlan:
    """The plan of one operator, by the kind of the query."""
    plan_kind: PlanKind = PLANNERS[type(query)]
    return plan_kind(query, count_only, identities)


def _holds_results(query: BoundQuery) -> bool:
    """Whether results are held before they are emitted; the rows of a window are new with every window."""
    return query.out.kind == DSTREAM or (isinstance(query, JoinQuery) and query.out.kind != ISTREAM)


def _check_relation_to_stream(query: BoundQuery, count_only: bool) -> None:
    """Refuse what only results that are emitted as they are made can have."""
    if not _holds_results(query):
        return
    if count_only:
        raise UsageError(f"--count counts results when they are made; leave it out, or leave out {query.out}")
    if query.options.shape == BINARY:
        raise UsageError(f"option shape = 'binary' does not go with {query.out}; leave it out")


def _plan_chain(query: BoundQuery, count_only: bool, identities: bool) -> PhysicalPlan:
    """A query of several operators. Its results have no members that could be told apart."""
    if count_only:
        raise UsageError("--count counts the results of one join; around this query write SELECT COUNT(*)")
    check_no_join_options(query.options, "one join of streams, not for a query of several operators")
    physical = plan_chain(query, lambda one: _plan_one(one, False, identities and isinstance(one, AggregateQuery)))
    _check_parts(query, physical.inputs)
    check_sizes(query)
    return physical


def _with_identities(query: JoinQuery) -> JoinQuery:
    told = query.streams[:1] if query.kind.one_sided else query.streams
    return replace(query, outputs=query.outputs + identities(told))


def _plan_join(query: JoinQuery, count_only: bool, identified: bool) -> PhysicalPlan:
    query = _with_identities(query) if identified else query
    layouts = [InputLayout(stream, i) for i, stream in enumerate(query.streams)]
    equalities, conditions = [], []
    for condition in query.conditions:
        sides = _equal_sides(condition)
        if sides is None:
            conditions.append(condition)
            continue
        (left, left_expr), (right, right_expr) = sides
        left_row = layouts[left].value(left_expr, "join key")
        equalities.append(Equality(left, left_row, right, layouts[right].value(right_expr, "join key")))
    conditions = [text_of_one(condition, lambda part: _taken_in(part, layouts)) for condition in conditions]
    read = sorted({pair for condition in conditions for pair in columns_of(condition)})
    columns = tuple((stream, name, layouts[stream].column(name)) for stream, name in read)
    selected = () if count_only else query.outputs
    read_of_rows = (*(item.expr for item in selected), *query.kept)
    emitted = emitted_for(read_of_rows)
    emit = tuple((stream, layouts[stream].column(name)) for stream, name in emitted)
    inputs = tuple(layout.finish(query.options.clock_by, query.options.size_by) for layout in layouts)
    ordering = ordering_of(query.options, len(query.streams), in_turn(query))
    windows, graph = _windows(query)
    rows = max(one.rows for one in inputs)
    operator = WindowJoin(windows, tuple(equalities), tuple(conditions), columns, emit, rows, count_only, graph)
    outputs = tuple(output_column(item, query.streams, emitted) for item in selected)
    made: OperatorSpec = _shaped(_by_algorithm(counting(operator, query), query.options), query.options, inputs)
    if query.kind is not JoinKind.INNER:
        pairs = replace(operator, count_only=False)
        nulls = nulls_of(query.streams, emitted)
        closing = tuple((layouts[0].column(one.name), one.most, one.required) for one in query.closing)
        made = OuterJoin(pairs, query.kind, nulls, rows, query.kept, emitted, count_only, closing)
    return PhysicalPlan(
        query,
        inputs,
        made,
        outputs,
        emitted,
        query.quality,
        query.options,
        ordering=ordering,
    )


def _taken_in(part: Expr, layouts: list[InputLayout]) -> Column:
    """A part of a condition that is computed when the tuples of its stream are taken in; a constant, with any."""
    stream = min(streams_of(part), default=0)
    return Column(stream, layouts[stream].named(part), part.kind)


def _windows(query: JoinQuery) -> tuple[tuple[int, ...], WindowGraph | None]:
    """One window per stream, and the graph of windows between them where those do not say it all."""
    if not query.bounds:
        return tuple(stream.range or 0 for stream in query.streams), None
    graph = WindowGraph(len(query.streams), query.bounds)
    return graph.windows, None if graph.plain else graph


def _by_algorithm(join: WindowJoin, options: Options) -> WindowJoin:
    """The join by the engine, or by the algorithm that is asked for."""
    if options.join is None:
        if options.windows is not None:
            raise UsageError(
                f"option windows = '{options.windows}' is for join = 'nested_loop', 'hash' or 'merge'; without it every"
                " pair is looked up by its own window, and there is nothing to choose. Leave it out"
            )
        return join
    make = ALGORITHMS.find(options.join)
    if make is None:
        raise UsageError(f"option join = '{options.join}': there is {', '.join(ALGORITHMS.names())}")
    if options.shape != MULTIWAY:
        raise UsageError(f"option join = '{options.join}' is for shape = '{MULTIWAY}' alone")
    return make(join, options.windows)


def _shaped(join: WindowJoin, options: Options, inputs: tuple[InputPlan, ...]) -> WindowJoin | JoinTree:
    """The join as one operator, or as a tree of operators of two inputs."""
    shape = options.shape
    if shape not in SHAPES:
        raise UsageError(f"option shape = '{shape}': there is {' and '.join(SHAPES)}")
    if shape == MULTIWAY:
        return join
    if join.streams == 1:
        raise UsageError(f"option shape = '{shape}' is for joins of two streams or more")
    return left_deep(join, () if options.size_by is None else kept_places(inputs))


def _check_parts(query: BoundQuery, inputs: tuple[InputPlan, ...]) -> None:
    clock_by = query.options.clock_by
    if clock_by is None:
        return
    schemas = [one.stream.schema for one in inputs if one.stream.query is None]
    for column in {name: None for schema in schemas for name in partition_columns(clock_by, schema)}:
        if not any(column in schema for schema in schemas):
            names = ", ".join(one.stream.alias for one in inputs)
            what = "of that name" if column == clock_by else f"'{column}'"
            raise UsageError(f"option clock_by = '{clock_by}': there is no column {what} in {names}")


def _equal_sides(condition: Expr) -> tuple[tuple[int, Expr], tuple[int, Expr]] | None:
    """The two streams of an equality that a hash can serve, each with its side."""
    if not isinstance(condition, Call) or condition.op != "=":
        return None
    left, right = condition.args
    reads = streams_of(left), streams_of(right)
    if len(reads[0]) != 1 or len(reads[1]) != 1 or reads[0] == reads[1]:
        return None
    return (next(iter(reads[0])), left), (next(iter(reads[1])), right)


def _plan_aggregate(query: AggregateQuery, count_only: bool, identities: bool) -> PhysicalPlan:
    if count_only:
        raise UsageError("--count counts the results of a join; an aggregate already counts, with COUNT(*)")
    # How it is cut into shards is checked where that is found out.
    check_no_join_options(replace(query.options, shards_by=None), "joins alone")
    layout = InputLayout(query.stream, 0)
    keys = tuple(layout.value(key.expr, "group key") for key in query.keys)
    specs = []
    for call in query.aggregates:
        if call.argument is None:
            specs.append(AggregateSpec(call.function))
        else:
            row = layout.value(call.argument, "argument")
            spec = AggregateSpec(call.function, row, call.argument.kind, call.parameter)
            if call.by is not None:
                spec = replace(spec, by=layout.value(call.by, "argument"), float_by=call.by.kind is Kind.FLOAT)
            specs.append(spec)
    truths = tuple(layout.value(landmark, "landmark") for landmark in landmarks_of(query.stream))
    one = layout.finish(query.options.clock_by)
    operator = aggregate_over(query.stream, keys, tuple(specs), one.rows, truths)
    if asks_estimates(query.quality):
        operator = replace(operator, estimated=True)
    columns = groups_of(query).schema.names
    if query.having:
        operator = replace(operator, having=Having(query.having, columns))
    emitted = tuple((0, name) for name in columns) if query.computed else ()
    return PhysicalPlan(
        query, (one,), operator, _aggregate_outputs(query, identities), emitted, query.quality, query.options
    )


def _aggregate_outputs(query: AggregateQuery, identities: bool) -> tuple[OutputColumn, ...]:
    """Window bounds, then keys and aggregates as selected; kernel columns are start, end, keys, aggregates."""
    known: dict[str, OutputColumn] = {}
    for i, key in enumerate(query.keys):
        known[key.name] = OutputColumn(key.name, key.expr.kind, leaves_as(key.expr, (query.stream,)), 2 + i)
    for i, call in enumerate(query.aggregates):
        known[call.name] = OutputColumn(
            call.name, call.kind, aggregate_leaves_as(call, (query.stream,)), 2 + len(query.keys) + i
        )
    shown = query.order
    if asks_estimates(query.quality):
        behind = 2 + len(query.keys) + len(query.aggregates)
        beside = {call.name: estimate_columns(call.name) for call in query.aggregates}
        names = [name for own in beside.values() for name in own]
        known |= {name: OutputColumn(name, Kind.FLOAT, pa.float64(), behind + i) for i, name in enumerate(names)}
        shown = tuple(name for own in query.order for name in (own, *beside.get(own, ())))
    groups = (groups_of(query),)
    for item in query.computed:
        known[item.name] = OutputColumn(item.name, item.expr.kind, leaves_as(item.expr, groups), None, item.expr)
    hidden = [name for name in known if identities and name not in shown]
    bounds = (OutputColumn("window_start", Kind.TIME, UTC, 0), OutputColumn("window_end", Kind.TIME, UTC, 1))
    return (*bounds, *(known[name] for name in (*shown, *hidden)))


PLANNERS: Mapping[type, PlanKind] = {
    JoinQuery: _plan_join,
    AggregateQuery: _plan_aggregate,
    UnionQuery: plan_union,
    DistinctQuery: plan_distinct,
    AsOfQuery: plan_as_of,
    TopQuery: plan_top,
    InstantQuery: plan_instant,
}
"""By the kind of a query."""
