"""`spark.readStream.format("slackwater")`: folders of files, read by Arrow and packed where they are read.

To Spark's own file source a row is a row: it is made by the JVM, and crosses to Python to be packed. Here a task reads
a file with Arrow and gives blocks, so a tuple crosses to the JVM inside of a block and nowhere else. All folders that a
query reads form one source, with one offset: the number of the *cut*, a list of files for every stream. The watermarks
of queries after a cut are in small files of the checkpoint, for the tasks that read the next one.

This file costs little to import: Spark starts a process of Python for every source only to ask where it stands.

Invariant: a cut is written to a log of the checkpoint before Spark hears of it, and is never made again. So a
micro-batch has the same files however often it is planned, killed or run; nothing depends on when that happens.
Watermarks are hints, and results do not depend on them. The files of two cuts are kept, so that a cut that is read
again is told the same as the first time.
"""

from __future__ import annotations

import os
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import pairwise
from typing import TYPE_CHECKING, Any, ClassVar, NamedTuple

from py4j.protocol import Py4JError  # type: ignore[import-untyped]
from pyspark.errors import PySparkException
from pyspark.serializers import CloudPickleSerializer

from slackwater.core.errors import SlackwaterError, UsageError
from slackwater.core.time import BEFORE_ALL
from slackwater.runtime.spark.store import At, Location, damaged, signed, store_at, verified
from slackwater.runtime.spark.versions import (
    HAS_READ_LIMITS,
    DataSource,
    DataSourceStreamReader,
    InputPartition,
    SupportsTriggerAvailableNow,
    needs,
)
from slackwater.runtime.spark.workers import settle

if TYPE_CHECKING:
    import pyarrow as pa
    from pyspark.sql import DataFrame
    from pyspark.sql.types import StructType

    from slackwater.runtime.spark.exchange.files import Folder
    from slackwater.runtime.spark.exchange.packing import Reads

HINTS = "hints"
"""The folder of these files, beside the state of shards."""


class Before(NamedTuple):
    """What is known when a cut is read: how many cuts came before it, and the watermark that the shards of some queries
    have after them, by the keys of these."""

    cuts: int
    watermarks: Mapping[str, int | None]
    """None: shards want tuples, whatever their event times are."""

    def watermark(self, keys: Iterable[str]) -> int | None:
        """The lowest of these queries; where nothing is known, nothing has been late."""
        found = [self.watermarks.get(key, BEFORE_ALL) for key in keys]
        return None if None in found else min((one for one in found if one is not None), default=BEFORE_ALL)


NOTHING_KNOWN = Before(0, {})


def note_watermark(folder: At, key: str, cuts: int, watermark: int | None) -> None:
    """What will be known of a query when the next cut is read."""
    store_at(folder, HINTS).write(_file(key, cuts), signed({"cuts": cuts, "watermark": watermark}).encode())


def known_before(folder: At, cuts: int, keys: Iterable[str]) -> Before:
    """What is known of queries after so many cuts; a file that is not there, or cannot be read, tells nothing."""
    known: dict[str, int | None] = {}
    store = store_at(folder, HINTS)
    for key in keys:
        try:
            found = verified(store.read(_file(key, cuts)) or b"", key)
            if found["cuts"] == cuts:
                known[key] = found["watermark"]
        except (SlackwaterError, KeyError):
            continue
    return Before(cuts, known)


def _file(key: str, cuts: int) -> str:
    return f"{key}.{cuts % 2}.json"


NAME = "slackwater"
ONLY = "a stream of format slackwater is read by queries that sw.start or sw.queries starts, not over Spark Connect"
FORMATS = ("parquet", "json", "csv")
CUTS = "cuts"
"""The folder of cuts, beside the state of shards."""
ONE, ALL = ".one", ".all"
"""How files with one cut, and with all up to one, are called."""
TOGETHER = 100
SPLIT = 4 << 20
"""Bytes of files that are worth a task of their own."""
_serializer: Any = CloudPickleSerializer


class CutLog:
    """The cuts of a query, one a file; every hundredth file has all the cuts before it as well, which then go."""

    def __init__(self, folder: At) -> None:
        self._store = store_at(folder, CUTS)
        self.cuts: list[list[list[str]]] = []
        """Of every cut the files of every stream."""
        names = self._store.names()
        whole = [at for at, name in enumerate(names) if name.endswith(ALL)]
        for name in names[whole[-1] if whole else 0 :]:
            self.cuts += self._read(name)
            if name[:10] != f"{len(self.cuts) - 1:010d}":
                raise damaged(self._store.root, f"cut {len(self.cuts) - 1} is not there")

    def _read(self, name: str) -> list[list[list[str]]]:
        found: list[list[list[str]]] = verified(self._store.read(name) or b"", self._store.path(name))["cuts"]
        return found

    def add(self, cut: list[list[str]]) -> None:
        """Write a cut down, for good."""
        number = len(self.cuts)
        joined = number % TOGETHER == TOGETHER - 1
        name = f"{number:010d}{ALL if joined else ONE}"
        cuts = [*self.cuts, cut] if joined else [cut]
        if not self._store.create(name, signed({"cuts": cuts}).encode()):
            raise SlackwaterError(
                f"{self._store.path(name)} has been written by another driver; only one driver may run on a checkpoint"
            )
        self.cuts.append(cut)
        if joined:
            for old in self._store.names():
                if old < name:
                    self._store.remove(old)

    def between(self, first: int, last: int) -> list[list[list[str]]]:
        """The cuts behind the first ones, up to a number of them that Spark has heard of."""
        if last > len(self.cuts):
            raise damaged(self._store.root, f"it has {len(self.cuts)} cuts of {last}")
        return self.cuts[first:last]


@dataclass
class Slice(InputPartition):
    """What one task reads: of some files the k-th of n parts each."""

    stream: int
    files: tuple[str, ...]
    first: int
    """The number of the first file in its cut."""
    part: int
    parts: int
    before: Before = NOTHING_KNOWN


class PackedReader(DataSourceStreamReader, SupportsTriggerAvailableNow):
    """Cuts folders into micro-batches, and packs them."""

    def __init__(self, reads: Sequence[Reads], folder: At, tasks: int) -> None:
        self._folders = [(one.folder.at, one.folder.most_files) for one in reads]
        self._sizes: dict[str, int] = {}
        """Of files, as they were listed last."""
        self._keys = sorted({key for one in reads for key in one.keys})
        # Unpacked, and all that packs imported, only where files are read: who cuts has no use for it.
        self._shipped: list[bytes] = [_serializer().dumps(one) for one in reads]
        self._folder, self._tasks = folder, tasks
        self._cuts: CutLog | None = None
        self._last: list[set[str]] | None = None
        """What there was when a query over what is there now was started."""

    @property
    def _log(self) -> CutLog:
        # Workers that read files have no use for it.
        if self._cuts is None:
            self._cuts = CutLog(self._folder)
            self._seen = [set[str]() for _ in self._folders]
            for cut in self._cuts.cuts:
                for seen, files in zip(self._seen, cut, strict=True):
                    seen.update(files)
        return self._cuts

    def initialOffset(self) -> dict[str, int]:  # noqa: N802
        """Before the first cut."""
        return {"cut": 0}

    def prepareForTriggerAvailableNow(self) -> None:  # noqa: N802
        """From now on only what is there counts."""
        self._last = [{file for _, file in self._files(at)} for at, _ in self._folders]

    def latestOffset(self, start: dict[str, int] | None = None, limit: Any = None) -> dict[str, int]:  # noqa: N802
        """One cut more than the last micro-batch had, if there are files for one. Where Spark does not say which that
        was, one more than there are."""
        cut = len(self._log.cuts) if start is None else start["cut"]
        if self._log.between(cut, cut + (cut < len(self._log.cuts))):
            return {"cut": cut + 1}
        found = [self._new_files(position) for position in range(len(self._folders))]
        if not any(found):
            return {"cut": cut}
        self._log.add(found)
        for seen, files in zip(self._seen, found, strict=True):
            seen.update(files)
        return {"cut": cut + 1}

    def _new_files(self, position: int) -> list[str]:
        (folder, most), seen = self._folders[position], self._seen[position]
        there = sorted((time, file) for time, file in self._files(folder) if file not in seen)
        new = [file for _, file in there if self._last is None or file in self._last[position]]
        return new if most is None else new[:most]

    def _files(self, at: At) -> Iterator[tuple[int, str]]:
        """The files below a folder with the times they were written at; hidden names are those of files in the
        making."""
        store = store_at(at)
        for one in store.listed(deep=True):
            path = store.path(one.name)
            self._sizes[path] = one.size
            yield one.time, path

    def _size(self, stream: int, file: str) -> int:
        if file not in self._sizes:
            # Planned by a process that has ended.
            list(self._files(self._folders[stream][0]))
        return self._sizes.get(file, 0)

    def partitions(self, start: dict[str, int], end: dict[str, int]) -> list[InputPartition]:
        """The files of the cuts between two offsets, as tasks of about the same size."""
        cuts = self._log.between(start["cut"], end["cut"])
        before = known_before(self._folder, start["cut"], self._keys)
        found: list[InputPartition] = []
        for stream in range(len(self._folders)):
            files = [file for cut in cuts for file in cut[stream]]
            size = sum(self._size(stream, file) for file in files)
            found += slices(stream, files, self._tasks, size, before)
        return found

    def read(self, partition: InputPartition) -> Iterator[pa.RecordBatch]:
        """Blocks and headers of one part of the files."""
        assert isinstance(partition, Slice)
        settle()
        reads = self._unpacked(partition.stream)
        number = (partition.first * 1000 + partition.part) * 1000
        yield from reads.packed(partition.files, partition.part, partition.parts, number, partition.before)

    def _unpacked(self, stream: int) -> Reads:
        found: Reads = _serializer().loads(self._shipped[stream])
        return found


def slices(
    stream: int, files: Sequence[str], tasks: int, size: int, before: Before = NOTHING_KNOWN
) -> list[InputPartition]:
    """Files of so many bytes as at most so many tasks: several small ones together, a large one in parts."""
    if not files:
        return []
    wanted = max(1, min(tasks, size // SPLIT))
    if len(files) < wanted:
        return [Slice(stream, (file,), i, k, wanted, before) for i, file in enumerate(files) for k in range(wanted)]
    edges = [round(k * len(files) / wanted) for k in range(wanted + 1)]
    return [Slice(stream, tuple(files[a:b]), a, 0, 1, before) for a, b in pairwise(edges)]


class Refusing(DataSourceStreamReader):
    """What Spark gets that would read our format by itself; where `streamReader` raises, it loses the reason."""

    def initialOffset(self) -> dict[str, int]:  # noqa: N802
        raise UsageError(f"{ONLY}; for others take spark.readStream.parquet(folder)")

    def read(self, partition: InputPartition) -> Iterator[pa.RecordBatch]:
        raise NotImplementedError


class FileStream(DataSource):
    """What users name: `spark.readStream.format("slackwater").option("format", "parquet").load("folder")`."""

    @classmethod
    def name(cls) -> str:
        return NAME

    def schema(self) -> StructType:
        """The columns of the first file, where none are stated."""
        import pyarrow.parquet as pq
        from pyspark.sql.pandas.types import from_arrow_schema

        folder, kind = path_and_format(self.options)
        # How another file system is reached is not known here.
        there = [] if "://" in folder else store_at(folder).listed(deep=True)
        first = min((f"{folder}/{one.name}" for one in there), default=None)
        if first is None or kind != "parquet":
            raise UsageError(f"{folder}: state the columns with .schema('ts timestamp, key long')")
        return from_arrow_schema(pq.read_schema(first))

    def streamReader(self, schema: StructType) -> DataSourceStreamReader:  # noqa: N802
        return Refusing()


def path_and_format(options: Mapping[str, str]) -> tuple[str, str]:
    """Where files are, and of what kind."""
    if "path" not in options:
        raise UsageError("name the folder: spark.readStream.format('slackwater').load('folder')")
    kind = options.get("format", "parquet")
    if kind not in FORMATS:
        raise UsageError(f"option format is {kind!r}; it is one of {', '.join(FORMATS)}")
    path = options["path"].removeprefix("file://").removeprefix("file:")
    if "://" in path:
        return path.rstrip("/"), kind
    if not os.path.isdir(path):
        raise UsageError(f"{path} is no folder of this machine; for others take spark.readStream.parquet(folder)")
    return os.path.abspath(path), kind


def folder_read_by(frame: DataFrame, schema: pa.Schema, is_known: bool) -> Folder | None:
    """The folder that a DataFrame reads as it is, if it is of our format; None for any other DataFrame. Refused where
    no checkpoint `is_known`: cuts are logged there."""
    try:
        plan = frame._jdf.queryExecution().analyzed()
        if plan.getClass().getSimpleName() != "StreamingRelationV2" or plan.sourceName().lower() != NAME:
            return None
        given = {str(name).lower(): str(value) for name, value in plan.extraOptions().asCaseSensitiveMap().items()}
    except (AttributeError, Py4JError, PySparkException):
        return None
    if not is_known:
        raise UsageError(f"{ONLY}; for others take spark.readStream.parquet(folder)")
    path, kind = path_and_format(given)
    most = given.get("maxfilespertrigger")
    if most is not None and not HAS_READ_LIMITS:
        raise needs(
            f"format('{NAME}') with maxFilesPerTrigger",
            (4, 2),
            "leave maxFilesPerTrigger out, and every micro-batch reads all files there are",
        )
    from slackwater.runtime.spark.exchange.files import Folder
    from slackwater.runtime.spark.locations import location_of

    at = location_of(frame.sparkSession, path) if "://" in path else path
    if at is None:
        raise UsageError(f"{path}: {ONLY}")
    settings = at.settings if isinstance(at, Location) else ()
    return Folder(str(at), kind, schema, None if most is None else int(most), settings)


def packed_stream(spark: Any, reads: Iterable[Reads], folder: At, tasks: int, lines: str) -> DataFrame:
    """Folders as one packed stream with these columns; tasks are as many at most."""
    reader, label = PackedReader(tuple(reads), folder, tasks), f"{NAME}_{os.urandom(6).hex()}"

    class Packed(DataSource):
        """Made for one query: what it packs travels with it."""

        made_for: ClassVar[str] = label

        @classmethod
        def name(cls) -> str:
            return label

        def schema(self) -> str:
            return lines

        def streamReader(self, schema: StructType) -> DataSourceStreamReader:  # noqa: N802
            return reader

    spark.dataSource.register(Packed)
    return spark.readStream.format(label).load()
