"""Where the rows of a micro-batch go: a folder, any batch writer of Spark, or a function.

Invariant: a micro-batch that runs again replaces what it wrote to a folder, so a folder has every row once. Other sinks
are as exact as their format: a Delta table is told the number of the micro-batch, and so has every row once; so have a
topic of Kafka that `kafka_sink` writes to, and a table that `upsert` keeps up to date; most others may get the rows of
a repeated micro-batch twice.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Sequence
from contextlib import suppress
from dataclasses import dataclass, field, replace

from pyspark.errors import AnalysisException
from pyspark.sql import DataFrame, SparkSession

from slackwater.core.errors import SlackwaterError, UsageError
from slackwater.runtime.spark.kafka.sink import KafkaSink
from slackwater.runtime.spark.locations import location_of
from slackwater.runtime.spark.outputs import Writer
from slackwater.runtime.spark.store import store_at
from slackwater.runtime.spark.upsert.api import Upsert
from slackwater.runtime.spark.versions import condition_of

FOLDERS = ("parquet", "json", "csv", "orc")
BATCH = "batch"
"""The partition column of folders: the number of the micro-batch."""
Write = Callable[[DataFrame, int], None]


@dataclass(frozen=True)
class Sink(Writer):
    """A batch writer of Spark with its options; `sink` makes one."""

    format: str
    options: dict[str, str] = field(default_factory=dict)
    run: str = ""
    """Whose micro-batches these are; tells them from those of another checkpoint."""

    @property
    def folder(self) -> str | None:
        return self.options.get("path") if self.format in FOLDERS else None

    def check(self, columns: Sequence[str], what: str) -> None:
        if self.format in FOLDERS and self.folder is None:
            raise UsageError(f"{what}: name the folder, as in slackwater.sink('{self.format}', 'folder')")
        if self.folder is not None and any(name.lower() == BATCH for name in columns):
            raise UsageError(f"{what}: a folder has a column '{BATCH}' of its own; name yours otherwise with AS")

    def of_run(self, run: str, what: str) -> Sink:
        return replace(self, run=f"slackwater {run} {what}")

    def refuse_other_runs(self, spark: SparkSession, what: str) -> None:
        if self.folder is None or not _has_batches(spark, self.folder):
            return
        raise UsageError(
            f"{what}={self.folder!r} has the rows of another run; name a new folder, or go on with the checkpoint of"
            " that run"
        )

    def write(self, frame: DataFrame, number: int) -> None:
        options = dict(self.options)
        if self.folder is not None:
            # What the same micro-batch has written before is replaced, and nothing else.
            path = options.pop("path")
            frame.write.format(self.format).options(**options).mode("overwrite").save(f"{path}/{BATCH}={number}")
            return
        if self.format == "delta":
            options = {"txnAppId": self.run, "txnVersion": str(number)} | options
        frame.write.format(self.format).options(**options).mode("append").save()


def _has_batches(spark: SparkSession, folder: str) -> bool:
    """Whether a folder has the rows of some micro-batch."""
    with suppress(SlackwaterError):
        at = location_of(spark, folder)
        if at is not None:
            # Asking Spark costs a job.
            return any(one.startswith(f"{BATCH}=") for one in store_at(at).names())
    try:
        spark.read.format("binaryFile").load(f"{folder}/{BATCH}=*").select("path").limit(1).collect()
    except AnalysisException as error:
        if condition_of(error) == "PATH_NOT_FOUND":
            return False
        raise
    return True


def sink(format: str, path: str | None = None, **options: object) -> Sink:
    """Where results, late or rejected rows go: any format that Spark can write a batch to, with its options.

    >>> sink("kafka", topic="late", **{"kafka.bootstrap.servers": "127.0.0.1:9092"}).options["topic"]
    'late'
    """
    given = {name: str(value) for name, value in options.items()}
    return Sink(format, given if path is None else {"path": path} | given)


@dataclass(frozen=True)
class Called(Writer):
    """A function as a sink; it is called for every micro-batch, also for one without rows, and keeps its own ledger."""

    function: Write
    takes_changes = True
    only_rows = False

    def write(self, frame: DataFrame, number: int) -> None:
        self.function(frame, number)


Given = str | os.PathLike[str] | Sink | KafkaSink | Upsert | Write


def writer_of(given: Given, what: str) -> Writer:
    """What writes the rows of a micro-batch: a path is a folder of parquet files."""
    if isinstance(given, str | os.PathLike):
        return sink("parquet", os.fspath(given).rstrip("/"))
    if isinstance(given, Writer):
        return given
    if callable(given):
        return Called(given)
    raise UsageError(
        f"{what}={given!r} is no sink; give the path of a folder, slackwater.kafka_sink(...), slackwater.upsert(...),"
        " slackwater.sink('delta', ...), or a function of a DataFrame and the number of the micro-batch"
    )
