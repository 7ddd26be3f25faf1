"""Recorded streams on Spark: cut as locally, answered as locally, taken up again where they were left."""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pytest
from pyspark.sql import SparkSession

import slackwater as sw
from slackwater.cli.prepare import Prepared, Runtime, runtime_of
from slackwater.cli.verify import Verified, verify_query
from slackwater.core.errors import DataError, SlackwaterError, UsageError
from slackwater.core.time import SECOND
from slackwater.plan.planner import plan
from slackwater.runtime.spark.failures import as_ours
from slackwater.runtime.spark.replay.recording import SparkRuntime
from slackwater.runtime.spark.replay.streams import cut_by
from slackwater.sources.binding import bind_to_tables
from slackwater.sources.replay import replay
from tests.effort import ALL_ON_SPARK
from tests.spark.in_process import InProcess

on_spark = pytest.mark.xdist_group("spark")

JOIN = "SELECT a.key, a.v AS av, b.v AS bv FROM a [RANGE 50 MS], b [RANGE 50 MS] WHERE a.key = b.key WITH "
TREE = """SELECT a.key, a.v AS av, c.v AS cv FROM a [RANGE 50 MS], b [RANGE 40 MS], a AS c [RANGE 20 MS]
    WHERE a.key = b.key AND b.key = c.key AND a.v <> c.v WITH """
SUMS = "SELECT key, SUM(v) AS total FROM a [RANGE 300 MS SLIDE 100 MS] GROUP BY key WITH "
TEXT_JOIN = """SELECT upper(a.key) AS k, a.key || '/' || b.v AS both FROM a [RANGE 50 MS], b [RANGE 50 MS]
    WHERE upper(a.key) = upper(b.key) AND (a.key LIKE '%1' OR length(b.key) + a.v > b.v) WITH """
TEXT_GROUPS = """SELECT upper(key) AS k, substring(key, 2) AS number, COUNT(*) AS n FROM a [RANGE 300 MS SLIDE 100 MS]
    WHERE key NOT LIKE '%5' GROUP BY upper(key), substring(key, 2) WITH """
TEXT_ABOVE = """SELECT lower(k) || '!' AS k, n FROM (SELECT upper(key) AS k, COUNT(*) AS n FROM a [RANGE 300 MS]
    GROUP BY upper(key)) t WHERE k LIKE 'K1%' WITH """
FACTS = ("tuples", "in_time", "late", "filtered", "rejected", "held", "results", "slack_ms", "latency_ms")


@pytest.fixture(autouse=True)
def _two_shards_again(request: pytest.FixtureRequest) -> Iterator[None]:
    """The number of shards is a setting of the session that all tests share."""
    yield
    if "spark" in request.fixturenames:
        request.getfixturevalue("spark").conf.set("spark.sql.shuffle.partitions", "2")


def streams_of(n: int = 1500) -> dict[str, pa.Table]:
    """Two streams of a tuple a millisecond, a tenth of them up to 0.4 s late; some keys and times are null."""
    rng = np.random.default_rng(5)
    made = {}
    for place, name in enumerate("ab"):
        ts = 1_700_000_000_000 + np.arange(n) - np.where(rng.random(n) < 0.1, rng.integers(0, 400, n), 0)
        keys = [None if key == 7 else f"k{key}" for key in rng.integers(0, 12, n)]
        columns = {"arrival": np.arange(n) * 2 + place, "ts": pa.array(ts, mask=ts % 97 == 0), "key": keys}
        made[name] = pa.table(columns | {"v": rng.integers(0, 1000, n)})
    return made


def replayed(
    query: str,
    streams: dict[str, pa.Table],
    epochs: sw.Epochs,
    shards: int = 2,
    count: bool = False,
    in_process: Path | None = None,
    **place: Any,
) -> sw.Answer:
    """On Spark, or by shards in this process with a folder of their own."""
    physical = plan(bind_to_tables(query, streams, "ts").query, count_only=count)
    where = InProcess(epochs, shards, in_process) if in_process else SparkRuntime(epochs, shards, "local[2]", **place)
    with where.begin(physical, replay(physical, streams, "ms"), streams, "ms") as run:
        tables = list(run.tables())
    aliases = [one.stream.alias for one in physical.inputs]
    late = {alias: run.side_outputs.late_rows(i) for i, alias in enumerate(aliases)}
    rejected = {alias: run.side_outputs.rejected_rows(i) for i, alias in enumerate(aliases)}
    return sw.Answer(pa.concat_tables(tables), late, rejected, run.report().as_json())


def rows(table: pa.Table) -> Counter[tuple[Any, ...]]:
    return Counter(zip(*(column.to_pylist() for column in table.columns), strict=True))


RUNS = {
    "join by count": (JOIN + "DELAY 100 MS", sw.Epochs(tuples=1000), 2),
    "join by span": (JOIN + "DELAY 100 MS", sw.Epochs(span=700_000), 1),
    "sums": (SUMS + "COMPLETE", sw.Epochs(tuples=600), 4),
    "tree": (TREE + "DELAY 100 MS OPTIONS (shape = 'binary')", sw.Epochs(tuples=600), 2),
    "join by text": (TEXT_JOIN + "DELAY 100 MS", sw.Epochs(tuples=1000), 2),
    "groups of text": (TEXT_GROUPS + "DELAY 100 MS", sw.Epochs(tuples=600), 2),
    "text above": (TEXT_ABOVE + "DELAY 100 MS", sw.Epochs(tuples=600), 2),
}


@on_spark
@pytest.mark.parametrize("name", RUNS if ALL_ON_SPARK else ["groups of text"])
def test_a_run_on_spark_gives_all_that_a_local_one_gives(spark: SparkSession, name: str) -> None:
    gives_all_that_a_local_run_gives(*RUNS[name], in_process=None)


@pytest.mark.parametrize("name", RUNS)
def test_shards_in_process_give_all_that_a_local_run_gives(tmp_path: Path, name: str) -> None:
    gives_all_that_a_local_run_gives(*RUNS[name], in_process=tmp_path / "run")


def gives_all_that_a_local_run_gives(query: str, epochs: sw.Epochs, shards: int, in_process: Path | None) -> None:
    streams = {name: table for name, table in streams_of().items() if f"{name} [" in query}
    local = sw.replay(query, streams, epochs=epochs)
    ran = replayed(query, streams, epochs, shards, in_process=in_process)
    assert rows(ran.results) == rows(local.results)
    by = "_ts" if "_ts" in ran.results.column_names else "window_end"
    assert ran.results.column(by).to_pylist() == sorted(ran.results.column(by).to_pylist())
    for name in streams:
        assert rows(ran.late[name].drop_columns("delay")) == rows(local.late[name].drop_columns("delay"))
        assert rows(ran.rejected[name]) == rows(local.rejected[name])
    assert local.report["late"] > 0 < local.report["rejected"]
    assert (ran.report["runtime"], ran.report["shards"]) == ("spark", shards)
    counts = ("tuples", "in_time", "late", "filtered", "rejected", "rejected_reasons", "held", "results")
    assert {name: ran.report[name] for name in counts} == {name: local.report[name] for name in counts}
    for which in ("max", "last"):
        assert ran.report["slack_ms"][which] == local.report["slack_ms"][which]


@on_spark
@pytest.mark.long("the same of shards in process, below")
def test_latency_on_spark_leaves_out_what_the_end_lets_out(spark: SparkSession) -> None:
    latency_leaves_out_what_the_end_lets_out(in_process=None)


def test_latency_leaves_out_what_the_end_lets_out(tmp_path: Path) -> None:
    latency_leaves_out_what_the_end_lets_out(in_process=tmp_path / "run")


def latency_leaves_out_what_the_end_lets_out(in_process: Path | None) -> None:
    times, epochs = [0, 1000, 2000, 3000, 9000], sw.Epochs(tuples=4)
    query, streams = "SELECT ts FROM s WITH DELAY 2 SECONDS", {"s": pa.table({"ts": times})}
    ran = replayed(query, streams, epochs, in_process=in_process)
    # The first micro-batch emits 0 and 1000 at clock 3000, the second 2000 and 3000 at clock 9000; 9000 is flushed.
    assert ran.report["results"] == 5
    assert ran.report["latency_ms"] == {"avg": 4500.0, "p50": 3000.0, "p95": 7000.0, "p99": 7000.0}
    assert ran.report["latency_by_cause_ms"] == {"slack": 2000.0, "slowest_stream": 0.0, "epoch": 2500.0}
    assert ran.report["emitted_at_end"] == 1


@on_spark
@pytest.mark.long("the same of shards in process, below; tests/runtime/test_counting.py counts on Spark")
def test_counts_on_spark_are_summed_over_shards_and_micro_batches(spark: SparkSession) -> None:
    counts_are_summed(None, None)


def test_counts_are_summed_over_shards_and_micro_batches(tmp_path: Path) -> None:
    counts_are_summed(tmp_path / "counted", tmp_path / "again")


def counts_are_summed(*in_process: Path | None) -> None:
    streams, epochs = streams_of(), sw.Epochs(tuples=1000)
    local = sw.replay(JOIN + "DELAY 100 MS", streams, epochs=epochs, count=True)
    ran = replayed(JOIN + "DELAY 100 MS", streams, epochs, count=True, in_process=in_process[0])
    assert ran.results.equals(local.results)
    assert ran.results.num_rows > 1
    again = replayed(JOIN + "DELAY 100 MS", streams, epochs, in_process=in_process[1]).report
    for what in ("latency_ms", "latency_by_cause_ms", "slowest_stream"):
        assert ran.report[what] == again[what]
    assert sum(again["latency_by_cause_ms"].values()) == pytest.approx(again["latency_ms"]["avg"], abs=0.002)


def verified(query: str, streams: dict[str, pa.Table], runtime: Runtime) -> Verified:
    prepared = Prepared(bind_to_tables(query, streams, "ts"), streams, None, "ms")
    return verify_query(prepared, runtime, False, None, None, SECOND, quiet=True)


JUDGED = {
    "computed keys": (
        "SELECT a.v AS v, b.key AS k FROM a [40 MS], b [60 MS] WHERE a.v % 9 = b.v % 9 AND a.key <> b.key",
        4,
    ),
    "with itself": ("SELECT l.v AS lv, r.v AS rv FROM a AS l [20 MS], a AS r [30 MS] WHERE l.v = r.v + 1", 1),
    "groups": ("SELECT key, v > 500 AS high, COUNT(*) AS n, MEDIAN(v) AS mid FROM a [200 MS] GROUP BY key, v > 500", 2),
}


@on_spark
@pytest.mark.long("the same of shards in process, below; tests/cli/test_spark.py has `verify` on Spark")
@pytest.mark.parametrize("name", JUDGED)
def test_what_is_missing_is_explained_by_late_tuples(spark: SparkSession, name: str) -> None:
    query, shards = JUDGED[name]
    what_is_missing_is_explained(query, runtime_of("spark", "700", shards))


@pytest.mark.parametrize("name", JUDGED)
def test_what_is_missing_in_process_is_explained_by_late_tuples(tmp_path: Path, name: str) -> None:
    query, shards = JUDGED[name]
    what_is_missing_is_explained(query, InProcess(sw.Epochs(tuples=700), shards, tmp_path / "run"))


def what_is_missing_is_explained(query: str, runtime: Runtime) -> None:
    streams = {name: table for name, table in streams_of().items() if f"{name} [" in query or f"{name} AS" in query}
    verdict = verified(f"{query} WITH DELAY 50 MS", streams, runtime).verdict
    assert (verdict.missing_unexplained, verdict.spurious, verdict.out_of_order) == (0, 0, 0)
    assert verdict.missing_late > 0
    assert verdict.results > 10


@on_spark
def test_an_interrupted_run_goes_on_from_its_checkpoint(spark: SparkSession, tmp_path: Path) -> None:
    n = 900
    query, streams, epochs = JOIN + "DELAY 100 MS", streams_of(n), sw.Epochs(tuples=600)
    physical = plan(bind_to_tables(query, streams, "ts").query)
    place = SparkRuntime(epochs, 2, "local[2]", tmp_path / "checkpoint")
    with place.begin(physical, replay(physical, streams, "ms"), streams, "ms") as run:
        for _ in run.tables():
            run.interrupt()
    stopped = run.report().as_json()
    manifest = json.loads((tmp_path / "checkpoint" / "recorded.json").read_text())
    assert set(manifest) == {"query and shards", "streams", "epochs", "crc"}
    assert stopped["interrupted"]
    assert 0 < stopped["tuples"] < 2 * n
    assert stopped["tuples"] == sum(stopped[part] for part in ("in_time", "late", "filtered", "rejected", "held"))
    straight = replayed(query, streams, epochs)
    resumed, again = (replayed(query, streams, epochs, checkpoint=tmp_path / "checkpoint") for _ in range(2))
    for ran in (resumed, again):
        assert ran.results.column("_ts").equals(straight.results.column("_ts"))
        # Which shard has a key hangs on the secret of a checkpoint, so rows of one time come in any order.
        assert in_order(ran.results).equals(in_order(straight.results))
        assert in_order(ran.late["a"]).equals(in_order(straight.late["a"]))
        assert {name: ran.report[name] for name in FACTS} == {name: straight.report[name] for name in FACTS}
    for changed in ({"query": JOIN + "DELAY 101 MS"}, {"epochs": sw.Epochs(tuples=601)}, {"shards": 1}):
        given = {"query": query, "streams": streams, "epochs": epochs} | changed
        with pytest.raises(UsageError, match="it belongs to a run with other"):
            replayed(**given, checkpoint=tmp_path / "checkpoint")


def in_order(table: pa.Table) -> pa.Table:
    return table.sort_by([(name, "ascending") for name in table.column_names]).combine_chunks()


@on_spark
def test_a_folder_of_other_files_is_no_checkpoint(spark: SparkSession, tmp_path: Path) -> None:
    (tmp_path / "notes.txt").write_text("mine")
    with pytest.raises(UsageError, match=r"holds other files \(notes.txt\)"):
        replayed(JOIN + "COMPLETE", streams_of(), sw.Epochs(tuples=600), checkpoint=tmp_path)
    assert [path.name for path in tmp_path.iterdir()] == ["notes.txt"]


def test_a_cluster_needs_a_folder_that_it_shares() -> None:
    streams = {"s": pa.table({"ts": [1]})}
    physical = plan(bind_to_tables("SELECT ts FROM s", streams, "ts").query)
    far = SparkRuntime(sw.Epochs(tuples=9), 2, "spark://far:7077").begin(
        physical, replay(physical, streams, "ms"), streams, "ms"
    )
    with pytest.raises(UsageError, match="--checkpoint DIR"), far:
        pass


def test_unreadable_rows_come_with_the_row_before_them() -> None:
    times = [None, 1, 2, None, 3, None, None, 4]
    streams = {"s": pa.table({"ts": pa.array(times, pa.int64())})}
    physical = plan(bind_to_tables("SELECT ts FROM s", streams, "ts").query)
    cut = cut_by(physical, replay(physical, streams, "ms"), sw.Epochs(tuples=2))
    assert dict(zip(cut.rows["s"].tolist(), cut.epoch["s"].tolist(), strict=True)) == {
        0: 0, 1: 0, 2: 0, 3: 0, 4: 1, 5: 1, 6: 1, 7: 1
    }  # fmt: skip
    assert cut.arrivals == (2, 4)


def test_a_failure_is_told_by_its_innermost_cause() -> None:
    outer = "Traceback (most recent call last):\n  File a\npyspark.PythonException: thrown from the Python worker:\n"
    inner = "Traceback (most recent call last):\n  File b\n    x = f()\nslackwater.core.errors.DataError: too much\n"
    error = as_ours(outer + inner + "\nJVM stacktrace:\norg.apache.spark.SparkException: x\n\tat y")
    assert (type(error), str(error)) == (DataError, "too much")
    java = "org.x.OneException: outer\n\tat z\nCaused by: java.io.IOException: No space left on device\n\tat w"
    assert str(as_ours(java)) == "Spark says: No space left on device"
    assert isinstance(as_ours("something"), SlackwaterError)
