"""Queries on streaming DataFrames: the same answers as the local runtime and as Spark's own operators."""

from __future__ import annotations

import json
import runpy
import warnings
from pathlib import Path
from types import SimpleNamespace

import pyarrow as pa
import pytest

import slackwater as sw
from slackwater.runtime.spark.progress import shards_of
from slackwater.runtime.spark.session import check_session
from tests.spark.streams import START, counted, pieces

# One worker: a session for each would fight for the same cores.
pytestmark = pytest.mark.xdist_group("spark")

JOIN = "SELECT a.key, a.v AS av, b.v AS bv FROM a [RANGE 50 MS], b [RANGE 50 MS] WHERE a.key = b.key WITH DELAY {}"


@pytest.mark.long("test_outputs.py, test_one_run_gives_...: the same rows and late rows, by `sw.start`")
def test_a_join_gives_what_the_local_runtime_gives_epoch_by_epoch(spark, streamed, finished):
    a, b = pieces(0, 3), pieces(1, 3)
    query = JOIN.format("100 MS")
    frames = {"a": streamed("a", a), "b": streamed("b", b)}
    got = finished(sw.sql(spark, query, **frames))
    late = finished(sw.sql(spark, query, give="late", **frames), "late")
    local = sw.replay(query, {"a": pa.concat_tables(a), "b": pa.concat_tables(b)}, epochs=sw.Epochs(tuples=2000))
    watermark = max(got.column("_ts").to_pylist())
    released = [ts <= watermark for ts in local.results.column("_ts").to_pylist()]
    names = ("key", "av", "bv", "_ts")
    assert counted(got, *names) == counted(local.results.filter(pa.array(released)), *names)
    assert late.num_rows == local.report["late"] > 0
    assert json.loads(late.column("row")[0].as_py())["key"].startswith("k")


def test_a_restart_goes_on_where_the_query_stopped(spark, streamed, finished, tmp_path):
    a, b = pieces(0, 3), pieces(1, 3)
    query = JOIN.format("100 MS")
    state = tmp_path / "state"
    finished(sw.sql(spark, query, state=state, a=streamed("a", a[:2]), b=streamed("b", b[:2])))
    resumed = finished(sw.sql(spark, query, state=state, a=streamed("a", a[2:]), b=streamed("b", b[2:])))
    local = sw.replay(query, {"a": pa.concat_tables(a), "b": pa.concat_tables(b)}, epochs=sw.Epochs(tuples=2000))
    watermark = max(resumed.column("_ts").to_pylist())
    released = [ts <= watermark for ts in local.results.column("_ts").to_pylist()]
    names = ("key", "av", "bv", "_ts")
    assert resumed.num_rows > 1000
    assert counted(resumed, *names) == counted(local.results.filter(pa.array(released)), *names)


def test_bad_and_poisoned_rows_come_out_as_rows_and_move_no_clock(spark, streamed, finished):
    times = [START, START + 1, None, START + 86_400_000, START + 2, START + 3]
    more = [START + 500, START + 501]
    frame = streamed("s", [pa.table({"ts": pa.array(t, pa.int64()), "v": range(len(t))}) for t in (times, more)])
    query = "SELECT v FROM s WITH NO WAIT"
    rows = finished(sw.sql(spark, query, s=frame))
    assert sorted(rows.column("v").to_pylist()) == [0, 0, 1, 1, 4, 5]
    ((name, _),) = finished.progress[-1]["observedMetrics"].items()
    assert name.startswith("slackwater_")
    assert [shard.observed.clocks for shard in shards_of(finished.progress[-1])] == [((START + 501) * 1000,)]
    rejected = finished(sw.sql(spark, query, s=frame, give="rejected"), "rejected")
    assert rejected.column("reason").to_pylist() == ["null_time"]


def test_a_query_over_the_results_of_another_gives_its_rows_and_its_own_progress(spark, streamed, tmp_path):
    frame = streamed("s", pieces(0, 4))
    counts = sw.aggregate(
        frame, time="ts", window="100 ms", by="key", select={"n": "COUNT(*)"}, quality=sw.delay("400 ms")
    )
    text = "SELECT SUM(n) AS total FROM t [RANGE 500 MS] WITH NO WAIT"
    sums = sw.sql(spark, text, time="window_end", t=counts)
    rows, checkpoint = str(tmp_path / "rows"), str(tmp_path / "checkpoint")
    writer = sums.writeStream.option("checkpointLocation", checkpoint).trigger(availableNow=True)
    query = writer.format("parquet").start(rows)
    query.awaitTermination()
    assert sw.progress(query).target == "NO WAIT"
    assert list(sw.progress(query).streams) == ["t"]
    tables = {"s": pa.concat_tables(pieces(0, 4))}
    inner = "SELECT key, COUNT(*) AS n FROM s [RANGE 100 MS] GROUP BY key WITH DELAY 400 MS"
    within = sw.replay(inner, tables, epochs=sw.Epochs(tuples=1000)).results
    wanted = sw.replay(text, {"t": within}, time="window_end", epochs=sw.Epochs(tuples=1000)).results
    found = spark.read.parquet(rows).toArrow()
    assert 0 < found.num_rows <= wanted.num_rows
    assert not counted(found, "total", "window_end") - counted(wanted, "total", "window_end")


def test_a_session_whose_workers_are_new_in_every_task_is_warned_of(spark):
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        check_session(spark, 1)
    # No session that runs can be given this.
    own = SimpleNamespace(conf={"spark.python.worker.reuse": "false"})
    with pytest.warns(UserWarning, match="worker.reuse is false; set it to true"):
        check_session(own, 1)


def test_the_first_block_of_the_guide_runs(spark, tmp_path):
    text = (Path(__file__).parents[2] / "docs" / "spark.md").read_text().split("## The shortest way")[1]
    block = text.split("```python\n")[1].split("```")[0]
    # Spark looks for relative paths where its JVM was started.
    for name in ("impressions/", "clicks/", "out/"):
        block = block.replace(f'"{name}', f'"{tmp_path}/{name}')
    script = tmp_path / "block.py"
    script.write_text(block)
    for name in ("impressions", "clicks"):
        (tmp_path / name).mkdir()
        rows = [{"ts": f"2026-01-01T00:00:{i:02d}Z", "user": f"u{i % 3}", "ad": "x"} for i in range(40)]
        (tmp_path / name / "0.json").write_text("\n".join(map(json.dumps, rows)) + "\n")
    query = runpy.run_path(str(script))["query"]
    query.process_all_available()
    assert query.progress().target == "RECALL 0.99 OVER 1 min"
    query.stop()
    assert spark.read.parquet(str(tmp_path / "out" / "pairs")).count() > 0


def test_the_block_of_the_readme_runs(spark, tmp_path):
    text = (Path(__file__).parents[2] / "README.md").read_text().split("## A running Spark query")[1]
    block = text.split("```python\n")[1].split("```")[0].replace('"out/', f'"{tmp_path}/out/')
    waits = "time.sleep(120)\n"
    assert waits in block
    # No longer than it takes: until there are results.
    until = "for _ in range(600):\n  time.sleep(0.2)\n  if any(one.results for one in query.progress()): break\n"
    script = tmp_path / "block.py"
    script.write_text(block.replace(waits, until))
    progress = runpy.run_path(str(script))["query"].progress()
    assert progress.target == "RECALL 0.95 OVER 10 s"
    assert spark.read.parquet(str(tmp_path / "out" / "pairs")).count() >= progress.results > 0


def test_a_plan_over_dataframes_is_that_over_tables(spark, streamed):
    tables = {"a": pieces(0, 1)[0], "b": pieces(1, 1)[0]}
    frames = {name: streamed(name, [table]) for name, table in tables.items()}
    for query in (JOIN.format("100 MS"), "EXPLAIN (FORMAT JSON) " + JOIN.format("100 MS")):
        assert sw.explain(query, frames) == sw.explain(query, tables)
    assert json.loads(sw.explain(query, frames))["nodes"][-1]["attributes"]["shard_keys"] == {
        "a": ["key"],
        "b": ["key"],
    }


def test_a_stream_that_the_query_does_not_read_is_left_alone(spark):
    read = spark.createDataFrame([(1, 3)], "ts long, v long")
    unread = spark.readStream.format("rate").load()
    assert [row.v for row in sw.sql(spark, "SELECT v FROM s WITH NO WAIT", s=read, u=unread).collect()] == [3]
