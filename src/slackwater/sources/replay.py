"""Replaying recorded streams: all inputs of a plan as one sequence of arrivals.

Invariant: `arrival` is order only. Ties go by the order in which the streams were named, then by row. A stream read
under two aliases arrives at both. Where it is another order than that of the rows, that is said.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass

import numpy as np
import pyarrow as pa

from slackwater.core.batch import Batch, Flags, Words
from slackwater.core.errors import DataError, QueryError, UsageError
from slackwater.core.schema import Kind, kind_of
from slackwater.language.bound import goes_by_arrival
from slackwater.plan.physical import PhysicalPlan
from slackwater.sources.codebook import Codebook
from slackwater.sources.encode import GOOD, NULL_TIME, TIME_UNITS, Reasons, encode_time
from slackwater.sources.files import ARRIVAL
from slackwater.sources.ingest import Ingested, ingest


@dataclass(frozen=True)
class Arrivals:
    """Which rows of several inputs arrive, in order."""

    stream: Words
    row: Words
    arrival_time: Words | None
    notes: tuple[str, ...]
    """What is odd about the order of arrival."""

    def __len__(self) -> int:
        return len(self.stream)

    def some(self, which: slice | Flags) -> Arrivals:
        arrived = None if self.arrival_time is None else self.arrival_time[which]
        return Arrivals(self.stream[which], self.row[which], arrived, self.notes)

    def by_input(self, inputs: int) -> Iterator[tuple[int, slice | Words, slice | Words]]:
        """Each input with the positions of its arrivals, and its rows there; without a gap between rows as slices."""
        if inputs == 1 and len(self) and self.row[-1] - self.row[0] + 1 == len(self):
            yield 0, slice(0, len(self)), slice(int(self.row[0]), int(self.row[-1]) + 1)
            return
        for s in range(inputs):
            mine = np.flatnonzero(self.stream == s)
            yield s, mine, self.row[mine]


@dataclass(frozen=True)
class Replay(Arrivals):
    """Arrivals of a plan's inputs, with what arrives."""

    inputs: tuple[Ingested, ...]
    tables: tuple[pa.Table, ...]
    """The source rows of each input, for late and rejected rows."""
    codebook: Codebook
    rows: int

    def batches(self, size: int) -> Iterator[Batch]:
        """The good rows in arrival order, `size` at a time."""
        for begin in range(0, len(self), size):
            yield self._gathered(self.some(slice(begin, begin + size)))

    def _gathered(self, some: Arrivals) -> Batch:
        if len(self.inputs) == 1:
            ((_, _, there),) = some.by_input(1)
            words = np.ascontiguousarray(self.inputs[0].words[:, there])
            return Batch(some.stream, words, self.inputs[0].passes[there], some.arrival_time)
        words, passes = np.zeros((self.rows, len(some)), np.int64), np.ones(len(some), np.bool_)
        for s, mine, there in some.by_input(len(self.inputs)):
            words[: len(self.inputs[s].words), mine] = self.inputs[s].words[:, there]
            passes[mine] = self.inputs[s].passes[there]
        return Batch(some.stream, words, passes, some.arrival_time)


def replay(
    plan: PhysicalPlan,
    sources: Mapping[str, pa.Table],
    time_unit: str,
    arrival_time: str | None = None,
    ranks: Mapping[str, Words] | None = None,
) -> Replay:
    """Encode the sources of a plan and put their rows into arrival order.

    `arrival_time` names the column with the moments of arrival, as COLUMN or, where its unit is another, COLUMN:UNIT.
    `ranks` has the rows' order of arrival where no column `arrival` does, because all sources come out of one file.
    """
    check_arrival_times(plan, arrival_time is not None)
    codebook = Codebook()
    tables = tuple(sources[one.stream.source] for one in plan.inputs)
    inputs = tuple(ingest(one, table, codebook, time_unit) for one, table in zip(plan.inputs, tables, strict=True))
    names = [one.stream.source for one in plan.inputs]
    found = arrivals(names, sources, [one.reasons for one in inputs], time_unit, arrival_time, ranks)
    return Replay(
        found.stream, found.row, found.arrival_time, found.notes, inputs, tables, codebook, plan.operator.rows
    )


def arrivals(
    inputs: Sequence[str],
    sources: Mapping[str, pa.Table],
    reasons: Sequence[Reasons],
    time_unit: str,
    arrival_time: str | None = None,
    ranks: Mapping[str, Words] | None = None,
) -> Arrivals:
    """The good rows of several inputs in arrival order; `inputs` has the source of each, and `reasons` says why some of
    its rows are bad."""
    notes: tuple[str, ...] = ()
    if len(inputs) == 1:
        row = np.flatnonzero(reasons[0] == GOOD)
        stream = np.zeros(len(row), np.int64)
    else:
        stream, row, notes = _interleaved(inputs, sources, ranks)
        good = np.zeros(len(row), np.bool_)
        for position, one in enumerate(reasons):
            mine = stream == position
            good[mine] = one[row[mine]] == GOOD
        stream, row = stream[good], row[good]
    arrived = None
    if arrival_time is not None:
        column, _, unit = arrival_time.rpartition(":")
        if unit not in TIME_UNITS:
            column, unit = arrival_time, time_unit
        arrived = np.empty(len(row), np.int64)
        for position, source in enumerate(inputs):
            mine = stream == position
            arrived[mine] = _moments(source, sources[source], column, unit)[row[mine]]
    return Arrivals(stream, row, arrived, notes)


def check_arrival_times(plan: PhysicalPlan, known: bool) -> None:
    """Refuse windows of arrival times where these are not known: in event time they would be other windows."""
    if not known and goes_by_arrival(plan.query):
        raise UsageError(
            "windows BY ARRIVAL need the moments at which rows arrived: name the column that has them, with"
            " arrival_time='COLUMN' in a program or --arrival-time COLUMN in a command, or leave out BY ARRIVAL"
        )


def _interleaved(
    inputs: Sequence[str], sources: Mapping[str, pa.Table], ranks: Mapping[str, Words] | None
) -> tuple[Words, Words, tuple[str, ...]]:
    """(input, row) of all rows of several inputs, in arrival order; and what is odd about it.

    `inputs` has the source of each input.
    """
    names = [name for name in sources if name in inputs]
    lines = []
    notes: dict[str, None] = {}
    for position, source in enumerate(inputs):
        table = sources[source]
        arrival = _arrival(source, table, ranks) if len(names) > 1 else _in_order(table.num_rows)
        if (note := _backwards(source, *arrival)) is not None:
            notes[note] = None
        order = np.full(table.num_rows, names.index(source), np.int64)
        lines.append((np.full(table.num_rows, position, np.int64), order, np.arange(table.num_rows), *arrival))
    stream, order, row, beyond, arrival_ = (np.concatenate(column) for column in zip(*lines, strict=True))
    sequence = np.lexsort((stream, row, order, arrival_, beyond))
    return stream[sequence], row[sequence], tuple(notes)


def _in_order(rows: int) -> tuple[Words, Words]:
    return np.zeros(rows, np.int64), np.arange(rows)


def _arrival(source: str, table: pa.Table, ranks: Mapping[str, Words] | None) -> tuple[Words, Words]:
    """Ranks in the order of arrival; of numbers beyond 63 bits the first says so, and the second has their rest."""
    if ARRIVAL not in table.column_names:
        if ranks is not None:
            return np.zeros(table.num_rows, np.int64), ranks[source]
        raise QueryError(
            f"stream {source} has no column '{ARRIVAL}'; with several files each needs one, to say in which order"
            " rows came"
        )
    column = table.column(ARRIVAL)
    if not pa.types.is_integer(column.type):
        raise QueryError(f"stream {source}: column '{ARRIVAL}' must hold integers, not {column.type}")
    if column.null_count:
        raise DataError(f"stream {source}: column '{ARRIVAL}' has {column.null_count} nulls; every row needs its place")
    if pa.types.is_uint64(column.type):
        bits = column.to_numpy()
        return (bits > np.uint64(2**63 - 1)).astype(np.int64), bits.astype(np.int64)
    return np.zeros(table.num_rows, np.int64), column.cast(pa.int64()).to_numpy()


def _backwards(source: str, beyond: Words, arrival: Words) -> str | None:
    """A sentence where rows came in another order than they stand in: the last may have made the others late."""
    falls = np.flatnonzero((np.diff(beyond) < 0) | ((np.diff(beyond) == 0) & (arrival[1:] < arrival[:-1])))
    if not len(falls):
        return None
    first = int(falls[0]) + 1
    before, after = (int(arrival[at]) + (int(beyond[at]) << 64) for at in (first - 1, first))
    return (
        f"stream {source}: column '{ARRIVAL}' runs backwards, first in row {first} ({after} after {before});"
        " rows arrive in its order, not in that of the table, so what stands first may come late"
    )


def _moments(source: str, table: pa.Table, column: str, unit: str) -> Words:
    if column not in table.column_names:
        raise QueryError(f"stream {source} has no column '{column}' to take arrival times from")
    found = table.column(column)
    if kind_of(found.type) in (None, Kind.BOOL):
        raise QueryError(f"stream {source}: column '{column}' of type {found.type} cannot be a time of arrival")
    moments, reasons = encode_time(found, unit)
    bad = np.flatnonzero(reasons != GOOD)
    if len(bad):
        row = int(bad[0])
        held = "nothing" if reasons[row] == NULL_TIME else repr(str(found[row]))
        what = "a time as ISO 8601 writes it" if kind_of(found.type) is Kind.TEXT else "a time"
        raise DataError(
            f"stream {source}: {len(bad):,} rows have no arrival time in column '{column}'; row {row} holds {held}, and"
            f" not {what}"
        )
    return moments
