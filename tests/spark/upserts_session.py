"""A session with Delta or Iceberg, where there is a build for the Spark that runs, and what a table does in it.

`python -m tests.spark.upserts_session KIND FOLDER` ends with an error where a table is not the answer.
"""

from __future__ import annotations

import sys
from dataclasses import replace
from pathlib import Path

import pytest
from pyspark.sql import SparkSession
from pyspark.sql import functions as fn

import slackwater as sw
from slackwater.core.errors import UsageError
from slackwater.runtime.spark.upsert.api import Upsert
from slackwater.runtime.spark.upsert.merge import DeltaTable, IcebergTable, MergedTable
from slackwater.runtime.spark.versions import VERSION, as_table, build_of, versions_with
from slackwater.testing.broker import UnavailableError, fetched
from tests.kit.change_rows import KEY, Rows, micro_batches, table_of

FORMATS: dict[str, type[MergedTable]] = {"delta": DeltaTable, "iceberg": IcebergTable}

TARGETS = {"delta": "{folder}/a `table`", "iceberg": "lake.shop.`the totals`"}
RUN = "it's \\ a run"


def jars(kind: str) -> str:
    """The jars of a format; a test is skipped where there are none."""
    build = build_of(kind)
    if build is None:
        pytest.skip(f"{kind} has no build for this Spark, only for {', '.join(versions_with(kind))}")
    try:
        folder = fetched(build.split(":")[1], [build], transitive=kind == "delta")
    except UnavailableError as error:
        pytest.skip(f"{kind}: {error}")
    return ",".join(sorted(str(jar) for jar in folder.glob("*.jar")))


def session_with(kind: str, folder: Path) -> SparkSession:
    """A session with a format; tables of Iceberg are in the catalog `lake`."""
    settings = {
        "spark.master": "local[2]", "spark.ui.enabled": "false", "spark.jars": jars(kind), "spark.log.level": "ERROR",
        "spark.sql.shuffle.partitions": "2", "spark.sql.session.timeZone": "UTC", **FORMATS[kind].settings,
    }  # fmt: skip
    if kind == "iceberg":
        settings |= {
            "spark.sql.catalog.lake": "org.apache.iceberg.spark.SparkCatalog", "spark.sql.catalog.lake.type": "hadoop",
            "spark.sql.catalog.lake.warehouse": str(folder / "lake"),
        }  # fmt: skip
    # Nothing runs in it that a session of ours would warm up.
    builder = SparkSession.builder
    for name, value in settings.items():
        builder = builder.config(name, value)
    return builder.getOrCreate()


def scenario(spark: SparkSession, kind: str, target: str) -> None:
    """Write micro-batches, some of them again; then what does not fit."""
    from tests.spark.upserts_job import frame_of

    table = replace(sw.upsert(kind, target, key=KEY), run=RUN)
    table.check([*KEY, "total", "n", "_change", "_version"], "results")
    table.refuse_other_runs(spark, "results")
    batches = micro_batches(6)
    frames = [frame_of(spark, one).withColumn("an odd; `name", fn.lit(1)) for one in batches]
    for number, frame in enumerate(frames):
        table.write(frame, number)
        assert rows_of(spark, table) == table_of(batches[: number + 1])
        if number % 3 == 0:
            replace(table, _opened=[]).write(frame, number)
            assert rows_of(spark, table) == table_of(batches[: number + 1])
    if (kind, VERSION) != ("iceberg", (3, 5)):
        # A process that was taken for dead.
        replace(table, _opened=[]).write(frames[0], 0)
        assert rows_of(spark, table) == table_of(batches)
    with pytest.raises(UsageError, match="has the rows of another run"):
        table.refuse_other_runs(spark, "results")
    for frame, said in (
        (frames[0].withColumn("n", fn.col("n").cast("string")), "column 'n' is bigint, and that of the results string"),
        (frames[0].withColumn("more", fn.lit(1)), "has no column 'more'"),
        (frames[0].drop("total"), "has a column 'total', which the results do not have"),
    ):
        with pytest.raises(UsageError, match=said):
            replace(table, _opened=[]).write(frame, 9)
    assert rows_of(spark, table) == table_of(batches)
    spark.sql(f"DELETE FROM {table.target.identifier}")  # type: ignore[attr-defined]
    table.refuse_other_runs(spark, "results")


def rows_of(spark: SparkSession, table: Upsert) -> Rows:
    identifier = table.target.identifier  # type: ignore[attr-defined]
    if table.target.name.startswith("lake."):
        # This session has read it before.
        spark.catalog.refreshTable(identifier)
    found = as_table(spark.table(identifier)).to_pylist()
    rows = {tuple(row[name] for name in KEY): (row["total"], row["n"], row["_version"]) for row in found}
    assert len(rows) == len(found), "a key is there twice"
    return rows


if __name__ == "__main__":
    scenario(session_with(sys.argv[1], Path(sys.argv[2])), sys.argv[1], TARGETS[sys.argv[1]].format(folder=sys.argv[2]))
