"""Which code computes which operator.

Invariant: every operator of the allow-list has a kernel, or is computed over columns of text (`textual.py`); the type
of a kernel shows what it does with unknown arguments.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from slackwater.core.schema import Kind
from slackwater.expressions import arithmetic, calendar, conversions, logic, membership
from slackwater.expressions.user import UserFunction


@dataclass(frozen=True)
class Strict:
    """A function of values: unknown if one of them is, or if it returns the word of a null."""

    function: Callable[..., Any]


@dataclass(frozen=True)
class Checked:
    """A strict instruction of the code builder that gives a result and whether it overflowed."""

    instruction: str


@dataclass(frozen=True)
class Lazy:
    """A function of (value, state, value, state, ...) that returns (value, state)."""

    function: Callable[..., Any]


Kernel = Strict | Checked | Lazy | UserFunction

KERNELS: dict[str, Kernel] = {
    "+": Checked("sadd_with_overflow"),
    "-": Checked("ssub_with_overflow"),
    "*": Checked("smul_with_overflow"),
    "%": Strict(arithmetic.int_remainder),
    "/": Strict(arithmetic.divide),
    "//": Strict(arithmetic.floor_divide),
    "rescale": Checked("smul_with_overflow"),
    "decimal_to_float": Strict(arithmetic.decimal_to_float),
    "neg": Strict(arithmetic.negate),
    "abs": Strict(arithmetic.absolute),
    "sign": Strict(arithmetic.sign),
    "to_float": Strict(arithmetic.to_float),
    "to_int": Strict(arithmetic.to_int),
    "floor": Strict(arithmetic.floor),
    "ceil": Strict(arithmetic.ceil),
    "round": Strict(arithmetic.round_half_away),
    "sqrt": Strict(arithmetic.sqrt),
    "exp": Strict(arithmetic.exp),
    "ln": Strict(arithmetic.ln),
    "log10": Strict(arithmetic.log10),
    "sin": Strict(arithmetic.sin),
    "cos": Strict(arithmetic.cos),
    "tan": Strict(arithmetic.tan),
    "asin": Strict(arithmetic.asin),
    "acos": Strict(arithmetic.acos),
    "atan": Strict(arithmetic.atan),
    "atan2": Strict(arithmetic.atan2),
    "pow": Strict(arithmetic.power),
    "hypot": Strict(arithmetic.hypot),
    "dist": Strict(arithmetic.dist),
    "=": Strict(arithmetic.equal),
    "<>": Strict(arithmetic.unequal),
    "<": Strict(arithmetic.less),
    "<=": Strict(arithmetic.at_most),
    "in": Strict(membership.is_one_of),
    "not": Strict(arithmetic.logical_not),
    "and": Lazy(logic.logical_and),
    "or": Lazy(logic.logical_or),
    "is_null": Lazy(logic.is_null),
    "case": Lazy(logic.choose),
    "coalesce": Lazy(logic.first_known),
    "nullif": Lazy(logic.null_if),
    "least": Lazy(logic.least),
    "greatest": Lazy(logic.greatest),
    "shift": Checked("sadd_with_overflow"),
    "shift_months": Strict(calendar.shift_months),
    "year": Strict(calendar.year),
    "quarter": Strict(calendar.quarter),
    "month": Strict(calendar.month),
    "day": Strict(calendar.day),
    "dayofweek": Strict(calendar.dayofweek),
    "weekday": Strict(calendar.weekday),
    "dayofyear": Strict(calendar.dayofyear),
    "weekofyear": Strict(calendar.weekofyear),
    "yearofweek": Strict(calendar.yearofweek),
    "hour": Strict(calendar.hour),
    "minute": Strict(calendar.minute),
    "second": Strict(calendar.second),
    "seconds": Strict(calendar.seconds),
}
"""The kernel of each operator, on integer words where FLOAT_KERNELS has another for floats."""

FLOAT_KERNELS: dict[str, Kernel] = {
    "+": Strict(arithmetic.add),
    "-": Strict(arithmetic.subtract),
    "*": Strict(arithmetic.multiply),
    "%": Strict(arithmetic.remainder),
    "in": Strict(membership.is_one_of_floats),
}

ROUND_SCALED = Strict(arithmetic.round_scaled)

TRUNCATED: dict[str, Kernel] = {
    "year": Strict(calendar.trunc_year),
    "quarter": Strict(calendar.trunc_quarter),
    "month": Strict(calendar.trunc_month),
    "week": Strict(calendar.trunc_week),
    "day": Strict(calendar.trunc_day),
    "hour": Strict(calendar.trunc_hour),
    "minute": Strict(calendar.trunc_minute),
    "second": Strict(calendar.trunc_second),
    "millisecond": Strict(calendar.trunc_millisecond),
    "microsecond": Strict(calendar.trunc_microsecond),
}
"""The kernel of `date_trunc` for each unit."""

CASTS: dict[tuple[str, Kind], Kernel] = {
    **{("cast_tinyint", kind): Strict(conversions.to_tinyint) for kind in (Kind.INT, Kind.FLOAT, Kind.BOOL)},
    **{("cast_smallint", kind): Strict(conversions.to_smallint) for kind in (Kind.INT, Kind.FLOAT, Kind.BOOL)},
    **{("cast_int", kind): Strict(conversions.to_integer) for kind in (Kind.INT, Kind.FLOAT, Kind.BOOL)},
    ("cast_tinyint", Kind.TIME): Strict(conversions.seconds_as_tinyint),
    ("cast_smallint", Kind.TIME): Strict(conversions.seconds_as_smallint),
    ("cast_int", Kind.TIME): Strict(conversions.seconds_as_integer),
    ("cast_bigint", Kind.FLOAT): Strict(arithmetic.to_int),
    ("cast_bigint", Kind.BOOL): Strict(conversions.same),
    ("cast_bigint", Kind.TIME): Strict(conversions.to_seconds),
    **{("cast_float", kind): Strict(conversions.to_single) for kind in (Kind.INT, Kind.FLOAT, Kind.BOOL)},
    ("cast_float", Kind.TIME): Strict(conversions.seconds_as_single),
    ("cast_double", Kind.BOOL): Strict(arithmetic.to_float),
    ("cast_double", Kind.INT): Strict(arithmetic.to_float),
    ("cast_double", Kind.TIME): Strict(conversions.to_float_seconds),
    ("cast_boolean", Kind.INT): Strict(conversions.truth),
    ("cast_boolean", Kind.FLOAT): Strict(conversions.truth),
    ("cast_timestamp", Kind.TIME): Strict(conversions.same),
    ("cast_timestamp", Kind.INT): Strict(conversions.from_seconds),
    ("cast_timestamp", Kind.FLOAT): Strict(conversions.from_float_seconds),
}
"""The kernel of a cast, by what it is given; casts to and from text are computed over columns."""
IN_OR_NULL, FLOAT_IN_OR_NULL = Strict(membership.is_one_of_or_null), Strict(membership.is_one_of_floats_or_null)
"""IN where the list holds a null."""
