"""Packing a source for all queries that read it: its rows are read once, and each of its columns is encoded once.

A user's registered functions travel with it, as the plain functions that they are, as Spark ships any other.

Invariant: every query gets the lines that its own packer would have made of the same rows. Inputs that differ in
nothing but whose they are share their lines; a line names its readers. A query whose filter or computed column fails
gets a line that says why, in every task; the others get theirs. A worker compiles a function before the first tuple
needs it, and again only if another one has taken its name.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from itertools import chain, islice
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc

from slackwater.core.errors import FAILURES, reason_of
from slackwater.core.schema import Kind
from slackwater.expressions.functions import register
from slackwater.expressions.user import USER_FUNCTIONS
from slackwater.runtime.spark.exchange.files import Folder, gathered, rows_of
from slackwater.runtime.spark.exchange.format import as_bytes
from slackwater.runtime.spark.exchange.shared import SharedPacking
from slackwater.runtime.spark.exchange.writer import (
    KNOWN,
    MARK,
    Line,
    Origin,
    Packing,
    PartialsHeader,
    lines_of,
    lines_of_failure,
    without_end,
    without_unparsed,
)
from slackwater.runtime.spark.history.overlap import Overlap
from slackwater.runtime.spark.packed_source import NOTHING_KNOWN, Before, note_watermark
from slackwater.runtime.spark.store import At
from slackwater.runtime.spark.types import unguarded
from slackwater.runtime.spark.workers import secret_of_task, settle, task_number
from slackwater.sources.codebook import Codebook
from slackwater.sources.ingest import EncodedColumns


@dataclass(frozen=True)
class Shipped:
    """A registered function without what was compiled from it."""

    name: str
    function: Callable[..., Any]
    args: tuple[Kind, ...]
    result: Kind


def registered() -> tuple[Shipped, ...]:
    """Everything that is registered in this process."""
    return tuple(Shipped(one.name, one.function, one.args, one.result) for one in USER_FUNCTIONS.values())


def register_here(functions: tuple[Shipped, ...]) -> None:
    """Have functions of another process registered in this one.

    >>> register_here((Shipped("doctest_half", lambda x: x / 2, (Kind.FLOAT,), Kind.FLOAT),))
    >>> "doctest_half" in USER_FUNCTIONS
    True
    """
    for one in functions:
        known = USER_FUNCTIONS.get(one.name.lower())
        if known is None or (known.args, known.result) != (one.args, one.result) or not _same(known.function, one):
            register(one.name, one.function, one.args, one.result)


def _same(known: Callable[..., Any], shipped: Shipped) -> bool:
    codes = [getattr(function, "__code__", None) for function in (known, shipped.function)]
    return codes[0] is not None and codes[0] == codes[1]


SCHEMA = pa.schema(
    [
        ("shard", pa.int32()),
        ("readers", pa.string()),
        ("part", pa.int64()),
        ("header", pa.string()),
        ("block", pa.binary()),
        ("partials", pa.binary()),
        ("rejected_rows", pa.binary()),
    ]
)
"""The columns of a packed stream. The readers are a list of (key of a query, its stream), as JSON; without them a line
has a control message for a header."""
PACKED = "shard int, readers string, part long, header string, block binary, partials binary, rejected_rows binary"
"""The same, as Spark writes it."""
TAPPED = "tapped"
"""The readers of a line with rows of a source as they were read, for the driver; its header names the source."""
NOW = "now"
"""The column that lines have where silence is timed: when their micro-batch began, by the clock on the wall, in
microseconds. Also the readers of a line that brings this alone, to every task."""
PASSED = "passed"
"""The readers of a line that a stage below has emitted for others, and that the one above hands on: its header has the
key of the query, the kind and the note."""


@dataclass(frozen=True)
class Readers:
    """One way in which a source is packed, and those who read it so."""

    packing: Packing
    who: tuple[tuple[str, int], ...]
    """Keys of queries, each with the stream that this is to it."""

    @property
    def names(self) -> str:
        return json.dumps(self.who)

    @property
    def keys(self) -> list[str]:
        return [key for key, _ in self.who]


@dataclass(frozen=True)
class Packer:
    """All ways in which a source is packed."""

    readers: tuple[Readers, ...]
    time_unit: str
    apart: bool
    """Whether a query that fails fails by itself."""
    functions: tuple[Shipped, ...] = ()
    shared: tuple[SharedPacking, ...] = ()
    """Ways of packing it for queries that are hosted together."""
    tapped: str | None = None
    """The name of the source, where its rows go to the driver as well."""
    overlap: Overlap | None = None
    """How rows are known that are in the history of the source."""

    @property
    def keys(self) -> list[str]:
        readers: tuple[Readers | SharedPacking, ...] = (*self.readers, *self.shared)
        return list(dict.fromkeys(key for one in readers for key in one.keys))

    def packed(
        self, table: pa.Table, part: int, before: Before = NOTHING_KNOWN, origin: Origin | None = None
    ) -> pa.RecordBatch:
        """A table as lines for those who read it; with an origin, it can be read again."""
        table, ended = without_end(table)
        table = self.marked(table)
        codebook = Codebook(secret_of_task())
        encoded = EncodedColumns(table, codebook, self.time_unit)
        columns: list[list[object]] = [[] for _ in SCHEMA]
        alone = (
            (one.names, line)
            for one in self.readers
            for line in self._lines(one, table, ended, codebook, encoded, before, origin)
        )
        shared = (one.lines(table, ended) for one in self.shared)
        for who, line in chain(alone, *shared, self._tapped_lines(table, part)):
            fields = (line.shard, who, part, line.header, line.block, line.partials, line.rejected_rows)
            for column, value in zip(columns, fields, strict=True):
                column.append(value)
        arrays = [pa.array(column, field.type) for column, field in zip(columns, SCHEMA, strict=True)]
        return pa.RecordBatch.from_arrays(arrays, schema=SCHEMA)

    def marked(self, table: pa.Table) -> pa.Table:
        """A table with a mark in every row that a history has too."""
        return table if self.overlap is None else table.append_column(KNOWN, pa.array(self.overlap.among(table)))

    def _tapped_lines(self, table: pa.Table, part: int) -> Iterator[tuple[str, Line]]:
        if self.tapped is not None:
            rows, _ = without_unparsed(table)
            if KNOWN in rows.column_names:
                rows = rows.filter(pc.invert(rows.column(KNOWN)))
            rows = rows.select([name for name in rows.column_names if not name.startswith(MARK)])
            # Tasks take turns: a part has one of them.
            tasks = self.readers[0].packing.tasks
            yield TAPPED, Line(part % tasks, self.tapped, as_bytes(rows), None)

    def _lines(
        self,
        one: Readers,
        table: pa.Table,
        ended: bool,
        codebook: Codebook,
        encoded: EncodedColumns,
        before: Before,
        origin: Origin | None,
    ) -> Iterable[Line]:
        packing = one.packing
        # Rejected rows have the columns that the query reads.
        own = table.select(packing.read_from(table.column_names))
        cuts = None if origin is None else before.cuts
        try:
            return lines_of(packing, own, ended, codebook, encoded, cuts, before.watermark(one.keys), origin)
        except FAILURES as error:
            if not self.apart:
                raise
            return lines_of_failure(reason_of(error), packing.shards, packing.tasks)


def packer_of(
    members: Iterable[tuple[str, Sequence[Packing]]],
    source: str,
    time_unit: str,
    apart: bool,
    by_files: bool,
    shared: Iterable[SharedPacking | None] = (),
    tapped: bool = False,
    overlap: Overlap | None = None,
) -> Packer:
    """The different ways in which queries, given by their keys, read a source, and those in which groups of queries do.
    What is read from files alone may become partial results."""
    found: dict[str, Readers] = {}
    for key, packings in members:
        for position, packing in enumerate(packings):
            if packing.plan.stream.source == source:
                packing = packing if by_files else replace(packing, aggregate=None)
                # Where there is no key, streams are cut by their positions.
                at = 0 if packing.cut is None else position
                alike = repr(replace(packing, plan=replace(packing.plan, position=at)))
                before = found.get(alike, Readers(packing, ()))
                found[alike] = replace(before, who=(*before.who, (key, position)))
    together = tuple(one for one in shared if one is not None)
    tap = source if tapped and found else None
    return Packer(tuple(found.values()), time_unit, apart, registered(), together, tap, overlap)


def packing_rows(packer: Packer) -> Callable[[Iterable[pa.RecordBatch]], Iterator[pa.RecordBatch]]:
    """The function that mapInArrow runs over the partitions of one source."""

    def pack(batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        settle()
        register_here(packer.functions)
        part = task_number() or 0
        for number, table in enumerate(gathered(pa.Table.from_batches([batch]) for batch in batches)):
            yield packer.packed(unguarded(table), part * 1_000_000 + number)

    return pack


@dataclass(frozen=True)
class Reads:
    """A source that is a folder, and how its rows are packed for all who read them."""

    source: str
    folder: Folder
    packer: Packer
    columns: tuple[str, ...]
    """Those that somebody reads."""

    @property
    def keys(self) -> list[str]:
        return self.packer.keys

    def packed(
        self, files: Sequence[str], part: int, parts: int, number: int, before: Before
    ) -> Iterator[pa.RecordBatch]:
        """Lines of the k-th of n parts of files, numbered from here on."""
        register_here(self.packer.functions)
        for table, rows in enumerate(rows_of(self.folder, self.columns, files, part, parts)):
            yield self.packer.packed(rows, number + table, before, Origin(tuple(files), part, parts, table))


@dataclass(frozen=True)
class FoldersRead:
    """The folders that queries read, and where the checkpoint of their cuts is."""

    reads: tuple[Reads, ...]
    checkpoint: At

    def block_again(self, told: PartialsHeader, packing: Packing, label: int) -> bytes | None:
        """All tuples that a shard has of a table that was packed before, as a block."""
        (reads,) = (one for one in self.reads if one.source == packing.plan.stream.source)
        register_here(reads.packer.functions)
        origin = told.origin
        tables = rows_of(reads.folder, reads.columns, origin.files, origin.part, origin.parts)
        rows = next(islice(tables, origin.table, None))
        rows = reads.packer.marked(rows)
        table, ended = without_end(rows.select(packing.read_from(rows.column_names)))
        lines = lines_of(packing, table, ended, Codebook(secret_of_task()))
        return next((line.block for line in lines if line.shard == label), None)

    def note(self, key: str, cuts: int, watermark: int | None) -> None:
        """What will be known of a query when the next cut is read."""
        note_watermark(self.checkpoint, key, cuts, watermark)
