"""The stateful operator: a Spark state machine that hosts one shard per key.

Invariant: what a micro-batch changes is written before it ends, as (cell, key) -> bytes entries; a worker that kept
the shard of the last micro-batch goes on with it, any other restores it from the store. Exactly once comes from
Spark.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator
from typing import Any

import pandas as pd
import pyarrow as pa
from pyspark import TaskContext
from pyspark.sql.streaming.stateful_processor import StatefulProcessor, StatefulProcessorHandle

from slackwater.kernel import Change
from slackwater.plan.physical import PhysicalPlan
from slackwater.runtime.spark.aside import ahead_table, late_table
from slackwater.runtime.spark.blocks import as_bytes
from slackwater.runtime.spark.shard import Block, Shard
from slackwater.sinks.folder import plain_text
from slackwater.sinks.rows import RowMaker, SecondCounts

EMITTED = "kind string, note string, block binary"
ROWS, METRICS, ASIDE = "rows", "metrics", "aside"
BLOCK = ("stream", "part", "header", "block", "turned_away")

_kept: dict[tuple[str, str], tuple[int, Shard]] = {}
"""Shards of this worker between micro-batches, with the epoch they have seen: (query run, shard) -> (epoch, shard)."""


class ShardProcessor(StatefulProcessor):
    """Blocks in; results, late tuples and metrics out."""

    def __init__(self, plan: PhysicalPlan, text_rows: tuple[tuple[int, ...], ...], fingerprint: str) -> None:
        self._plan, self._text_rows, self._fingerprint = plan, text_rows, fingerprint

    def init(self, handle: StatefulProcessorHandle) -> None:
        self._state = handle.getMapState("kernel", "cell string, key string", "value binary")
        self._epoch = handle.getValueState("epoch", "epoch long")

    def handleInputRows(  # noqa: N802
        self, key: Any, rows: Iterator[pd.DataFrame], timerValues: Any
    ) -> Iterator[pd.DataFrame]:
        blocks = [
            Block(int(stream), int(part), json.loads(header), block, away)
            for frame in rows
            for stream, part, header, block, away in frame[list(BLOCK)].itertuples(index=False)
        ]
        for block in blocks:
            if block.turned_away is not None:
                yield pd.DataFrame({"kind": [ASIDE], "note": [""], "block": [block.turned_away]})
        seen = self._epoch.get()
        epoch = 0 if seen is None else int(seen[0])
        name = (_query_run(), str(key[0]))
        kept = _kept.pop(name, None)
        shard = kept[1] if kept is not None and kept[0] == epoch else self._restored(epoch)
        maker, counts = RowMaker(self._plan, shard.codebook), SecondCounts()
        for emission in shard.epoch(blocks):
            if len(emission.late.ts):
                yield _line(ASIDE, late_table(self._plan, emission.late, shard.codebook))
            if not len(emission.ts):
                continue
            if self._plan.counted:
                counts.note(emission)
            else:
                yield _line(ROWS, plain_text([maker.table(emission)])[0])
        for ahead in shard.take_ahead():
            yield _line(ASIDE, ahead_table(self._plan, ahead, shard.codebook))
        if self._plan.counted and counts.any:
            yield _line(ROWS, counts.table())
        for change in shard.changes():
            place = (change.cell, change.key)
            if change.value is not None:
                self._state.updateValue(place, (change.value,))
            elif self._state.containsKey(place):
                self._state.removeKey(place)
        self._epoch.update((epoch + 1,))
        if name[0]:
            _kept[name] = (epoch + 1, shard)
        yield pd.DataFrame(
            {"kind": [METRICS], "note": [json.dumps({"shard": int(key[0]), **shard.metrics()})], "block": [None]}
        )

    def _restored(self, epoch: int) -> Shard:
        shard = Shard(self._plan, self._text_rows, self._fingerprint)
        if epoch:
            shard.restore(Change(cell, key, bytes(value)) for (cell, key), (value,) in self._state.iterator())
        return shard

    def close(self) -> None:
        """Nothing to give back: kept shards wait for the next micro-batch."""


def _query_run() -> str:
    """The running query this task belongs to; a restart of the same query is another run."""
    context = TaskContext.get()
    if context is None:
        return ""
    query, run = (context.getLocalProperty(name) for name in ("sql.streaming.queryId", "spark.jobGroup.id"))
    return f"{query}/{run}" if query and run else ""


def _line(kind: str, table: pa.Table) -> pd.DataFrame:
    return pd.DataFrame({"kind": [kind], "note": [""], "block": [as_bytes(table)]})


def unpacked(frames: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
    """The rows of emitted blocks; for mapInArrow."""
    for frame in frames:
        for block in frame.column("block").to_pylist():
            yield from pa.ipc.open_stream(block)
