"""Packing one source for many queries: its rows are read once, and each of its columns is encoded once.

Invariant: every query gets the lines that its own packer would have made of the same rows. Inputs that differ in
nothing but whose they are share their lines; a line names its readers. A query whose filter or computed column fails
gets a line that says why, in every shard; the others get theirs.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, replace

import pyarrow as pa

from slackwater.core.errors import SlackwaterError
from slackwater.runtime.spark.exchange.files import Folder, rows_of
from slackwater.runtime.spark.exchange.writer import (
    Line,
    Packing,
    gathered,
    lines_of,
    partition_number,
    without_end,
)
from slackwater.runtime.spark.functions import Shipped, register_here, registered
from slackwater.runtime.spark.query_set.members import Member
from slackwater.runtime.spark.state.last_watermark import Before
from slackwater.runtime.spark.types import unguarded
from slackwater.runtime.spark.workers import settle
from slackwater.sources.codebook import Codebook
from slackwater.sources.ingest import EncodedColumns

PACKED = "shard int, readers string, part long, header string, block binary, rejected_rows binary"
"""As of a query alone, but for the readers: a list of (key of a query, its stream), as JSON."""
FAILED = "failed"
"""What a header has, and nothing else, where a query has failed over these rows."""
FAILURES = (SlackwaterError, ArithmeticError)
"""What stops one query and not the others."""
Readers = tuple[Packing, list[tuple[str, int]]]


def readers_of(members: Sequence[Member], source: str) -> list[Readers]:
    """The different ways in which a source is packed, each with those who read it."""
    found: dict[str, Readers] = {}
    for one in members:
        for position, packing in enumerate(one.packings):
            if packing.plan.stream.source == source:
                # Where there is no key, streams are cut by their positions.
                at = 0 if packing.cut is None else position
                alike = repr(replace(packing, plan=replace(packing.plan, position=at)))
                found.setdefault(alike, (packing, []))[1].append((one.key, position))
    return list(found.values())


def set_packer(
    packings: Sequence[Readers], time_unit: str
) -> Callable[[Iterable[pa.RecordBatch]], Iterator[pa.RecordBatch]]:
    """The function that mapInArrow runs over the partitions of one source."""

    functions = registered()

    def pack(batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        settle()
        register_here(functions)
        part = partition_number()
        for number, batch in enumerate(gathered(batches)):
            yield packed_set(packings, unguarded(pa.Table.from_batches([batch])), part * 1_000_000 + number, time_unit)

    return pack


@dataclass(frozen=True)
class SetReads:
    """A folder, and how its rows are packed for all queries that read them."""

    folder: Folder
    packings: tuple[Readers, ...]
    columns: tuple[str, ...]
    time_unit: str
    functions: tuple[Shipped, ...] = ()

    def packed(
        self, files: Sequence[str], part: int, parts: int, number: int, before: Before
    ) -> Iterator[pa.RecordBatch]:
        """Lines of the k-th of n parts of files, numbered from here on."""
        register_here(self.functions)
        for place, rows in enumerate(rows_of(self.folder, self.columns, files, part, parts), number):
            yield packed_set(self.packings, rows, place, self.time_unit)


def packed_set(packings: Sequence[Readers], table: pa.Table, part: int, time_unit: str) -> pa.RecordBatch:
    """A table as one line a shard of every way in which it is packed."""
    table, ended = without_end(table)
    codebook = Codebook()
    encoded = EncodedColumns(table, codebook, time_unit)
    shards, readers, headers, blocks, away = [], [], [], [], []
    for packing, who in packings:
        for line in _lines(packing, table, ended, codebook, encoded):
            shards.append(line.shard)
            readers.append(json.dumps(who))
            headers.append(line.header)
            blocks.append(line.block)
            away.append(line.rejected_rows)
    return pa.RecordBatch.from_arrays(
        [
            pa.array(shards, pa.int32()),
            pa.array(readers, pa.string()),
            pa.array([part] * len(shards), pa.int64()),
            pa.array(headers, pa.string()),
            pa.array(blocks, pa.binary()),
            pa.array(away, pa.binary()),
        ],
        names=["shard", "readers", "part", "header", "block", "rejected_rows"],
    )


def _lines(
    packing: Packing, table: pa.Table, ended: bool, codebook: Codebook, encoded: EncodedColumns
) -> Iterable[Line]:
    # Rejected rows are told with the columns that the query reads.
    own = table.select(packing.read_from(table.column_names))
    try:
        return lines_of(packing, own, ended, codebook, encoded)
    except FAILURES as error:
        return [Line(label, json.dumps({FAILED: reason_of(error)}), None, None) for label in packing.shards]


def reason_of(error: BaseException) -> str:
    """Why a query has failed, as one sentence."""
    return str(error) if isinstance(error, SlackwaterError) else f"{type(error).__name__}: {error}"
