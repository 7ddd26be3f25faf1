"""Where the rows of a set go: folders that one job writes, writers of Spark, functions, and what `all` gives."""

from __future__ import annotations

import datetime as dt
from collections import Counter
from decimal import Decimal
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from pyspark.sql import DataFrame, SparkSession

import slackwater as sw
from slackwater.core.errors import UsageError
from slackwater.runtime.spark.folders import HIDDEN, Folder, FolderFile, publish, tidy
from slackwater.runtime.spark.state.root import ONE_TASK
from tests.spark.conftest import Streamed
from tests.spark.streams import counted

pytestmark = pytest.mark.xdist_group("spark")

TEXT = "SELECT day, price, at, plain, name, ok, n, f, n * 2 AS twice FROM s WHERE n >= 0 WITH DELAY 10 MS"
OUTPUTS = ("results", "late", "rejected")


def odd_types(begin: int) -> pa.Table:
    """Rows of many types, one of them late, one without a time, some values missing."""
    rows = 8
    return pa.table(
        {
            "ts": pa.array([None, *range(begin + 1, begin + rows - 1), begin - 2000], pa.int64()),
            "day": pa.array([dt.date(2026, 11, 16)] * (rows - 1) + [None], pa.date32()),
            "price": pa.array([Decimal("1.25")] * (rows - 1) + [None], pa.decimal128(10, 2)),
            "at": pa.array([dt.datetime(2026, 1, 2, 3, 4, 5, 6)] * rows, pa.timestamp("us", "UTC")),
            "plain": pa.array([dt.datetime(2026, 1, 2, 3, 4, 5, 6)] * rows, pa.timestamp("us")),
            "name": pa.array(["ä", None] * (rows // 2)),
            "ok": pa.array([True, False] * (rows // 2)),
            "n": pa.array(range(rows), pa.int32()),
            "f": pa.array([0.5] * rows, pa.float32()),
        }
    )


def written(folder: Folder, rows: list[int]) -> str:
    """The name of a hidden file with these rows."""
    file = FolderFile(folder, 0, ONE_TASK)
    file.add(pa.table({"n": pa.array(rows, pa.int64())}))
    return file.close()


def test_all_sinks_of_a_set_get_the_same_rows(spark: SparkSession, streamed: Streamed, tmp_path: Path) -> None:
    stream = streamed("s", [odd_types(begin) for begin in (100_000, 101_000)])
    called: dict[str, Counter[tuple[object, ...]]] = {what: Counter() for what in OUTPUTS}
    numbers: list[int] = []

    def taking(what: str) -> object:
        def take(frame: DataFrame, number: int) -> None:
            numbers.append(number)
            called[what].update(counted(frame.toArrow()))

        return take

    # A sink with options is written by Spark.
    sinks = {
        "ours": {what: str(tmp_path / "ours" / what) for what in OUTPUTS},
        "spark's": {what: sw.sink("parquet", str(tmp_path / "sparks" / what), compression="gzip") for what in OUTPUTS},
        "called": {what: taking(what) for what in OUTPUTS},
    }
    whole: list[list[str]] = []
    handle = sw.queries(spark, streams={"s": stream}, queries=dict.fromkeys(sinks, TEXT))
    with pytest.raises(UsageError, match="is the folder for results of query ours"):
        handle.start(tmp_path / "x", sinks=sinks | {"called": str(tmp_path / "ours" / "results")})  # type: ignore
    running = handle.start(
        tmp_path / "checkpoint",
        sinks=sinks,  # type: ignore[arg-type]
        foreach=lambda batch: whole.append(sorted(batch)),
        trigger="available",
        flush=True,
    )
    assert running.wait()
    assert whole == [sorted(sinks)] * len(whole)
    for what in OUTPUTS:
        ours, theirs = (spark.read.parquet(str(tmp_path / who / what)) for who in ("ours", "sparks"))
        assert ours.schema == theirs.schema
        rows = counted(ours.toArrow(), *(name for name in ours.columns if name != "batch"))
        assert counted(ours.toArrow()) == counted(theirs.toArrow())
        assert rows == called[what]
        assert rows.total() == {"results": 13, "late": 1, "rejected": 2}[what]
        assert {file.name for file in (tmp_path / "ours" / what / "batch=0").iterdir()} > {"_SUCCESS"}
        assert not (tmp_path / "ours" / what / HIDDEN).exists()
    assert len(numbers) == len(OUTPUTS) * len(whole)
    with pytest.raises(UsageError, match="has ended"):
        handle.start(tmp_path / "checkpoint", sinks=sinks)  # type: ignore[arg-type]


def test_batch_input_is_answered_at_once(spark: SparkSession, tmp_path: Path) -> None:
    table = pa.table({"ts": [1000, 1001, 1002, 1003], "key": ["x", "y", "x", "x"], "n": [1, 2, 3, 2**62]})
    pq.write_table(table, tmp_path / "s.parquet")
    stream = spark.read.parquet(str(tmp_path / "s.parquet"))
    texts = {
        "by key": "SELECT key, COUNT(*) AS n FROM s [RANGE 1 S] GROUP BY key WITH COMPLETE",
        "rows": "SELECT n FROM s WHERE key = 'y' WITH NO WAIT",
    }
    handle = sw.queries(spark, streams={"s": stream}, queries=texts)
    found = handle.all()
    assert counted(found["by key"].results.toArrow(), "key", "n") == {("x", 3): 1, ("y", 1): 1}
    assert found["rows"].results.toArrow().column("n").to_pylist() == [2]
    assert found["rows"].progress is not None
    assert found["rows"].progress.results == 1
    assert found["rows"].late.count() == found["rows"].rejected.count() == 0
    found.emitted.unpersist()
    with pytest.raises(UsageError, match="take `all`"):
        handle.start(tmp_path / "checkpoint", sinks=dict.fromkeys(texts, str(tmp_path / "out")))
    failing = sw.queries(spark, streams={"s": stream}, queries={"bad": "SELECT n * 4 AS m FROM s WITH NO WAIT"})
    with pytest.raises(UsageError, match=r"query bad: .*overflow"):
        failing.all()


def test_a_repeated_micro_batch_replaces_its_own_files_and_no_others(tmp_path: Path) -> None:
    schema = pa.schema([("n", pa.int64())])
    folder = Folder(str(tmp_path), schema, ("n",), "snappy")

    def write(number: int, *files: list[int], lost: bool = False) -> None:
        names = [written(folder, rows) for rows in files]
        # By an attempt of a task that does not count.
        written(folder, [99])
        if not lost:
            publish(folder, names, number)
            tidy([folder])

    def rows() -> dict[str, list[int]]:
        return {
            one.name: sorted(pq.read_table(one).column("n").to_pylist()) for one in sorted(tmp_path.glob("batch=*"))
        }

    write(0, [1], [2])
    write(1, [3])
    write(1, [4], lost=True)
    assert rows() == {"batch=0": [1, 2], "batch=1": [3]}
    write(1, [5], [6])
    assert rows() == {"batch=0": [1, 2], "batch=1": [5, 6]}
    write(1)
    assert rows() == {"batch=0": [1, 2], "batch=1": []}
    assert pq.read_table(tmp_path / "batch=1").schema == schema
    assert sorted(one.name for one in tmp_path.iterdir()) == ["batch=0", "batch=1"]
