"""From query text to a bound query.

Invariant: whatever can be known to be wrong with a query before data flows is refused here, with its place in the text.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace

from slackwater.core.errors import QueryError
from slackwater.core.options import Options
from slackwater.core.quality import Complete, Recall, RelativeError
from slackwater.core.schema import Kind, Schema
from slackwater.expressions.tree import Expr, streams_of
from slackwater.language.bound import AggregateQuery, BoundQuery, JoinQuery, StreamRef, is_chain, raw_streams
from slackwater.language.clauses import Window, check_slide
from slackwater.language.composed import why_no_error, why_no_target
from slackwater.language.ctes import MOST_INPUTS
from slackwater.language.derived import result_schema
from slackwater.language.grouping import bind_aggregation
from slackwater.language.groups import conjuncts_of, is_aggregation
from slackwater.language.instant_binding import MOST_STREAMS, bind_instants
from slackwater.language.instant_windows import over_instants
from slackwater.language.kinds import bind_kind, check_kind
from slackwater.language.option_checks import check_options
from slackwater.language.other_windows import check_chain, check_other_windows, with_window
from slackwater.language.parsed import ParsedQuery, ParsedStream
from slackwater.language.rates import bind_match, check_rates
from slackwater.language.relation_to_stream import check_relation_to_stream
from slackwater.language.rewrite import lifted, window_above
from slackwater.language.scalars import Scalars
from slackwater.language.scope import Scope, did_you_mean, matching
from slackwater.language.selection import bind_outputs
from slackwater.language.statement import parse, sources_of
from slackwater.language.union import bind_union, check_united
from slackwater.language.window_bounds import bind_bounds
from slackwater.language.window_clauses import WindowForAll

__all__ = ["MOST_STREAMS", "Bound", "bind", "parse", "sources_of"]

_NO_SLIDE = "SLIDE belongs to aggregates; the window of a join moves with every tuple"


@dataclass(frozen=True)
class Bound:
    """A query ready to be planned, and what its text said besides."""

    query: BoundQuery
    explain: str | None
    """The form in which the text asks for the plan, instead of the results: one of `parsed.EXPLAIN_AS`."""
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
    parsed = parse(text)
    instants = over_instants(parsed)
    if not instants and _is_chained(parsed):
        check_chain(parsed)
    try:
        query = _bind_instants(parsed, schemas) if instants else _bind(parsed, schemas)
    except RecursionError:
        raise QueryError("an expression of this query is nested too deeply", text) from None
    _check_quality(parsed, query)
    check_options(parsed)
    inputs = len(raw_streams(query))
    if inputs > MOST_INPUTS:
        raise QueryError(f"a query reads at most {MOST_INPUTS} streams in all, and this one {inputs}", text)
    return Bound(query, parsed.explain, text, parsed.quality is not None)


def _bind_instants(parsed: ParsedQuery, schemas: Mapping[str, Schema]) -> BoundQuery:
    return bind_instants(parsed, schemas, lambda stream: _source(stream, schemas, parsed.text))


def _bind(parsed: ParsedQuery, schemas: Mapping[str, Schema]) -> BoundQuery:
    if parsed.united:
        check_united(parsed)
        alone = (replace(one, united=(), quality=None, options=Options()) for one in (parsed, *parsed.united))
        return bind_union(parsed, [_bind(one, schemas) for one in alone])
    streams = _streams(parsed, schemas)
    aggregation = is_aggregation(parsed)
    check_kind(parsed, streams, aggregation)
    check_rates(parsed, aggregation)
    bounds = bind_bounds(parsed, streams)
    _check_windows(parsed, aggregation)
    check_other_windows(parsed, aggregation)
    # A target is for the whole query, and only its own place in the text knows one.
    asked, options = parsed.quality or Complete(), parsed.options
    check_relation_to_stream(
        parsed.out, parsed.out_place, streams, aggregation, bool(parsed.windows), asked, parsed.text
    )
    scope = Scope(parsed.text, streams)
    filters, conditions = _split(_conjuncts(parsed, scope), len(streams))
    streams = tuple(replace(stream, filters=filters[at]) for at, stream in enumerate(streams))
    of_kind = bind_kind(parsed, streams)
    if of_kind is not None:
        return of_kind
    if not aggregation:
        outputs, match = bind_outputs(parsed.items, scope), bind_match(parsed)
        return JoinQuery(streams, conditions, outputs, asked, options, bounds, parsed.out, match)
    if len(streams) == 1:
        return bind_aggregation(parsed, streams, asked)
    above = window_above(parsed)
    join = JoinQuery(streams, conditions, (), Complete(), Options(), bounds)
    return lifted(bind_aggregation(parsed, streams, asked), join, *above)


def _streams(parsed: ParsedQuery, schemas: Mapping[str, Schema]) -> tuple[StreamRef, ...]:
    if len(parsed.streams) > MOST_STREAMS:
        extra = parsed.streams[MOST_STREAMS].place
        message = f"a join takes 2 to {MOST_STREAMS} streams, not {len(parsed.streams)}"
        raise QueryError(message, parsed.text, *extra)
    taken: set[str] = set()
    bound = []
    for stream in parsed.streams:
        if stream.alias in taken:
            message = f"two streams in FROM are called '{stream.alias}'; name one otherwise with AS"
            raise QueryError(message, parsed.text, *stream.alias_place)
        taken.add(stream.alias)
        inner = None if stream.query is None else _bind(stream.query, schemas)
        source = "" if inner is not None else _source(stream, schemas, parsed.text)
        schema = schemas[source] if inner is None else result_schema(inner)
        bound.append(
            with_window(StreamRef(stream.alias, source, schema, None, query=inner), stream.window, parsed.text)
        )
    return tuple(bound)


def _source(stream: ParsedStream, schemas: Mapping[str, Schema], text: str) -> str:
    found = matching(stream.source, schemas)
    if len(found) == 1:
        return found[0]
    known = "; the streams are " + ", ".join(schemas) if schemas else ""
    if found:
        raise QueryError(f"'{stream.source}' could be {' or '.join(found)}; say which", text, *stream.place)
    hint = did_you_mean(stream.source, schemas) or known
    raise QueryError(f"there is no stream '{stream.source}'{hint}", text, *stream.place)


def _is_chained(parsed: ParsedQuery) -> bool:
    """Whether a query takes several operators, before it is bound."""
    nested = any(stream.query is not None for stream in parsed.streams)
    return bool(parsed.united) or nested or (len(parsed.streams) > 1 and is_aggregation(parsed))


def _check_windows(parsed: ParsedQuery, aggregation: bool) -> None:
    joined = len(parsed.streams) > 1
    for clause in parsed.windows:
        if isinstance(clause, WindowForAll) and clause.slide is not None:
            if not aggregation:
                raise QueryError(_NO_SLIDE, parsed.text, *clause.place)
            check_slide(clause.slide, clause.size, parsed.text, clause.place)
    for stream in parsed.streams:
        window = stream.window
        if window is None:
            if (joined and not parsed.windows) or (aggregation and not joined):
                what = "a join" if joined else "an aggregate"
                message = f"stream {stream.alias} needs a window in {what}, as in {stream.alias} [RANGE 5 SECONDS]"
                raise QueryError(message, parsed.text, *stream.place)
            continue
        if not isinstance(window, Window):
            continue
        if window.slide is not None and (joined or not aggregation):
            hint = "; for an aggregate above it write WINDOW 5 SECONDS SLIDE 1 SECOND" if aggregation else ""
            raise QueryError(_NO_SLIDE + hint, parsed.text, *window.slide_place)
        if aggregation and window.range <= 0:
            raise QueryError("the window of an aggregate must be longer than nothing", parsed.text, *window.place)
        if window.slide is not None:
            check_slide(window.slide, window.range, parsed.text, window.slide_place, window.in_rows)


def _check_quality(parsed: ParsedQuery, query: BoundQuery) -> None:
    quality = parsed.quality
    message = None
    if is_chain(query) and isinstance(quality, Recall | RelativeError):
        message = why_no_target(query, quality)
    elif isinstance(query, AggregateQuery) and isinstance(quality, Recall):
        message = (
            "RECALL counts the results of a join; for an aggregate write ERROR, as in WITH ERROR 1% CONFIDENCE 95%"
        )
    elif isinstance(query, JoinQuery) and isinstance(quality, RelativeError):
        message = (
            "ERROR measures the value of an aggregate; for a join write RECALL, as in WITH RECALL 0.99 OVER 1 MINUTE"
        )
    elif isinstance(query, AggregateQuery) and isinstance(quality, RelativeError):
        message = why_no_error(query)
        others = [one for one in query.aggregates if one.kind is Kind.TEXT]
        if others:
            kind = others[0].kind.value
            message = (
                f"ERROR measures numbers, and {others[0].name} is a {kind}. Write COMPLETE, NO WAIT or DELAY, or leave"
                " it out"
            )
    if message is not None:
        raise QueryError(message, parsed.text, *parsed.quality_place)


def _conjuncts(parsed: ParsedQuery, scope: Scope) -> list[Expr]:
    """What must all be true of a result, each as small as it gets."""
    return conjuncts_of([Scalars(scope, "WHERE").condition(node) for node in parsed.conditions])


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
