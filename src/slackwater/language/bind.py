"""From query text to a bound query.

Invariant: whatever can be known to be wrong with a query before data flows is refused here, with its place in the text.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace

from slackwater.core.errors import QueryError
from slackwater.core.join_kinds import JoinKind
from slackwater.core.options import Options
from slackwater.core.quality import Complete, Quality, Recall, RelativeError, asks_estimates
from slackwater.core.schema import Field, Kind, Schema, type_name
from slackwater.expressions.aggregates import FUNCTIONS
from slackwater.expressions.tree import Column, Literal
from slackwater.language.absence import has_absence, joins_of, why_no_recall, why_not_so
from slackwater.language.asof import AsOfQuery
from slackwater.language.asof_binding import as_of, bind_as_of
from slackwater.language.bound import (
    AggregateQuery,
    BoundQuery,
    FillingWindow,
    JoinQuery,
    LandmarkWindow,
    Match,
    Output,
    RateWindow,
    RowsQuery,
    RowWindow,
    SessionWindow,
    StreamRef,
    UnionQuery,
    is_chain,
    raw_streams,
)
from slackwater.language.chained import lifted, split
from slackwater.language.check import check, check_aliases, over_instants
from slackwater.language.composed import why_no_error, why_no_target
from slackwater.language.derived import columns_of_result, result_schema
from slackwater.language.dialect import parse, sources_of
from slackwater.language.emission import why_not_emitted
from slackwater.language.estimates import why_no_estimate
from slackwater.language.groups import bind_ranked, conjuncts_of, is_aggregation, is_event_time
from slackwater.language.instant_binding import bind_instants
from slackwater.language.kinds import KINDS
from slackwater.language.nodes import (
    MOST_STREAMS,
    TIME,
    Clause,
    Filling,
    Landmarks,
    Rate,
    Select,
    Sessions,
    Stream,
    Window,
    WindowForAll,
    place_of,
    refused,
    text_of,
)
from slackwater.language.parser import MOST_INPUTS
from slackwater.language.scalars import Scalars
from slackwater.language.scope import Scope, did_you_mean, equalities_of, matching, scope_of
from slackwater.language.selection import bind_outputs
from slackwater.language.top import TopQuery
from slackwater.language.top_binding import bind_top, bind_top_of_aggregate, ranked_by
from slackwater.language.window_bounds import bind_windows

__all__ = ["MOST_STREAMS", "Bound", "bind", "parse", "sources_of"]


@dataclass(frozen=True)
class Bound:
    """A query ready to be planned, and what its text said besides."""

    query: BoundQuery
    explain: str | None
    """The form in which the text asks for the plan, instead of the results: one of `nodes.EXPLAIN_AS`."""
    text: str
    quality_stated: bool
    """Whether the text has a WITH clause; without one the query is COMPLETE."""


def bind(text: str, schemas: Mapping[str, Schema]) -> Bound:
    """Resolve every name and type of a query over sources with these schemas.

    >>> import pyarrow as pa
    >>> from slackwater.core.schema import Field
    >>> schema = Schema((Field("ts", Kind.TIME, pa.timestamp("us")), Field("v", Kind.INT, pa.int64())), "ts")
    >>> bound = bind("SELECT SUM(v) AS total FROM s [RANGE 1 SECOND] WITH DELAY 2 SECONDS", {"s": schema})
    >>> bound.query.aggregates[0].kind.value, str(bound.query.quality)
    ('integer', 'DELAY 2 s')
    """
    query = parse(text)
    check(query)
    try:
        if over_instants(query):
            bound: BoundQuery = bind_instants(query, schemas, lambda stream: _source(stream, schemas))
        else:
            bound = _bind(query, schemas)
    except RecursionError:
        raise QueryError("an expression of this query is nested too deeply", text) from None
    bound = replace(bound, emit=query.emit)
    _check_quality(query, bound)
    _check_options(query, bound)
    _check_emission(query, bound)
    inputs = len(raw_streams(bound))
    if inputs > MOST_INPUTS:
        raise QueryError(f"a query reads at most {MOST_INPUTS} streams in all, and this one {inputs}", text)
    return Bound(bound, query.explain, text, query.target is not None)


def _bind(query: Select, schemas: Mapping[str, Schema]) -> BoundQuery:
    if query.united:
        # A target is for the whole query, and none of those that are united has one.
        return _bind_union(query, [_bind_select(one, schemas, Complete(), Options()) for one in query.all_united])
    return _bind_select(query, schemas, query.quality, query.options)


def _bind_select(select: Select, schemas: Mapping[str, Schema], quality: Quality, options: Options) -> BoundQuery:
    streams = _streams(select, schemas)
    if as_of(select) is not None:
        return bind_as_of(select, streams, quality, options)
    if has_absence(select):
        joins, scope = joins_of(select, streams, lambda inner: _streams(inner, schemas))
        if select.kind:
            return _of_kind(select, scope, joins.bound)
        if not is_aggregation(select):
            return replace(joins.bound(bind_outputs(select.items, scope)), quality=quality, options=options)
        return _aggregated(select, scope, joins.bound, quality, options)
    scope = scope_of(select, streams)
    written = [Scalars(scope, "WHERE").condition(node) for node in select.conditions]
    conjuncts = conjuncts_of([*equalities_of(scope), *written])
    streams, bounds, left = bind_windows(select, streams, conjuncts)
    filters, conditions = split(left, len(streams))
    streams = tuple(replace(stream, filters=tuple(filters[at])) for at, stream in enumerate(streams))
    scope = replace(scope, streams=streams)

    def join(outputs: tuple[Output, ...]) -> JoinQuery:
        return JoinQuery(streams, tuple(conditions), outputs, Complete(), Options(), bounds)

    if select.kind:
        return _of_kind(select, scope, None if len(streams) == 1 else join)
    if not is_aggregation(select):
        if select.top is not None:
            return bind_top(select, streams, quality, options)
        match = None if select.match is None else Match(select.match.within)
        plain = join(bind_outputs(select.items, scope))
        return replace(plain, quality=quality, options=options, out=select.out, match=match)
    return _aggregated(select, scope, None if len(streams) == 1 else join, quality, options)


def _streams(select: Select, schemas: Mapping[str, Schema]) -> tuple[StreamRef, ...]:
    check_aliases(select)
    bound = []
    for stream in select.streams:
        inner = None if stream.query is None else _bind(stream.query, schemas)
        source = "" if inner is not None else _source(stream, schemas)
        schema = schemas[source] if inner is None else result_schema(inner)
        bound.append(_with_window(StreamRef(stream.alias, source, schema, None, query=inner), stream.window))
        if inner is not None:
            _check_time(stream, bound[-1], text_of(select))
    return tuple(bound)


def _check_time(stream: Stream, bound: StreamRef, text: str) -> None:
    """Refuse windows and watermarks of another column than the event time, where one is named."""
    named = stream.meta.get(TIME)
    if named is not None and not is_event_time(named, bound, text):
        message = f"windows and watermarks go by the event time of {bound.alias}, which is {bound.schema.time}"
        raise QueryError(message, text, *place_of(named))


def _with_window(stream: StreamRef, window: Window | Landmarks | Rate | Sessions | Filling | None) -> StreamRef:
    """An entry of FROM with the window that stands in brackets after it."""
    match window:
        case Landmarks():
            # Both conditions read the stream the window stands after, and nothing else.
            scope = Scope(text_of(window), (stream,))
            start = Scalars(scope, "START WHEN").condition(window.start)
            end = None if window.end is None else Scalars(scope, "END WHEN").condition(window.end)
            return replace(stream, window=LandmarkWindow(start, end, window.slide))
        case Rate():
            return replace(stream, window=RateWindow(window.interval, window.by_arrival))
        case Filling():
            return replace(stream, window=FillingWindow(window.range, window.step))
        case Sessions():
            return replace(stream, window=SessionWindow(window.gap, window.most))
        case Window() if window.in_rows:
            return replace(stream, window=RowWindow(window.range, window.slide))
        case Window():
            return replace(stream, range=window.range, slide=window.slide)
        case _:
            return stream


def _source(stream: Stream, schemas: Mapping[str, Schema]) -> str:
    found = matching(stream.source, schemas)
    if len(found) == 1:
        _check_time(stream, StreamRef(stream.alias, found[0], schemas[found[0]], None), text_of(stream))
        return found[0]
    known = "; the streams are " + ", ".join(schemas) if schemas else ""
    if found:
        raise refused(stream, f"'{stream.source}' could be {' or '.join(found)}; say which")
    hint = did_you_mean(stream.source, schemas) or known
    raise refused(stream, f"there is no stream '{stream.source}'{hint}")


def _check_quality(query: Select, bound: BoundQuery) -> None:
    """Refuse a target that what is bound cannot have."""
    quality = query.quality
    message = None
    if is_chain(bound) and isinstance(quality, Recall | RelativeError):
        message = why_no_target(bound, quality)
    elif isinstance(bound, AggregateQuery) and isinstance(quality, Recall):
        message = (
            "RECALL counts the results of a join; for an aggregate write ERROR, as in WITH ERROR 1% CONFIDENCE 95%"
        )
    elif isinstance(bound, JoinQuery) and isinstance(quality, Recall):
        message = why_no_recall(bound, quality)
    elif isinstance(bound, JoinQuery | AsOfQuery) and isinstance(quality, RelativeError):
        message = (
            "ERROR measures the value of an aggregate; for a join write RECALL, as in WITH RECALL 0.99 OVER 1 MINUTE"
        )
    elif isinstance(bound, AggregateQuery) and isinstance(quality, RelativeError):
        message = why_no_error(bound)
        sketched = next((one for one in bound.aggregates if FUNCTIONS[one.function].sketched), None)
        if sketched is not None:
            message = (
                f"{sketched.name} is an estimate, and has an error whatever is missing; write COUNT(DISTINCT x), which"
                " is exact, or DELAY, COMPLETE or NO WAIT"
            )
        chosen = next((one for one in bound.aggregates if FUNCTIONS[one.function].chooses), None)
        if chosen is not None:
            message = (
                f"a tuple that is missing may put any other value in the place of {chosen.name}, so its error has no"
                " bound. Write COMPLETE, NO WAIT or DELAY, or leave it out"
            )
        different = next((one for one in bound.aggregates if FUNCTIONS[one.function].of_different), None)
        if different is not None:
            message = (
                f"what a tuple that is missing adds to {different.name} depends on whether its value is there already,"
                " so its error has no bound. Write COMPLETE, NO WAIT or DELAY, or leave it out"
            )
        others = [one for one in bound.aggregates if one.kind is Kind.TEXT]
        if others:
            kind = others[0].kind.value
            message = (
                f"ERROR measures numbers, and {others[0].name} is a {kind}. Write COMPLETE, NO WAIT or DELAY, or leave"
                " it out"
            )
    if message is None and asks_estimates(quality):
        message = why_no_estimate(bound)
    if message is not None and query.target is not None:
        raise refused(query.target, message)


def _check_options(query: Select, bound: BoundQuery) -> None:
    """Refuse options that the kind of a join does not go with."""
    message = None
    if isinstance(bound, JoinQuery) and bound.kind is not JoinKind.INNER:
        message = why_not_so(bound)
    elif isinstance(bound, AsOfQuery) and bound.options.controller not in (None, "steady"):
        message = f"option controller = '{bound.options.controller}' is for joins with windows; leave it out"
    if message is not None and query.settings is not None:
        raise refused(query.settings, message)


def _check_emission(query: Select, bound: BoundQuery) -> None:
    """Refuse to emit in a way that what is bound cannot."""
    if query.emitted is not None:
        message = why_not_emitted(bound, query.emit)
        if message is not None:
            raise refused(query.emitted, message)


def _bind_union(query: Select, queries: Sequence[BoundQuery]) -> UnionQuery:
    """The union of bound queries, those of `query.all_united`. Columns go together by their place, and are of one kind;
    the first sub-query names them. A bare NULL is of the kind that the column has in the other sub-queries."""
    streams = tuple(
        StreamRef(str(number), "", result_schema(one), None, query=one)
        for number, one in enumerate(_with_typed_nulls(queries), 1)
    )
    first = columns_of_result(streams[0].schema)
    for stream, own in zip(streams[1:], query.united, strict=True):
        found = columns_of_result(stream.schema)
        if len(found) != len(first):
            listed = f"{', '.join(field.name for field in found)} here and {', '.join(field.name for field in first)}"
            message = f"the queries of a UNION ALL must have the same columns: there are {listed} in the first"
            raise refused(own, message)
        for one, other in zip(first, found, strict=True):
            if one.kind is not other.kind:
                message = (
                    f"column '{other.name}' is {other.kind.value} here, and '{one.name}' of the first query is"
                    f" {one.kind.value}; make them the same, as in to_float(x)"
                )
                raise refused(own, message)
            if one.scale != other.scale:
                message = (
                    f"column '{other.name}' is {type_name(other.arrow)} here, and '{one.name}' of the first query is"
                    f" {type_name(one.arrow)}; make them the same, as in to_float(x)"
                )
                raise refused(own, message)
    outputs = tuple(Output(field.name, Column(0, field.name, field.kind, field.scale)) for field in first)
    return UnionQuery(streams, outputs, query.quality, query.options)


def _with_typed_nulls(queries: Sequence[BoundQuery]) -> list[BoundQuery]:
    """The queries, with every bare NULL of the kind that its column has elsewhere."""
    typed: dict[int, Field] = {}
    for query in queries:
        bare = _bare_nulls(query)
        for place, field in enumerate(columns_of_result(result_schema(query))):
            if place not in bare:
                typed.setdefault(place, field)
    return [_typed(query, typed) for query in queries]


def _typed(query: BoundQuery, typed: Mapping[int, Field]) -> BoundQuery:
    changed = _bare_nulls(query) & typed.keys()
    if not changed or not isinstance(query, RowsQuery):
        return query
    outputs = [
        replace(output, expr=Literal(None, typed[place].kind, typed[place].scale)) if place in changed else output
        for place, output in enumerate(query.outputs)
    ]
    return replace(query, outputs=tuple(outputs))


def _bare_nulls(query: BoundQuery) -> set[int]:
    """The places of outputs that are NULL and nothing else."""
    outputs = query.outputs if isinstance(query, RowsQuery) else ()
    exprs = [output.expr for output in outputs]
    return {place for place, expr in enumerate(exprs) if isinstance(expr, Literal) and expr.value is None}


_OWN = "SELECT COUNT(*) FROM (SELECT ...) j [RANGE 1 MINUTE SLIDE 10 SECONDS]"


def _window_above(select: Select, what: str = "an aggregate", own: str = _OWN) -> tuple[int, int | None]:
    """Range and slide of what stands above a join: the one window that all streams of the join have. `own` shows how
    another one is written."""
    clauses = select.windows
    if len(clauses) == 1 and isinstance(clauses[0], WindowForAll) and not any(s.window for s in select.streams):
        clause: Clause = clauses[0]
        size, slide = clauses[0].size, clauses[0].slide
    else:
        sizes = {stream.window.range if isinstance(stream.window, Window) else None for stream in select.streams}
        window = select.streams[0].window
        if clauses or len(sizes) > 1 or not isinstance(window, Window):
            these = "these have none" if sizes == {None} and not clauses else "these have several"
            message = (
                f"{what} above a join takes the window of its streams, and {these}; give it one of its own, as in {own}"
            )
            raise refused(clauses[0] if clauses else select.streams[-1], message)
        clause, size, slide = window, window.range, None
    if size <= 0 and not select.kind:
        raise refused(clause, "the window of an aggregate must be longer than nothing")
    return size, slide


JoinOf = Callable[[tuple[Output, ...]], JoinQuery]
"""The join that gives these columns of its streams."""


def _of_kind(select: Select, scope: Scope, join_of: JoinOf | None) -> RowsQuery:
    """The query that a word behind SELECT asks for, of a stream or of a join."""
    items, streams = bind_outputs(select.items, scope), scope.streams
    if join_of is not None:
        rows, over = lifted([item.expr for item in items], streams, join_of)
        size, _ = _window_above(select, "SELECT DISTINCT", "SELECT DISTINCT * FROM (SELECT ...) j [RANGE 5 SECONDS]")
        items, streams = tuple(replace(item, expr=over(item.expr)) for item in items), (replace(rows, range=size),)
    return KINDS[select.kind].bound(select, streams, items)


def _aggregated(
    select: Select, scope: Scope, join_of: JoinOf | None, quality: Quality, options: Options
) -> AggregateQuery | TopQuery:
    """The aggregate of a stream or of a join, or its first rows."""
    ranked = () if select.top is None else ranked_by(select, scope)
    asked = (quality, options) if select.top is None else (Complete(), Options())
    aggregation, columns, shown = bind_ranked(select, scope, ranked, *asked)
    if join_of is not None:
        aggregation = _above(aggregation, scope, join_of, *_window_above(select))
    if select.top is not None:
        return bind_top_of_aggregate(select, aggregation, columns, shown, quality, options)
    return aggregation


def _above(query: AggregateQuery, scope: Scope, join_of: JoinOf, size: int, slide: int | None) -> AggregateQuery:
    """The aggregate of a query whose expressions read the streams of a join, over the results of that join.

    `SELECT COUNT(DISTINCT s.k) FROM s, t WHERE s.k = t.k WINDOW 10 MINUTES` means: the results of the join within 10
    minutes, counted in windows of 10 minutes by the event time of each result. As everywhere, a window without SLIDE
    tumbles. What comes out says the same as the sub-query written out would.
    """
    exprs = [key.expr for key in query.keys] + [read for call in query.aggregates for read in call.reads]
    stream, over = lifted(exprs, scope.streams, join_of)
    return replace(
        query,
        stream=replace(stream, range=size, slide=slide),
        keys=tuple(replace(key, expr=over(key.expr)) for key in query.keys),
        aggregates=tuple(call.over(over) for call in query.aggregates),
    )
