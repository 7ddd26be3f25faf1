"""What it costs to have everything in an object store: `python -m benchmarks.object_store`.

The floor of `spark_floor` (micro-batches of 200 tuples a stream), with input, checkpoint, state and results on an S3
server on loopback, beside the same in a local folder, in turns in one session. Printed are medians of
`triggerExecution` without the first third of a run, and of a micro-batch the requests, by who asks and for what, the
objects written and the bytes a tuple. The server is a process of its own on the same cores.
"""

from __future__ import annotations

import argparse
import statistics
import tempfile
from collections import Counter
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from pyspark.sql import SparkSession

import slackwater as sw
from benchmarks.spark_floor import JOIN, PARTS, SUM, read, write_streams
from slackwater.runtime.spark.locations import location_of
from slackwater.runtime.spark.store import store_at
from tests.kit.object_store import Asked, requests_in, s3_process, spark_settings

ROWS = 200
QUERIES = {"sum": SUM, "join": JOIN + "DELAY 1 SECOND", "recall": JOIN + "RECALL 0.95 OVER 1 MINUTE"}
OURS = ("slackwater-state", "slackwater-control", "results", "input")
LOGS = ("offsets", "commits", "sources", "metadata")


def ran(spark: SparkSession, base: str, name: str, which: str, format: str) -> list[dict[str, int]]:
    """Run a query to its end; what Spark says of its micro-batches took how long."""
    streams = {one: read(spark, f"{base}/input/{one}", format) for one in "ab" if f"{one} [" in QUERIES[which]}
    places = {"results": f"{base}/{name}/results", "checkpoint": f"{base}/{name}/checkpoint"}
    query: Any = sw.start(spark, QUERIES[which], trigger="available", key_groups=16, **places, **streams)
    query.wait()
    return [dict(one["durationMs"]) for one in query.query.recentProgress if one["numInputRows"]]


def kind_of(one: Asked) -> tuple[str, str]:
    """Who asks, and for what."""
    who = "Hadoop" if "hadoop" in one.agent.lower() else "Arrow"
    parts = one.path.replace("%2F", "/").split("/")
    for name in (*OURS, *LOGS):
        if name in parts:
            return who, name
    found = next((name for name in (*OURS, *LOGS) if name in one.path), "other")
    return who, found


def told(name: str, spans: dict[str, list[dict[str, int]]]) -> str:
    """The floors side by side."""

    def median(where: str, part: str) -> float:
        return statistics.median(one.get(part, 0) for one in spans[where])

    here, there = (median(where, "triggerExecution") for where in ("local", "s3"))
    parts = ", ".join(f"{part} {median('local', part):.0f}/{median('s3', part):.0f}" for part in PARTS)
    return f"{name:20} local {here:5.0f} ms, s3 {there:5.0f} ms, {there / here:.2f} times ({parts})"


def traffic(asked: list[Asked], batches: int, tuples: int) -> Iterator[str]:
    """What a micro-batch asks of the store."""
    counted = Counter((*kind_of(one), one.method) for one in asked)
    for who, what in sorted({(who, what) for who, what, _ in counted}):
        mine = {method: n / batches for (w, k, method), n in sorted(counted.items()) if (w, k) == (who, what)}
        yield f"    {who:7} {what:18} " + ", ".join(f"{method} {n:.1f}" for method, n in mine.items())
    written = [one for one in asked if one.method == "PUT"]
    ours = [one for one in written if kind_of(one)[0] == "Arrow"]
    for who, puts in (("all", written), ("ours", ours)):
        sent = sum(one.sent for one in puts)
        yield f"    {who}: {len(puts) / batches:.1f} objects a micro-batch, {sent / tuples:.0f} bytes a tuple"


def main() -> None:
    """Measure, and print."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--batches", type=int, default=12)
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--conf", nargs="*", default=[], help="settings of Spark, as name=value")
    parser.add_argument("--queries", nargs="+", default=list(QUERIES))
    parser.add_argument("--formats", nargs="+", default=["parquet", "slackwater"])
    asked = parser.parse_args()
    with tempfile.TemporaryDirectory(ignore_cleanup_errors=True) as folder, s3_process(Path(folder, "log")) as server:
        settings = {"spark.ui.enabled": "false"} | spark_settings(server) | dict(one.split("=") for one in asked.conf)
        spark = sw.session("local[2]", 2, quiet=True, **settings)
        bases = {"local": f"{folder}/base", "s3": "s3a://bucket/base"}
        Path(folder, "base", "input").mkdir(parents=True)
        write_streams(Path(folder, "base", "input"), asked.batches, ROWS)
        found = location_of(spark, bases["s3"])
        assert found is not None
        for file in Path(folder, "base", "input").glob("*/*.parquet"):
            store_at(found).write(f"input/{file.parent.name}/{file.name}", file.read_bytes())
        for format in asked.formats:
            for which in asked.queries:
                spans: dict[str, list[dict[str, int]]] = {"local": [], "s3": []}
                requests: list[Asked] = []
                for number in range(asked.rounds):
                    for where, base in bases.items():
                        before = len(requests_in(Path(folder, "log")))
                        took = ran(spark, base, f"{which}-{format}-{number}", which, format)
                        spans[where] += took[len(took) // 3 :]
                        if where == "s3":
                            requests += requests_in(Path(folder, "log"))[before:]
                print(told(f"{which}, {format}", spans), flush=True)
                batches = asked.batches * asked.rounds
                streams = 1 if which == "sum" else 2
                print("\n".join(traffic(requests, batches, batches * ROWS * streams)), flush=True)
        spark.stop()


if __name__ == "__main__":
    main()
