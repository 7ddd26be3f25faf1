"""Outer, semi and anti joins, as JOIN has them and as EXISTS and IN with a query over a stream say them.

`FROM o WHERE EXISTS (SELECT 1 FROM p WHERE p.k = o.k)` is a semi join, with NOT an anti join; IN with a query adds an
equality. NOT IN follows SQL's rule of three truths: a null on either side keeps a row out, unless conditions say that
there is none.

Invariant: the joins are those of FROM, one behind the other (`chained`), then those that WHERE asks for.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass

from sqlglot import exp

from slackwater.core.join_kinds import JoinKind
from slackwater.core.quality import Recall
from slackwater.core.results import ISTREAM
from slackwater.core.schema import Kind
from slackwater.expressions.functions import ExpressionTypeError, typed_call
from slackwater.expressions.tree import Call, Expr, streams_of
from slackwater.language.bound import JoinQuery, StreamRef
from slackwater.language.chained import Joins, Level, numbered
from slackwater.language.forms import flattened, unwrapped
from slackwater.language.groups import conjuncts_of
from slackwater.language.nodes import MOST_STREAMS, Select, Window, refused, text_of
from slackwater.language.scalars import Scalars
from slackwater.language.scope import InnerScope, Scope, equalities_of, scope_of
from slackwater.language.selection import bind_outputs


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


def check_absence(select: Select, aggregation: bool) -> None:
    """Refuse what such a join does not go with."""
    if not has_absence(select):
        return
    first = next((stream for stream in select.streams if stream.kind is not JoinKind.INNER), None)
    what = "EXISTS and IN with a query" if first is None else first.join
    place: exp.Expr = select.members[0] if first is None else first
    joined = len(select.streams) + len(select.members)
    if joined > MOST_STREAMS:
        raise refused(place, f"a join takes 2 to {MOST_STREAMS} streams, not {joined}")
    if select.windows and first is not None and len(select.streams) > 2:
        message = (
            f"WINDOW and PATH are between streams that are joined at once, and {what} comes behind other joins; write a"
            " window after each stream, or conditions on event times"
        )
        raise refused(select.windows[0], message)
    turned = next((one for one in select.streams if one.kind in (JoinKind.RIGHT, JoinKind.FULL)), None)
    listed = next((one for one in select.streams[1:] if one.join == ","), None)
    if turned is not None and listed is not None and select.streams.index(listed) < select.streams.index(turned):
        raise refused(turned, f"{turned.join} behind a comma is of the last stream alone; write JOIN ... ON instead")
    if select.to_stream is not None and select.out.kind != ISTREAM:
        message = f"{select.out.kind} is not offered with {what}: a row without partner is in force for one instant"
        raise refused(select.to_stream, message)
    if select.match is not None:
        raise refused(select.match, f"MATCH TIME is for windows that follow rates, and {what} needs windows of time")
    for member in select.members:
        _check_member(member, what)
    for stream in (stream for one in (select, *select.members) for stream in one.streams):
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


def joins_of(
    select: Select, given: tuple[StreamRef, ...], inside: Callable[[Select], tuple[StreamRef, ...]]
) -> tuple[Joins, Scope]:
    """The joins of a query, and what its other clauses may read; `inside` binds the streams of a query behind IN or
    EXISTS."""
    text, whole = text_of(select), scope_of(select, given)
    levels, seen = [Level(JoinKind.INNER, [0])], [0]
    sought: list[Member] = []
    for at, entry in enumerate(select.streams[1:], 1):
        inner = entry.kind is JoinKind.INNER
        if not inner or levels[-1].kind is not JoinKind.INNER:
            levels.append(Level(entry.kind, []))
        levels[-1].streams.append(at)
        asked = levels[-1].where if inner else levels[-1].on
        asked += [one for one in equalities_of(whole) if max(streams_of(one)) == at]
        if entry.on is not None:
            both = [*seen, at]
            scope = Scope(text, tuple(given[one] for one in both))
            plain, members = apart([entry.on], scope)
            if members and not inner:
                raise scope.fail("IN and EXISTS with a query stand in WHERE, and not behind ON", members[0].node)
            sought += members
            written = conjuncts_of([Scalars(scope, "ON").condition(node) for node in plain])
            asked += [numbered(one, both) for one in written]
        seen += [] if entry.kind.one_sided else [at]
    shown = [tuple((seen.index(at), name) for at, name in group if at in seen) for group in whole.merged]
    scope = Scope(text, tuple(given[at] for at in seen), merged=tuple(shown))
    plain, members = apart([] if select.where is None else [select.where], scope)
    where = [numbered(one, seen) for one in conjuncts_of([Scalars(scope, "WHERE").condition(node) for node in plain])]
    levels[-1].where += where
    streams, entries = given, tuple(select.streams)
    for member in (*sought, *members):
        own = inside(member.query)
        levels.append(_of_member(member, own, len(streams), scope, seen, where))
        streams, entries = (*streams, *own), (*entries, *member.query.streams)
    return Joins(select, streams, entries, tuple(levels)), scope


def _of_member(
    member: Member, own: tuple[StreamRef, ...], number: int, scope: Scope, seen: Sequence[int], where: Sequence[Expr]
) -> Level:
    """IN or EXISTS as a join with the stream of this number."""
    inner, numbers = InnerScope(scope.text, (*own, *scope.streams), 1), (number, *seen)
    written = [] if member.query.where is None else [Scalars(inner, "WHERE").condition(member.query.where)]
    on = [numbered(one, numbers) for one in conjuncts_of(written)]
    values = [numbered(output.expr, numbers) for output in bind_outputs(member.query.items, inner)]
    sought = [numbered(Scalars(scope, "WHERE").bind(value), seen) for value in member.values]
    if sought and len(sought) != len(values):
        counts = f"{len(sought)} value{'s' * (len(sought) > 1)}", f"{len(values)} columns"
        raise refused(member.query.items[-1], f"IN looks for {counts[0]}, and its query selects {counts[1]}")
    for value, found in zip(sought, values, strict=False):
        equal = equality(scope, value, found, member.node)
        if member.negated and not (is_known(value, where) and is_known(found, on)):
            nulls = typed_call("is_null", (value,)), typed_call("is_null", (found,))
            equal = typed_call("or", (equal, *nulls))
        on.append(equal)
    return Level(JoinKind.ANTI if member.negated else JoinKind.SEMI, [number], on)


def equality(scope: Scope, value: Expr, found: Expr, node: exp.Expr) -> Expr:
    """What IN says of a value and a column of its query."""
    try:
        return typed_call("=", (value, found))
    except ExpressionTypeError as error:
        raise scope.fail(error.message, node) from None


def is_known(value: Expr, conditions: Sequence[Expr]) -> bool:
    """Whether conditions say that a value is no null."""
    return Call("not", (Call("is_null", (value,), Kind.BOOL),), Kind.BOOL) in conditions


def apart(conditions: Sequence[exp.Expr], scope: Scope) -> tuple[list[exp.Expr], list[Member]]:
    """The conjuncts of conditions: plain ones, and IN and EXISTS with a query."""
    plain, members = [], []
    for condition in conditions:
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
