"""A set of queries on a real session: one streaming query, one read of every source, changed while it runs."""

from __future__ import annotations

import json
from pathlib import Path

import pyarrow as pa
import pytest
from click.testing import Result
from pyspark.sql import SparkSession
from typer.testing import CliRunner

import slackwater as sw
from slackwater.cli.app import app
from slackwater.core.errors import QueryError, UsageError
from slackwater.runtime.spark.state.stage import hashed, names_of_partitions
from tests.spark.conftest import Streamed
from tests.spark.streams import counted, pieces

pytestmark = pytest.mark.xdist_group("spark")

QUERIES = {
    "pairs": "SELECT a.key, a.v AS av, b.v AS bv FROM a [RANGE 50 MS], b [RANGE 50 MS] WHERE a.key = b.key"
    " WITH DELAY 100 MS",
    "by key": "SELECT key, SUM(v) AS total, COUNT(*) AS n FROM a [RANGE 400 MS SLIDE 100 MS] GROUP BY key"
    " WITH DELAY 100 MS",
    "over all": "SELECT COUNT(*) AS n FROM b [RANGE 100 MS] WITH NO WAIT",
}
LATER = "SELECT key, MAX(v) AS most FROM a [RANGE 200 MS] WHERE v > 0.5 GROUP BY key WITH DELAY 100 MS"
EACH = 400


def local(text: str, a: list[pa.Table], b: list[pa.Table]) -> sw.Answer:
    """The answer of the local runtime over the same micro-batches."""
    streams = {name: pa.concat_tables(tables) for name, tables in (("a", a), ("b", b)) if f" {name} [" in text}
    return sw.replay(text, streams, epochs=sw.Epochs(tuples=EACH * len(streams)))


def settled(answer: sw.Answer, rows: pa.Table) -> pa.Table:
    """Those results of a whole run that a run without an end has emitted by now."""
    time = "_ts" if "_ts" in rows.column_names else "window_end"
    last = max(rows.column(time).to_pylist())
    return answer.results.filter(pa.array([one <= last for one in answer.results.column(time).to_pylist()]))


def same(rows: pa.Table, answer: sw.Answer) -> bool:
    names = [name for name in answer.results.column_names if name != "total"]
    return counted(rows, *names) == counted(settled(answer, rows), *names) != {}


def asked(checkpoint: Path, *arguments: object) -> Result:
    """`slackwater queries CHECKPOINT ...`, as another process would ask it."""
    return CliRunner().invoke(app, ["queries", str(checkpoint), *map(str, arguments)])


def test_a_set_reads_once_restarts_and_takes_a_query_in_while_it_runs(
    spark: SparkSession, streamed: Streamed, tmp_path: Path
) -> None:
    a, b = pieces(0, 4, EACH), pieces(1, 4, EACH)
    sinks = {name: {what: str(tmp_path / name / what) for what in ("results", "late")} for name in QUERIES}
    checkpoint = tmp_path / "checkpoint"

    def frames() -> dict[str, object]:
        return {"a": streamed("a", []), "b": streamed("b", [])}

    streamed("a", a[:1]), streamed("b", b[:1])
    handle = sw.queries(spark, streams=frames(), queries=QUERIES)
    first = handle.start(checkpoint, sinks=sinks, trigger="available")
    assert first.wait()
    assert [one.numInputRows for one in first.query.recentProgress] == [1 + len(QUERIES) + 2 * EACH]

    streamed("a", a[1:2]), streamed("b", b[1:2])
    with handle.start(checkpoint, sinks=sinks) as running:
        running.process_all_available()
        with pytest.raises(UsageError, match="there is a query pairs already"):
            running.add("pairs", LATER)
        unknown = "there is no query nobody; there are pairs, by key, over all"
        with pytest.raises(UsageError, match=unknown):
            running.drop("nobody")
        assert unknown in str(asked(checkpoint, "drop", "nobody").exception)
        unbound = asked(checkpoint, "add", "bad", "SELECT w FROM a", "--out", tmp_path / "bad")
        assert "query bad" in str(unbound.exception)
        assert asked(checkpoint, "add", "later", LATER, "--out", tmp_path / "later").exit_code == 0
        assert asked(checkpoint, "pause", "over all").exit_code == 0
        assert asked(checkpoint, "target", "by key", "DELAY 100 MS").exit_code == 0
        running.process_all_available()
        shown = json.loads(asked(checkpoint, "list", "--json").output)["queries"]
        assert [(one["query"], one["state"]) for one in shown][2:] == [("over all", "paused"), ("later", "running")]
        stands = {name: one.state for name, one in running.status().items()}
        assert stands == {"pairs": "running", "by key": "running", "over all": "paused", "later": "running"}
        progress = running.progress()
        assert progress["by key"].late > 0
        assert progress["over all"].paused

    streamed("a", a[2:]), streamed("b", b[2:])
    last = handle.start(checkpoint, sinks=sinks, trigger="available")
    assert last.wait()
    ended = {name: "paused" if state == "paused" else "ended" for name, state in stands.items()}
    assert {name: one.state for name, one in last.status().items()} == ended
    assert not [one.target for one in last.status().values() if "MICROSECONDS" in one.target]
    read = {name: spark.read.parquet(sinks[name]["results"]).toArrow() for name in QUERIES}
    for name in ("pairs", "by key"):
        whole = local(QUERIES[name], a, b)
        assert same(read[name], whole), name
        assert spark.read.parquet(sinks[name]["late"]).count() == whole.report["late"] > 0
    assert same(read["over all"], local(QUERIES["over all"], a[:2], b[:2]))
    assert same(spark.read.parquet(str(tmp_path / "later")).toArrow(), local(LATER, a[2:], b[2:]))


@pytest.mark.long("the same of shards in process, in test_query_sets.py")
def test_a_query_that_fails_stops_alone(spark: SparkSession, streamed: Streamed, tmp_path: Path) -> None:
    tables = [pa.table({"ts": [1000 * i, 1000 * i + 500], "n": [1, n]}) for i, n in enumerate([1, 2**62, 1], 1)]
    texts = {
        "filtered": "SELECT n FROM s WHERE n * 4 > 3 WITH NO WAIT",
        "summed": "SELECT SUM(n * 1) AS total FROM s [RANGE 1 S] WITH NO WAIT",
    }
    handle = sw.queries(spark, streams={"s": streamed("s", tables)}, queries=texts)
    sinks = {name: str(tmp_path / name) for name in texts}
    running = handle.start(tmp_path / "checkpoint", sinks=sinks, trigger="available")
    assert running.wait()
    stands = running.status()
    assert (stands["filtered"].state, stands["summed"].state) == ("failed", "ended")
    assert stands["summed"].target == "NO WAIT"
    assert "integer overflow" in str(stands["filtered"].reason)
    assert "integer overflow" in str(running.progress()["filtered"].failure)
    assert spark.read.parquet(sinks["filtered"]).toArrow().column("n").to_pylist() == [1, 1]
    assert spark.read.parquet(sinks["summed"]).count() == 2
    again = handle.start(tmp_path / "checkpoint", sinks=sinks, trigger="available")
    assert again.wait()
    assert "query filtered has failed: integer overflow" in str(again.progress()["filtered"])


def test_what_cannot_be_run_is_refused_by_name_before_anything_starts(
    spark: SparkSession, streamed: Streamed, tmp_path: Path
) -> None:
    streams = {"a": streamed("a", pieces(0, 1, 10))}
    good = "SELECT v FROM a WITH NO WAIT"
    with pytest.raises(UsageError, match="two queries of the name x"):
        sw.queries(spark, streams=streams, queries=[("x", good), ("x", good)])
    with pytest.raises(QueryError, match=r"query bad: .*w"):
        sw.queries(spark, streams=streams, queries={"good": good, "bad": "SELECT w FROM a"})
    with pytest.raises(QueryError, match=r"query strange: .*nowhere"):
        sw.queries(spark, streams=streams, queries={"good": good, "strange": "SELECT v FROM nowhere"})
    handle = sw.queries(spark, streams=streams, queries={"good": good})
    with pytest.raises(UsageError, match="say where rows go"):
        handle.start(tmp_path / "checkpoint")
    with pytest.raises(UsageError, match="there is no query other"):
        handle.start(tmp_path / "checkpoint", sinks={"good": "out", "other": "out"})
    assert not (tmp_path / "checkpoint").exists()


def test_partitions_are_found_by_the_hash_of_spark(spark: SparkSession) -> None:
    found = spark.range(-300, 300).selectExpr("hash(cast(id as int)) AS h").collect()
    assert [one.h for one in found] == [hashed(number) for number in range(-300, 300)]
    for tasks in (1, 2, 7, 256):
        assert [hashed(number) % tasks for number in names_of_partitions(tasks)] == list(range(tasks))
