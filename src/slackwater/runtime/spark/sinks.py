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


def writer_of(given: str | Sink | Write, what: str) -> Write:
    """The function that writes the rows of a micro-batch: a path is a folder of parquet files."""
    if isinstance(given, str):
        return sink("parquet", given).write
    if isinstance(given, Sink):
        return given.write
    if callable(given):
        return given
    raise UsageError(
        f"{what}={given!r} is no sink; give the path of a folder, slackwater.sink('kafka', ...), or a function of a"
        " DataFrame and the number of the micro-batch"
    )
