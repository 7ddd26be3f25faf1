"""The SELECT list of a join or a selection. Invariant: outputs come in the order of the list, stars spread in place."""

from __future__ import annotations

from collections.abc import Sequence

from sqlglot import exp

from slackwater.expressions.tree import Column, Expr
from slackwater.language.bound import RESULT_TIME, Output
from slackwater.language.nodes import Item, Place, place_of
from slackwater.language.output_names import Wish, name_columns, spelled
from slackwater.language.scalars import Scalars
from slackwater.language.scope import Scope


def bind_outputs(items: Sequence[Item], scope: Scope) -> tuple[Output, ...]:
    """Every column of the result, named."""
    exprs: list[Expr] = []
    wishes: list[Wish] = []
    scalars = Scalars(scope, "the SELECT list of a join")
    for item in items:
        starred = _starred(item, scope)
        if starred is None:
            bound = scalars.bind(item.node)
            exprs.append(bound)
            wishes.append(wish_for(item, bound, scope))
            continue
        for position in starred:
            stream = scope.streams[position]
            # A result has its time in any case, under the same name.
            for field in (one for one in stream.schema.fields if stream.query is None or one.name != RESULT_TIME):
                exprs.append(Column(position, field.name, field.kind, field.scale))
                wishes.append(Wish(None, field.name, f"{stream.alias}_{field.name}", item.place))
    names = name_columns(wishes, scope.text, aggregate=False)
    return tuple(Output(name, expr) for name, expr in zip(names, exprs, strict=True))


def wish_for(written: exp.Expr, bound: Expr, scope: Scope, place: Place | None = None) -> Wish:
    """What an item without a star, or an expression, would like to be called."""
    node, called = (written.node, written.wished) if isinstance(written, Item) else (written, None)
    place = place or place_of(written)
    if isinstance(bound, Column):
        name = _last_part(node, bound)
        return Wish(called, name, f"{scope.streams[bound.stream].alias}_{name}", place)
    name = spelled(scope.text[slice(*place)])
    return Wish(called, name, name, place)


def _starred(item: Item, scope: Scope) -> list[int] | None:
    """The streams whose columns an item spreads out, or None if it is no star."""
    node = item.node
    star = node.this if isinstance(node, exp.Column) else node
    if not isinstance(star, exp.Star):
        return None
    if any(star.args.values()):
        raise scope.fail("a star takes no EXCEPT, REPLACE or RENAME; name the columns", node)
    if item.wished is not None:
        raise scope.fail("a star cannot be given a name", node)
    if isinstance(node, exp.Column):
        return [scope.position(node.args["table"])]
    return list(range(len(scope.streams)))


def _last_part(node: exp.Expr, column: Column) -> str:
    """What a column is called in the result: a field of a nested column by its last part."""
    while isinstance(node, exp.Paren):
        node = node.this
    written = node.parts[-1].name if isinstance(node, (exp.Column, exp.Dot)) else column.name
    return ".".join(column.name.split(".")[-1 - written.count(".") :])
