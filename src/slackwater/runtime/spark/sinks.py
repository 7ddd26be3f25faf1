"""Where the rows of a micro-batch go: a folder, any batch writer of Spark, or a function.

Invariant: a micro-batch that runs again replaces what it wrote to a folder, so a folder has every row once. Other sinks
are as exact as their format: a Delta table is told the number of the micro-batch, and so has every row once; most
others, such as Kafka, may get the rows of a repeated micro-batch twice.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field

from pyspark.sql import DataFrame
from pyspark.sql import functions as fn

from slackwater.model.errors import UsageError

FOLDERS = ("parquet", "json", "csv", "orc")
DESCRIBED = ("parquet", "orc")
"""Formats whose files say which columns they have."""
BEFORE_THE_FIRST = -1
BATCH = "batch"
"""The partition column of folders: the number of the micro-batch."""
Write = Callable[[DataFrame, int], None]


@dataclass(frozen=True)
class Sink:
    """A batch writer of Spark with its options; `sink` makes one."""

    format: str
    options: dict[str, str] = field(default_factory=dict)
    name: str = ""
    """Tells Delta whose micro-batches these are."""

    @property
    def only_rows(self) -> bool:
        """Whether a micro-batch without rows need not be written."""
        return True

    def prepare(self, frame: DataFrame) -> None:
        """Make a folder that can be read before there is any row in it."""
        path = self.options.get("path")
        if path is not None and self.format in DESCRIBED:
            empty = frame.sparkSession.createDataFrame([], frame.schema).coalesce(1)
            empty.write.format(self.format).mode("overwrite").save(f"{path}/{BATCH}={BEFORE_THE_FIRST}")

    def write(self, frame: DataFrame, number: int) -> None:
        """Write the rows of one micro-batch."""
        options = self.options
        if self.format in FOLDERS:
            # Of all folders of micro-batches only this one's is replaced.
            options = {"partitionOverwriteMode": "dynamic"} | options
            rows = frame.withColumn(BATCH, fn.lit(number))
            rows.write.format(self.format).options(**options).mode("overwrite").partitionBy(BATCH).save()
            return
        if self.format == "delta":
            options = {"txnAppId": self.name, "txnVersion": str(number)} | options
        frame.write.format(self.format).options(**options).mode("append").save()


def sink(format: str, path: str | None = None, **options: object) -> Sink:
    """Where results, late or rejected rows go: any format that Spark can write a batch to, with its options.

    >>> sink("kafka", topic="late", **{"kafka.bootstrap.servers": "127.0.0.1:9092"}).options["topic"]
    'late'
    """
    given = {name: str(value) for name, value in options.items()}
    return Sink(format, given if path is None else {"path": path} | given, name=f"slackwater {path or format}")


@dataclass(frozen=True)
class Called:
    """A function as a sink; it is called for every micro-batch, also for one without rows."""

    write: Write
    only_rows: bool = False

    def prepare(self, frame: DataFrame) -> None:
        """Nothing."""


def writer_of(given: str | Sink | Write, what: str) -> Sink | Called:
    """What writes the rows of a micro-batch: a path is a folder of parquet files."""
    if isinstance(given, str):
        return sink("parquet", given)
    if isinstance(given, Sink):
        return given
    if callable(given):
        return Called(given)
    raise UsageError(
        f"{what}={given!r} is no sink; give the path of a folder, slackwater.sink('kafka', ...), or a function of a"
        " DataFrame and the number of the micro-batch"
    )
