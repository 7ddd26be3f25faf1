"""The plan of a query over instantaneous windows: its tree over as few streams and columns as it needs.

Invariant: entries of FROM that read the same source under the same filters become one input, so a tuple is read, held
and kept once, however many windows it is in. The tree of the plan reads inputs by position.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace

from slackwater.core.errors import UsageError
from slackwater.core.schema import UTC, Kind
from slackwater.expressions.relational import Placement, Relation, Scan
from slackwater.expressions.tree import Expr, Literal, conjunction, with_columns
from slackwater.language.bound import InstantQuery, StreamRef
from slackwater.operators.instant.adapting import TableStatistics
from slackwater.operators.instant.fragments import COLUMN, ROW, reading
from slackwater.operators.instant.pruning import pruned
from slackwater.operators.instant.spec import InstantRelation
from slackwater.plan.layout import InputLayout
from slackwater.plan.ordering import check_no_join_options
from slackwater.plan.physical import OutputColumn, PhysicalPlan
from slackwater.plan.placement.learning import CostBased, statistics_of
from slackwater.plan.placement.place import place
from slackwater.plan.placement.statistics import ASSUMED, RECORDED, STATED, Statistics
from slackwater.plan.rate_model import Expected

AUTO = "auto"
ENGINES = (AUTO, ROW, COLUMN)


def plan_instant(
    query: InstantQuery, count_only: bool, identities: bool, placement: Placement | None = None
) -> PhysicalPlan:
    """Rows are identified by their values, so nothing is added for `identities`."""
    if count_only:
        raise UsageError("--count counts the results of a join; leave it out, or select COUNT(*)")
    check_no_join_options(query.options, "joins of streams, not for windows of one instant")
    query, read_by = over_few_streams(query)
    layouts = [InputLayout(stream, at) for at, stream in enumerate(query.streams)]
    read: dict[int, tuple[str, ...]] = {
        scan.stream: tuple(column.name for column in scan.columns) for scan in _scans(query.relation)
    }
    places = tuple(tuple((name, layout.column(name)) for name in read.get(at, ())) for at, layout in enumerate(layouts))
    inputs = tuple(layout.finish(query.options.clock_by) for layout in layouts)
    operator = InstantRelation(query.relation, query.slide, places, max(one.rows for one in inputs), placement)
    bounds = (OutputColumn("window_start", Kind.TIME, UTC, 0), OutputColumn("window_end", Kind.TIME, UTC, 1))
    columns = tuple(
        OutputColumn(column.name, column.kind, column.arrow, 2 + at) for at, column in enumerate(query.relation.columns)
    )
    outputs = (*bounds, *columns)
    return PhysicalPlan(query, inputs, operator, outputs, (), query.quality, query.options, read_by=read_by)


def on_engines(plan: PhysicalPlan, expected: Mapping[str, Expected]) -> PhysicalPlan:
    """The plan with its tree as it costs least, and every operator on the engine that is best for it; any other plan as
    it is. Rates are those that are expected; what is not known is assumed, and learned while the query runs."""
    spec = plan.operator.as_relations
    if spec is None:
        for name in ("engine", "expected_rate"):
            if getattr(plan.options, name) is not None:
                raise UsageError(f"option {name} is for queries over windows that slide together; leave it out")
        return plan
    return _placed(plan, spec, _statistics(plan, spec.slide, expected))


def on_engines_by(
    plan: PhysicalPlan, spec: InstantRelation, statistics: TableStatistics, rates: Mapping[int, float]
) -> PhysicalPlan:
    """The same for streams that are there to be counted; `spec` is its operator."""
    return _placed(plan, spec, statistics_of(spec.as_stated, statistics, spec.slide, RECORDED, rates))


def _placed(plan: PhysicalPlan, spec: InstantRelation, statistics: Statistics) -> PhysicalPlan:
    asked = plan.options.engine or AUTO
    if asked not in ENGINES:
        raise UsageError(f"option engine = '{asked}': there is {', '.join(ENGINES)}")
    stated, automatic = spec.as_stated, asked == AUTO
    placed = place(stated, statistics, only=None if automatic else asked)
    planner = CostBased(placed.costs) if automatic else None
    chosen = replace(spec, relation=placed.relation, placement=placed.placement, stated=stated, planner=planner)
    return replace(plan, operator=chosen, placed=placed)


def _statistics(plan: PhysicalPlan, slide: int, expected: Mapping[str, Expected]) -> Statistics:
    streams = [one.stream for one in plan.inputs]
    stated = plan.options.expected_rate
    found = Statistics(slide, {})
    rates = {}
    for at, stream in enumerate(streams):
        one = expected.get(stream.alias) or expected.get(stream.source)
        rate = one.rate if one is not None else stated
        if rate is not None:
            rates[at] = rate * found.selectivity(conjunction(stream.filters) or Literal(True, Kind.BOOL))
    return Statistics(slide, rates, source=RECORDED if expected else ASSUMED if stated is None else STATED)


def _scans(relation: Relation) -> list[Scan]:
    return [relation] if isinstance(relation, Scan) else [one for below in relation.inputs for one in _scans(below)]


def over_few_streams(query: InstantQuery) -> tuple[InstantQuery, tuple[int, ...]]:
    """The query with one entry of FROM for each source and its filters, and without columns that nothing reads; and of
    every entry that it had, the position of that one."""
    first: dict[tuple[str, frozenset[Expr]], int] = {}
    becomes: list[int] = []
    streams: list[StreamRef] = []
    for stream in query.streams:
        key = (stream.source, frozenset(_of_stream(one, 0) for one in stream.filters))
        if key not in first:
            first[key] = len(streams)
            filters = tuple(_of_stream(one, len(streams)) for one in stream.filters)
            streams.append(replace(stream, filters=filters))
        at = first[key]
        becomes.append(at)
        streams[at] = replace(streams[at], range=max(streams[at].range or 0, stream.range or 0))
    relation = pruned(_renumbered(query.relation, becomes))
    return replace(query, streams=tuple(streams), relation=relation), tuple(becomes)


def _of_stream(expr: Expr, stream: int) -> Expr:
    return with_columns(expr, lambda column: replace(column, stream=stream))


def _renumbered(relation: Relation, becomes: list[int]) -> Relation:
    if isinstance(relation, Scan):
        return replace(relation, stream=becomes[relation.stream])
    return reading(relation, *(_renumbered(below, becomes) for below in relation.inputs))
