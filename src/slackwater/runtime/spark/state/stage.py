"""The stage that hosts shards: plain tasks over Arrow, with state in files.

Invariant: a task runs all of its shards in every micro-batch, also one that brings nothing for them, so every task has
a file for every micro-batch. For Spark the stage has no state: which micro-batch it is in, it is told
with the task, and exactly once is what `page_files.py` makes of it.
"""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Iterable, Iterator, Sequence
from itertools import chain
from typing import Any

import pyarrow as pa
from pyspark import TaskContext
from pyspark.serializers import CloudPickleSerializer
from pyspark.sql import DataFrame
from pyspark.sql import functions as fn

from slackwater.runtime.spark.folders import TaskFiles
from slackwater.runtime.spark.state.emitters import said
from slackwater.runtime.spark.state.host import Host, Hosted
from slackwater.runtime.spark.state.inbox import Inbox
from slackwater.runtime.spark.state.layouts import ONE_TASK, Share, TaskLog
from slackwater.runtime.spark.state.page_files import Writer
from slackwater.runtime.spark.state.root import StateRoot, micro_batch, run_of_task
from slackwater.runtime.spark.store import At
from slackwater.runtime.spark.versions import in_partition_of, map_in_arrow
from slackwater.runtime.spark.workers import settle

MOST_UNPACKED = 4
_serializer: Any = CloudPickleSerializer
_unpacked: dict[str, Hosted] = {}
"""The queries that this worker ran last, by their digest: what is shipped is the same in every micro-batch."""


def staged(
    packed: DataFrame, hosted: Hosted, labels: Sequence[int], tasks: int, root: StateRoot | None, emits: Any
) -> DataFrame:
    """What shards emit of a packed stream, where `tasks` of them run at the same time; without a root there is one
    micro-batch only."""
    if root is not None:
        root.make()
    together = exchanged(packed, tasks)
    return map_in_arrow(together, hosting(hosted, tuple(labels), tasks, root), emits)


def exchanged(packed: DataFrame, tasks: int) -> DataFrame:
    """The lines of every shard in the partition of its task."""
    return in_partition_of(packed, tasks, fn.pmod(fn.col("shard"), fn.lit(tasks)).cast("int"))


def hosting(
    hosted: Hosted, labels: tuple[int, ...], tasks: int, root: StateRoot | None
) -> Callable[[Iterable[pa.RecordBatch]], Iterator[pa.RecordBatch]]:
    """The function that mapInArrow runs over the partitions of a packed stream."""
    shipped: bytes = _serializer().dumps(hosted)
    digest = hashlib.sha256(shipped).hexdigest()

    def host(batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        settle()
        context = TaskContext.get()
        assert context is not None
        share = Share(context.partitionId(), tasks)
        mine = labels[share.task :: tasks]
        folder = None if root is None else root.of_task()
        yield from run_shards(unpacked(digest, shipped), mine, batches, folder, micro_batch() if folder else 0, share)

    return host


def unpacked(digest: str, shipped: bytes) -> Hosted:
    """The queries, unpacked once in a worker."""
    if digest not in _unpacked:
        if len(_unpacked) >= MOST_UNPACKED:
            _unpacked.clear()
        _unpacked[digest] = _serializer().loads(shipped)
    return _unpacked[digest]


def run_shards(
    hosted: Hosted,
    labels: Sequence[int],
    batches: Iterable[pa.RecordBatch],
    folder: At | None,
    number: int,
    share: Share = ONE_TASK,
) -> Iterator[pa.RecordBatch]:
    """One micro-batch of these shards, all of one task."""
    inbox = Inbox((*hosted.members, *hosted.groups), batches)
    host = Host(hosted, inbox, TaskFiles(number, share))
    log = TaskLog(folder, share, number, Writer(run_of_task(), hosted.name))
    passed = chain(inbox.passed, map(said, inbox.messages) if hosted.emitter.forwards else ())
    yield from hosted.emitter.batches(chain(passed, host.run(labels, log), host.written()), share.task)
