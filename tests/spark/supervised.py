"""A join and an aggregate as a process of their own, which can be killed and started again on the same folder.

The join is one that we start ourselves, with its state in files; the aggregate is a DataFrame that somebody else
starts, with its state in a folder that it is given.

Invariant: micro-batch i reads file i, whatever was killed when. A file source with a limit does not promise it: a kill
between its own log and the query's would put two files into the next micro-batch. So there is no limit, and whoever
supervises the process adds a file only when the one before is committed. Tuples of both streams share a file, because
two files cannot appear at once.

Run as `python -m tests.spark.supervised FOLDER MASTER`.
"""

from __future__ import annotations

import os
import sys
from collections.abc import Sequence
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
from pyspark.sql import SparkSession
from pyspark.sql import functions as fn
from pyspark.sql.streaming.query import StreamingQuery

import slackwater as sw

SHARDS = 2
SCHEMA = "ts long, arrival long, key string, v double, stream string"
QUERIES = {
    "join": "SELECT a.key, a.v AS av, b.v AS bv FROM a [RANGE 50 MS], b [RANGE 50 MS] WHERE a.key = b.key"
    " WITH DELAY 100 MS",
    "aggregate": "SELECT key, SUM(v) AS total, COUNT(*) AS n FROM a [RANGE 400 MS SLIDE 100 MS] GROUP BY key"
    " WITH DELAY 100 MS",
}
QUICK_START = {
    "spark.sql.codegen.factoryMode": "NO_CODEGEN",
    "spark.sql.codegen.wholeStage": "false",
    "spark.sql.adaptive.enabled": "false",
    "spark.driver.extraJavaOptions": "-XX:TieredStopAtLevel=1",
    "spark.executor.extraJavaOptions": "-XX:TieredStopAtLevel=1",
}
"""This process lives for seconds: compiling its plans, or its code well, costs more than it brings."""


def publish(folder: Path, number: int, a: pa.Table, b: pa.Table) -> None:
    """Let a file with tuples of both streams appear, whole."""
    stream = pa.array(["a"] * a.num_rows + ["b"] * b.num_rows)
    hidden, seen = folder / f".{number:05d}", folder / f"{number:05d}.parquet"
    pq.write_table(pa.concat_tables([a, b]).append_column("stream", stream), hidden)
    os.utime(hidden, (1_000_000 + number, 1_000_000 + number))
    hidden.rename(seen)


def begin(spark: SparkSession, files: Path, folder: Path, available: bool = False) -> list[StreamingQuery]:
    """Start the queries over a folder of published files, with their rows and checkpoints under their names."""
    reader = spark.readStream.schema(SCHEMA)
    both = (reader.option("maxFilesPerTrigger", 1) if available else reader).parquet(str(files))
    a, b = (both.where(fn.col("stream") == name).drop("stream") for name in ("a", "b"))
    places = {"results": str(folder / "join" / "rows"), "checkpoint": str(folder / "join" / "checkpoint")}
    trigger = "available" if available else None
    join = sw.start(spark, QUERIES["join"], shards=SHARDS, trigger=trigger, **places, a=a, b=b)
    sums = sw.sql(spark, QUERIES["aggregate"], shards=SHARDS, state=folder / "aggregate" / "state", a=a)
    aggregate = sums.writeStream.format("parquet")
    aggregate = aggregate.option("path", str(folder / "aggregate" / "rows"))
    aggregate = aggregate.option("checkpointLocation", str(folder / "aggregate" / "checkpoint"))
    return [join.query, (aggregate.trigger(availableNow=True) if available else aggregate).start()]


def main(arguments: Sequence[str]) -> None:
    folder, master = Path(arguments[0]), arguments[1]
    spark = sw.session(master, shards=SHARDS, **QUICK_START)
    begin(spark, folder / "files", folder)
    spark.streams.awaitAnyTermination()


if __name__ == "__main__":
    main(sys.argv[1:])
