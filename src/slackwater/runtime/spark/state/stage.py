"""The stage that hosts shards of the queries we start: plain tasks over Arrow, with state in files of the checkpoint.

Invariant: a task runs all shards of its partition in every micro-batch, also one that brings nothing for them, so the
state of every shard has a file for every micro-batch. For Spark the stage has no state: which micro-batch it is in, it
is told with the task, and exactly once is what `page_files.py` makes of it.
"""

from __future__ import annotations

import hashlib
import json
import os
import socket
from collections.abc import Callable, Iterable, Iterator, Sequence
from functools import lru_cache
from typing import Any

import pyarrow as pa
from pyspark import TaskContext
from pyspark.sql import DataFrame
from pyspark.sql import functions as fn

from slackwater.core.errors import SlackwaterError, writing
from slackwater.runtime.spark.exchange.writer import UNCOUNTED
from slackwater.runtime.spark.folders import TaskFiles
from slackwater.runtime.spark.state.page_files import PageFiles
from slackwater.runtime.spark.state.pages import PageStore
from slackwater.runtime.spark.state.processor import Hosted, _serializer
from slackwater.runtime.spark.store import At, store_at
from slackwater.runtime.spark.workers import settle

MICRO_BATCH = "streaming.sql.batchId"
"""The property by which Spark tells a task its micro-batch."""
TYPES = {"string": pa.string(), "binary": pa.binary()}
WHOLE = 1 << 62
"""A page of a file may be of any size."""
_unpacked: dict[str, Hosted] = {}
"""The query that this worker ran last, by its digest: what is shipped is the same in every micro-batch."""


def staged(packed: DataFrame, hosted: Hosted, shards: Sequence[int], tasks: int, folder: At) -> DataFrame:
    """What shards emit of a packed stream, where `tasks` of them run at the same time."""
    known = fn.array(*(fn.lit(label) for label in shards))
    place = fn.pmod(fn.array_position(known, fn.col("shard")).cast("int") - 1, fn.lit(tasks))
    return packed.repartitionById(tasks, place).mapInArrow(hosting(hosted, tuple(shards), tasks, folder), hosted.emits)


def hosting(
    hosted: Hosted, shards: tuple[int, ...], tasks: int, folder: At
) -> Callable[[Iterable[pa.RecordBatch]], Iterator[pa.RecordBatch]]:
    """The function that mapInArrow runs over the partitions of a packed stream."""
    shipped: bytes = _serializer().dumps(hosted)
    digest = hashlib.sha256(shipped).hexdigest()
    if isinstance(folder, str):
        with writing(folder):
            os.makedirs(folder, exist_ok=True)

    def host(batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        settle()
        refuse_unshared(folder)
        context = TaskContext.get()
        assert context is not None
        number = int(context.getLocalProperty(MICRO_BATCH) or 0)
        mine = shards[context.partitionId() :: tasks]
        yield from run_shards(unpacked(digest, shipped), mine, batches, folder, number)

    return host


def refuse_unshared(folder: At) -> None:
    """Refuse to go on in a worker that does not have the folder which the driver has made."""
    if isinstance(folder, str) and not os.path.isdir(folder):
        raise SlackwaterError(
            f"{folder} is not there on {socket.gethostname()}, where a worker of this query runs; name a checkpoint"
            " folder that all machines share"
        )


def unpacked(digest: str, shipped: bytes) -> Hosted:
    """The query, unpacked once in a worker."""
    if digest not in _unpacked:
        _unpacked.clear()
        _unpacked[digest] = _serializer().loads(shipped)
    return _unpacked[digest]


def run_shards(
    hosted: Hosted, shards: Sequence[int], batches: Iterable[pa.RecordBatch], folder: At, number: int
) -> Iterator[pa.RecordBatch]:
    """One micro-batch of these shards."""
    lines: dict[int, list[tuple[Any, ...]]] = {label: [] for label in shards}
    for batch in batches:
        columns = [_values(batch.column(name)) for name in hosted.takes]
        for label, *line in zip(batch.column("shard").to_pylist(), *columns, strict=True):
            lines[label].append(tuple(line))
    _share_headers(lines)
    files = TaskFiles()
    for label, mine in lines.items():
        store = PageStore(PageFiles(store_at(folder, str(label)), number), largest=WHOLE)
        if not mine:
            store.write(store.mark(), ())
            continue
        for emitted in hosted.host(store, files).take_in(label, mine, None):
            yield _as_batch(hosted, emitted)
    written = [hosted.written(*one) for one in files.close()]
    if written:
        yield _as_batch(hosted, written)


def _share_headers(lines: dict[int, list[tuple[Any, ...]]]) -> None:
    """A task is told a header once, with the lines of its first shard; let its other shards have them, too."""
    first, *others = lines
    for label in others:
        mine = {(stream, part): (block, partials) for stream, part, _, block, _, partials in lines[label]}
        lines[label] = []
        for stream, part, header, *_ in lines[first]:
            block, partials = mine.get((stream, part), (None, None))
            lines[label].append((stream, part, header if stream is None else uncounted(header), block, None, partials))


@lru_cache(maxsize=256)
def uncounted(header: str) -> str:
    """A header as all shards but the first are told it."""
    return json.dumps(json.loads(header) | UNCOUNTED)


def _as_batch(hosted: Hosted, lines: list[tuple[Any, ...]]) -> pa.RecordBatch:
    names, types = zip(*(field.split() for field in hosted.emits.split(", ")), strict=True)
    columns = zip(*lines, strict=True)
    arrays = [pa.array(column, TYPES[kind]) for column, kind in zip(columns, types, strict=True)]
    return pa.RecordBatch.from_arrays(arrays, names=list(names))


def _values(column: pa.Array) -> list[Any]:
    """The values of a column; bytes stay where they are."""
    if pa.types.is_binary(column.type) or pa.types.is_large_binary(column.type):
        return [one.as_buffer() for one in column]
    return column.to_pylist()
