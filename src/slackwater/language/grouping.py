"""Window aggregates: keys, aggregate calls and their order in the result.

Invariant: every selected item is a key of GROUP BY, an aggregate, or a bound of the window; the window's bounds are
always in the result and therefore never listed.
"""

from __future__ import annotations

from dataclasses import dataclass

from sqlglot import exp

from slackwater.core.errors import QueryError
from slackwater.core.quality import Quality
from slackwater.expressions.tree import Expr
from slackwater.language.aggregates import bind_aggregate
from slackwater.language.bound import WINDOW_COLUMNS, AggregateQuery, Output, StreamRef
from slackwater.language.forms import aggregate_function, first_aggregate
from slackwater.language.output_names import Wish, name_columns, spelled
from slackwater.language.parsed import ParsedItem, ParsedQuery
from slackwater.language.scalars import Scalars
from slackwater.language.scope import Scope
from slackwater.language.selection import wish_for
from slackwater.language.syntax import place_of


@dataclass(frozen=True)
class _Selected:
    """An item of the SELECT list: the key it selects, or an aggregate call where `key` is None."""

    node: exp.Expr
    key: Expr | None
    wish: Wish


def is_aggregation(query: ParsedQuery) -> bool:
    """Whether a query asks for aggregates at all."""
    return query.groups is not None or any(first_aggregate(item.node) for item in query.items)


def bind_aggregation(query: ParsedQuery, streams: tuple[StreamRef, ...], quality: Quality) -> AggregateQuery:
    """The aggregate query over streams whose windows and filters are bound already; it stands over the first one."""
    scope = Scope(query.text, streams)
    keys = _keys(query, scope)
    selected = [
        bound for item in query.items if (bound := _select(item, [expr for expr, _ in keys], scope)) is not None
    ]
    if not any(entry.key is None for entry in selected):
        last = query.items[-1].place
        raise QueryError("GROUP BY needs an aggregate in the SELECT list, such as COUNT(*)", query.text, *last)
    chosen = [entry.key for entry in selected]
    hidden = [(expr, wish) for expr, wish in keys if expr not in chosen]
    names = name_columns([entry.wish for entry in selected] + [wish for _, wish in hidden], query.text, aggregate=True)
    named = list(zip(selected, names, strict=False))
    called = {expr: [name] for (expr, _), name in zip(hidden, names[len(selected) :], strict=True)}
    for entry, name in named:
        if entry.key is not None:
            called.setdefault(entry.key, []).append(name)
    outputs = [Output(name, expr) for expr, _ in keys for name in called[expr]]
    aggregates = tuple(bind_aggregate(entry.node, name, scope) for entry, name in named if entry.key is None)
    order = tuple(name for _, name in named)
    return AggregateQuery(streams[0], tuple(outputs), aggregates, order, quality, query.options, query.out)


def _keys(query: ParsedQuery, scope: Scope) -> list[tuple[Expr, Wish]]:
    """The keys of GROUP BY, each once."""
    keys: dict[Expr, Wish] = {}
    for node in query.groups or ():
        if _window_column(node, scope) is not None:
            continue
        if isinstance(node, exp.Literal):
            raise scope.fail("GROUP BY takes columns or expressions, not positions", node)
        meant = _by_alias(node, query, scope)
        bound = Scalars(scope, "GROUP BY").bind(meant)
        keys.setdefault(bound, wish_for(ParsedItem(meant, None, place_of(node)), bound, scope))
    return list(keys.items())


def _by_alias(node: exp.Expr, query: ParsedQuery, scope: Scope) -> exp.Expr:
    """What a key means: a column of the stream first, else the item of the SELECT list that is called so."""
    if not isinstance(node, exp.Column) or node.args.get("table") is not None:
        return node
    if any(name.lower() == node.name.lower() for stream in scope.streams for name in stream.schema.names):
        return node
    called = [item.node for item in query.items if (item.alias or "").lower() == node.name.lower()]
    if called and first_aggregate(called[0]) is not None:
        raise scope.fail(f"'{node.name}' is an aggregate; groups are made before it can be known", node)
    return called[0] if called else node


def _select(item: ParsedItem, keys: list[Expr], scope: Scope) -> _Selected | None:
    node = item.node
    while isinstance(node, exp.Paren):
        node = node.this
    window = _window_column(node, scope)
    if window is not None:
        if item.alias not in (None, window):
            message = f"{window} keeps its name; it is always in the result of an aggregate"
            raise QueryError(message, scope.text, *item.place)
        return None
    if aggregate_function(node) is not None:
        name = spelled(scope.text[slice(*place_of(node))])
        return _Selected(node, None, Wish(item.alias, name, name, item.place))
    if first_aggregate(node) is not None:
        message = (
            "an expression around an aggregate is not offered; compute around it, as in"
            " SELECT total / n FROM (SELECT SUM(v) AS total, COUNT(*) AS n FROM s [1 s]) t"
        )
        raise scope.fail(message, node)
    if isinstance(node, exp.Star) or (isinstance(node, exp.Column) and isinstance(node.this, exp.Star)):
        raise scope.fail("an aggregate query cannot select *; name the keys and aggregates", node)
    bound = Scalars(scope, "the SELECT list").bind(node)
    if bound not in keys:
        raise scope.fail("a selected item must be an aggregate or stand in GROUP BY", node)
    return _Selected(node, bound, wish_for(item, bound, scope))


def _window_column(node: exp.Expr, scope: Scope) -> str | None:
    """window_start or window_end, where no stream has a column of that name."""
    if not isinstance(node, exp.Column) or node.args.get("table") is not None or isinstance(node.this, exp.Star):
        return None
    name = node.name.lower()
    known = any(node.name in stream.schema for stream in scope.streams)
    return name if name in WINDOW_COLUMNS and not known else None
