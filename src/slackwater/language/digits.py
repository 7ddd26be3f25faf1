"""How many digits the value of a decimal expression can have.

Invariant: never fewer than a value has, and never more than a word holds. The rules are Spark's where it has them: a
sum has one digit more than its longer side, a product those of both.
"""

from __future__ import annotations

from collections.abc import Sequence

import pyarrow as pa

from slackwater.core.schema import WORD_DIGITS
from slackwater.expressions.tree import Column, Expr, Literal
from slackwater.language.bound import StreamRef

_CHOOSING = frozenset(("abs", "neg", "coalesce", "nullif", "least", "greatest"))
_INTEGERS = {pa.int8(): 3, pa.uint8(): 3, pa.int16(): 5, pa.uint16(): 5, pa.int32(): 10, pa.uint32(): 10}


def digits(expr: Expr, streams: Sequence[StreamRef]) -> int:
    """The digits of an integer or a decimal, on both sides of the point."""
    return min(WORD_DIGITS, _digits(expr, streams))


def _digits(expr: Expr, streams: Sequence[StreamRef]) -> int:
    if isinstance(expr, Column):
        schema = streams[expr.stream].schema
        arrow = schema[expr.name].arrow if expr.name in schema else pa.int64()
        return int(arrow.precision) if pa.types.is_decimal(arrow) else _INTEGERS.get(arrow, WORD_DIGITS)
    if isinstance(expr, Literal):
        return 1 if expr.value is None else len(str(abs(int(expr.value))))
    if expr.op == "sign":
        return 0
    if expr.op not in (*_CHOOSING, "case", "+", "-", "*", "%", "rescale", "//"):
        return WORD_DIGITS
    values = (*expr.args[1:-1:2], expr.args[-1]) if expr.op == "case" else expr.args
    each = [_digits(value, streams) for value in values]
    match expr.op:
        case "*":
            return sum(each)
        case "rescale":
            return each[0] + each[1] - 1
        case "//":
            return max(1, each[0] - each[1] + 1)
        case "+" | "-":
            return max(each) + 1
        case "%":
            return each[0]
    return max(each)
