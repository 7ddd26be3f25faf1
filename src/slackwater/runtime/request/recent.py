"""The recent rows of every stream, for steps that are made without some of them.

Invariant: every row newer than `forgotten` is kept, of a query that can do without some of its streams; of another
nothing is. What is kept is, per stream, the columns that the query reads, of
the last `keep` of event time (and a sixteenth more, and whole pushes), and twice as many rows as its windows of rows
need.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, replace
from functools import cached_property

import numpy as np
import pyarrow as pa

from slackwater.core.batch import ROW, TS, Flags, Words
from slackwater.core.time import BEFORE_ALL
from slackwater.plan.degraded import can_reduce, rows_needed
from slackwater.plan.physical import PhysicalPlan
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
        """Some of the rows."""
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
        """All that is kept."""
        return Kept({source: tuple(chunks) for source, chunks in self._chunks.items()}, self._forgotten)

    @property
    def rows(self) -> int:
        """How many rows are kept."""
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
