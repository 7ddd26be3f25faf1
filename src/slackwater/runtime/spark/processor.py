"""The stateful operator: a Spark state machine that hosts one shard per key.

Invariant: what a micro-batch changes is written before it ends. A worker that kept the shard goes on with it; where
other workers ran micro-batches in between, it reads what those wrote and nothing else; a worker that has never seen the
shard reads all of it. Exactly once comes from Spark.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable, Iterator
from typing import Any

import pandas as pd
import pyarrow as pa
from pyspark import TaskContext
from pyspark.sql.streaming.stateful_processor import StatefulProcessor, StatefulProcessorHandle

from slackwater.kernel import Emission, Late
from slackwater.model.time import MILLISECOND
from slackwater.plan.physical import PhysicalPlan
from slackwater.runtime.spark.aside import ahead_table, late_table
from slackwater.runtime.spark.blocks import as_bytes
from slackwater.runtime.spark.functions import register_here, registered
from slackwater.runtime.spark.shard import Block, Shard
from slackwater.runtime.spark.store import Mark, ShardStore
from slackwater.sinks.folder import plain_text
from slackwater.sinks.rows import result_tables

EMITTED = "kind string, note string, block binary"
ROWS, METRICS, ASIDE, LATENCY = "rows", "metrics", "aside", "latency"
BLOCK = ("stream", "part", "header", "block", "turned_away")

_kept: dict[tuple[str, str], tuple[Mark, Shard]] = {}
"""Shards of this worker between micro-batches, by (query run, shard), with the mark they are up to date with."""


class ShardProcessor(StatefulProcessor):
    """Blocks in; results, late tuples and metrics out."""

    def __init__(
        self, plan: PhysicalPlan, text_rows: tuple[tuple[int, ...], ...], fingerprint: str, beats: bool = False
    ) -> None:
        self._plan, self._text_rows, self._fingerprint = plan, text_rows, fingerprint
        self._functions = registered()
        self._beats = beats
        """Whether moments count: streams are told silent by the clock on the wall, also while nothing arrives."""

    def init(self, handle: StatefulProcessorHandle) -> None:
        register_here(self._functions)
        self._handle = handle
        self._store = ShardStore(handle)

    def handleInputRows(  # noqa: N802
        self, key: Any, rows: Iterator[pd.DataFrame], timerValues: Any
    ) -> Iterator[pd.DataFrame]:
        blocks = [
            Block(int(stream), int(part), json.loads(header), block, away)
            for frame in rows
            for stream, part, header, block, away in frame[list(BLOCK)].itertuples(index=False)
        ]
        now = self._moment(timerValues)
        yield from self._turn(key, lambda shard: shard.epoch(blocks, now), now)
        for block in blocks:
            if block.turned_away is not None:
                yield _line(ASIDE, block.turned_away)

    def handleExpiredTimer(  # noqa: N802
        self, key: Any, timerValues: Any, expiredTimerInfo: Any
    ) -> Iterator[pd.DataFrame]:
        """Nothing has arrived for so long that a stream may be silent."""
        now = self._moment(timerValues)
        if now is not None:
            yield from self._turn(key, lambda shard: shard.beat(now), now)

    def _moment(self, timer_values: Any) -> int | None:
        return int(timer_values.getCurrentProcessingTimeInMs()) * MILLISECOND if self._beats else None

    def _turn(self, key: Any, epoch: Callable[[Shard], Iterator[Emission]], now: int | None) -> Iterator[pd.DataFrame]:
        """One epoch of one shard: bring it up to date, let it work, write what changed."""
        name = (_query_run(), str(key[0]))
        before = self._store.mark()
        # A shard is kept again only once its micro-batch is written: one that failed half way is of no use.
        shard = self._current(_kept.pop(name, None), before)
        yield from self._answer(shard, epoch(shard))
        mark = self._store.write(before, shard.changes())
        if name[0]:
            _kept[name] = (mark, shard)
        if now is not None:
            self._set_timer(now)
        yield _line(LATENCY, note=json.dumps(shard.latency.told()))
        told = {"shard": int(key[0]), **shard.metrics(), **self._store.traffic()}
        yield _line(METRICS, note=json.dumps(told))

    def _set_timer(self, now: int) -> None:
        """Wake up when every stream that has just spoken would be silent for too long."""
        for old in list(self._handle.listTimers()):
            self._handle.deleteTimer(old)
        timeout = self._plan.options.idle_timeout
        assert timeout is not None
        self._handle.registerTimer((now + timeout) // MILLISECOND + 1)

    def _current(self, kept: tuple[Mark, Shard] | None, now: Mark | None) -> Shard:
        """The shard as the last micro-batch left it."""
        if kept is not None and now is not None:
            then, shard = kept
            missed = self._store.between(then, now)
            if missed is not None:
                if missed:
                    shard.restore(missed)
                return shard
        shard = Shard(self._plan, self._text_rows, self._fingerprint)
        if now is not None:
            shard.restore(self._store.everything())
        return shard

    def _answer(self, shard: Shard, emissions: Iterator[Emission]) -> Iterator[pd.DataFrame]:
        """What one micro-batch lets out: results, then the tuples that made none."""
        late: list[Late] = []
        for table in result_tables(self._plan, shard.codebook, _with_results(emissions, late)):
            if table.num_rows:
                yield _line(ROWS, as_bytes(plain_text([table])[0]))
        for tuples in late:
            yield _line(ASIDE, as_bytes(late_table(self._plan, tuples, shard.codebook)))
        for ahead in shard.take_ahead():
            yield _line(ASIDE, as_bytes(ahead_table(self._plan, ahead, shard.codebook)))

    def close(self) -> None:
        """Nothing to give back: kept shards wait for the next micro-batch."""


def _query_run() -> str:
    """The running query this task belongs to; a restart of the same query is another run."""
    context = TaskContext.get()
    if context is None:
        return ""
    query, run = (context.getLocalProperty(name) for name in ("sql.streaming.queryId", "spark.jobGroup.id"))
    return f"{query}/{run}" if query and run else ""


def _with_results(emissions: Iterable[Emission], late: list[Late]) -> Iterator[Emission]:
    """The emissions that hold results; late tuples of any of them are put aside."""
    for emission in emissions:
        if len(emission.late.ts):
            late.append(emission.late)
        if len(emission.ts):
            yield emission


def _line(kind: str, block: bytes | None = None, note: str = "") -> pd.DataFrame:
    return pd.DataFrame({"kind": [kind], "note": [note], "block": [block]})


def unpacked(frames: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
    """The rows of emitted blocks; for mapInArrow."""
    for frame in frames:
        for block in frame.column("block").to_pylist():
            yield from pa.ipc.open_stream(block)
