"""The query without some of its streams, answered over the recent rows of the others.

Invariant: a reduced step is exact. It is what the reduced query, over all rows that ever came and in their order of
event time, gives at its freshest time; a step whose members may lie further back than what is kept is not given.
"""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np
import pyarrow as pa

from slackwater.core.batch import ROW, TS, Batch
from slackwater.core.state import Emission
from slackwater.core.time import BEFORE_ALL, SECOND
from slackwater.language.bound import BoundQuery
from slackwater.operators.pipeline import Epochs
from slackwater.plan.degraded import reach, remembers_rates, rows_needed, without
from slackwater.plan.planner import plan as planned
from slackwater.runtime.driver import Driver
from slackwater.runtime.kernels import query_for
from slackwater.runtime.request.fresh import lines_of
from slackwater.runtime.request.recent import Kept
from slackwater.runtime.request.step import Step, joined, moment_of
from slackwater.sinks.rows import RowMaker
from slackwater.sources.codebook import Codebook
from slackwater.sources.encode import GOOD
from slackwater.sources.ingest import ingest


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
