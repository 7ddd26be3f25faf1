"""Results as tuples of the node above, slow and obvious: one value after the other.

Invariant: shares no code with the kernels. A result is its event time and the words of its columns.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from slackwater.core.batch import TS
from slackwater.core.schema import NULL_WORD, Kind
from slackwater.expressions.computed import Computed
from slackwater.expressions.tree import Column, Expr, walk
from slackwater.operators.projection import Projection
from tests.kit.evaluate import evaluate
from tests.kit.oracle_release import Tuple
from tests.kit.words import decode, encode

Made = tuple[int, tuple[int, ...]]
"""(event time, words of the columns) of a result."""


def taken(projection: Projection, made: Made, number: int) -> Tuple | None:
    """A result as a tuple of input `number`, or None where the filters of that input drop it."""
    ts, columns = made
    # Behind these columns there may be others that only the account of memory reads.
    below = dict(zip(projection.emitted, columns, strict=False))
    words = [0] * projection.all_rows
    words[TS] = ts
    for carried in projection.carried:
        if carried.source is not None:
            words[carried.row] = columns[carried.source]
        elif carried.expr is not None:
            value = _value(carried.expr, lambda stream, name: below[stream, name])
            words[carried.row] = encode(value, carried.expr.kind)
    row_of = {carried.name: carried.row for carried in projection.carried} | {projection.time: TS}

    def here(stream: int, name: str) -> int:
        return words[row_of[name]]

    if not all(_value(condition, here) is True for condition in projection.filters):
        return None
    for computed in projection.computed:
        words[computed.row] = _computed(computed, here)
    return Tuple(number, ts, tuple(words[: projection.rows]))


def _computed(computed: Computed, word_of: Callable[[int, str], int]) -> int:
    expr = computed.expr
    if isinstance(expr, Column) and computed.role == "group key":
        value: Any = decode(word_of(expr.stream, expr.name), expr.kind)
    else:
        value = _value(expr, word_of)
    if value is None and computed.role == "join key":
        return NULL_WORD
    if expr.kind is Kind.FLOAT and value is not None and computed.role != "argument":
        value += 0.0
    return encode(value, expr.kind)


def _value(expr: Expr, word_of: Callable[[int, str], int]) -> Any:
    rows: dict[int, dict[str, object]] = {}
    for node in walk(expr):
        if isinstance(node, Column):
            value: object = decode(word_of(node.stream, node.name), node.kind)
            rows.setdefault(node.stream, {})[node.name] = (
                bool(value) if node.kind is Kind.BOOL and value is not None else value
            )
    return evaluate(expr, [rows.get(stream, {}) for stream in range(max(rows, default=-1) + 1)])
