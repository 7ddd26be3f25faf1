"""A program over Spark Connect: a server of its own, a query with sinks, and what became of it as one line of JSON.

Run as a process by itself: a process is either a client of Connect or has a Spark of its own, never both.
"""

from __future__ import annotations

import json
import os
import sys

import slackwater as sw


def main(folder: str) -> None:
    """Run a join over the files in a folder."""
    os.environ.setdefault("PYSPARK_PYTHON", sys.executable)
    os.environ.setdefault("SPARK_LOCAL_IP", "127.0.0.1")
    from pyspark.sql import SparkSession

    settings = {
        "spark.sql.shuffle.partitions": "2",
        "spark.ui.enabled": "false",
    }
    builder = SparkSession.builder.remote("local[2]")
    for name, value in settings.items():
        builder = builder.config(name, value)
    spark = builder.getOrCreate()
    schema = "ts timestamp, k string, v double"
    frames = {name: spark.readStream.schema(schema).json(f"{folder}/{name}") for name in "ab"}
    text = "SELECT a.k, a.v AS av, b.v AS bv FROM a [RANGE 2 SECONDS], b [RANGE 2 SECONDS] WHERE a.k = b.k WITH NO WAIT"
    pairs = sw.sql(spark, text, shards=2, **frames)
    writer = pairs.writeStream.format("parquet").option("path", f"{folder}/pairs")
    query = writer.option("checkpointLocation", f"{folder}/checkpoint").trigger(availableNow=True).start()
    query.awaitTermination()
    plain = int(spark.read.parquet(f"{folder}/pairs").count())
    counts = sw.progress(query).latest
    batch = sw.sql(spark, text, shards=2, **{name: spark.read.schema(schema).json(f"{folder}/{name}") for name in "ab"})
    reported = {"plain": plain, "results": counts and counts.results, "batch": int(batch.count())}
    sys.stdout.write(json.dumps(reported) + "\n")
    spark.stop()


if __name__ == "__main__":
    main(sys.argv[1])
