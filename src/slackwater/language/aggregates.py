"""Aggregate calls with their argument bound and the kind of their result.

Invariant: what an aggregate takes and gives is said in `expressions/aggregates.py`. FILTER is a CASE around the
argument.
"""

from __future__ import annotations

from sqlglot import exp

from slackwater.core.schema import AVERAGE_DIGITS, DIGITS, Kind, type_name
from slackwater.expressions.aggregates import FUNCTIONS, Gives, Takes
from slackwater.expressions.functions import typed_call
from slackwater.expressions.tree import Expr, Literal
from slackwater.language.bound import Aggregate
from slackwater.language.derived import leaves_as
from slackwater.language.forms import aggregate_function
from slackwater.language.nodes import place_of
from slackwater.language.scalars import Scalars
from slackwater.language.scope import Scope


def bind_aggregate(node: exp.Expr, name: str, scope: Scope) -> Aggregate:
    """One aggregate call, under the name its column will have."""
    function, condition = aggregate_function(node), None
    if function is None:
        raise scope.fail("expected an aggregate here", node)
    if isinstance(node, exp.Filter):
        condition = Scalars(scope, "FILTER").condition(node.args["expression"])
        node = node.this
    arguments, parameter = list(node.expressions), None
    if function == "QUANTILE":
        if len(arguments) != 2:
            raise scope.fail("QUANTILE takes a value and a share, as in QUANTILE(v, 0.9)", node)
        parameter = _share(arguments.pop(), scope)
    if len(arguments) != 1:
        wanted = "* or one value" if function == "COUNT" else "one value"
        raise scope.fail(f"{node.name.upper()} takes {wanted}", node)
    (argument,) = arguments
    if isinstance(argument, exp.Star):
        if function != "COUNT" or any(argument.args.values()):
            raise scope.fail("only COUNT can take *, as in COUNT(*)", argument)
        rows = None if condition is None else _where(condition, Literal(1, Kind.INT))
        return Aggregate(name, "COUNT", rows, None, Kind.INT)
    if isinstance(argument, exp.Distinct):
        if function != "COUNT" or argument.args.get("on") or len(argument.expressions) != 1:
            raise scope.fail("DISTINCT is offered as COUNT(DISTINCT x) only", node)
        function, argument = "COUNT_DISTINCT", argument.expressions[0]
    bound = Scalars(scope, "another aggregate").bind(argument)
    kind = _kind(function, bound, argument, scope)
    if bound.kind is Kind.DECIMAL and FUNCTIONS[function].gives is Gives.FLOAT:
        bound = typed_call("to_float", (bound,))
    return Aggregate(name, function, bound if condition is None else _where(condition, bound), parameter, kind)


def _where(condition: Expr, value: Expr) -> Expr:
    """What FILTER (WHERE condition) leaves of a value: nulls are in no aggregate."""
    return typed_call("case", (condition, value, Literal(None, Kind.INT)))


def _kind(function: str, argument: Expr, node: exp.Expr, scope: Scope) -> Kind:
    known = FUNCTIONS[function]
    if known.takes is Takes.ORDERED and argument.kind is Kind.BOOL:
        raise scope.fail(f"{function} needs a number, a timestamp or a text, not a boolean", node)
    if known.takes is Takes.NUMBERS and not argument.kind.numeric:
        hint = "; write SUM(CASE WHEN c THEN 1 ELSE 0 END)" if (function, argument.kind) == ("SUM", Kind.BOOL) else ""
        raise scope.fail(f"{function} needs a number, not {argument.kind.value}{hint}", node)
    if function == "AVG" and argument.kind is Kind.DECIMAL:
        _check_average(argument, node, scope)
    return known.kind_of(argument.kind)


def _check_average(argument: Expr, node: exp.Expr, scope: Scope) -> None:
    """The average of decimals has four digits more, and these must fit in a word."""
    arrow = leaves_as(argument, scope.streams)
    if arrow.precision + AVERAGE_DIGITS > DIGITS:
        written = scope.text[slice(*place_of(node))]
        raise scope.fail(
            f"{written} is {type_name(arrow)}, and an exact average of it has more than {DIGITS} digits; write"
            f" AVG(to_float({written}))",
            node,
        )


def _share(node: exp.Expr, scope: Scope) -> float:
    bound = Scalars(scope, "QUANTILE").bind(node)
    value = bound.value if isinstance(bound, Literal) and bound.kind.numeric else None
    if not isinstance(value, (int, float)) or not 0 <= value <= 1:
        raise scope.fail("the share of QUANTILE must be a number from 0 to 1", node)
    return float(value)
