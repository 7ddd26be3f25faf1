"""Hosting shards in a worker: bring one up to date, let it work, write what changed.

Invariant: what a micro-batch changes is written before it ends. A worker that kept the shard goes on with it; where
other workers ran micro-batches in between, it reads what those wrote and nothing else; a worker that has never seen the
shard reads all of it, and so does one that is to go on with another target.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, replace
from typing import Any, Protocol

import pandas as pd
import pyarrow as pa
from pyspark import TaskContext

from slackwater.core.quality import clause
from slackwater.core.state import Emission, StateUpdate
from slackwater.core.time import MILLISECOND
from slackwater.language.clauses import parse_quality
from slackwater.plan.physical import PhysicalPlan
from slackwater.runtime.driver import with_results
from slackwater.runtime.side_outputs.rows import REJECTED, example_of
from slackwater.runtime.spark.control import Control, combined
from slackwater.runtime.spark.exchange.format import as_bytes
from slackwater.runtime.spark.functions import Shipped, register_here
from slackwater.runtime.spark.output_schema import LATENCY, METRICS, ROWS
from slackwater.runtime.spark.state.checkpoint import Targets, is_target
from slackwater.runtime.spark.state.shard import Block, Shard
from slackwater.runtime.spark.state.store import Mark, ShardStore
from slackwater.sinks.folder import plain_text
from slackwater.sinks.rows import result_tables

BLOCK = ("stream", "part", "header", "block", "rejected_rows")

_kept: dict[tuple[str, str], tuple[Mark, Shard]] = {}
"""Shards of this worker between micro-batches, by (query run, shard), with the mark they are up to date with."""


@dataclass(frozen=True)
class Hosted:
    """A query as its shards know it."""

    plan: PhysicalPlan
    text_rows: tuple[tuple[int, ...], ...]
    fingerprint: str
    functions: tuple[Shipped, ...]

    def host(self, store: ShardStore) -> Host:
        """What runs one shard of it, over the state of that shard."""
        return Host(self, store)


class Host:
    """One key of the stateful operator in one task."""

    def __init__(self, hosted: Hosted, store: ShardStore) -> None:
        register_here(hosted.functions)
        self._hosted, self._store = hosted, store

    def take_in(self, key: Any, rows: Iterator[pd.DataFrame], now: int | None) -> Iterator[pd.DataFrame]:
        """An epoch with these blocks; `now` is the moment where moments count."""
        blocks: list[Block] = []
        messages: list[Control] = []
        for frame in rows:
            for stream, part, header, block, away in frame[list(BLOCK)].itertuples(index=False):
                if pd.isna(stream):
                    messages.append(Control.of_json(header))
                else:
                    blocks.append(Block(int(stream), int(part), json.loads(header), block, away))
        target, end = combined(messages, clause(self._hosted.plan.quality))
        examples = {}
        for block in blocks:
            if block.rejected_rows is not None:
                yield emitted_line(REJECTED, block.rejected_rows)
                examples[self._hosted.plan.inputs[block.stream].stream.alias] = example_of(block.rejected_rows)
        yield from self._turn(key, lambda shard: shard.epoch(blocks, now, end), target, examples)

    def on_processing_time(self, key: Any, now: int) -> Iterator[pd.DataFrame]:
        """An epoch in which nothing arrived."""
        yield from self._turn(key, lambda shard: shard.on_processing_time(now))

    def wake_at(self, now: int) -> int:
        """When, in milliseconds, every stream that has just spoken would be silent for too long."""
        timeout = self._hosted.plan.options.idle_timeout
        assert timeout is not None
        return (now + timeout) // MILLISECOND + 1

    def _turn(
        self,
        key: Any,
        epoch: Callable[[Shard], Iterator[Emission]],
        target: str | None = None,
        examples: Mapping[str, str] | None = None,
    ) -> Iterator[pd.DataFrame]:
        name = (query_run(), str(key[0]))
        before = self._store.mark()
        # A shard is kept again only once its micro-batch is written: one that failed half way is of no use.
        shard = current(self._hosted, self._store, _kept.pop(name, None), before, target)
        yield from self._answer(shard, epoch(shard))
        mark = self._store.write(before, shard.snapshot_delta())
        if name[0]:
            forget_earlier_runs(_kept, name[0])
            _kept[name] = (mark, shard)
        yield emitted_line(LATENCY, note=json.dumps(shard.latency.reported()))
        reported = {"shard": int(key[0]), **shard.metrics(), **self._store.traffic(), "examples": examples or {}}
        yield emitted_line(METRICS, note=json.dumps(reported))

    def _answer(self, shard: Shard, emissions: Iterator[Emission]) -> Iterator[pd.DataFrame]:
        """What one micro-batch emits: results, then the tuples that made none."""
        for kind, table in emitted_tables(shard, emissions):
            yield emitted_line(kind, as_bytes(table))


def emitted_tables(shard: Shard, emissions: Iterator[Emission]) -> Iterator[tuple[str, pa.Table]]:
    """What a shard emits, with its kind: results, then the tuples that made none."""
    for table in result_tables(shard.plan, shard.codebook, with_results(emissions)):
        if table.num_rows:
            yield ROWS, plain_text([table])[0]
    yield from shard.side_output.take_tables()


class Entries(Protocol):
    """The state of a shard, as far as it is read."""

    def everything(self) -> list[StateUpdate]:
        """All entries."""

    def between(self, then: Mark, now: Mark) -> list[StateUpdate] | None:
        """What was written or dropped after a mark, as it is now; None where that is not known."""


def current(
    hosted: Hosted,
    store: Entries,
    kept: tuple[Mark, Shard] | None,
    now: Mark | None,
    target: str | None = None,
) -> Shard:
    """The shard as the last micro-batch left it; with another target from now on, where one is given."""
    if kept is not None and now is not None and target is None:
        then, shard = kept
        missed = store.between(then, now)
        if missed is not None and not any(is_target(entry) for entry in missed):
            if missed:
                shard.restore(missed)
            return shard
    entries = [] if now is None else store.everything()
    targets = Targets.among(entries, clause(hosted.plan.quality)).asked(target)
    plan = hosted.plan
    if targets.in_force != clause(plan.quality):
        plan = replace(plan, quality=parse_quality(targets.in_force))
    shard = Shard(plan, hosted.text_rows, hosted.fingerprint, targets=targets)
    if now is not None:
        shard.restore(entries)
    return shard


def forget_earlier_runs(kept: dict[tuple[str, str], Any], run: str) -> None:
    """Let go of what this worker has kept of the same query before it was started again."""
    query = run.partition("/")[0]
    for name in [name for name in kept if name[0] != run and name[0].partition("/")[0] == query]:
        del kept[name]


def query_run() -> str:
    """The running query this task belongs to; a restart of the same query is another run."""
    context = TaskContext.get()
    if context is None:
        return ""
    query, run = (context.getLocalProperty(name) for name in ("sql.streaming.queryId", "spark.jobGroup.id"))
    return f"{query}/{run}" if query and run else ""


def emitted_line(kind: str, block: bytes | None = None, note: str = "") -> pd.DataFrame:
    """One row of what is emitted."""
    return pd.DataFrame({"kind": [kind], "note": [note], "block": [block]})
