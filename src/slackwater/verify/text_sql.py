"""Functions of text and time, and casts, as DuckDB SQL.

Invariant: as in `sql.py`. A time is a number of microseconds here, too. What DuckDB computes otherwise than Spark and
cannot be expressed in SQL is refused; only that upper and lower case are those of all of Unicode is asked of Python.
"""

from __future__ import annotations

from typing import Any

from slackwater.core.errors import UsageError
from slackwater.core.schema import Kind
from slackwater.expressions.tree import Call

MACROS = (
    "CREATE MACRO sw_seconds(t) AS sw_floor(t, 1000000) // 1000000",
    "CREATE MACRO sw_from(s, p) AS CASE WHEN p > 0 THEN p - 1 WHEN p < 0 THEN length(s) + p WHEN p = 0 THEN 0 END",
    "CREATE MACRO sw_between(s, b, e) AS CASE WHEN b IS NULL OR e IS NULL THEN NULL WHEN greatest(b, 0) >= length(s)"
    " THEN '' ELSE substring(s, greatest(b, 0) + 1,"
    " CAST(greatest(least(e, length(s)) - greatest(b, 0), 0) AS BIGINT)) END",
    "CREATE MACRO sw_substring(s, p) AS sw_between(s, sw_from(s, p), length(s)),"
    " (s, p, n) AS sw_between(s, sw_from(s, p), CAST(sw_from(s, p) AS HUGEINT) + n)",
    "CREATE MACRO sw_replace(s, a) AS CASE WHEN a = '' THEN s ELSE replace(s, a, '') END,"
    " (s, a, b) AS CASE WHEN a = '' THEN s || substring(b, 1, 0) ELSE replace(s, a, b) END",
    "CREATE MACRO sw_single(x) AS CASE WHEN abs(x) >= 3.4028235677973366e38 THEN sign(x) * CAST('inf' AS DOUBLE)"
    " ELSE CAST(CAST(x AS FLOAT) AS DOUBLE) END",
    "CREATE MACRO sw_truth(s) AS CASE WHEN lower(s) IN ('t', 'true', 'y', 'yes', '1') THEN true"
    " WHEN lower(s) IN ('f', 'false', 'n', 'no', '0') THEN false END",
    "CREATE MACRO sw_moment(s) AS CASE WHEN abs(s) <= 2305843009213 THEN CAST(trunc(s * 1000000) AS BIGINT) END",
    "CREATE MACRO sw_printed(t) AS rtrim(rtrim(strftime(make_timestamp(t), '%Y-%m-%d %H:%M:%S.%f'), '0'), '.')",
)
_OF_TIME = {
    **{
        name: f"{name}(make_timestamp({{}}))" for name in ("year", "quarter", "month", "day", "dayofyear", "weekofyear")
    },
    **{name: f"{name}(make_timestamp({{}}))" for name in ("hour", "minute", "second")},
    "dayofweek": "dayofweek(make_timestamp({})) + 1",
    "weekday": "isodow(make_timestamp({})) - 1",
    "yearofweek": "isoyear(make_timestamp({}))",
}
_OF_TEXT = {
    "upper": "sw_upper",
    "lower": "sw_lower",
    "length": "length",
    "substring": "sw_substring",
    "replace": "sw_replace",
    "startswith": "starts_with",
    "endswith": "suffix",
    "contains": "contains",
}
_INTEGERS = {
    "cast_tinyint": "TINYINT",
    "cast_smallint": "SMALLINT",
    "cast_int": "INTEGER",
    "cast_bigint": "BIGINT",
}
_TRIMMED = r"regexp_extract({}, '^[\x00-\x20\x7f]*({})[\x00-\x20\x7f]*$', 1)"


def rendered(call: Call, args: list[str]) -> str | None:
    """The SQL of a call over the SQL of its arguments; None where it is not for this file to say."""
    op = call.op
    if op in _OF_TIME:
        return f"CAST({_OF_TIME[op].format(args[0])} AS BIGINT)"
    if op in _OF_TEXT:
        return f"{_OF_TEXT[op]}({', '.join(args)})"
    if op in ("trim", "ltrim", "rtrim"):
        return f"{op}({args[0]}, ' ')"
    if op == "concat":
        return "(" + " || ".join(args) + ")"
    if op in ("like", "ilike"):
        text, pattern = args[:2] if op == "like" else (f"sw_lower({arg})" for arg in args[:2])
        escape = args[2] if len(args) == 3 else "'\\'"
        return f"({text} LIKE {pattern} ESCAPE {escape})"
    if op == "seconds":
        return f"(CAST({args[0]} - sw_floor({args[0]}, 60000000) AS DOUBLE) / 1000000)"
    if op == "date_trunc":
        return f"epoch_us(date_trunc({args[0]}, make_timestamp({args[1]})))"
    if op == "shift":
        return f"({args[0]} + {args[1]})"
    if op == "shift_months":
        return f"epoch_us(make_timestamp({args[0]}) + to_months(CAST({args[1]} AS INTEGER)))"
    return _cast(call, args[0]) if op.startswith("cast_") else None


def _cast(call: Call, arg: str) -> str:
    op, source = call.op, call.args[0].kind
    if op in _INTEGERS:
        whole = {
            Kind.FLOAT: f"trunc({arg})",
            Kind.TIME: f"sw_seconds({arg})",
            Kind.TEXT: _TRIMMED.format(arg, "[+-]?[0-9]+"),
        }.get(source, arg)
        # The smallest integer is the word of a null.
        return f"nullif(CAST(TRY_CAST({whole} AS {_INTEGERS[op]}) AS BIGINT), -9223372036854775808)"
    if op in ("cast_float", "cast_double") and source is not Kind.TEXT:
        number = f"CAST({arg} AS DOUBLE)" + (" / 1000000" if source is Kind.TIME else "")
        return f"sw_single({number})" if op == "cast_float" else f"({number})"
    if op == "cast_boolean":
        return f"sw_truth({_TRIMMED.format(arg, '[a-zA-Z0-9]+')})" if source is Kind.TEXT else f"({arg} <> 0)"
    if op == "cast_timestamp" and source is not Kind.TEXT:
        return f"sw_moment({arg})"
    if op == "cast_string" and call.args[0].scale:
        # A decimal is the integer of its digits here; DuckDB multiplies decimals exactly.
        scale = call.args[0].scale
        unit = f"CAST('0.{'1'.rjust(scale, '0')}' AS DECIMAL({scale}, {scale}))"
        return f"CAST(CAST({arg} AS DECIMAL(19, 0)) * {unit} AS VARCHAR)"
    if op == "cast_string" and source is not Kind.FLOAT:
        return f"sw_printed({arg})" if source is Kind.TIME else f"CAST({arg} AS VARCHAR)"
    target = op.removeprefix("cast_").upper()
    raise UsageError(f"verify cannot compute a CAST from {source.value} to {target}: DuckDB has other rules for it")


CASE = frozenset({"upper", "lower", "ilike"})
"""What asks for upper or lower case."""


def register_case(connection: Any, operators: set[str]) -> None:
    """Make upper and lower case known to DuckDB, whose own are not those of all of Unicode."""
    if operators & CASE:
        connection.create_function("sw_upper", lambda text: text.upper(), ["VARCHAR"], "VARCHAR")
        connection.create_function("sw_lower", lambda text: text.lower(), ["VARCHAR"], "VARCHAR")
