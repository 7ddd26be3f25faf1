"""Taking one input in: columns to words, keys computed, filters judged, bad rows set apart.

Invariant: every row of the table is either given words or a reason; none is dropped here. Where several inputs read one
table, `EncodedColumns` encodes each of its columns once.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

import numpy as np
import pyarrow as pa

from slackwater.core.batch import ROW, TS, Flags, Words
from slackwater.core.nested import column_at
from slackwater.core.schema import Kind
from slackwater.expressions.columnar import Coding
from slackwater.expressions.computed import Taking
from slackwater.plan.physical import InputPlan
from slackwater.sources.codebook import Codebook
from slackwater.sources.encode import GOOD, Reasons, encode_column, encode_time


@dataclass(frozen=True)
class Ingested:
    """An input ready to be replayed."""

    words: Words
    """Shape (shipped rows, table rows)."""
    passes: Flags
    reasons: Reasons


class Columns:
    """The columns of one table as words, each encoded when it is asked for, and then let go."""

    def __init__(self, table: pa.Table, codebook: Codebook, time_unit: str) -> None:
        self._table, self._codebook, self._unit = table, codebook, time_unit

    def time(self, name: str) -> tuple[Words, Reasons]:
        """Event times, and per row why it has none."""
        return encode_time(column_at(self._table, name), self._unit)

    def column(self, name: str, kind: Kind) -> tuple[Words, Reasons]:
        """The words of a column, and per row why it has none."""
        return encode_column(column_at(self._table, name), kind, self._codebook)


class EncodedColumns(Columns):
    """The same for several inputs: each is encoded when it is first asked for."""

    def __init__(self, table: pa.Table, codebook: Codebook, time_unit: str) -> None:
        super().__init__(table, codebook, time_unit)
        self._times: dict[str, tuple[Words, Reasons]] = {}
        self._columns: dict[tuple[str, Kind], tuple[Words, Reasons]] = {}

    def time(self, name: str) -> tuple[Words, Reasons]:
        if name not in self._times:
            self._times[name] = super().time(name)
        return self._times[name]

    def column(self, name: str, kind: Kind) -> tuple[Words, Reasons]:
        if (name, kind) not in self._columns:
            self._columns[name, kind] = super().column(name, kind)
        return self._columns[name, kind]


def encode_rows(
    words: Words, columns: Columns, time: str, wanted: Iterable[tuple[str, Kind, int]], first_row: int
) -> tuple[Reasons, dict[str, Reasons]]:
    """Fill words with event times, the numbers of rows from the first on, and some columns, each at its row. Why rows
    have no event time; and the columns in which some row has no word, with why."""
    words[TS], reasons = columns.time(time)
    words[ROW] = np.arange(first_row, first_row + words.shape[1])
    bad: dict[str, Reasons] = {}
    for name, kind, row in wanted:
        words[row], why = columns.column(name, kind)
        if why.any():
            bad[name] = why
    return reasons, bad


def with_reasons(reasons: Reasons, others: Iterable[Reasons]) -> Reasons:
    """Why each row is bad, by the first reason that there is for it."""
    for why in others:
        reasons = np.where(reasons == GOOD, why, reasons)
    return reasons


def ingest(
    plan: InputPlan,
    table: pa.Table,
    codebook: Codebook,
    time_unit: str,
    first_row: int = 0,
    encoded: EncodedColumns | None = None,
) -> Ingested:
    """Encode a table for one input of a plan; `encoded` has the columns that other inputs have read from it."""
    words = np.empty((plan.all_rows, table.num_rows), np.int64)
    columns = encoded or Columns(table, codebook, time_unit)
    unreadable, bad = encode_rows(words, columns, plan.stream.schema.time, plan.columns, first_row)
    # Who packs rows marks more of them as bad; what is encoded once is for several inputs.
    reasons = with_reasons(unreadable.copy(), bad.values())
    places = {name: row for name, _, row in plan.columns} | {plan.stream.schema.time: TS}
    # A row that is rejected, or that the filter drops, must not fail a query by what is computed from it.
    taking = Taking(plan.stream.filters, plan.computed, lambda stream, column: places[column], Coding(codebook))
    passes = taking.take(words, reasons == GOOD)
    return Ingested(words[: plan.rows], passes, reasons)
