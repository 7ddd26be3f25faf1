"""Expression trees as DuckDB SQL.

Invariant: rendering shares nothing with the engine's compiler; the meaning of every operator is written down here a
second time, in SQL. A NaN inside an expression behaves like NULL, and no operator raises on a value outside its
domain: it is NULL.

Every column of every input has a name of its own (`v<stream>_<position>`), so an expression reads the same in every
query that carries the columns, and no user's identifier ever enters the SQL text.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import wraps
from typing import Any

import numpy as np

from slackwater.core.errors import UsageError
from slackwater.core.schema import Kind, Schema
from slackwater.expressions.tree import Call, Column, Expr, Literal, walk
from slackwater.expressions.user import USER_FUNCTIONS
from slackwater.verify import text_sql

TYPES = {
    Kind.INT: "BIGINT",
    Kind.FLOAT: "DOUBLE",
    Kind.BOOL: "BOOLEAN",
    Kind.TEXT: "VARCHAR",
    Kind.TIME: "BIGINT",
    Kind.DECIMAL: "BIGINT",
}

MACROS = (
    "CREATE MACRO sw_floor(t, step) AS t - ((t % step) + step) % step",
    "CREATE MACRO sw_divide(a, b) AS CAST(a AS DOUBLE) / nullif(CAST(b AS DOUBLE), 0)",
    "CREATE MACRO sw_over(a, unit) AS sw_floor(a, unit) // unit",
    "CREATE MACRO sw_rest(a, b) AS a % nullif(b, 0)",
    "CREATE MACRO sw_round(x) AS round(x), (x, digits) AS round(x, CAST(digits AS INTEGER))",
    "CREATE MACRO sw_sqrt(x) AS CASE WHEN x >= 0 THEN sqrt(CAST(x AS DOUBLE)) END",
    "CREATE MACRO sw_ln(x) AS CASE WHEN x > 0 THEN ln(CAST(x AS DOUBLE)) END",
    "CREATE MACRO sw_log10(x) AS CASE WHEN x > 0 THEN log10(CAST(x AS DOUBLE)) END",
    "CREATE MACRO sw_asin(x) AS CASE WHEN x BETWEEN -1 AND 1 THEN asin(CAST(x AS DOUBLE)) END",
    "CREATE MACRO sw_acos(x) AS CASE WHEN x BETWEEN -1 AND 1 THEN acos(CAST(x AS DOUBLE)) END",
    "CREATE MACRO sw_pow(x, y) AS pow(CAST(x AS DOUBLE), CAST(y AS DOUBLE))",
    "CREATE MACRO sw_square(x) AS CAST(x AS DOUBLE) * CAST(x AS DOUBLE)",
    "CREATE MACRO sw_hypot(x, y) AS sqrt(sw_square(x) + sw_square(y))",
    "CREATE MACRO sw_dist(x1, y1, x2, y2) AS sqrt(sw_square(x1 - x2) + sw_square(y1 - y2))",
    *text_sql.MACROS,
)
"""What DuckDB has under no name, or with another edge; run once in each connection."""

_INFIX = {
    "+": "+",
    "-": "-",
    "*": "*",
    "rescale": "*",
    "=": "=",
    "<>": "<>",
    "<": "<",
    "<=": "<=",
    ">": ">",
    ">=": ">=",
}
_FUNCTIONS = {
    "/": "sw_divide",
    "//": "sw_over",
    "decimal_to_float": "sw_divide",
    "%": "sw_rest",
    "mod": "sw_rest",
    "sqrt": "sw_sqrt",
    "ln": "sw_ln",
    "log10": "sw_log10",
    "asin": "sw_asin",
    "acos": "sw_acos",
    "round": "sw_round",
    "pow": "sw_pow",
    "hypot": "sw_hypot",
    "dist": "sw_dist",
    "min": "least",
    "max": "greatest",
    "to_int": "trunc",
    **{
        name: name
        for name in (
            "abs exp sin cos tan atan atan2 floor ceil sign least greatest coalesce nullif".split()  # noqa: SIM905
        )
    },
}


class Renderer:
    """Renders the expressions of one query; the schemas have the position of each column.

    >>> import pyarrow as pa
    >>> from slackwater.core.schema import Field
    >>> schema = Schema((Field("t", Kind.TIME, pa.timestamp("us")), Field("k", Kind.INT, pa.int64())), "t")
    >>> two = Literal(2, Kind.INT)
    >>> Renderer([schema])(Call("<", (two, Column(0, "k", Kind.INT)), Kind.BOOL))
    '(CAST(2 AS BIGINT) < v0_1)'
    """

    def __init__(self, schemas: Sequence[Schema]) -> None:
        self._positions = [{name: k for k, name in enumerate(schema.names)} for schema in schemas]

    def column(self, stream: int, name: str) -> str:
        """The SQL name of a column, NaN and all."""
        return f"v{stream}_{self._positions[stream][name]}"

    def __call__(self, expr: Expr) -> str:
        match expr:
            case Column():
                return _without_nan(self.column(expr.stream, expr.name), expr.kind)
            case Literal():
                return _literal(expr)
            case Call():
                return _without_nan(self._call(expr), expr.kind)

    def value(self, expr: Expr) -> str:
        """As an item of SELECT, a key or the argument of an aggregate: a bare column keeps its NaN."""
        return self.column(expr.stream, expr.name) if isinstance(expr, Column) else self(expr)

    def all_of(self, exprs: Sequence[Expr]) -> str:
        """The conjunction of some predicates; true for none."""
        return " AND ".join(self(expr) for expr in exprs) or "true"

    def _call(self, call: Call) -> str:
        args = [self(arg) for arg in call.args]
        if call.op in _INFIX:
            return f"({args[0]} {_INFIX[call.op]} {args[1]})"
        if call.op in ("and", "or"):
            return "(" + f" {call.op.upper()} ".join(args) + ")"
        if call.op == "in":
            return f"({args[0]} IN ({', '.join(args[1:])}))"
        if call.op == "not":
            return f"(NOT {args[0]})"
        if call.op == "neg":
            return f"(- {args[0]})"
        if call.op == "is_null":
            return f"({args[0]} IS NULL)"
        if call.op == "case":
            return _case(args)
        if call.op == "to_float":
            return f"CAST({args[0]} AS DOUBLE)"
        special = text_sql.rendered(call, args)
        if special is not None:
            return special
        if call.op.startswith("user:"):
            return f"{user_function_name(call.op)}({', '.join(args)})"
        if call.op not in _FUNCTIONS:
            raise UsageError(f"verify cannot compute '{call.op}': it has no meaning in SQL")
        text = f"{_FUNCTIONS[call.op]}({', '.join(args)})"
        # A float beyond int64 has no integer; TRY_CAST makes it NULL where CAST would end the verification.
        return f"TRY_CAST({text} AS BIGINT)" if call.kind is Kind.INT else text


def _literal(literal: Literal) -> str:
    if literal.value is None:
        return f"CAST(NULL AS {TYPES[literal.kind]})"
    text = str(literal.value).replace("'", "''")
    if literal.kind is Kind.TEXT:
        return f"'{text}'"
    if literal.kind is Kind.FLOAT:
        return _without_nan(f"CAST('{float(literal.value)!r}' AS DOUBLE)", Kind.FLOAT)
    if literal.kind is Kind.BOOL:
        return "true" if literal.value else "false"
    return f"CAST({int(literal.value)} AS BIGINT)"


def _case(args: list[str]) -> str:
    branches = "".join(f" WHEN {args[k]} THEN {args[k + 1]}" for k in range(0, len(args) - 1, 2))
    otherwise = f" ELSE {args[-1]}" if len(args) % 2 else ""
    return f"CASE{branches}{otherwise} END"


def _without_nan(text: str, kind: Kind) -> str:
    return f"nullif({text}, CAST('NaN' AS DOUBLE))" if kind is Kind.FLOAT else text


def user_function_name(op: str) -> str:
    """Where a user's function is registered; hex, since a user's name need not be an SQL identifier.

    >>> user_function_name("user:f")
    'user_66'
    """
    return "user_" + op.removeprefix("user:").encode().hex()


def _operators(exprs: Sequence[Expr]) -> set[str]:
    return {node.op for expr in exprs for node in walk(expr) if isinstance(node, Call)}


def has_functions(exprs: Sequence[Expr]) -> bool:
    """Whether DuckDB has to call Python for these: the users' own functions, and upper and lower case."""
    return any(op.startswith("user:") or op in text_sql.CASE for op in _operators(exprs))


def register_user_functions(connection: Any, exprs: Sequence[Expr]) -> None:
    """Make the users' own Python functions known to DuckDB: theirs is the only meaning there is."""
    operators = _operators(exprs)
    text_sql.register_case(connection, operators)
    for op in sorted(op for op in operators if op.startswith("user:")):
        found = USER_FUNCTIONS.get(op.removeprefix("user:"))
        if found is None:
            raise UsageError(f"function '{op.removeprefix('user:')}' is not registered in this process")
        types = [TYPES[kind] for kind in found.args]
        connection.create_function(user_function_name(op), _like_numpy(found.function), types, TYPES[found.result])


def _like_numpy(function: Callable[..., Any]) -> Callable[..., Any]:
    """The function on numpy numbers: x / 0 is promised to be infinite or NaN, where Python's own floats raise."""

    @wraps(function)
    def called(*args: Any) -> Any:
        with np.errstate(all="ignore"):
            result = function(*(np.float64(arg) if isinstance(arg, float) else arg for arg in args))
        return result.item() if isinstance(result, np.generic) else result

    return called
