"""The query without some of its streams, answered over the recent rows of the others.

Invariant: a reduced step is exact. It is what the reduced query, over all rows that ever came and in their order of
event time, gives at its freshest time; a step whose members may lie further back than what is kept is not given. Of a
query that can do without some of its streams every row newer than `forgotten` is kept; of another nothing is. What is
kept is, per stream, the columns that the query reads, of the last `keep` of event time (and a sixteenth more, and whole
pushes), and twice as many rows as its windows of rows need.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, replace
from functools import cached_property

import numpy as np
import pyarrow as pa

from slackwater.core.batch import ROW, TS, Batch, Flags, Words
from slackwater.core.state import Emission
from slackwater.core.time import BEFORE_ALL, SECOND
from slackwater.language.bound import BoundQuery
from slackwater.operators.pipeline import Epochs
from slackwater.plan.degraded import can_reduce, reach, remembers_rates, rows_needed, without
from slackwater.plan.physical import PhysicalPlan
from slackwater.plan.planner import plan as planned
from slackwater.runtime.driver import Driver
from slackwater.runtime.kernels import query_for
from slackwater.runtime.request.step import Step, joined, lines_of, moment_of
from slackwater.sinks.rows import RowMaker
from slackwater.sources.codebook import Codebook
from slackwater.sources.encode import GOOD
from slackwater.sources.ingest import ingest

LOOKS = 16
"""What is too old is looked for so many times while streams go on by `keep`."""


@dataclass(frozen=True)
class Chunk:
    """Rows of a stream that came together and can be read."""

    table: pa.Table
    ts: Words
    row: Words
    """The numbers of the rows in their stream."""
    passes: Flags
    arrival_time: int
    """When they came, in microseconds."""

    @cached_property
    def newest(self) -> int:
        return int(self.ts.max())

    @cached_property
    def oldest(self) -> int:
        return int(self.ts.min())

    def where(self, mine: Flags) -> Chunk:
        index = np.flatnonzero(mine)
        return Chunk(
            self.table.take(pa.array(index)), self.ts[mine], self.row[mine], self.passes[mine], self.arrival_time
        )


@dataclass(frozen=True)
class Kept:
    """What is kept at one moment; nothing of it changes any more."""

    chunks: Mapping[str, tuple[Chunk, ...]]
    forgotten: int

    def of(self, plan: PhysicalPlan) -> Iterator[Chunk]:
        """What is kept of the sources that a plan reads."""
        for one in plan.inputs:
            yield from self.chunks[one.stream.source]

    def since(self, moment: int) -> Kept:
        """What is kept of tuples newer than this, as if the others were forgotten."""
        newer = {
            source: tuple(chunk for chunk in chunks if chunk.newest > moment) for source, chunks in self.chunks.items()
        }
        return Kept(newer, moment)


class Recent:
    """Keeps the recent rows of the sources of a plan."""

    def __init__(self, plan: PhysicalPlan, keep: int) -> None:
        self._keep = keep
        self._needed = can_reduce(plan.query)
        self._rows = rows_needed(plan.query) if self._needed else {}
        self._columns = columns_read(plan)
        self._chunks: dict[str, list[Chunk]] = {source: [] for source in self._columns}
        self._doubtful: dict[str, list[Chunk]] = {source: [] for source in self._columns}
        """Rows beyond their stream's clock: the guard against poisoned clocks has not let them in yet."""
        self._forgotten = self._looked = BEFORE_ALL

    def add(self, source: str, rows: Chunk) -> None:
        """Rows of a source; they count once its clock has reached them."""
        if self._needed and len(rows.ts):
            self._doubtful[source].append(replace(rows, table=_of_columns(rows.table, self._columns[source])))

    def reject(self, source: str, row: Words) -> None:
        """The guard has rejected the rows of these numbers."""
        self._doubtful[source] = [one.where(~np.isin(one.row, row)) for one in self._doubtful[source]]

    def reached(self, source: str, clock: int) -> None:
        """The clock of a source stands here; a tuple beyond it has not been admitted."""
        waiting, self._doubtful[source] = self._doubtful[source], []
        for chunk in waiting:
            inside = chunk.ts <= clock
            if inside.any():
                self._chunks[source].append(chunk if inside.all() else chunk.where(inside))
            if not inside.all():
                self._doubtful[source].append(chunk.where(~inside))

    def forget(self, largest: int, slack: int) -> None:
        """Drop what no reduced step can need, now that the largest clock and the slack are these."""
        horizon = largest - slack - self._keep
        # Looking through what is kept costs more than to keep a little longer.
        if horizon - self._looked < self._keep // LOOKS:
            return
        self._looked = horizon
        for source, chunks in self._chunks.items():
            needed, found = 2 * self._rows.get(source, 0), 0
            kept = set()
            for at in sorted(range(len(chunks)), key=lambda at: -chunks[at].newest):
                if chunks[at].newest >= horizon or found < needed:
                    kept.add(at)
                else:
                    self._forgotten = max(self._forgotten, chunks[at].newest)
                found += int(np.count_nonzero(chunks[at].passes))
            self._chunks[source] = [chunk for at, chunk in enumerate(chunks) if at in kept]

    def not_before(self, moment: int) -> None:
        """Nothing is known of tuples up to this."""
        self._forgotten = max(self._forgotten, moment)

    def now(self) -> Kept:
        return Kept({source: tuple(chunks) for source, chunks in self._chunks.items()}, self._forgotten)

    @property
    def rows(self) -> int:
        return sum(chunk.table.num_rows for chunks in self._chunks.values() for chunk in chunks)


def columns_read(plan: PhysicalPlan) -> dict[str, list[str]]:
    """Per source, its event time and the columns that the query reads."""
    read: dict[str, dict[str, None]] = {}
    for one in plan.inputs:
        names = read.setdefault(one.stream.source, {one.stream.schema.time: None})
        names |= dict.fromkeys(name for name, _, _ in one.columns)
    return {source: list(names) for source, names in read.items()}


def readable(plan: PhysicalPlan, source: str, table: pa.Table, time_unit: str, arrival_time: int) -> Chunk:
    """The rows of a source that an input can read; they pass where they pass the filters of all inputs."""
    inputs = [one for one in plan.inputs if one.stream.source == source]
    taken = [ingest(one, table, Codebook(), time_unit) for one in inputs]
    good = np.any([one.reasons == GOOD for one in taken], axis=0)
    passes = np.all([one.passes & (one.reasons == GOOD) for one in taken], axis=0)
    every = Chunk(table, taken[0].words[TS], taken[0].words[ROW], passes, arrival_time)
    return every if good.all() else every.where(good)


def _of_columns(table: pa.Table, names: Iterable[str]) -> pa.Table:
    """The columns of a table with these names; of a field inside of one, the whole."""
    tops = (name if name in table.column_names else name.partition(".")[0] for name in names)
    return table.select(list(dict.fromkeys(tops)))


class Degraded:
    """The query without some sources, ready to be asked again and again."""

    def __init__(self, whole: BoundQuery, missing: tuple[str, ...], schema: pa.Schema, time_unit: str) -> None:
        left = without(whole, missing)
        assert left is not None, "the furthest stream is always there"
        self._missing, self._schema, self._unit = missing, schema, time_unit
        self._plan, self._reach, self._rows = planned(left), reach(left), rows_needed(left)
        self._at_once = remembers_rates(left)

    def step(self, kept: Kept, bound: int) -> Step | None:
        """The freshest step before `bound`, up to which all tuples have come; None where there is none to be sure of.

        Mostly it is found among the last tuples, so those are tried first, and then four times as many; but where
        windows follow rates, these are sized over all that is kept.
        """
        if self._at_once:
            return self._freshest(kept, bound)
        span = max(2 * self._reach, SECOND)
        since = bound - span
        while since > kept.forgotten and any(chunk.oldest <= since for chunk in kept.of(self._plan)):
            found = self._freshest(kept.since(since), bound)
            if found is not None:
                return found
            span *= 4
            since = bound - span
        return self._freshest(kept, bound)

    def _freshest(self, kept: Kept, bound: int) -> Step | None:
        codebook = Codebook()
        batch, full = self._tuples(kept, bound, codebook)
        newest = BEFORE_ALL
        emissions: list[Emission] = []
        for emission in self._answer(batch, codebook):
            last = int(emission.ts.max())
            if last > newest:
                newest, emissions = last, []
            if last == newest:
                emissions.append(lines_of(emission, np.flatnonzero(emission.ts == newest)))
        known = kept.forgotten == BEFORE_ALL or newest - self._reach > kept.forgotten
        if not emissions or newest < full or not known:
            return None
        maker = RowMaker(self._plan, codebook)
        rows = self._whole_rows(joined([maker.table(emission) for emission in emissions]))
        return Step(moment_of(newest), rows, True, self._missing)

    def _tuples(self, kept: Kept, bound: int, codebook: Codebook) -> tuple[Batch, int]:
        """The tuples in event-time order, and since when all windows of rows are known to be full."""
        parts, full = [], BEFORE_ALL
        for position, one in enumerate(self._plan.inputs):
            source = one.stream.source
            chunks = kept.chunks[source]
            needed = self._rows.get(source, 0) if kept.forgotten != BEFORE_ALL else 0
            if not chunks:
                full = bound if needed else full
                continue
            taken = ingest(one, pa.concat_tables([chunk.table for chunk in chunks]), codebook, self._unit)
            ts = taken.words[TS]
            good = (taken.reasons == GOOD) & taken.passes & (ts < bound) & (ts > kept.forgotten)
            n = int(np.count_nonzero(good))
            words = np.zeros((self._plan.operator.rows, n), np.int64)
            words[: len(taken.words)] = taken.words[:, good]
            arrival_time = np.repeat([chunk.arrival_time for chunk in chunks], [len(chunk.ts) for chunk in chunks])[
                good
            ]
            parts.append(Batch(np.full(n, position), words, np.ones(n, np.bool_), arrival_time))
            if needed:
                mine = np.sort(parts[-1].ts)
                full = max(full, int(mine[needed - 1]) if len(mine) >= needed else bound)
        if not parts:
            return Batch.of([], self._plan.operator.rows), full
        together = Batch.concat(parts)
        together = together.take(np.lexsort((np.arange(len(together)), together.ts)))
        together.words[ROW] = np.arange(len(together))
        assert together.arrival_time is not None
        arrival_time = np.maximum.accumulate(together.arrival_time) if len(together) else together.arrival_time
        return Batch(together.stream, together.words, together.passes, arrival_time), full

    def _answer(self, batch: Batch, codebook: Codebook) -> Iterator[Emission]:
        kernel = query_for(self._plan, Epochs(), codebook)
        for emission in Driver(kernel).epoch(batch, end=True):
            assert not len(emission.late.ts), "in order, nothing is late"
            if len(emission.ts):
                yield emission

    def _whole_rows(self, table: pa.Table) -> pa.Table:
        """The columns of the whole query, null where they cannot be had."""
        there = set(table.column_names)
        columns = [
            table.column(one.name).cast(one.type) if one.name in there else pa.nulls(table.num_rows, one.type)
            for one in self._schema
        ]
        return pa.table(columns, schema=self._schema)
