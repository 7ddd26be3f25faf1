"""A running query on Spark that a program asks for the next time step.

Invariant: what a micro-batch emits reaches the driver once, with the watermark of the slowest shard, behind which it
is final; of all results only those of the freshest time are kept. A step without a slow stream is made at the driver,
from the rows of every stream, which come with what a micro-batch emits: every source is read once. Of rows that came
before a restart nothing is known, and no such step looks back so far.
"""

from __future__ import annotations

import os
from collections.abc import Mapping
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from pyspark.sql import DataFrame
from pyspark.sql.streaming.query import StreamingQuery

from slackwater.core.batch import Words
from slackwater.core.quality import Quality
from slackwater.core.time import BEFORE_ALL
from slackwater.core.values import total
from slackwater.language.bound import RESULT_TIME, WINDOW_COLUMNS, BoundQuery
from slackwater.language.dialect import parse_quality
from slackwater.observe.foreseen import as_reported
from slackwater.observe.value import QueryProgress
from slackwater.plan.physical import PhysicalPlan
from slackwater.runtime.history import History
from slackwater.runtime.local.answer import Answer
from slackwater.runtime.request.handle import Clock, Handle, Patience
from slackwater.runtime.request.reduction import Chunk, readable
from slackwater.runtime.request.step import Fresh, joined
from slackwater.runtime.side_outputs.collectors import BufferedSideOutput
from slackwater.runtime.spark.exchange.packing import TAPPED
from slackwater.runtime.spark.failures import as_ours, one_sentence
from slackwater.runtime.spark.output_schema import result_schema
from slackwater.runtime.spark.queries import Queries
from slackwater.runtime.spark.replay.run import sorted_out
from slackwater.runtime.spark.running import RunningQuery
from slackwater.runtime.spark.started import begun
from slackwater.runtime.spark.versions import as_table
from slackwater.sources.codebook import Codebook

COUNTS = ("in_time", "late", "filtered", "held", "results")


def outlook_of(progress: QueryProgress) -> dict[str, Any] | None:
    """Whether the target in force can be met, as it is reported."""
    return as_reported(parse_quality(progress.target), progress.observed.outlook)


class SparkLiveQuery(Handle[pa.Table]):
    """A streaming query that a program asks for steps; `start` makes one."""

    def __init__(
        self,
        query: BoundQuery,
        plan: PhysicalPlan,
        patience: Patience | None,
        keep: str | None,
        time_unit: str,
        clock: Clock,
    ) -> None:
        super().__init__(
            query,
            plan,
            result_schema(plan),
            Fresh(lambda table, index: table.take(pa.array(index))),
            patience=patience,
            keep=keep,
            time_unit=time_unit,
            clock=clock,
            side_output=BufferedSideOutput(plan, Codebook()),
        )
        self._shards = 0
        self._reported: dict[tuple[int, bool], QueryProgress] = {}
        self._tapped: dict[str, int] | None = None
        self._number = -1

    def begin(
        self,
        query: Queries,
        trigger: str,
        checkpoint: str | os.PathLike[str] | None,
        tap: bool,
        key_groups: int | None,
        history: History | Mapping[str, DataFrame | None] | None = None,
    ) -> None:
        """Start the query; with `tap` rows of sources come here as well."""
        started = begun(query, checkpoint, take=self._take, trigger=trigger, key_groups=key_groups, history=history)
        self._shards = len(started.members()[0].shards)
        started.tapped = tap
        if tap:
            self._tapped = dict.fromkeys(self._sources, BEFORE_ALL)
        self._running = RunningQuery(started, flush=False, available=False)

    @property
    def query(self) -> StreamingQuery:
        """Spark's own handle of the query, for `slackwater.progress`."""
        return self._running.query

    def set_target(self, target: Quality | str, at_most: str | None = None) -> None:
        """Ask for another quality from the next micro-batch on, as `RunningQuery.set_target` does."""
        self._running.set_target(target, at_most)

    def _take(self, frame: DataFrame, number: int) -> None:
        """Called by Spark, in a thread of its own, with what a micro-batch emits."""
        lines = as_table(frame)
        tapped = pc.equal(lines.column("kind"), TAPPED)
        out = sorted_out(lines.filter(pc.invert(tapped)), 0.0)
        rows = self._readable(lines.filter(tapped))
        with self._changed:
            # A micro-batch may run again.
            if number <= self._number:
                return
            is_restart = self._number < 0 < number
            self._number = number
            if out.results is not None:
                self._fresh.add(self._times(out.results), out.results)
            for table in out.side_output:
                self._side_output.add_rows(table)
            self._reported |= {one.shards[0].place: one for one in out.shards}
            # The last operator may have shards of its own, which report with the others.
            if len(self._reported) >= self._shards:
                self._fresh.settle(min(one.observed.watermark for one in self._reported.values()))
            self._add_rows(rows)
            self._read_progress()
            if is_restart:
                self._recent.not_before(max(self._source_clocks.clocks.values()))
            self._tell()

    def _readable(self, lines: pa.Table) -> list[tuple[str, Chunk]]:
        """The rows of sources that a micro-batch has brought."""
        found = []
        for source, block in zip(lines.column("note").to_pylist(), lines.column("block"), strict=True):
            table = pa.ipc.open_stream(block.as_buffer()).read_all()
            found.append((source, readable(self._plan, source, table, self._unit, self._now())))
        return found

    def _add_rows(self, rows: list[tuple[str, Chunk]]) -> None:
        for source, chunk in rows:
            if self._tapped is not None and len(chunk.ts):
                self._recent.add(source, chunk)
                self._tapped[source] = max(self._tapped[source], chunk.newest)

    def _read_progress(self) -> None:
        """Take over the clocks that the shards tell; they all know the same."""
        if not self._reported:
            return
        clocks, now = max((one.observed.clocks for one in self._reported.values()), key=len), self._now()
        known = [clock for clock in clocks if clock != BEFORE_ALL]
        if known:
            self._source_clocks.begin(min(known), now)
        for source in self._sources:
            mine = [clocks[at] for at, one in enumerate(self._plan.inputs) if one.stream.source == source]
            self._source_clocks.note(source, min(mine), now)
            self._recent.reached(source, max(mine))
        self._recent.forget(self._source_clocks.largest, self._slack())

    def _bound(self, missing: tuple[str, ...]) -> int:
        assert self._tapped is not None
        tapped = min(clock for source, clock in self._tapped.items() if source not in missing)
        return min(super()._bound(missing), tapped - self._slack())

    def _missing(self, allowed: dict[str, int]) -> tuple[str, ...]:
        return super()._missing(allowed) if self._tapped is not None else ()

    def _times(self, table: pa.Table) -> Words:
        column = RESULT_TIME if RESULT_TIME in table.column_names else WINDOW_COLUMNS[1]
        return np.asarray(table.column(column).cast(pa.int64()).to_numpy(), np.int64)

    def _table(self, rows: list[pa.Table]) -> pa.Table:
        return joined(rows).cast(self._schema)

    def _slack(self) -> int:
        return max((one.observed.slack for one in self._reported.values()), default=0)

    def _look(self) -> None:
        """A query that has failed says so to whoever asks."""
        if not self.query.isActive:
            failure = self.query.exception()
            if failure is not None:
                self._failure = as_ours(str(failure))
                self._check()

    def report(self) -> dict[str, Any]:
        """Counts over all shards, the clocks and the watermark in microseconds, whether the target can be met, and the
        steps that were given."""
        with self._changed:
            progress = total(self._reported.values())
            seen = None if progress is None else progress.observed
            return {
                **{name: 0 if seen is None else getattr(seen, name) for name in COUNTS},
                "rejected": 0 if progress is None else sum(progress.rejected.values()),
                "clocks": dict(self._source_clocks.clocks),
                "watermark": None if seen is None else seen.watermark,
                "slack": self._slack(),
                "outlook": None if progress is None else outlook_of(progress),
                "steps": self.steps,
                "rows_at_hand": self._recent.rows,
                "side_output_dropped": self._side_output.dropped,
            }

    def close(self) -> Answer:
        """Stop the query, without letting out what it holds. The answer has the rows of the freshest time, those that
        came late or were rejected since they were last taken, and the report."""
        # Who stops a query waits for its micro-batch, and that waits for the lock.
        with one_sentence():
            self.query.stop()
        with self._changed:
            self._closed = True
            self._tell()
            rows = self._fresh.rows()
            late, rejected = self._side_output.take_by_stream()
            return Answer(self._table(rows) if rows else self._schema.empty_table(), late, rejected, self.report())
