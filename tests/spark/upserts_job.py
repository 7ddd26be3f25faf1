"""A process that applies change rows to a table, to be killed: `python -m tests.spark.upserts_job FOLDER KIND TARGET`.

What Spark does for a streaming query is done here by one file a micro-batch that is done: a start goes on with the
first that has none. For `postgres` and `kafka` no JVM is needed; `delta` and `iceberg` run in a session of their own.
"""

from __future__ import annotations

import json
import sys
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq

import slackwater as sw
from slackwater.runtime.spark.upsert.postgres import PostgresTable
from slackwater.runtime.spark.upsert.topic import KEY as MESSAGE_KEY
from slackwater.runtime.spark.upsert.topic import VALUE, CompactedTopic
from slackwater.runtime.spark.versions import as_table
from tests.kit.change_rows import KEY, micro_batches

BATCHES, ROWS = 300, 60
MORE = 1200, 30
"""As many as outlast ten kills."""
RUN = "slackwater a run results"
Write = Callable[[pa.Table, int], None]


def as_messages(changes: pa.Table) -> pa.Table:
    """Change rows with keys and values of messages, of which the tests have their own idea."""
    rows = changes.to_pylist()
    keys = [json.dumps([str(row["window_end"]), row["country"]]).encode() for row in rows]
    values = [json.dumps([row["total"], row["n"], row["_version"]]).encode() for row in rows]
    return pa.table({MESSAGE_KEY: keys, VALUE: values}).append_column(
        "_change", changes.column("_change")
    ).append_column("_version", changes.column("_version"))  # fmt: skip


def writer(kind: str, target: str, folder: Path) -> Write:
    """What applies a micro-batch."""
    if kind == "postgres":
        table = PostgresTable("totals", target).opened(RUN)
        return lambda changes, number: table.write(changes, KEY, number)
    if kind == "kafka":
        name, servers = target.split("@")
        topic = CompactedTopic(name, servers).opened(RUN)
        return lambda changes, number: topic.write(as_messages(changes), number)
    from tests.spark.upserts_session import session_with

    spark = session_with(kind, folder)
    sink = replace(sw.upsert(kind, target, key=KEY), run=RUN)
    return lambda changes, number: sink.write(frame_of(spark, changes), number)


def frame_of(spark: Any, changes: pa.Table) -> Any:
    """Change rows as a query gives them."""
    return spark.createDataFrame([tuple(row.values()) for row in changes.to_pylist()], SCHEMA)


SCHEMA = "window_end timestamp, country string, total double, n long, _change string, _version long"


def loop(folder: Path, write: Write, batches: list[pa.Table]) -> None:
    """Go on with the first micro-batch that is not known to be done."""
    commits = folder / "commits"
    commits.mkdir(exist_ok=True)
    for number, batch in enumerate(batches):
        if not (commits / str(number)).exists():
            write(batch, number)
            (commits / str(number)).touch()


def main(folder: str, kind: str, target: str, batches: Any = BATCHES, rows: Any = ROWS) -> None:
    loop(Path(folder), writer(kind, target, Path(folder)), micro_batches(int(batches), int(rows)))
    if kind in ("delta", "iceberg"):
        from pyspark.sql import SparkSession

        found = as_table(SparkSession.builder.getOrCreate().table(sw.upsert(kind, target).target.identifier))  # type: ignore[attr-defined]
        pq.write_table(found, Path(folder, "table.parquet"))


if __name__ == "__main__":
    main(*sys.argv[1:])
