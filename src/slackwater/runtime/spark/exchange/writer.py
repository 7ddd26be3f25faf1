"""Lines: a table of an input becomes one block per shard, with a header that every shard hears.

Aggregates may travel as partial results. A task that reads files knows neither the watermark nor the clock by which a
shard judges the tuples; both are known once all headers are there. So it guesses: tuples behind the watermark after the
last cut stay tuples, and so do those far ahead of the others. The rest becomes partials
(`operators/aggregate/pane_partials.py`). A shard that finds one of these to be late or too far ahead reads the file
again.

Invariant: every task gets a header from every partition, for all of its shards, so all shards know the same stream
clocks in the same micro-batch. Rows that can move no clock are rejected here, with their reason; rows that a filter
drops move clocks only. What a shard makes of partials is what it would have made of their tuples: a guess costs time if
it is wrong, and nothing else.
"""

from __future__ import annotations

import json
from collections.abc import Iterable
from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from slackwater.core.batch import ROW, TS, Flags, Words
from slackwater.core.collections.grouping import columns_by_group
from slackwater.core.quality import Complete, Delay, NoWait
from slackwater.core.schema import Kind
from slackwater.disorder.event_times import as_reported
from slackwater.disorder.release.state import NO_PARTITION
from slackwater.operators.aggregate.operator import WindowAggregate
from slackwater.operators.aggregate.pane_partials import partials_of, pay, text_keys
from slackwater.plan.grid import Grid
from slackwater.plan.physical import InputPlan, PhysicalPlan
from slackwater.plan.tiling import Tiling
from slackwater.runtime.side_outputs.collectors import rejected_input_table
from slackwater.runtime.side_outputs.rejections import counts_by_reason
from slackwater.runtime.spark.exchange.format import (
    FAILED,
    as_bytes,
    by_partition,
    counted_times,
    heralds,
    texts_of,
    write_block,
)
from slackwater.sources.codebook import Codebook
from slackwater.sources.encode import GOOD, IN_HISTORY, UNPARSABLE
from slackwater.sources.ingest import EncodedColumns, ingest

SAMPLE = 1024
"""Tuples by which the usual event times of a block are guessed."""


class Origin(NamedTuple):
    """Where the rows of a block are from, so that they can be read again."""

    files: tuple[str, ...]
    part: int
    parts: int
    table: int
    """The number of the table, of those that the part is read in."""


class PartialsHeader(NamedTuple):
    """What a header tells of the partials that come with it."""

    within: Within
    origin: Origin

    @staticmethod
    def of_json(found: Any) -> PartialsHeader:
        """As it was before it became JSON."""
        within, (files, *place) = found
        return PartialsHeader(Within(*within), Origin(tuple(files), *place))


class Within(NamedTuple):
    """The event times that partials of a block are made of, the first and the last."""

    first: int
    last: int

    def has(self, ts: Words) -> Flags:
        return (ts >= self.first) & (ts <= self.last)


def aggregate_of(plan: PhysicalPlan) -> WindowAggregate | None:
    """The operator of a plan, where it can do with partials: nobody learns from its tuples, and all share one clock."""
    operator = plan.operator.pane_partials
    if operator is None:
        return None
    fixed = isinstance(plan.quality, Delay | NoWait | Complete)
    return operator if fixed and plan.inputs[0].partition_slot == NO_PARTITION else None


def guessed(ts: Words, watermark: int, max_ahead: int) -> Within | None:
    """Event times that are likely to be in time and admitted; None where there are none."""
    if not len(ts):
        return None
    sample = np.sort(ts[:: max(1, len(ts) // SAMPLE)])
    # Up to `max_ahead` is admitted, from a clock that the others agree on.
    usual = int(sample[len(sample) * 99 // 100]) + max_ahead
    first, last = int(ts.min()), int(ts.max())
    if first < watermark or last > usual:
        likely = ts[(ts >= watermark) & (ts <= usual)]
        if not len(likely):
            return None
        first, last = int(likely.min()), int(likely.max())
    return Within(first, last)


END = "_slackwater_end"
"""A column that is true in the row which says that the input has ended."""
SOURCE_ROW = "_slackwater_row"
"""A column with the identity of a row, where results must name their members."""
MARK = "_slackwater_"
"""Columns of ours begin so; no query sees them."""
KNOWN = "_slackwater_known"
"""A column that is true in rows which the history of their stream has too."""
UNPARSED = "_slackwater_unparsed"
"""A column that is null, but in a message which could not be parsed: there it tells of the message, as JSON."""


@dataclass(frozen=True)
class Packing:
    """What a partition needs to know."""

    plan: InputPlan
    shard_slots: tuple[int, ...]
    """Rows whose words choose the shard; empty: all tuples to the first."""
    shards: tuple[int, ...]
    """Labels of the shards; task `label % tasks` runs one."""
    time_unit: str
    max_ahead: int
    tasks: int
    """How many tasks run the shards; each gets a header once."""
    granularity: int | None = None
    """How finely headers tell event times to those who learn from them; None: nobody does."""
    complete: bool = False
    """Whether all of the input is here, as in a batch: then the epoch ends with a flush."""
    cut: Grid | Tiling | None = None
    """Where there is no key: a tuple goes to all cells of its part of a grid, or to the shards of tiles."""
    aggregate: WindowAggregate | None = None
    """The operator, where it can do with partial results."""

    @property
    def parts(self) -> int:
        return self.cut.parts[self.plan.position] if isinstance(self.cut, Grid) else len(self.shards)

    def part_of(self, cell: int) -> int:
        return self.cut.part(self.plan.position, cell) if isinstance(self.cut, Grid) else cell

    @property
    def text_rows(self) -> tuple[int, ...]:
        own = [row for _, kind, row in self.plan.columns if kind is Kind.TEXT and row < self.plan.rows]
        return (*own, *(one.row for one in self.plan.computed if one.expr.kind is Kind.TEXT))

    def read_from(self, columns: Iterable[str]) -> list[str]:
        """Those of a table's columns that are read: the time, what the plan names, and marks of ours."""
        names = [self.plan.stream.schema.time, *(name for name, _, _ in self.plan.columns)]
        return list(dict.fromkeys([*names, *(name for name in (END, SOURCE_ROW, KNOWN, UNPARSED) if name in columns)]))


class Line(NamedTuple):
    """What one shard gets of one table: the block of the tuples that are its own; the first of a task brings the header
    for all of them."""

    shard: int
    header: str | None
    block: bytes | None
    rejected_rows: bytes | None
    partials: bytes | None = None
    """Of tuples that are not in the block."""


def lines_of_failure(reason: str, shards: tuple[int, ...], tasks: int) -> list[Line]:
    """That a query has failed over a table, for all of its shards."""
    return [Line(label, json.dumps({FAILED: reason}), None, None) for label in sorted(heralds(shards, tasks))]


def without_end(table: pa.Table) -> tuple[pa.Table, bool]:
    """The rows that are data, and whether another one says that the input has ended."""
    if END not in table.column_names:
        return table, False
    marks = table.column(END).fill_null(False).to_numpy(zero_copy_only=False)
    return table.filter(pa.array(~marks)).drop_columns([END]), bool(marks.any())


def without_unparsed(table: pa.Table) -> tuple[pa.Table, pa.ChunkedArray | None]:
    """The columns that are data, and what is told of messages that could not be parsed; None where all could."""
    if UNPARSED not in table.column_names:
        return table, None
    told = table.column(UNPARSED)
    return table.drop_columns([UNPARSED]), told if told.null_count < len(told) else None


def lines_of(
    packing: Packing,
    table: pa.Table,
    ended: bool,
    codebook: Codebook,
    encoded: EncodedColumns | None = None,
    cuts: int | None = None,
    watermark: int | None = None,
    origin: Origin | None = None,
) -> list[Line]:
    """A table as one line a shard; `encoded` has the columns that other inputs have read from the same table, `cuts`
    and `watermark` say what was known before it was read.

    Partial results are made only of rows that can be read again, so their origin must be known.
    """
    table, unparsed = without_unparsed(table)
    known: pa.ChunkedArray | None = None
    if KNOWN in table.column_names:
        table, known = table.drop_columns([KNOWN]), table.column(KNOWN)
    taken = ingest(packing.plan, table, codebook, packing.time_unit, encoded=encoded)
    words = taken.words
    if unparsed is not None:
        taken.reasons[unparsed.is_valid().to_numpy()] = UNPARSABLE
    if known is not None:
        taken.reasons[(taken.reasons == GOOD) & known.to_numpy()] = IN_HISTORY
    if SOURCE_ROW in table.column_names:
        words[ROW] = table.column(SOURCE_ROW).to_numpy()
    good = taken.reasons == GOOD
    keep = good & taken.passes
    told = _told(packing, words, keep, watermark, origin)
    heard, passed = (words, keep) if good.all() else (words[:, good], keep[good])
    reported = [
        (name, as_reported(heard[TS, at], passed[at].astype(np.int64), packing.max_ahead))
        for name, at in by_partition(heard, packing.plan.partition_slot)
    ]
    header = {
        "reported": reported,
        "partitions": texts_of([name for name, _ in reported], packing.plan.partition_kind is Kind.TEXT, codebook),
        "counts": [] if packing.granularity is None else [counted_times(words[TS, keep], packing.granularity)],
        "filtered": int(np.count_nonzero(good & ~taken.passes)),
        "rejected": counts_by_reason(taken.reasons),
        "rows": table.num_rows,
        "end": ended or packing.complete,
        "partials": told,
        "cuts": cuts,
    }
    named = SOURCE_ROW in table.column_names
    away = None
    if (~good).any():
        away = as_bytes(rejected_input_table(packing.plan.stream.alias, table, taken.reasons, unparsed))
    blocks = []
    for own in split(packing, words, keep):
        tuples, partials = (own, None) if told is None else _with_partials(packing, own, told.within, codebook)
        written = write_block(tuples, packing.text_rows, codebook, without=() if named else (ROW,))
        blocks.append((written if tuples.shape[1] else None, partials))
    lines, text, brings = [], json.dumps(header), heralds(packing.shards, packing.tasks)
    for place, label in enumerate(packing.shards):
        block, partials = blocks[packing.part_of(place)]
        if label in brings or block is not None or partials is not None:
            # Rows that no shard has leave by the first.
            out = away if place == 0 else None
            lines.append(Line(label, text if label in brings else None, block, out, partials))
    return lines


def _told(
    packing: Packing, words: Words, keep: Flags, watermark: int | None, origin: Origin | None
) -> PartialsHeader | None:
    """Of which tuples partials are made; None: of none."""
    if packing.aggregate is None or watermark is None or origin is None:
        return None
    words = words if keep.all() else words[:, keep]
    within = guessed(words[TS], watermark, packing.max_ahead)
    return None if within is None or not pay(packing.aggregate, words) else PartialsHeader(within, origin)


def _with_partials(packing: Packing, own: Words, within: Within, codebook: Codebook) -> tuple[Words, bytes | None]:
    """Of a shard's own tuples those that stay tuples, and the partials of the others; none where tuples cost less."""
    assert packing.aggregate is not None
    inside = within.has(own[TS])
    found = partials_of(packing.aggregate, own if inside.all() else own[:, inside]) if inside.any() else None
    if found is None:
        return own, None
    return own[:, ~inside], write_block(found, text_keys(packing.aggregate, packing.text_rows), codebook)


def split(packing: Packing, words: Words, keep: Flags) -> list[Words]:
    """The words that are kept, by shard or part, each in their order."""
    parts = packing.parts
    if parts == 1:
        return [words if keep.all() else words[:, keep]]
    if isinstance(packing.cut, Tiling):
        at, place = packing.cut.spread(packing.plan.position, words, keep)
    else:
        at, place = np.arange(words.shape[1]), np.where(keep, shard_of(words, packing.shard_slots, parts), parts)
    return columns_by_group(np.ascontiguousarray(words), at, place, parts)


def shard_of(words: Words, rows: tuple[int, ...], parts: int) -> Words:
    """The shard of each tuple, by the words of its key; without a key it is the first."""
    if not rows or parts == 1:
        return np.zeros(words.shape[1], np.int64)
    h = np.zeros(words.shape[1], np.uint64)
    for row in rows:
        h = _mixed(h ^ words[row].view(np.uint64))
    return (h % np.uint64(parts)).astype(np.int64)


def _mixed(z: npt.NDArray[np.uint64]) -> npt.NDArray[np.uint64]:
    """The finalizer of splitmix64 over an array."""
    with np.errstate(over="ignore"):
        z = z + np.uint64(0x9E3779B97F4A7C15)
        z = (z ^ (z >> np.uint64(30))) * np.uint64(0xBF58476D1CE4E5B9)
        z = (z ^ (z >> np.uint64(27))) * np.uint64(0x94D049BB133111EB)
    return z ^ (z >> np.uint64(31))
