"""Folders that we read ourselves: cut alike whatever happens, packed as any DataFrame is, over any number of shards."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

pytest.importorskip("pyspark", reason="the Spark runtime needs pyspark")

from pyspark.errors import StreamingQueryException
from pyspark.sql import DataFrame, SparkSession

import slackwater as sw
from slackwater.core.errors import SlackwaterError, UsageError
from slackwater.runtime.spark.exchange.files import Folder, part_of, read_file
from slackwater.runtime.spark.exchange.packing import Packer, Reads
from slackwater.runtime.spark.packed_source import CUTS, SPLIT, TOGETHER, CutLog, PackedReader, Slice, slices
from tests.spark.conftest import write_stream
from tests.spark.streams import counted, pieces

JOIN = "SELECT a.key, a.v AS av, b.v AS bv FROM a [RANGE 50 MS], b [RANGE 50 MS] WHERE a.key = b.key WITH DELAY 100 MS"
SCHEMA = pa.schema([("ts", pa.int64()), ("v", pa.float64())])


def put(folder: Path, name: str, time: int) -> str:
    folder.mkdir(exist_ok=True)
    pq.write_table(pa.table({"ts": [1], "v": [0.5]}), folder / name)
    os.utime(folder / name, (time, time))
    return str(folder / name)


def reader(tmp_path: Path, most: int | None = 1) -> PackedReader:
    folders = {name: Folder(str(tmp_path / name), "parquet", SCHEMA, most) for name in "ab"}
    reads = [Reads(name, folder, Packer((), "ms", False), ("ts",)) for name, folder in folders.items()]
    return PackedReader(reads, str(tmp_path / "log"), 2)


def files_of(partitions: list[Any]) -> list[tuple[int, str]]:
    return [(one.stream, Path(file).name) for one in partitions for file in one.files]


def test_a_cut_is_made_once_and_found_again_by_whoever_comes_next(tmp_path: Path) -> None:
    put(tmp_path / "a", "1", 10)
    put(tmp_path / "a", "2", 20)
    put(tmp_path / "b", "1", 30)
    first = reader(tmp_path)
    assert first.initialOffset() == {"cut": 0}
    assert first.latestOffset({"cut": 0}, None) == {"cut": 1}
    # Killed before Spark wrote the offset down, or after: a file more does not change the cut.
    put(tmp_path / "a", "0", 1)
    again = reader(tmp_path)
    assert again.latestOffset({"cut": 0}, None) == {"cut": 1}
    assert files_of(again.partitions({"cut": 0}, {"cut": 1})) == [(0, "1"), (1, "1")]
    # One that was written long ago and has only come now is read, too.
    assert again.latestOffset({"cut": 1}, None) == {"cut": 2}
    assert files_of(again.partitions({"cut": 1}, {"cut": 2})) == [(0, "0")]
    assert again.latestOffset({"cut": 2}, None) == {"cut": 3}
    assert again.latestOffset({"cut": 3}, None) == {"cut": 3}
    assert files_of(again.partitions({"cut": 0}, {"cut": 3})) == [(0, "1"), (0, "0"), (0, "2"), (1, "1")]


def test_what_comes_after_a_start_over_what_is_there_waits_for_the_next(tmp_path: Path) -> None:
    put(tmp_path / "a", "1", 10)
    put(tmp_path / "b", "1", 10)
    here = reader(tmp_path, None)
    here.prepareForTriggerAvailableNow()
    put(tmp_path / "a", "2", 20)
    put(tmp_path / "a", ".3", 20)
    assert here.latestOffset({"cut": 0}, None) == {"cut": 1}
    assert here.latestOffset({"cut": 1}, None) == {"cut": 1}
    assert files_of(here.partitions({"cut": 0}, {"cut": 1})) == [(0, "1"), (1, "1")]


def test_half_a_cut_is_of_a_process_that_was_killed(tmp_path: Path) -> None:
    CutLog(str(tmp_path)).add([["x"]])
    (tmp_path / CUTS / ".0000000001.one.0123").write_text('{"cuts": [[["y')
    assert CutLog(str(tmp_path)).cuts == [[["x"]]]
    CutLog(str(tmp_path)).add([["z"]])
    assert CutLog(str(tmp_path)).cuts == [[["x"]], [["z"]]]


def test_a_log_of_many_cuts_has_few_files(tmp_path: Path) -> None:
    log = CutLog(str(tmp_path))
    for number in range(2 * TOGETHER + 3):
        log.add([[str(number)]])
    assert len(list((tmp_path / CUTS).iterdir())) == 4
    assert CutLog(str(tmp_path)).cuts == log.cuts
    assert log.between(150, 152) == [[["150"]], [["151"]]]


def test_a_cut_that_another_driver_has_written_is_not_replaced(tmp_path: Path) -> None:
    first, second = CutLog(str(tmp_path)), CutLog(str(tmp_path))
    first.add([["x"]])
    with pytest.raises(SlackwaterError, match=r"0000000000\.one has been written by another driver"):
        second.add([["y"]])
    assert CutLog(str(tmp_path)).cuts == [[["x"]]]


def test_files_are_read_by_tasks_of_about_the_same_size(tmp_path: Path) -> None:
    small = [put(tmp_path / "a", str(number), number) for number in range(5)]
    assert slices(0, [], 2, 0) == []
    assert slices(0, small, 2, 5) == [Slice(0, tuple(small), 0, 0, 1)]
    large = tmp_path / "large"
    large.write_bytes(bytes(2 * SPLIT))
    assert slices(1, [str(large)], 2, 2 * SPLIT) == [Slice(1, (str(large),), 0, k, 2) for k in range(2)]
    assert [one.files for one in slices(0, [*small, str(large)], 2, 2 * SPLIT)] == [
        tuple(small[:3]),
        (*small[3:], str(large)),
    ]  # type: ignore[attr-defined]
    rows = pa.table({"n": list(range(7))})
    assert pa.concat_tables(part_of(rows, k, 3) for k in range(3)) == rows


def test_files_of_every_format_give_the_same_rows_and_what_cannot_be_read_is_named(tmp_path: Path) -> None:
    rows = pa.table({"ts": [1, 2], "v": [0.5, 1.5]})
    pq.write_table(rows, tmp_path / "rows.parquet")
    (tmp_path / "rows.json").write_text('{"ts": 1, "v": 0.5, "more": 1}\n{"ts": 2, "v": 1.5}\n')
    (tmp_path / "rows.csv").write_text("ts,v\n1,0.5\n2,1.5\n")
    wanted = SCHEMA.append(pa.field("absent", pa.string()))
    for kind in ("parquet", "json", "csv"):
        read = read_file(str(tmp_path / f"rows.{kind}"), kind, wanted)
        assert read.to_pydict() == {**rows.to_pydict(), "absent": [None, None]}
    with pytest.raises(UsageError, match=r"rows\.csv cannot be read as parquet"):
        read_file(str(tmp_path / "rows.csv"), "parquet", SCHEMA)
    with pytest.raises(UsageError, match=r"rows\.parquet: column v is double, not date32"):
        read_file(str(tmp_path / "rows.parquet"), "parquet", pa.schema([("v", pa.date32())]))


@pytest.mark.xdist_group("spark")
def test_any_number_of_shards_goes_on_with_a_checkpoint_and_gives_the_same_rows(
    spark: SparkSession, tmp_path: Path
) -> None:
    a, b = pieces(0, 6, 400), pieces(1, 6, 400)
    found = {}
    for name, shards, ours in (("one", (2, 2, 2), False), ("many", (2, 4, 3), True)):
        place = tmp_path / name
        place.mkdir()
        for turn, count in enumerate(shards):
            frames = {
                alias: write_stream(spark, place / alias, tables[2 * turn : 2 * turn + 2])
                for alias, tables in (("a", a), ("b", b))
            }
            if ours:
                frames = {alias: packed(spark, place / alias, frame) for alias, frame in frames.items()}
            folders = {kind: str(place / kind) for kind in ("results", "late", "checkpoint")}
            running = sw.start(spark, JOIN, shards=count, trigger="available", **folders, **frames)
            assert isinstance(running, sw.RunningQuery)
            assert running.wait()
        rows = {kind: spark.read.parquet(folders[kind]).toArrow() for kind in ("results", "late")}
        found[name] = {kind: counted(table) for kind, table in rows.items()}
        assert running.progress().late == rows["late"].num_rows > 0
    assert found["one"] == found["many"]
    assert running.progress().key_groups == 16
    assert len(list((tmp_path / "many" / "checkpoint" / "slackwater-state" / "3").glob("[0-9]*"))) == 3


def packed(spark: SparkSession, folder: Path, like: DataFrame) -> DataFrame:
    """The same stream, read by us."""
    reader = spark.readStream.format("slackwater").schema(like.schema).option("maxFilesPerTrigger", 1)
    return reader.load(str(folder))


@pytest.mark.xdist_group("spark")
def test_what_cannot_be_read_or_started_says_what_to_do(spark: SparkSession, tmp_path: Path) -> None:
    put(tmp_path / "a", "1.parquet", 10)
    frame = spark.readStream.format("slackwater").load(str(tmp_path / "a"))
    assert [field.simpleString() for field in frame.schema] == ["ts:bigint", "v:double"]
    with pytest.raises(UsageError, match=r"key_groups=300; it is a number from 1 to 256"):
        sw.start(spark, "SELECT ts FROM s WITH NO WAIT", results=str(tmp_path / "out"), key_groups=300, s=frame)
    for options in ("", " OPTIONS (idle_timeout = '5 s')"):
        text = f"SELECT ts FROM s WITH NO WAIT{options}"
        with pytest.raises(
            UsageError, match=r"sw\.start or sw\.queries starts, not over Spark Connect; for others take"
        ):
            sw.sql(spark, text, s=frame)
        queries = sw.queries(spark, streams={"s": frame}, queries={"q": text})
        with pytest.raises(
            UsageError, match=r"sw\.start or sw\.queries starts, not over Spark Connect; for others take"
        ):
            queries.foreach_batch(print)
    with pytest.raises(StreamingQueryException, match=r"is read by queries that sw\.start or sw\.queries starts"):
        frame.writeStream.format("noop").trigger(availableNow=True).start().awaitTermination()
    nowhere = spark.readStream.format("slackwater").schema("ts long").load(str(tmp_path / "nowhere"))
    with pytest.raises(UsageError, match=r"nowhere is no folder of this machine"):
        sw.start(spark, "SELECT ts FROM s WITH NO WAIT", results=str(tmp_path / "out"), s=nowhere)


@pytest.mark.xdist_group("spark")
def test_silence_is_timed_over_our_files_too(spark: SparkSession, tmp_path: Path) -> None:
    for number in range(3):
        put(tmp_path / "a", f"{number}.parquet", number)
    frame = spark.readStream.format("slackwater").option("maxFilesPerTrigger", 1).load(str(tmp_path / "a"))
    text = "SELECT v FROM s WITH NO WAIT OPTIONS (idle_timeout = '5 s')"
    out = str(tmp_path / "out")
    with sw.start(spark, text, s=frame, results=out, trigger="available") as running:
        running.wait()
    assert spark.read.parquet(out).toArrow().column("v").to_pylist() == [0.5, 0.5, 0.5]
