"""Which code computes which operator.

Invariant: every operator of the allow-list has a kernel, and its type shows what it does with unknown arguments.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from slackwater.expressions import arithmetic, logic, membership
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

IN_OR_NULL, FLOAT_IN_OR_NULL = Strict(membership.is_one_of_or_null), Strict(membership.is_one_of_floats_or_null)
"""IN where the list holds a null."""
