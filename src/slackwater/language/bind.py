"""From query text to a bound query.

Invariant: whatever can be known to be wrong with a query before data flows is refused here, with its place in the text.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace

from slackwater.core.errors import QueryError
from slackwater.core.options import Options
from slackwater.core.quality import Complete, Quality, Recall, RelativeError
from slackwater.core.schema import Kind, Schema
from slackwater.expressions.aggregates import FUNCTIONS
from slackwater.expressions.tree import Expr, streams_of
from slackwater.language.bound import (
    AggregateQuery,
    BoundQuery,
    JoinQuery,
    LandmarkWindow,
    Match,
    RateWindow,
    RowWindow,
    StreamRef,
    is_chain,
    raw_streams,
)
from slackwater.language.check import MOST_STREAMS, check, check_aliases
from slackwater.language.composed import why_no_error, why_no_target
from slackwater.language.derived import result_schema
from slackwater.language.dialect import parse, sources_of
from slackwater.language.grouping import bind_aggregation
from slackwater.language.groups import conjuncts_of, is_aggregation
from slackwater.language.instant_binding import bind_instants
from slackwater.language.instant_windows import over_instants
from slackwater.language.kinds import KINDS
from slackwater.language.nodes import Landmarks, Rate, Select, Stream, Window, refused, text_of
from slackwater.language.parser import MOST_INPUTS
from slackwater.language.rewrite import lifted, window_above
from slackwater.language.scalars import Scalars
from slackwater.language.scope import Scope, did_you_mean, matching
from slackwater.language.selection import bind_outputs
from slackwater.language.union import bind_union
from slackwater.language.window_bounds import bind_bounds

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
    _check_quality(query, bound)
    inputs = len(raw_streams(bound))
    if inputs > MOST_INPUTS:
        raise QueryError(f"a query reads at most {MOST_INPUTS} streams in all, and this one {inputs}", text)
    return Bound(bound, query.explain, text, query.target is not None)


def _bind(query: Select, schemas: Mapping[str, Schema]) -> BoundQuery:
    if query.united:
        # A target is for the whole query, and none of those that are united has one.
        return bind_union(query, [_bind_select(one, schemas, Complete(), Options()) for one in query.all_united])
    return _bind_select(query, schemas, query.quality, query.options)


def _bind_select(select: Select, schemas: Mapping[str, Schema], quality: Quality, options: Options) -> BoundQuery:
    streams = _streams(select, schemas)
    bounds = bind_bounds(select, streams)
    scope = Scope(text_of(select), streams)
    conjuncts = conjuncts_of([Scalars(scope, "WHERE").condition(node) for node in select.conditions])
    filters, conditions = _split(conjuncts, len(streams))
    streams = tuple(replace(stream, filters=filters[at]) for at, stream in enumerate(streams))
    if select.kind:
        return KINDS[select.kind].bound(select, streams, bind_outputs(select.items, replace(scope, streams=streams)))
    if not is_aggregation(select):
        match = None if select.match is None else Match(select.match.within)
        outputs = bind_outputs(select.items, scope)
        return JoinQuery(streams, conditions, outputs, quality, options, bounds, select.out, match)
    if len(streams) == 1:
        return bind_aggregation(select, streams, quality, options)
    above = window_above(select)
    join = JoinQuery(streams, conditions, (), Complete(), Options(), bounds)
    return lifted(bind_aggregation(select, streams, quality, options), join, *above)


def _streams(select: Select, schemas: Mapping[str, Schema]) -> tuple[StreamRef, ...]:
    check_aliases(select)
    bound = []
    for stream in select.streams:
        inner = None if stream.query is None else _bind(stream.query, schemas)
        source = "" if inner is not None else _source(stream, schemas)
        schema = schemas[source] if inner is None else result_schema(inner)
        bound.append(_with_window(StreamRef(stream.alias, source, schema, None, query=inner), stream.window))
    return tuple(bound)


def _with_window(stream: StreamRef, window: Window | Landmarks | Rate | None) -> StreamRef:
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
        case Window() if window.in_rows:
            return replace(stream, window=RowWindow(window.range, window.slide))
        case Window():
            return replace(stream, range=window.range, slide=window.slide)
        case _:
            return stream


def _source(stream: Stream, schemas: Mapping[str, Schema]) -> str:
    found = matching(stream.source, schemas)
    if len(found) == 1:
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
    elif isinstance(bound, JoinQuery) and isinstance(quality, RelativeError):
        message = (
            "ERROR measures the value of an aggregate; for a join write RECALL, as in WITH RECALL 0.99 OVER 1 MINUTE"
        )
    elif isinstance(bound, AggregateQuery) and isinstance(quality, RelativeError):
        message = why_no_error(bound)
        chosen = next((one for one in bound.aggregates if FUNCTIONS[one.function].by_time), None)
        if chosen is not None:
            message = (
                f"a tuple that is missing may put any other value in the place of {chosen.name}, so its error has no"
                " bound. Write COMPLETE, NO WAIT or DELAY, or leave it out"
            )
        others = [one for one in bound.aggregates if one.kind is Kind.TEXT]
        if others:
            kind = others[0].kind.value
            message = (
                f"ERROR measures numbers, and {others[0].name} is a {kind}. Write COMPLETE, NO WAIT or DELAY, or leave"
                " it out"
            )
    if message is not None and query.target is not None:
        raise refused(query.target, message)


def _split(conjuncts: list[Expr], streams: int) -> tuple[list[tuple[Expr, ...]], tuple[Expr, ...]]:
    """Conjuncts of one stream alone, per stream, and those of several.

    A constant holds of every tuple or of none, so it filters every stream: none then keeps tuples for results that
    cannot come.
    """
    filters: list[list[Expr]] = [[] for _ in range(streams)]
    conditions = []
    for expr in conjuncts:
        read = streams_of(expr)
        if len(read) > 1:
            conditions.append(expr)
            continue
        for position in read or range(streams):
            filters[position].append(expr)
    return [tuple(found) for found in filters], tuple(conditions)
