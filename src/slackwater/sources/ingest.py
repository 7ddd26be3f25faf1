"""Taking one input in: columns to words, keys computed, filters judged, bad rows set apart.

Invariant: every row of the table is either given words or a reason; none is dropped here.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from slackwater.expressions.compile import compile_filter, compile_map
from slackwater.expressions.tree import Column
from slackwater.model.batch import ROW, TS, Flags, Words
from slackwater.model.schema import NULL_FLOAT, NULL_WORD, Kind
from slackwater.plan.physical import Computed, InputPlan
from slackwater.sources.codebook import Codebook
from slackwater.sources.encode import GOOD, VALUE_OUT_OF_RANGE, Reasons, encode_column, encode_time


@dataclass(frozen=True)
class Ingested:
    """An input ready to be replayed."""

    words: Words
    """Shape (shipped rows, table rows)."""
    passes: Flags
    reasons: Reasons


def ingest(plan: InputPlan, table: pa.Table, codebook: Codebook, time_unit: str, first_row: int = 0) -> Ingested:
    """Encode a table for one input of a plan."""
    n = table.num_rows
    words = np.empty((plan.all_rows, n), np.int64)
    words[TS], reasons = encode_time(table.column(plan.stream.schema.time), time_unit)
    words[ROW] = np.arange(first_row, first_row + n)
    for name, kind, row in plan.columns:
        words[row], bad = encode_column(table.column(name), kind, codebook)
        reasons[bad & (reasons == GOOD)] = VALUE_OUT_OF_RANGE
    places = {name: row for name, _, row in plan.columns} | {plan.stream.schema.time: TS}

    def here(stream: int, column: str) -> int:
        return places[column]

    # A row that is turned away, or that the filter drops, must not fail a query by what is computed from it.
    passes = reasons == GOOD
    if plan.stream.filters:
        keep = compile_filter(plan.stream.filters, here, codebook.code)
        passes = _spread(words, passes, keep, np.bool_)
    for computed in plan.computed:
        evaluate = compile_map(computed.expr, here, codebook.code)
        words[computed.row] = _spread(words, passes, _worded(computed, evaluate), np.int64)
    return Ingested(words[: plan.rows], passes, reasons)


Evaluate = Callable[[Words, npt.NDArray[np.float64], int], npt.NDArray[Any]]


def _spread(words: Words, rows: Flags, evaluate: Evaluate, dtype: type[np.generic]) -> npt.NDArray[Any]:
    """Evaluate over some of the rows; the others get zero."""
    if rows.all():
        return evaluate(words, words.view(np.float64), words.shape[1])
    some = np.ascontiguousarray(words[:, rows])
    spread = np.zeros(words.shape[1], dtype)
    spread[rows] = evaluate(some, some.view(np.float64), some.shape[1])
    return spread


def _worded(computed: Computed, evaluate: Evaluate) -> Evaluate:
    return lambda ints, floats, count: _as_words(computed, evaluate(ints, floats, count))


def _as_words(computed: Computed, values: npt.NDArray[Any]) -> Words:
    """Values as words. Inside an expression a NaN is a null; only a bare column still tells the two apart."""
    if computed.expr.kind is not Kind.FLOAT:
        return values.astype(np.int64, copy=False)
    bits = np.ascontiguousarray(values).view(np.int64)
    if computed.role == "argument":
        return np.where(np.isnan(values), NULL_FLOAT, bits)
    folded = (values + 0.0).view(np.int64)
    if computed.role == "join key":
        return np.where(np.isnan(values), NULL_WORD, folded)
    if not isinstance(computed.expr, Column):
        return np.where(np.isnan(values), NULL_FLOAT, folded)
    return np.where(bits == NULL_FLOAT, NULL_FLOAT, np.where(np.isnan(values), _NAN, folded))


_NAN = int(np.array(np.nan).view(np.int64))
