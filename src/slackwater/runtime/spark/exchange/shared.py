"""Packing a source for a group of queries: a tuple that any of them wants crosses once, with the filters it passes.

A block has the rows of the group's clock domain and, behind them, the bits of filters. A header has one histogram of
event times, since clocks are the group's, and for every filter what depends on it: the oldest time in each bucket, how
many rows it dropped, and the counts that controllers learn from.

Invariant: what a header and its blocks say of one query is what the query's own packing says of the same rows
(`writer.py`). A query that fails over these rows is reported by a line of its own, and the others go on without it.
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import pyarrow as pa

from slackwater.core.batch import ROW, TS, Flags, Words
from slackwater.core.collections.grouping import columns_by_group
from slackwater.core.time import AFTER_ALL
from slackwater.disorder.event_times import as_reported
from slackwater.operators.query_set.places import NO_FILTER
from slackwater.plan.query_set import SourcePlan
from slackwater.runtime.side_outputs.collectors import rejected_input_table
from slackwater.runtime.side_outputs.rejections import counts_by_reason
from slackwater.runtime.spark.exchange.format import (
    as_bytes,
    by_partition,
    counted_times,
    heralds,
    texts_of,
    write_block,
)
from slackwater.runtime.spark.exchange.writer import SOURCE_ROW, Line, lines_of_failure, shard_of, without_unparsed
from slackwater.runtime.spark.workers import secret_of_task
from slackwater.sources.codebook import Codebook
from slackwater.sources.encode import GOOD, UNPARSABLE, Reasons
from slackwater.sources.shared_reading import BITS, SharedIngest

MOST_KEPT = 64
_ingests: dict[str, tuple[SharedIngest, Codebook]] = {}
"""What this worker has compiled, by the names of packings."""


@dataclass(frozen=True)
class Wanting:
    """What one query of a group wants of a stream."""

    key: str
    alias: str
    filter: int
    """The number of its filter among those of the source, or NO_FILTER."""
    columns: tuple[str, ...]
    """What it reads, and so the columns of its rejected rows."""
    granularity: int | None
    """How finely headers tell it event times; None: it learns from none."""


@dataclass(frozen=True)
class SharedStream:
    """One stream of the group's domain. Rows are those of the source, but for `text_rows`."""

    stream: int
    source: str
    rows: tuple[int, ...]
    shard_rows: tuple[int, ...]
    partition_row: int
    partition_is_text: bool
    wanting: tuple[Wanting, ...]
    text_rows: tuple[int, ...]
    """Where tuples of the domain have text."""

    @property
    def filters(self) -> tuple[int, ...]:
        """The filters that somebody has, each once; headers tell of them in this order."""
        return tuple(sorted({one.filter for one in self.wanting}))

    @property
    def learned(self) -> tuple[tuple[int, int], ...]:
        """The filters whose event times are reported, and how finely."""
        found = {(one.filter, one.granularity) for one in self.wanting if one.granularity is not None}
        return tuple(sorted(found))


@dataclass(frozen=True)
class SharedPacking:
    """How a source is packed for a group."""

    group: str
    source: SourcePlan
    streams: tuple[SharedStream, ...]
    """Those of the domain that read it: several, where it is joined with itself."""
    shards: tuple[int, ...]
    tasks: int
    time_unit: str
    max_ahead: int
    complete: bool
    name: str
    """Tells it from all others that a worker has seen."""

    @property
    def keys(self) -> list[str]:
        return [one.key for one in self.streams[0].wanting]

    @property
    def numbered(self) -> bool:
        """Whether tuples are distinguished by who reads the table: each comes several times."""
        return len(self.streams) > 1

    def lines(self, table: pa.Table, ended: bool) -> Iterator[tuple[str, Line]]:
        ingest, codebook = self._ingest()
        table, unparsed = without_unparsed(table)
        taken = ingest.take(table)
        words, named = taken.words, SOURCE_ROW in table.column_names
        if named:
            words[ROW] = table.column(SOURCE_ROW).to_numpy()
        for one in self.streams:
            reasons = taken.reasons_for(frozenset(name for who in one.wanting for name in who.columns))
            if unparsed is not None:
                reasons[unparsed.is_valid().to_numpy()] = UNPARSABLE
            told = _Table(words, taken.passed, reasons == GOOD, table.num_rows, ended or self.complete)
            header = self._header(one, told, reasons, codebook, named)
            yield from self._of_stream(one, told, header, codebook, named)
            yield from self._rejected(one, table, reasons, unparsed)
        yield from self._failures(taken.failed)
        if codebook.due:
            codebook.sweep(())

    def _ingest(self) -> tuple[SharedIngest, Codebook]:
        if self.name not in _ingests:
            if len(_ingests) >= MOST_KEPT:
                _ingests.clear()
            codebook = Codebook(secret_of_task())
            _ingests[self.name] = SharedIngest(self.source, codebook, self.time_unit), codebook
        return _ingests[self.name]

    def _header(
        self, one: SharedStream, told: _Table, reasons: Reasons, codebook: Codebook, named: bool
    ) -> dict[str, Any]:
        good, ts = told.good, told.words[TS]
        passing = {number: told.passing(number) for number in one.filters}
        reported = []
        at_good = np.flatnonzero(good)
        for name, at in by_partition(told.words[:, at_good], one.partition_row):
            mine = at_good[at]
            # Only what passes has an oldest time, and that is reported for each filter.
            shift, buckets = as_reported(ts[mine], np.zeros(len(mine), np.int64), self.max_ahead)
            oldest = [_behind_latest(ts[mine[passing[number][mine]]], shift, buckets) for number in one.filters]
            reported.append((name, [shift, buckets, oldest]))
        return {
            "reported": reported,
            "partitions": texts_of([name for name, _ in reported], one.partition_is_text, codebook),
            "counts": [counted_times(ts[passing[number]], fine) for number, fine in one.learned],
            "filtered": [int(np.count_nonzero(good & ~passing[number])) for number in one.filters],
            "rejected": counts_by_reason(reasons),
            "rows": told.rows,
            "size": told.rows,
            "named": named,
            "end": told.ended,
            "cuts": None,
        }

    def _of_stream(
        self, one: SharedStream, told: _Table, header: dict[str, Any], codebook: Codebook, named: bool
    ) -> Iterator[tuple[str, Line]]:
        wanted = told.wanted(one.filters)
        columns = np.vstack((told.words[list(one.rows)], told.passed))
        parts = len(self.shards)
        if parts == 1:
            blocks = [columns if wanted.all() else columns[:, wanted]]
        else:
            place = np.where(wanted, shard_of(told.words, one.shard_rows, parts), parts)
            blocks = columns_by_group(columns, np.arange(len(place)), place, parts)
        readers, text = json.dumps([(self.group, one.stream)]), json.dumps(header)
        brings = heralds(self.shards, self.tasks)
        without = () if named or self.numbered else (ROW,)
        for label, own in zip(self.shards, blocks, strict=True):
            block = write_block(own, one.text_rows, codebook, without=without) if own.shape[1] else None
            if label in brings or block is not None:
                yield readers, Line(label, text if label in brings else None, block, None)

    def _rejected(
        self, one: SharedStream, table: pa.Table, reasons: Reasons, unparsed: pa.ChunkedArray | None
    ) -> Iterator[tuple[str, Line]]:
        if not (reasons != GOOD).any():
            return
        for who in one.wanting:
            names = [name for name in who.columns if name in table.column_names]
            names += [name for name in (SOURCE_ROW,) if name in table.column_names]
            away = as_bytes(rejected_input_table(who.alias, table.select(names), reasons, unparsed))
            yield json.dumps([(who.key, one.stream)]), Line(self.shards[0], "{}", None, away)

    def _failures(self, failed: Mapping[str, BaseException]) -> Iterator[tuple[str, Line]]:
        for key, error in failed.items():
            for line in lines_of_failure(str(error), self.shards, self.tasks):
                yield json.dumps([(key, 0)]), line


@dataclass(frozen=True)
class _Table:
    """A table that was taken in."""

    words: Words
    passed: Words
    good: Flags
    rows: int
    ended: bool

    def passing(self, number: int) -> Flags:
        """The good rows that pass a filter."""
        if number == NO_FILTER:
            return self.good
        passes: Flags = (self.passed[number // BITS] >> (number % BITS)) & 1 == 1
        return passes & self.good

    def wanted(self, filters: Sequence[int]) -> Flags:
        """The good rows that pass one of these."""
        found = np.zeros(self.words.shape[1], np.bool_)
        for number in filters:
            found |= self.passing(number)
        return found


def _behind_latest(mine: Words, shift: int, buckets: Sequence[Sequence[int]]) -> list[int | None]:
    """Of each bucket how far the oldest of some event times is behind the latest of all; None where it has none."""
    latest = np.array([t for _, t, *_ in buckets], np.int64)
    place = np.searchsorted(latest >> shift, mine >> shift)
    oldest = np.full(len(latest), AFTER_ALL)
    if len(mine):
        order = np.argsort(place, kind="stable")
        begins = np.flatnonzero(np.diff(place[order], prepend=-1))
        oldest[place[order][begins]] = np.minimum.reduceat(mine[order], begins)
    behind = (latest - oldest).tolist()
    return [None if t == AFTER_ALL else behind[at] for at, t in enumerate(oldest.tolist())]
