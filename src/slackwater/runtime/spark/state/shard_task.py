"""Hosting shards in a worker: bring one up to date, let it work, write what changed.

Invariant: what a micro-batch changes is written before it ends. A worker that kept the shard goes on with it; where
other workers ran micro-batches in between, it reads what those wrote and nothing else; a worker that has never seen the
shard reads all of it, and so does one that is to go on with another target.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import lru_cache, partial
from itertools import chain
from typing import Any, ClassVar, NamedTuple, Protocol

import pyarrow as pa
from pyspark import TaskContext

from slackwater.core.quality import clause
from slackwater.core.state import Emission, StateUpdate
from slackwater.core.time import MILLISECOND
from slackwater.language.clauses import parse_quality
from slackwater.observe.imbalance import ShardLoad
from slackwater.operators.guarded_query import Tells
from slackwater.plan.physical import PhysicalPlan
from slackwater.runtime.driver import with_results
from slackwater.runtime.side_outputs.rows import LATE, REJECTED, example_of
from slackwater.runtime.spark.control import Control, combined
from slackwater.runtime.spark.exchange.files import FoldersRead
from slackwater.runtime.spark.exchange.format import as_bytes
from slackwater.runtime.spark.exchange.partials import PartialsHeader, aggregate_of
from slackwater.runtime.spark.folders import WRITTEN, Folder, TaskFiles
from slackwater.runtime.spark.functions import Shipped, register_here
from slackwater.runtime.spark.output_schema import EMITTED, LATENCY, METRICS, ROWS
from slackwater.runtime.spark.state.checkpoint import Targets, is_target
from slackwater.runtime.spark.state.last_watermark import Before
from slackwater.runtime.spark.state.pages import Account, Mark, PageStore
from slackwater.runtime.spark.state.shard import Block, Shard
from slackwater.sinks.folder import plain_text
from slackwater.sinks.rows import result_tables

Line = tuple[Any, ...]
"""A row of the packed stream without its shard, or of what is emitted."""


class Kept(NamedTuple):
    """A shard of this worker between two micro-batches."""

    mark: Mark
    """What it is up to date with."""
    shard: Shard
    account: Account


_kept: dict[tuple[str, str], Kept] = {}
"""By (query run, shard)."""


@dataclass(frozen=True)
class Hosted:
    """A query as its shards know it."""

    plan: PhysicalPlan
    text_rows: tuple[tuple[int, ...], ...]
    fingerprint: str
    functions: tuple[Shipped, ...]
    folders: Mapping[str, Folder] = field(default_factory=dict)
    """Where shards write rows themselves, by their kind."""
    emits_all: bool = True
    """Whether the rows of those are handed on as well."""
    shards: tuple[int, ...] = ()
    """The labels of all its shards, where it is cut without a key and one of those that have a tuple tells of it."""
    folders_read: FoldersRead | None = None
    """What it reads itself, where it can do with partial results of that."""
    tells_latency: bool = False
    """Whether each epoch tells of the waiting of all its results, for a report of the whole run."""
    takes: ClassVar[tuple[str, ...]] = ("stream", "part", "header", "block", "rejected_rows", "partials")
    emits: ClassVar[str] = EMITTED

    def host(self, store: PageStore, files: TaskFiles) -> Host:
        """What runs one shard of it, over the state of that shard; `files` take what goes to folders."""
        return Host(self, store, files)

    def told_by(self, label: int) -> Tells | None:
        """Of which tuples this shard tells; None: of all that it has."""
        cut = self.plan.partitioning.cut(len(self.shards))
        return None if cut is None else partial(cut.tells, self.shards.index(label))

    def tuples_of(self, label: int) -> Callable[[Block], bytes | None] | None:
        """Reads again what a block of this shard was made of."""
        read = self.folders_read
        if read is None:
            return None
        return lambda block: read.block_again(PartialsHeader.of_json(block.header["partials"]), block.stream, label)

    def written(self, output: str, name: str) -> Line:
        """The line that tells of a file with rows of some kind."""
        return WRITTEN, f"{output}/{name}", None


class Host:
    """One shard in one task."""

    def __init__(self, hosted: Hosted, store: PageStore, files: TaskFiles) -> None:
        register_here(hosted.functions)
        self._hosted, self._store, self._files = hosted, store, files
        self._watermark: int | None = None
        """After the epoch; None: the shard wants tuples."""

    def take_in(self, label: int, lines: Iterable[Line], now: int | None) -> Iterator[list[Line]]:
        """An epoch with these blocks; `now` is the moment where moments count."""
        blocks: list[Block] = []
        messages: list[Control] = []
        for stream, part, header, block, away, partials in lines:
            if stream is None:
                messages.append(Control.of_json(header))
            else:
                blocks.append(Block(int(stream), int(part), told(header), block, away, partials))
        target, end = combined(messages, clause(self._hosted.plan.quality))
        examples = {}
        rejected = [one for one in blocks if one.rejected_rows is not None]
        for one in rejected:
            examples[self._hosted.plan.inputs[one.stream].stream.alias] = example_of(one.rejected_rows or b"")
        yield from self._turn(label, lambda shard: shard.epoch(blocks, now, end), target, rejected, examples)
        if self._hosted.folders_read is not None and label == self._hosted.shards[0]:
            cuts = max((one.header["cuts"] for one in blocks if one.header["cuts"] is not None), default=None)
            if cuts is not None:
                self._hosted.folders_read.note(Before(cuts + 1, self._watermark))

    def on_processing_time(self, label: int, now: int) -> Iterator[list[Line]]:
        """An epoch in which nothing arrived."""
        yield from self._turn(label, lambda shard: shard.on_processing_time(now))

    def wake_at(self, now: int) -> int:
        """When, in milliseconds, every stream that has just spoken would be silent for too long."""
        timeout = self._hosted.plan.options.idle_timeout
        assert timeout is not None
        return (now + timeout) // MILLISECOND + 1

    def _turn(
        self,
        label: int,
        epoch: Callable[[Shard], Iterator[Emission]],
        target: str | None = None,
        rejected: Sequence[Block] = (),
        examples: Mapping[str, str] | None = None,
    ) -> Iterator[list[Line]]:
        name = (query_run(), str(label))
        before = self._store.mark()
        # A shard is kept again only once its micro-batch is written: one that failed half way is of no use.
        kept = _kept.pop(name, None)
        if kept is not None:
            self._store.account = kept.account
        known = None if kept is None else (kept.mark, kept.shard)
        shard = current(self._hosted, self._store, known, before, target, label)
        unreadable = ((REJECTED, pa.ipc.open_stream(one.rejected_rows).read_all()) for one in rejected)
        yield from self._handed_on(chain(unreadable, emitted_tables(shard, epoch(shard))))
        mark = self._store.write(before, shard.snapshot_delta())
        self._watermark = None if aggregate_of(shard.plan) is None else shard.kernel.watermark
        if name[0]:
            forget_earlier_runs(_kept, name[0])
            assert self._store.account is not None
            _kept[name] = Kept(mark, shard, self._store.account)
        traffic = self._store.traffic()
        load = ShardLoad(label, task_number(), state_read=traffic["state_read"], state_written=traffic["state_written"])
        progress = shard.progress(load, examples)
        if self._hosted.tells_latency:
            yield [(LATENCY, json.dumps(shard.latency.reported()), None)]
        yield [(METRICS, json.dumps(progress.as_json()), None)]

    def _handed_on(self, emitted: Iterable[tuple[str, pa.Table]]) -> Iterator[list[Line]]:
        """The lines of what is emitted; what goes to folders is written there."""
        for kind, table in emitted:
            folder = self._hosted.folders.get(kind)
            if folder is not None:
                self._files.add(kind, folder, table)
            if folder is None or self._hosted.emits_all:
                yield [(kind, "", as_bytes(table))]


@lru_cache(maxsize=256)
def told(header: str) -> dict[str, Any]:
    """A header, which all shards of a task are given alike; nobody changes it."""
    found: dict[str, Any] = json.loads(header)
    return found


def emitted_tables(shard: Shard, emissions: Iterator[Emission]) -> Iterator[tuple[str, pa.Table]]:
    """What a shard emits, with its kind: results, then the tuples that made none."""
    for table in result_tables(shard.plan, shard.codebook, with_results(emissions)):
        if table.num_rows:
            yield ROWS, plain_text([table])[0]
    for kind, table in shard.side_output.take_tables():
        if kind == LATE:
            shard.note_late(table)
        yield kind, table


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
    label: int = 0,
) -> Shard:
    """The shard of this label as the last micro-batch left it; with another target from now on, where one is given."""
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
    shard = Shard(
        plan,
        hosted.text_rows,
        hosted.fingerprint,
        targets=targets,
        tells=hosted.told_by(label),
        tuples_of=hosted.tuples_of(label),
    )
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


def task_number() -> int | None:
    """Which of the tasks that run at the same time this is; None outside of one."""
    context = TaskContext.get()
    return None if context is None else int(context.partitionId())
