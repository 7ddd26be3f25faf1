"""Where late and rejected tuples are kept until somebody asks for them.

Invariant: what is added is handed out once, in the order in which it came. A buffer with a bound keeps at most so many
rows, or as many as came at once; the oldest go first, and those that go are counted. Over a recording only the places
of rows are kept, because the rows themselves are at hand.
"""

from __future__ import annotations

import json
from collections import deque
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, Protocol

import numpy as np
import pyarrow as pa

from slackwater.core.batch import ROW, Batch, Words
from slackwater.core.state import Late
from slackwater.plan.physical import PhysicalPlan
from slackwater.runtime.side_outputs.rows import (
    LATE,
    REJECTED,
    SCHEMA,
    late_table,
    rejected_input_table,
    rejected_table,
)
from slackwater.sources.codebook import Codebook
from slackwater.sources.encode import AHEAD, GOOD, REASONS, UTC, Reasons
from slackwater.sources.replay import Replay

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
