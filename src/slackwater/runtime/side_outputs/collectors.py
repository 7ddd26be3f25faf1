"""Side outputs: late tuples and rejected ones as rows of one table, and where they are kept until somebody asks for
them.

Invariant: a row says which stream it came from and why it stands here; `row` is the tuple as JSON, as far as the query
reads it (a row rejected for its time: all of it). What is added is handed out once, in the order in which it came. A
buffer with a bound keeps at most so many rows, or as many as came at once; the oldest go first, and those that go are
counted. Over a recording only the places of rows are kept, because the rows themselves are at hand.
"""

from __future__ import annotations

import json
from collections import deque
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Any, Protocol

import numpy as np
import pyarrow as pa

from slackwater.core.batch import ROW, TS, Batch, Words
from slackwater.core.state import Late
from slackwater.plan.physical import InputPlan, PhysicalPlan
from slackwater.sources.codebook import Codebook
from slackwater.sources.encode import AHEAD, GOOD, REASONS, UTC, Reasons, decode_column, encode_time
from slackwater.sources.replay import Replay

LATE, REJECTED = "late", "rejected"
"""The kinds of side outputs; the reason of a late row is that it is late."""
SCHEMA = pa.schema(
    [
        ("stream", pa.string()),
        ("reason", pa.string()),
        ("ts", UTC),
        ("delay", pa.float64()),
        ("watermark", UTC),
        ("identity", pa.int64()),
        ("row", pa.string()),
    ]
)


def side_output_table(
    streams: Sequence[str],
    reasons: Sequence[str],
    *,
    rows: Sequence[str],
    ts: Words | None = None,
    delay: Words | None = None,
    watermark: Words | None = None,
    identity: Words | None = None,
) -> pa.Table:
    """Rows that belong to a side output; what is not known of them is null."""
    n = len(streams)
    known = {
        "stream": pa.array(streams, pa.string()),
        "reason": pa.array(reasons, pa.string()),
        "ts": None if ts is None else pa.array(ts).cast(UTC),
        "delay": None if delay is None else pa.array(delay / 1000.0),
        "watermark": None if watermark is None else pa.array(watermark).cast(UTC),
        "identity": None if identity is None else pa.array(identity),
        "row": pa.array(rows, pa.string()),
    }
    arrays = [pa.nulls(n, field.type) if known[field.name] is None else known[field.name] for field in SCHEMA]
    return pa.table(arrays, schema=SCHEMA)


def late_table(plan: PhysicalPlan, late: Late, codebook: Codebook) -> pa.Table:
    """Late tuples with their delay in milliseconds and the watermark they met."""
    aliases = [plan.inputs[s].stream.alias for s in late.stream.tolist()]
    rows = _rows(plan, late.stream, late.words, codebook)
    return side_output_table(
        aliases, [LATE] * len(aliases), rows=rows,
        ts=late.ts, delay=late.delay, watermark=late.watermark, identity=late.row,
    )  # fmt: skip


def rejected_table(plan: PhysicalPlan, batch: Batch, codebook: Codebook, reason: str = REASONS[AHEAD]) -> pa.Table:
    """Tuples that were taken in and are rejected: ahead of all evidence, unless another reason is given."""
    aliases = [plan.inputs[s].stream.alias for s in batch.stream.tolist()]
    rows = _rows(plan, batch.stream, batch.words, codebook)
    return side_output_table(aliases, [reason] * len(aliases), rows=rows, ts=batch.words[TS], identity=batch.words[ROW])


def rejected_input_table(
    alias: str, table: pa.Table, reasons: Reasons, told: pa.ChunkedArray | None = None
) -> pa.Table:
    """The rows of a table that can move no clock, with their reason; `told` has, where it is not null, what is told of
    a row in place of its columns."""
    bad = np.flatnonzero(reasons != GOOD)
    taken = table.take(pa.array(bad))
    columns = {name: _written(taken.column(name)) for name in taken.column_names}
    rows = [
        json.dumps(dict(zip(columns, row, strict=True)), default=str) for row in zip(*columns.values(), strict=True)
    ]
    if told is not None:
        texts = told.take(pa.array(bad)).to_pylist()
        rows = [row if text is None else text for row, text in zip(rows, texts, strict=True)]
    return side_output_table([alias] * len(bad), [REASONS[code] for code in reasons[bad].tolist()], rows=rows)


def example_of(block: bytes) -> str:
    """The first row of an encoded table of late or rejected rows."""
    return str(pa.ipc.open_stream(block).read_next_batch().column("row")[0])


def _written(column: pa.ChunkedArray) -> list[Any]:
    """A column as JSON can hold it: a time that no calendar has is written as the number it is.

    >>> _written(pa.chunked_array([pa.array([0, 2**62], pa.timestamp("us"))]))
    ['1970-01-01 00:00:00', 4611686018427387904]
    """
    if not pa.types.is_timestamp(column.type):
        return _reported(column)
    raw = column.cast(pa.int64()).to_pylist()
    moments, why = encode_time(column, "us")
    known = iter(_reported(pa.chunked_array([pa.array(moments[why == GOOD]).cast(UTC)])))
    reported = [next(known) if code == GOOD else None for code in why.tolist()]
    return [str(one.replace(tzinfo=None)) if isinstance(one, datetime) else raw[i] for i, one in enumerate(reported)]


def _reported(column: pa.ChunkedArray) -> list[Any]:
    """The values of a column; of a moment that no calendar has, the number it is."""
    try:
        values: list[Any] = column.to_pylist()
    except OverflowError:
        values = [_moment(one) for one in column]
    return values


def _moment(one: pa.TimestampScalar) -> Any:
    try:
        return one.as_py()
    except OverflowError:
        return one.value


def _rows(plan: PhysicalPlan, stream: Words, words: Words, codebook: Codebook) -> list[str]:
    rows = [""] * len(stream)
    for position, one in enumerate(plan.inputs):
        mine = np.flatnonzero(stream == position)
        table = _decoded(one, words[:, mine], codebook)
        columns = [_reported(column) for column in table.columns]
        for place, row in zip(mine.tolist(), zip(*columns, strict=True), strict=True):
            rows[place] = json.dumps(dict(zip(table.column_names, row, strict=True)), default=str)
    return rows


def _decoded(one: InputPlan, words: Words, codebook: Codebook) -> pa.Table:
    schema = one.stream.schema
    columns = {
        name: decode_column(words[row], kind, schema[name].arrow, codebook)
        for name, kind, row in one.columns
        if row < one.rows
    }
    return pa.table({schema.time: pa.array(words[TS]).cast(UTC)} | columns)


MOST = 100_000
"""So many rows of a running query are kept."""


class SideOutput(Protocol):
    """Takes the tuples of a kernel that make no result."""

    def add_late(self, late: Late) -> None:
        """Tuples came behind the watermark."""

    def add_rejected(self, batch: Batch, reason: int) -> None:
        """Tuples were taken in and rejected for a reason, a place in REASONS."""


@dataclass(frozen=True)
class _Piece:
    """What came at once: tuples, which become rows when somebody asks, or rows."""

    kind: str
    rows: int
    what: Late | tuple[Batch, int] | pa.Table


class BufferedSideOutput:
    """Late and rejected tuples of a running query; without a bound (`most=None`) it must be emptied every epoch."""

    def __init__(
        self,
        plan: PhysicalPlan,
        codebook: Codebook,
        most: int | None = MOST,
        on_rejected: Callable[[Batch], None] | None = None,
    ) -> None:
        """`on_rejected` hears of tuples that were taken in and rejected, for whoever keeps them elsewhere as well."""
        self._plan, self._codebook, self._most, self._on_rejected = plan, codebook, most, on_rejected
        self.pieces: deque[_Piece] = deque()
        """What is kept; its tuples still need the texts of their codes."""
        self._rows = 0
        self.dropped = 0
        """Rows that went before anybody asked."""

    def add_late(self, late: Late) -> None:
        self._add(_Piece(LATE, len(late.ts), late))

    def add_rejected(self, batch: Batch, reason: int) -> None:
        self._add(_Piece(REJECTED, len(batch), (batch, reason)))
        if self._on_rejected is not None:
            self._on_rejected(batch)

    def add_unreadable(self, alias: str, table: pa.Table, reasons: Reasons) -> None:
        """The rows of a table that can move no clock, where there are any."""
        if (reasons != GOOD).any():
            self.add_rows(rejected_input_table(alias, table, reasons))

    def add_rows(self, table: pa.Table) -> None:
        """Rows by SCHEMA, all of one kind, as another process has made them."""
        if table.num_rows:
            kind = LATE if table.column("reason")[0].as_py() == LATE else REJECTED
            self._add(_Piece(kind, table.num_rows, table))

    def _add(self, piece: _Piece) -> None:
        self.pieces.append(piece)
        self._rows += piece.rows
        while self._most is not None and self._rows > self._most and len(self.pieces) > 1:
            oldest = self.pieces.popleft()
            self._rows -= oldest.rows
            self.dropped += oldest.rows

    def take_tables(self) -> list[tuple[str, pa.Table]]:
        """What is kept, each piece with its kind: late ones first. From now on nothing is kept."""
        pieces, self.pieces, self._rows = self.pieces, deque(), 0
        return [(kind, self._table(piece)) for kind in (LATE, REJECTED) for piece in pieces if piece.kind == kind]

    def newest(self, most: int, largest: int) -> list[dict[str, Any]]:
        """So many of the newest rows, which stay; of what came at once only where that is not more than `largest`."""
        found: list[dict[str, Any]] = []
        for piece in list(self.pieces)[-most:]:
            if piece.rows <= largest:
                found += self._table(piece).to_pylist()[-most:]
        return found[-most:]

    def take(self) -> pa.Table:
        """What is kept as one table, in the order in which it came."""
        pieces, self.pieces, self._rows = self.pieces, deque(), 0
        return pa.concat_tables([SCHEMA.empty_table(), *map(self._table, pieces)])

    def take_by_stream(self) -> tuple[dict[str, pa.Table], dict[str, pa.Table]]:
        """What is kept: late and rejected rows, each by the alias of their stream."""
        rows = self.take()
        late, rejected = {}, {}
        streams, reasons = (np.array(rows.column(name).to_pylist(), dtype=object) for name in ("stream", "reason"))
        for alias in (one.stream.alias for one in self._plan.inputs):
            late[alias] = rows.filter(pa.array((streams == alias) & (reasons == LATE), pa.bool_()))
            rejected[alias] = rows.filter(pa.array((streams == alias) & (reasons != LATE), pa.bool_()))
        return late, rejected

    def _table(self, piece: _Piece) -> pa.Table:
        if isinstance(piece.what, Late):
            return late_table(self._plan, piece.what, self._codebook)
        if isinstance(piece.what, tuple):
            batch, reason = piece.what
            return rejected_table(self._plan, batch, self._codebook, REASONS[reason])
        return piece.what


class RecordedSideOutput:
    """The places of the rows of a recording that came late or were rejected."""

    def __init__(self, plan: PhysicalPlan, replay: Replay) -> None:
        self._plan, self._replay = plan, replay
        self._late: list[tuple[Words, Words, Words, Words]] = []
        self._rejected: list[tuple[Words, Words, int]] = []

    def add_late(self, late: Late) -> None:
        self._late.append((late.stream, late.row, late.delay, late.watermark))

    def add_rejected(self, batch: Batch, reason: int) -> None:
        self._rejected.append((batch.stream, batch.words[ROW], reason))

    def add_unreadable(self, position: int, reasons: Reasons) -> None:
        """The rows of one input that can move no clock; all rows of it have their reason here."""
        for code in range(GOOD + 1, len(REASONS)):
            row = np.flatnonzero(reasons == code)
            if len(row):
                self._rejected.append((np.full(len(row), position), row, code))

    def add_rows(self, table: pa.Table, source_row: str) -> None:
        """Rows by SCHEMA, as another process has made them. One that could move no clock tells its place in the
        recording only in its text, under the name `source_row`."""
        places = {one.stream.alias: position for position, one in enumerate(self._plan.inputs)}
        stream = np.array([places[alias] for alias in table.column("stream").to_pylist()], np.int64)
        reasons = np.array(table.column("reason").to_pylist())
        known, texts = table.column("identity").to_pylist(), table.column("row").to_pylist()
        rows = [json.loads(text)[source_row] if at is None else at for at, text in zip(known, texts, strict=True)]
        row = np.array(rows, np.int64)
        late = reasons == LATE
        if late.any():
            delay = np.rint(table.column("delay").to_numpy()[late] * 1000).astype(np.int64)
            watermark = table.column("watermark").cast(pa.int64()).to_numpy()[late].astype(np.int64)
            self._late.append((stream[late], row[late], delay, watermark))
        for reason in np.unique(reasons[~late]).tolist():
            mine = reasons == reason
            self._rejected.append((stream[mine], row[mine], REASONS.index(reason)))

    def late_rows(self, position: int) -> pa.Table:
        """Late rows of one input: stream, delay (milliseconds), the watermark they met, and the row."""
        row, watermark = self.watermarks(position)
        delay = _joined([delay[stream == position] for stream, _, delay, _ in self._late])
        return self._table(
            position, row, {"delay": pa.array(delay / 1000.0), "watermark": pa.array(watermark).cast(UTC)}
        )

    def rejected_rows(self, position: int) -> pa.Table:
        """Rejected rows of one input: stream, reason, and the row."""
        reasons = self.reasons(position)
        row = np.flatnonzero(reasons != GOOD)
        return self._table(position, row, {"reason": pa.array([REASONS[code] for code in reasons[row]], pa.string())})

    def watermarks(self, position: int) -> tuple[Words, Words]:
        """The late rows of one input and the watermark that each of them met."""
        mine = [(row[stream == position], watermark[stream == position]) for stream, row, _, watermark in self._late]
        return _joined([row for row, _ in mine]), _joined([watermark for _, watermark in mine])

    def rejected(self, position: int) -> Words:
        """Which rows of one input were rejected, for any reason."""
        return np.flatnonzero(self.reasons(position) != GOOD)

    def unreadable(self) -> dict[str, int]:
        """How many rows were rejected before they could move a clock, by reason."""
        counts: dict[str, int] = {}
        for _, row, reason in self._rejected:
            if reason != AHEAD:
                counts[REASONS[reason]] = counts.get(REASONS[reason], 0) + len(row)
        return counts

    def ahead(self) -> int:
        """How many rows were ahead of all evidence."""
        return sum(len(row) for _, row, reason in self._rejected if reason == AHEAD)

    def newest(self, most: int) -> list[tuple[str, str, dict[str, Any]]]:
        """So many of the newest late rows, and of each reason for which rows were rejected: stream, reason, row."""
        places = [(s, r, LATE) for stream, row, _, _ in self._late[-most:] for s, r in _pairs(stream, row, most)][
            -most:
        ]
        by_reason: dict[int, list[tuple[int, int, str]]] = {}
        for stream, row, reason in self._rejected:
            found = by_reason.get(reason, []) + [(s, r, REASONS[reason]) for s, r in _pairs(stream, row, most)]
            by_reason[reason] = found[-max(1, most // 3) :]
        places += [place for found in by_reason.values() for place in found]
        return [(self._plan.inputs[s].stream.alias, reason, self._row(s, r)) for s, r, reason in places]

    def _row(self, position: int, row: int) -> dict[str, Any]:
        found: dict[str, Any] = self._replay.tables[position].slice(row, 1).to_pylist()[0]
        return found

    def reasons(self, position: int) -> Reasons:
        """Of every row of one input, the place of its reason in REASONS."""
        reasons: Reasons = np.zeros(self._replay.tables[position].num_rows, np.uint8)
        for stream, row, reason in self._rejected:
            reasons[row[stream == position]] = reason
        return reasons

    def _table(self, position: int, row: Words, columns: dict[str, pa.Array]) -> pa.Table:
        alias = self._plan.inputs[position].stream.alias
        source = self._replay.tables[position].take(pa.array(row))
        taken = {"stream": pa.array([alias] * len(row), pa.string()), **columns}
        names = [f"{alias}_{name}" if name in taken else name for name in source.column_names]
        return pa.table([*taken.values(), *source.columns], names=[*taken, *names])


def _pairs(stream: Words, row: Words, most: int) -> list[tuple[int, int]]:
    return list(zip(stream[-most:].tolist(), row[-most:].tolist(), strict=True))


def _joined(parts: list[Words]) -> Words:
    return np.concatenate(parts) if parts else np.zeros(0, np.int64)
