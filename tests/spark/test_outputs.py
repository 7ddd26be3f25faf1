"""Results, late rows, rejected rows and progress of one run; what may change on a checkpoint; how input ends."""

from __future__ import annotations

import json
import threading
import warnings
from collections.abc import Callable
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as fn
from pyspark.sql.streaming.query import StreamingQuery

import slackwater as sw
from slackwater.core.errors import UsageError
from slackwater.runtime.spark.progress import shards_of
from slackwater.runtime.spark.sinks import sink
from tests.spark.conftest import Streamed
from tests.spark.streams import START, counted, pieces

pytestmark = pytest.mark.xdist_group("spark")

JOIN = "SELECT a.key, a.v AS av, b.v AS bv FROM a [RANGE 50 MS], b [RANGE 50 MS] WHERE a.key = b.key"
DELAYED = f"{JOIN} WITH DELAY 100 MS"
SUMS = "SELECT key, SUM(v) AS total FROM s [RANGE 100 MS] GROUP BY key WITH NO WAIT"


def with_nulls(tables: list[pa.Table]) -> list[pa.Table]:
    """The tables, the second with two rows that have no time."""
    timeless = pa.table({name: pa.nulls(2, tables[0].schema.field(name).type) for name in tables[0].column_names})
    return [tables[0], pa.concat_tables([tables[1], timeless]), *tables[2:]]


def locally(query: str, a: list[pa.Table], b: list[pa.Table]) -> Any:
    """The answer of the local runtime, cut into the same epochs."""
    streams = {"a": pa.concat_tables(a), "b": pa.concat_tables(b)}
    return sw.replay(query, streams, epochs=sw.Epochs(tuples=2000))


def test_one_run_gives_results_late_and_rejected_rows_as_many_as_it_counts(
    spark: SparkSession, streamed: Streamed, tmp_path: Path
) -> None:
    a, b = pieces(0, 3), pieces(1, 3)
    frames = {"a": streamed("a", with_nulls(a)), "b": streamed("b", b)}
    folders = {name: str(tmp_path / name) for name in ("results", "late", "rejected", "checkpoint")}
    query = sw.start(spark, DELAYED, trigger="available", **folders, **frames)
    assert isinstance(query, sw.RunningQuery)
    assert query.wait()
    done = query.progress().latest
    assert done is not None
    rows = {name: spark.read.parquet(folders[name]) for name in ("results", "late", "rejected")}
    local = locally(DELAYED, a, b)
    assert rows["late"].count() == done.late == local.report["late"] > 0
    assert rows["rejected"].count() == 2
    assert dict(done.rejected) == dict(done.streams["a"].rejected) == {"null_time": 2}
    results = rows["results"].toArrow()
    assert results.num_rows == done.results > 0
    watermark = max(results.column("_ts").to_pylist())
    released = [ts <= watermark for ts in local.results.column("_ts").to_pylist()]
    names = ("key", "av", "bv", "_ts")
    assert counted(results, *names) == counted(local.results.filter(pa.array(released)), *names)
    assert done.in_time + done.late + done.filtered + done.held + 2 == sum(one.rows for one in done.streams.values())
    late = rows["late"].toArrow()
    reported = [(row["ts"], row["key"]) for row in map(json.loads, late.column("row").to_pylist())]
    found = [(row["ts"], row["key"]) for alias in "ab" for row in local.late[alias].to_pylist()]
    assert sorted(key for _, key in reported) == sorted(key for _, key in found)
    assert set(late.column_names) == {"stream", "ts", "delay_ms", "watermark", "row", "batch"}
    assert all(
        ts < mark for ts, mark in zip(*(late.column(name).to_pylist() for name in ("ts", "watermark")), strict=False)
    )


def test_a_function_for_every_micro_batch_is_given_all_outputs(
    spark: SparkSession, streamed: Streamed, tmp_path: Path
) -> None:
    a, b = pieces(0, 2), pieces(1, 2)
    seen: list[tuple[int, int, int, int, Any]] = []

    def note(batch: sw.MicroBatch) -> None:
        assert batch.progress is not None
        counts = (batch.results.count(), batch.late.count(), batch.rejected.count())
        seen.append((batch.number, *counts, batch.progress))

    outputs = sw.sql(spark, DELAYED, give="outputs", a=streamed("a", with_nulls(a)), b=streamed("b", b))
    with pytest.warns(UserWarning, match="state is kept in") as told:
        writer = outputs.foreach_batch(note).option("checkpointLocation", str(tmp_path / "checkpoint"))
    assert [one.filename for one in told] == [__file__], "a warning names the line of the caller"
    writer.trigger(availableNow=True).start().awaitTermination()
    assert [number for number, *_ in seen] == [0, 1]
    assert sum(rejected for *_, rejected, _ in seen) == 2
    assert sum(results for _, results, *_ in seen) == seen[-1][-1].results > 0
    assert sum(late for _, _, late, *_ in seen) == seen[-1][-1].late > 0


def test_a_micro_batch_that_runs_again_replaces_its_rows(spark: SparkSession, tmp_path: Path) -> None:
    rows = spark.range(3).toDF("n")
    folder = sink("parquet", str(tmp_path / "rows"))
    folder.refuse_other_runs(spark, "results")
    folder.write(rows.limit(0), 0)
    assert spark.read.parquet(str(tmp_path / "rows")).count() == 0
    for number in (0, 1, 1):
        folder.write(rows, number)
    with pytest.raises(UsageError, match="has the rows of another run"):
        folder.refuse_other_runs(spark, "results")
    with pytest.raises(UsageError, match="a column 'batch' of its own"):
        folder.check(["Batch"], "results")
    assert spark.read.parquet(str(tmp_path / "rows")).groupBy("batch").count().orderBy("batch").collect() == [
        (0, 3),
        (1, 3),
    ]


def test_progress_is_typed_and_the_same_from_a_listener(
    spark: SparkSession, streamed: Streamed, tmp_path: Path
) -> None:
    a, b = pieces(0, 3), pieces(1, 3)
    arrival_time: list[sw.QueryProgress] = []
    three = threading.Event()

    def hear(progress: sw.QueryProgress) -> None:
        arrival_time.append(progress)
        if len(arrival_time) == 3:
            three.set()

    listener = sw.Listener(hear)
    spark.streams.addListener(listener)
    target = JOIN + " WITH RECALL 0.9 OVER 300 MS OPTIONS (retention = 500 MS)"
    frame = sw.sql(spark, target, a=streamed("a", a), b=streamed("b", b))
    query = frame.writeStream.format("memory").queryName("typed").trigger(availableNow=True).start()
    query.awaitTermination()
    assert three.wait(60)
    spark.streams.removeListener(listener)
    history = sw.progress(query)
    assert list(history) == arrival_time
    assert len(history) == 3
    last = history[-1]
    assert last.query == "typed"
    assert last.target == "RECALL 0.9 OVER 300 ms"
    clocks = {name: max(tables[-1].column("ts").to_pylist()) for name, tables in (("a", a), ("b", b))}
    for name, clock in clocks.items():
        assert last.streams[name].clock == datetime.fromtimestamp(clock / 1000, UTC)
        assert last.streams[name].rows == 3000
    assert last.watermark == datetime.fromtimestamp(min(clocks.values()) / 1000, UTC) - last.slack
    assert last.results == spark.table("typed").count() > 0
    assert last.quality is not None
    assert last.quality.measured is not None
    assert last.quality.low <= last.quality.measured <= last.quality.high
    wait = last.latency
    assert wait is not None
    parts = wait.slack + wait.slowest_stream + wait.micro_batch
    assert abs(parts - wait.average) < timedelta(microseconds=5)
    assert last.state_bytes > 0
    assert history.late == last.late
    measures_what_it_has_emitted(
        query, sw.replay(target, {"a": pa.concat_tables(a), "b": pa.concat_tables(b)}, epochs=sw.Epochs(tuples=2000))
    )
    html = history._repr_html_()
    assert html.count("<svg") == 2
    assert "RECALL 0.9" in str(history)
    assert sw.progress(query).results == last.results


def measures_what_it_has_emitted(query: StreamingQuery, local: sw.Answer) -> None:
    """What the shards of a query with a target tell of its quality."""
    last = shards_of(query.recentProgress[-1])
    reported = [shard.observed.quality for shard in last]
    assert all((one.of, one.target) == ("results", 0.9) for one in reported)
    assert sum(one.good for one in reported) == sum(shard.results for shard in last) > 0
    # A live query is never flushed: its newest results are still to come, and so may be their late tuples.
    assert sum(one.good for one in reported) <= local.report["measured_quality"]["good"]
    for shard, one in zip(last, reported, strict=True):
        assert one.provisional_from == shard.observed.watermark - 500_000
        assert one.share == one.good / (one.good + one.bad)
        assert one.low <= one.share == one.high


def test_a_stream_that_is_mostly_rejected_is_said_aloud(
    spark: SparkSession, streamed: Streamed, recwarn: pytest.WarningsRecorder, tmp_path: Path
) -> None:
    table = pieces(0, 1, 40)[0]
    timeless = table.set_column(0, "ts", pa.nulls(40, pa.int64()))
    done = threading.Event()
    listener = sw.Listener(lambda progress: done.set())
    frame = sw.sql(spark, SUMS, s=streamed("s", [timeless]))
    spark.streams.addListener(listener)
    frame.writeStream.format("noop").trigger(availableNow=True).start().awaitTermination()
    assert done.wait(60)
    spark.streams.removeListener(listener)
    reported = [str(one.message) for one in recwarn if "rejected" in str(one.message)]
    assert len(reported) == 1
    assert "40 of 40 rows of stream s were rejected" in reported[0]
    assert "null_time" in reported[0]
    assert '"key"' in reported[0]


class Growing:
    """A stream of files that more are added to, and the query over it."""

    def __init__(self, spark: SparkSession, streamed: Streamed, folder: Path) -> None:
        self.spark, self._streamed, self._folder = spark, streamed, folder
        self.a, self.b = pieces(0, 4), pieces(1, 4)
        self._given = 0

    def more(self, count: int) -> dict[str, DataFrame]:
        self._given += count
        since = self._given - count
        return {
            "a": self._streamed("a", self.a[since : self._given]),
            "b": self._streamed("b", self.b[since : self._given]),
        }

    def run(self, query: str, frames: dict[str, DataFrame], **options: Any) -> sw.RunningQuery:
        folders = {"results": str(self._folder / "results"), "checkpoint": str(self._folder / "checkpoint")}
        running = sw.start(self.spark, query, trigger="available", **folders, **options, **frames)
        assert isinstance(running, sw.RunningQuery)
        running.wait()
        return running


@pytest.fixture
def growing(spark: SparkSession, streamed: Streamed, tmp_path: Path) -> Growing:
    return Growing(spark, streamed, tmp_path)


RECALL = f"{JOIN} WITH RECALL {{}} OVER 300 MS OPTIONS (retention = 500 MS, adaptation_interval = 200 MS)"


@pytest.mark.long("test_a_target_set_while_running_...: another target in the text of a restart is taken over")
def test_target_options_and_output_columns_may_change_on_a_checkpoint(growing: Growing) -> None:
    first = growing.run(RECALL.format(0.9), growing.more(2)).progress().latest
    again = RECALL.format(0.99).replace("a.key,", "a.key, a.v * 2 AS twice,").replace("500 MS", "600 MS")
    second = growing.run(again, growing.more(2)).progress().latest
    assert first is not None
    assert second is not None
    assert (first.target, second.target) == ("RECALL 0.9 OVER 300 ms", "RECALL 0.99 OVER 300 ms")
    assert second.in_time + second.late + second.held == 8000
    assert second.results > first.results > 0
    assert second.slack > first.slack


def test_what_does_not_fit_a_checkpoint_is_refused_before_anything_starts(growing: Growing) -> None:
    growing.run(DELAYED, growing.more(2))
    frames = growing.more(2)
    refused = {
        DELAYED.replace("50 MS", "60 MS"): "its windows, keys or conditions differ",
        DELAYED.replace("a.key,", "a.key, a.arrival,"): "its columns read from a differ",
        DELAYED + " OPTIONS (idle_timeout = 1 HOUR)": "its use of idle_timeout",
    }
    for query, reason in refused.items():
        with pytest.raises(UsageError, match=reason) as error:
            growing.run(query, frames)
        assert len(str(error.value)) < 260
    assert growing.run(DELAYED, frames, shards=3).progress().in_time > 6000


def test_a_target_set_while_running_holds_over_restarts_until_the_text_says_another(
    growing: Growing, tmp_path: Path
) -> None:
    spark = growing.spark
    folders = {"results": str(tmp_path / "results"), "checkpoint": str(tmp_path / "checkpoint")}
    with sw.start(spark, RECALL.format(0.9), **folders, **growing.more(1)) as running:
        running.process_all_available()
        assert running.progress().target == "RECALL 0.9 OVER 300 ms"
        running.set_target(sw.recall(0.99, over="300 ms"))
        running.process_all_available()
        assert running.progress().target == "RECALL 0.99 OVER 300 ms"
        running.set_target("RECALL .99 OVER 300 MS AT MOST 5 SECONDS")
        running.process_all_available()
        assert running.progress().target == "RECALL 0.99 OVER 300 ms AT MOST 5 s"
        running.set_target(sw.recall(0.95))
        running.process_all_available()
        assert running.progress().target == "RECALL 0.95 OVER 300 ms AT MOST 5 s"
        running.set_target(sw.recall(0.99, over="300 ms"), at_most="4 seconds")
        running.process_all_available()
        with pytest.raises(UsageError, match="has not learned what ERROR needs"):
            running.set_target("ERROR 1%")
        with pytest.raises(UsageError, match="at_most='4 s' bounds the slack that RECALL and ERROR look for"):
            running.set_target("NO WAIT", at_most="4 s")
        with pytest.raises(UsageError, match="adaptation_interval is longer than the period"):
            running.set_target(sw.recall(0.9, over="100 ms"))
    assert growing.run(RECALL.format(0.9), growing.more(1)).progress().target == "RECALL 0.99 OVER 300 ms AT MOST 4 s"
    capped = RECALL.format("0.8 AT MOST 2 SECONDS")
    assert growing.run(capped, growing.more(1)).progress().target == "RECALL 0.8 OVER 300 ms AT MOST 2 s"


def test_what_is_there_now_can_be_flushed_at_its_end(growing: Growing) -> None:
    frames = growing.more(3)
    done = growing.run(DELAYED, frames, flush=True).progress().latest
    local = locally(DELAYED, growing.a[:3], growing.b[:3])
    assert done is not None
    assert done.ended
    assert done.held == 0
    assert done.results == local.results.num_rows
    with pytest.raises(UsageError, match="was flushed and has ended"):
        growing.run(DELAYED, frames)


def test_a_batch_dataframe_gives_the_whole_answer(spark: SparkSession) -> None:
    tables = {"a": pieces(0, 1, 3000)[0], "b": pieces(1, 1, 3000)[0]}
    frames = {name: spark.createDataFrame(table.to_pandas()) for name, table in tables.items()}
    truth = sw.replay(JOIN + " WITH DELAY 10 SECONDS", tables).results
    answer = sw.sql(spark, JOIN + " WITH NO WAIT", **frames).toArrow()
    assert counted(answer, "key", "av", "bv") == counted(truth, "key", "av", "bv")
    sums = sw.sql(spark, SUMS, s=frames["a"]).toArrow()
    whole = sw.replay(SUMS.replace("NO WAIT", "DELAY 10 SECONDS"), {"s": tables["a"]}).results
    assert sums.num_rows == whole.num_rows > 0
    everything = sw.sql(spark, SUMS, give="outputs", s=frames["a"]).all()
    assert everything.results.count() == whole.num_rows
    assert everything.progress is not None
    assert everything.progress.ended
    everything.emitted.unpersist()


def test_batch_and_stream_do_not_mix(spark: SparkSession, streamed: Streamed) -> None:
    table = pieces(0, 1, 10)[0]
    frames = {"a": streamed("a", [table]), "b": spark.createDataFrame(table.to_pandas())}
    with pytest.raises(UsageError, match="a is a stream and b is a batch DataFrame"):
        sw.sql(spark, DELAYED, **frames)


def test_a_session_with_other_settings_serves_and_is_left_as_it_was(
    spark: SparkSession, streamed: Streamed, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    own = spark.newSession()
    own.conf.set("spark.sql.shuffle.partitions", "5")
    own.conf.set("spark.sql.session.timeZone", "America/New_York")
    streamed("s", pieces(0, 2))
    frame = own.readStream.schema(own.read.parquet(str(tmp_path / "s")).schema).parquet(str(tmp_path / "s"))
    timed = frame.withColumn("ts", fn.timestamp_millis("ts"))
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        query = sw.start(own, SUMS, trigger="available", flush=True, results=str(tmp_path / "sums"), s=timed)
        assert isinstance(query, sw.RunningQuery)
        query.wait()
    assert own.conf.get("spark.sql.shuffle.partitions") == "5"
    first = own.read.parquet(str(tmp_path / "sums")).agg(fn.min("window_start").cast("double")).first()
    assert first is not None
    assert abs(first[0] - START / 1000) < 0.5


@pytest.mark.parametrize(
    ("call", "sentence"),
    [
        (lambda frame: sw.join([frame, frame], time="ts", within="1 s", where="a.key = b.key"), "name the streams"),
        (lambda frame: sw.join({"a": frame}, time="ts", within={}, where="true"), "within says nothing of stream a"),
        (lambda frame: sw.relative_error("nine"), "is no share; write 0.99 or '99%'"),
        (lambda frame: sw.recall(1.5), "must be more than 0 and at most 1"),
        (lambda frame: sw.recall(0.9, over="soon"), "'soon' is not a duration"),
        (lambda frame: sw.aggregate(frame, time="ts", window="1", select={"n": "COUNT(*)"}), "window='1'"),
        (lambda frame: sw.aggregate(frame, time="ts", window="1 s", select=["COUNT(*)"]), "name the aggregates"),
        (lambda frame: sw.join({"a": pieces(0, 1)[0]}, time="ts", within="1 s", where="true"), "no DataFrame of Spark"),
        (lambda frame: sw.sql(frame.sparkSession, SUMS, s=pieces(0, 1)[0].to_pandas()), "no DataFrame of Spark"),
        (lambda frame: sw.sql(frame.sparkSession, SUMS, time_unit="sec", s=frame), "sec"),
        (lambda frame: sw.start(frame.sparkSession, SUMS, results="x", trigger="ten", s=frame), "trigger='ten'"),
        (lambda frame: sw.start(frame.sparkSession, SUMS, flush=True, s=frame), "say where rows go"),
        (lambda frame: sw.sql(frame.sparkSession, SUMS, give="all", s=frame), "give='all'"),
        (lambda frame: sw.start(frame.sparkSession, SUMS, results=7, s=frame), "results=7 is no sink"),
        (lambda frame: sw.start(frame.sparkSession, SUMS, results="x", flush=True, s=frame), "trigger='available'"),
    ],
)  # fmt: skip
def test_a_wrong_call_is_one_sentence(
    spark: SparkSession, streamed: Streamed, call: Callable[[DataFrame], Any], sentence: str
) -> None:
    with pytest.raises(UsageError) as error:
        call(streamed("s", pieces(0, 1, 10)))
    assert sentence in str(error.value)


def test_texts_and_single_names_do_in_calls_from_python(spark: SparkSession, streamed: Streamed) -> None:
    frame = streamed("s", pieces(0, 1, 10))
    sums = sw.aggregate(
        frame, time="ts", time_unit="ms", window="1 second", by="key", select={"n": "COUNT(*)"}, quality="ERROR 1%",
        options={"initial_slack": "1 second"},
    )  # fmt: skip
    assert sums.columns == ["window_start", "window_end", "key", "n"]
