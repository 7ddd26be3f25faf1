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

from slackwater.kernel import Change, Emission, Late
from slackwater.plan.physical import PhysicalPlan
from slackwater.runtime.spark.aside import ahead_table, late_table
from slackwater.runtime.spark.blocks import as_bytes
from slackwater.runtime.spark.shard import Block, Shard
from slackwater.sinks.folder import plain_text
from slackwater.sinks.rows import result_tables

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
        seen = self._epoch.get()
        epoch = 0 if seen is None else int(seen[0])
        name = (_query_run(), str(key[0]))
        kept = _kept.pop(name, None)
        shard = kept[1] if kept is not None and kept[0] == epoch else self._restored(epoch)
        yield from self._answer(shard, blocks)
        self._persist(shard)
        self._epoch.update((epoch + 1,))
        if name[0]:
            _kept[name] = (epoch + 1, shard)
        yield _line(METRICS, note=json.dumps({"shard": int(key[0]), **shard.metrics()}))

    def _answer(self, shard: Shard, blocks: list[Block]) -> Iterator[pd.DataFrame]:
        """What one micro-batch lets out: results, then the tuples that made none."""
        late: list[Late] = []
        for table in result_tables(self._plan, shard.codebook, _with_results(shard.epoch(blocks), late)):
            if table.num_rows:
                yield _line(ROWS, as_bytes(plain_text([table])[0]))
        for tuples in late:
            yield _line(ASIDE, as_bytes(late_table(self._plan, tuples, shard.codebook)))
        for ahead in shard.take_ahead():
            yield _line(ASIDE, as_bytes(ahead_table(self._plan, ahead, shard.codebook)))
        for block in blocks:
            if block.turned_away is not None:
                yield _line(ASIDE, block.turned_away)

    def _persist(self, shard: Shard) -> None:
        for change in shard.changes():
            place = (change.cell, change.key)
            if change.value is not None:
                self._state.updateValue(place, (change.value,))
            elif self._state.containsKey(place):
                self._state.removeKey(place)

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
