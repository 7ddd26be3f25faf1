"""Taking one input in: columns to words, keys computed, filters judged, bad rows set apart.

Invariant: every row of the table is either given words or a reason; none is dropped here.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import pyarrow as pa

from slackwater.core.batch import ROW, TS, Flags, Words
from slackwater.core.nested import column_at
from slackwater.expressions.columnar import Coding
from slackwater.expressions.computed import Taking
from slackwater.plan.physical import InputPlan
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
    words[TS], reasons = encode_time(column_at(table, plan.stream.schema.time), time_unit)
    words[ROW] = np.arange(first_row, first_row + n)
    for name, kind, row in plan.columns:
        words[row], bad = encode_column(column_at(table, name), kind, codebook)
        reasons[bad & (reasons == GOOD)] = VALUE_OUT_OF_RANGE
    places = {name: row for name, _, row in plan.columns} | {plan.stream.schema.time: TS}
    # A row that is rejected, or that the filter drops, must not fail a query by what is computed from it.
    taking = Taking(plan.stream.filters, plan.computed, lambda stream, column: places[column], Coding(codebook))
    passes = taking.take(words, reasons == GOOD)
    return Ingested(words[: plan.rows], passes, reasons)
