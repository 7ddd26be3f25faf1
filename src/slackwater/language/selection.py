"""The SELECT list of a join or a selection, and names for the columns of every result.

Invariant: outputs come in the order of the list, stars spread in place. All names differ, none is one that the runtime
adds itself, and a name the user wrote is never changed.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass

from sqlglot import exp

from slackwater.core.errors import QueryError
from slackwater.expressions.tree import Column, Expr
from slackwater.language.bound import RESULT_TIME, WINDOW_COLUMNS, Output
from slackwater.language.nodes import Item, Place, place_of
from slackwater.language.scalars import Scalars
from slackwater.language.scope import Scope
from slackwater.language.tokens import tokenize, word

_LONGEST = 48
_SYMBOLS = {
    "+": "plus",
    "-": "minus",
    "*": "times",
    "/": "over",
    "%": "mod",
    "=": "eq",
    "==": "eq",
    "<>": "ne",
    "!=": "ne",
    "<": "lt",
    "<=": "le",
    ">": "gt",
    ">=": "ge",
}


@dataclass(frozen=True)
class RequestedName:
    """What a column would like to be called: by the user, else plainly, else (where that is taken) with more words."""

    written: str | None
    plain: str
    longer: str
    place: tuple[int, int]


def spelled(written: str) -> str:
    """An expression's text as a name.

    >>> spelled("a.v - b.v"), spelled("COUNT(*)"), spelled("QUANTILE(v, 0.9)"), spelled("COUNT(DISTINCT a.k)")
    ('a_v_minus_b_v', 'count', 'quantile_v_0_9', 'count_distinct_a_k')
    """
    words: list[str] = []
    before = "("
    for token in tokenize(written):
        symbol = word(token)
        if symbol in _SYMBOLS:
            if not (symbol == "*" and before == "("):
                words.append(_SYMBOLS[symbol])
        else:
            words.append("".join(letter if letter.isalnum() else "_" for letter in token.text).strip("_").lower())
        before = symbol
    name = "_".join(part for part in words if part)[:_LONGEST].rstrip("_")
    return f"c_{name}" if not name or name[0].isdigit() else name


def name_columns(requested: Sequence[RequestedName], text: str, aggregate: bool) -> list[str]:
    """One name for each that is asked for, in order."""
    names = [asked.written for asked in requested]
    taken: set[str] = set()
    for asked in requested:
        if asked.written is not None:
            if asked.written in taken:
                raise QueryError(f"two columns of the result are called '{asked.written}'", text, *asked.place)
            taken.add(asked.written)
    plain = Counter(asked.plain for asked in requested if asked.written is None)
    for position, asked in enumerate(requested):
        if names[position] is None and plain[asked.plain] == 1 and asked.plain not in taken:
            names[position] = asked.plain
            taken.add(asked.plain)
    for position, asked in enumerate(requested):
        if names[position] is None:
            names[position] = free_name(asked.longer, taken)
    found = [name for name in names if name is not None]
    for name, asked in zip(found, requested, strict=True):
        _refuse_reserved(name, text, asked.place, aggregate)
    return found


def free_name(name: str, taken: set[str]) -> str:
    """The name, or one with a number behind it where that is taken; it is taken from then on."""
    candidate, count = name, 1
    while candidate in taken:
        count += 1
        candidate = f"{name}_{count}"
    taken.add(candidate)
    return candidate


def _refuse_reserved(name: str, text: str, place: tuple[int, int], aggregate: bool) -> None:
    lower = name.lower()
    if lower == RESULT_TIME or lower.startswith("_row") or (aggregate and lower in WINDOW_COLUMNS):
        raise QueryError(f"a column of the result cannot be called '{name}'; name it otherwise with AS", text, *place)
    if not name:
        raise QueryError("a column of the result needs a name", text, *place)


def bind_outputs(items: Sequence[Item], scope: Scope, windowed: bool = False) -> tuple[Output, ...]:
    """Every column of the result, named; `windowed`, behind the bounds of a window."""
    exprs: list[Expr] = []
    requested: list[RequestedName] = []
    scalars = Scalars(scope, "the SELECT list of a join")
    for item in items:
        starred = _starred(item, scope)
        if starred is None:
            bound = scalars.bind(item.node)
            exprs.append(bound)
            requested.append(requested_name(item, bound, scope))
            continue
        for position, name in _spread(starred, scope, qualified=isinstance(item.node, exp.Column)):
            exprs.append(scope.at((position, name)))
            requested.append(RequestedName(None, name, f"{scope.streams[position].alias}_{name}", item.place))
    names = name_columns(requested, scope.text, aggregate=windowed)
    return tuple(Output(name, expr) for name, expr in zip(names, exprs, strict=True))


def requested_name(written: exp.Expr, bound: Expr, scope: Scope, place: Place | None = None) -> RequestedName:
    """What an item without a star, or an expression, would like to be called."""
    node, called = (written.node, written.requested_name) if isinstance(written, Item) else (written, None)
    place = place or place_of(written)
    if isinstance(bound, Column):
        name = _last_part(node, bound)
        return RequestedName(called, name, f"{scope.streams[bound.stream].alias}_{name}", place)
    name = spelled(scope.text[slice(*place)])
    return RequestedName(called, name, name, place)


def _starred(item: Item, scope: Scope) -> list[int] | None:
    """The streams whose columns an item spreads out, or None if it is no star."""
    node = item.node
    star = node.this if isinstance(node, exp.Column) else node
    if not isinstance(star, exp.Star):
        return None
    if any(star.args.values()):
        raise scope.fail("a star takes no EXCEPT, REPLACE or RENAME; name the columns", node)
    if item.requested_name is not None:
        raise scope.fail("a star cannot be given a name", node)
    if isinstance(node, exp.Column):
        return [scope.position(node.args["table"])]
    return list(range(len(scope.streams)))


def _spread(positions: Sequence[int], scope: Scope, qualified: bool) -> list[tuple[int, str]]:
    """The columns of streams, each with its stream; those that USING names come first, once, as in Spark."""
    merged = () if qualified else scope.merged
    once = {place for group in merged for place in group}
    found = [group[0] for group in merged]
    for position in positions:
        stream = scope.streams[position]
        # A result has its time in any case, under the same name.
        names = (name for name in stream.schema.names if stream.query is None or name != RESULT_TIME)
        found += [(position, name) for name in names if (position, name) not in once]
    return found


def _last_part(node: exp.Expr, column: Column) -> str:
    """What a column is called in the result: a field of a nested column by its last part."""
    while isinstance(node, exp.Paren):
        node = node.this
    written = node.parts[-1].name if isinstance(node, (exp.Column, exp.Dot)) else column.name
    return ".".join(column.name.split(".")[-1 - written.count(".") :])
