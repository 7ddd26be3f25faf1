"""Outer, semi and anti joins of two streams, as JOIN has them and as EXISTS and IN with a query over a stream say them.

`FROM o WHERE EXISTS (SELECT 1 FROM p WHERE p.k = o.k)` is a semi join, with NOT an anti join; IN with a query adds an
equality. NOT IN follows SQL's rule of three truths: a null on either side keeps a row out, unless conditions say that
there is none.

Invariant: what stands behind ON decides who is a partner, and never takes a preserved tuple away; what stands in WHERE
is asked of rows. It becomes a filter of a stream only where both come to the same.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace

from sqlglot import exp

from slackwater.core.join_kinds import JoinKind
from slackwater.core.options import Options
from slackwater.core.quality import Quality, Recall
from slackwater.core.results import ISTREAM
from slackwater.core.schema import Kind
from slackwater.expressions.functions import ExpressionTypeError, typed_call
from slackwater.expressions.tree import Call, Expr, streams_of, with_columns
from slackwater.language.bound import JoinQuery, StreamRef
from slackwater.language.forms import flattened, unwrapped
from slackwater.language.groups import conjuncts_of
from slackwater.language.nodes import TEXT, Select, Stream, Window, refused, text_of
from slackwater.language.scalars import Scalars
from slackwater.language.scope import InnerScope, Scope
from slackwater.language.selection import bind_outputs
from slackwater.language.window_bounds import bind_windows


@dataclass(frozen=True)
class Member:
    """IN or EXISTS with a query: the values that are looked for (none for EXISTS), and whether they must be absent."""

    values: tuple[exp.Expr, ...]
    query: Select
    negated: bool
    node: exp.Expr


def has_absence(select: Select) -> bool:
    """Whether a query over streams is one with an outer, semi or anti join."""
    return bool(select.members) or any(stream.kind is not JoinKind.INNER for stream in select.streams)


def slides_nowhere(select: Select) -> bool:
    """Whether no window of a query slides, nor of a query behind IN or EXISTS: then these are of streams."""
    streams = [stream for one in (select, *select.members) for stream in one.streams]
    return not any(
        stream.query is not None or (isinstance(stream.window, Window) and stream.window.slide is not None)
        for stream in streams
    )


def check_absence(select: Select, aggregation: bool) -> None:
    """Refuse what such a join does not go with."""
    if not has_absence(select):
        return
    first = next((stream for stream in select.streams if stream.kind is not JoinKind.INNER), None)
    what = "EXISTS and IN with a query" if first is None else first.join
    place: exp.Expr = select.members[0] if first is None else first
    joined = len(select.streams) + len(select.members)
    if joined > 2:
        message = f"{what} is for two streams, and here there are {joined}; run one query for each two of them"
        if first is None:
            message = f"{what} stand once in a query of one stream; run one query for each"
        raise refused(place, message)
    if aggregation:
        raise refused(place, f"{what} with aggregates in the same query is not offered; aggregate where rows are read")
    if select.kind:
        raise refused(place, f"SELECT {select.kind} does not go with {what}; leave it out", select.kind_place)
    if select.to_stream is not None and select.out.kind != ISTREAM:
        message = f"{select.out.kind} is not offered with {what}: a row without partner is in force for one instant"
        raise refused(select.to_stream, message)
    if select.match is not None:
        raise refused(select.match, f"MATCH TIME is for windows that follow rates, and {what} needs windows of time")
    for member in select.members:
        _check_member(member, what)
    for stream in (stream for one in (select, *select.members) for stream in one.streams):
        if stream.query is not None:
            raise refused(stream, f"{what} is of streams, and {stream.alias} is a sub-query; write the stream itself")
        if stream.window is not None and not (isinstance(stream.window, Window) and not stream.window.in_rows):
            message = (
                f"{what} needs windows of time, to know when a partner can come no more; write RANGE and a duration"
            )
            raise refused(stream.window, message)


def _check_member(member: Select, what: str) -> None:
    more = bool(member.united or member.windows or member.kind or member.groups or member.having or member.members)
    if more or len(member.streams) > 1:
        example = "EXISTS (SELECT 1 FROM p [RANGE 1 HOUR] WHERE p.k = s.k)"
        raise refused(member, f"{what} over streams take a plain query of one stream, as in {example}")


def bind_absence(
    select: Select,
    streams: tuple[StreamRef, ...],
    inside: Callable[[Select], tuple[StreamRef, ...]],
    quality: Quality,
    options: Options,
) -> JoinQuery:
    """The bound query; `inside` binds the streams of a query behind IN or EXISTS."""
    said = _of_member(select, streams, inside) if select.members else _of_join(select, streams)
    kind = said.kind
    both, bounds, on = bind_windows(said.select, said.streams, said.on)
    filters: list[list[Expr]] = [[], []]
    conditions: list[Expr] = []
    kept: list[Expr] = []
    for expr in on:
        alone = next((at for at in (1, 0) if streams_of(expr) <= {at} and _may_drop(kind, at)), None)
        (conditions if alone is None else filters[alone]).append(expr)
    for expr in said.where:
        alone = next((at for at in (0, 1) if streams_of(expr) <= {at} and _tells_all(kind, at)), None)
        (kept if alone is None else filters[alone]).append(expr)
    scope = Scope(text_of(select), both[:1] if kind.one_sided else both)
    return JoinQuery(
        tuple(replace(one, filters=tuple(own)) for one, own in zip(both, filters, strict=True)),
        tuple(conditions), bind_outputs(select.items, scope), quality, options, bounds, kind=kind, kept=tuple(kept),
    )  # fmt: skip


def _may_drop(kind: JoinKind, stream: int) -> bool:
    """Whether a tuple of a stream that is no partner of any may as well not be there."""
    return kind is JoinKind.SEMI or not kind.preserved[stream]


def _tells_all(kind: JoinKind, stream: int) -> bool:
    """Whether what is asked of the tuple of a stream in a row may be asked before rows are made."""
    return kind.preserved[stream] and not kind.preserved[1 - stream]


@dataclass(frozen=True)
class _Said:
    """A join as it was written, in either way."""

    kind: JoinKind
    select: Select
    """Says the windows, and where streams stand."""
    streams: tuple[StreamRef, ...]
    on: Sequence[Expr]
    where: Sequence[Expr]


def _of_join(select: Select, streams: tuple[StreamRef, ...]) -> _Said:
    kind = select.streams[1].kind
    on = select.streams[1].on
    assert on is not None, "JOIN has ON"
    both = Scope(text_of(select), streams)
    rows = replace(both, streams=streams[:1]) if kind.one_sided else both
    where = [] if select.where is None else [Scalars(rows, "WHERE").condition(select.where)]
    conditions = conjuncts_of([Scalars(both, "ON").condition(on)])
    return _Said(kind, select, streams, conditions, conjuncts_of(where))


def _of_member(
    select: Select, streams: tuple[StreamRef, ...], inside: Callable[[Select], tuple[StreamRef, ...]]
) -> _Said:
    scope = Scope(text_of(select), streams)
    plain, (member,) = apart(select, scope)
    where = conjuncts_of([Scalars(scope, "WHERE").condition(node) for node in plain])
    own = inside(member.query)
    inner = InnerScope(scope.text, (*own, *streams), 1)
    written = [] if member.query.where is None else [Scalars(inner, "WHERE").condition(member.query.where)]
    on = [_turned(one) for one in conjuncts_of(written)]
    values = [_turned(output.expr) for output in bind_outputs(member.query.items, inner)]
    sought = [Scalars(scope, "WHERE").bind(value) for value in member.values]
    if sought and len(sought) != len(values):
        counts = f"{len(sought)} value{'s' * (len(sought) > 1)}", f"{len(values)} columns"
        raise refused(member.query.items[-1], f"IN looks for {counts[0]}, and its query selects {counts[1]}")
    for value, found in zip(sought, values, strict=False):
        equal = equality(scope, value, found, member.node)
        if member.negated and not (is_known(value, where) and is_known(found, on)):
            nulls = typed_call("is_null", (value,)), typed_call("is_null", (found,))
            equal = typed_call("or", (equal, *nulls))
        on.append(equal)
    kind = JoinKind.ANTI if member.negated else JoinKind.SEMI
    joined = Select(streams=[_copied(select.streams[0]), _copied(member.query.streams[0])])
    joined.meta[TEXT] = scope.text
    return _Said(kind, joined, (*streams, *own), on, where)


def _copied(stream: Stream) -> Stream:
    copy: Stream = stream.copy()
    return copy


def _turned(expr: Expr) -> Expr:
    """An expression of a query behind EXISTS, whose stream comes first there, as one of the join."""
    return with_columns(expr, lambda column: replace(column, stream=1 - column.stream))


def equality(scope: Scope, value: Expr, found: Expr, node: exp.Expr) -> Expr:
    """What IN says of a value and a column of its query."""
    try:
        return typed_call("=", (value, found))
    except ExpressionTypeError as error:
        raise scope.fail(error.message, node) from None


def is_known(value: Expr, conditions: Sequence[Expr]) -> bool:
    """Whether conditions say that a value is no null."""
    return Call("not", (Call("is_null", (value,), Kind.BOOL),), Kind.BOOL) in conditions


def apart(query: Select, scope: Scope) -> tuple[list[exp.Expr], list[Member]]:
    """The conjuncts of the conditions: plain ones, and IN and EXISTS with a query."""
    plain, members = [], []
    for condition in query.conditions:
        inner = unwrapped(condition)
        for node in flattened(inner) if isinstance(inner, exp.And) else [condition]:
            member = _member(node)
            if member is not None:
                members.append(member)
                continue
            if node.find(Select) is not None:
                message = "IN and EXISTS with a query stand by themselves between ANDs, or behind NOT"
                raise scope.fail(message, node)
            plain.append(node)
    return plain, members


def _member(node: exp.Expr) -> Member | None:
    """A conjunct that is IN or EXISTS with a query."""
    whole, node, negated = node, unwrapped(node), False
    while isinstance(node, exp.Not):
        node, negated = unwrapped(node.this), not negated
    if isinstance(node, exp.Exists) and isinstance(node.this, Select):
        return Member((), node.this, negated, whole)
    query = node.args.get("query")
    if not isinstance(node, exp.In) or not isinstance(query, Select):
        return None
    values = tuple(node.this.expressions) if isinstance(node.this, exp.Tuple) else (node.this,)
    return Member(values, query, negated, whole)


def why_not_so(query: JoinQuery) -> str | None:
    """Why options of a query do not go with such a join; None where they do."""
    for name, wanted in (("join", query.options.join), ("ordering", query.options.ordering)):
        if wanted is not None:
            return f"option {name} = '{wanted}' is not offered with {query.kind.value} joins; leave it out"
    if query.options.shape != "multiway":
        return f"option shape = '{query.options.shape}' is not offered with {query.kind.value} joins; leave it out"
    return None


def why_no_recall(query: JoinQuery, quality: Recall) -> str | None:
    """Why the recall of a join, or its precision, cannot be asked for; None where it can."""
    if query.kind is JoinKind.INNER:
        if quality.precision is None:
            return None
        return "PRECISION is for LEFT, RIGHT, FULL and ANTI joins: no row of another can turn out false. Leave it out"
    if not query.kind.lonely:
        return f"RECALL is not offered with {query.kind.value} joins. Write COMPLETE, NO WAIT or DELAY"
    if query.kept:
        return (
            "RECALL counts all rows of an outer join, and WHERE leaves some out by what may be null in them. Write"
            " LEFT ANTI JOIN for rows without partner, or COMPLETE, NO WAIT or DELAY, or filter where the"
            " results are read"
        )
    if quality.precision is not None and query.options.controller not in (None, "steady"):
        return f"controller = '{query.options.controller}' is as published, and knows no PRECISION; leave one out"
    return None
