"""`slackwater run`: what it writes, and where."""

from __future__ import annotations

import json
from collections.abc import Callable
from datetime import UTC, datetime
from pathlib import Path

import pyarrow as pa
import pytest

from tests.cli.conftest import Command, Written, rows

UTC_MICROSECONDS = pa.timestamp("us", "UTC")
Query = Callable[[str], Path]
JOIN = """
SELECT a.key, a.v AS av, b.v AS bv FROM a [RANGE 5 SECONDS], b [RANGE 5 SECONDS] WHERE a.key = b.key WITH COMPLETE
"""


def at(milliseconds: int) -> datetime:
    return datetime.fromtimestamp(milliseconds / 1000, UTC)


@pytest.fixture
def two(parquet: Written) -> list[str]:
    a = parquet("a", arrival=[0, 2, 4], ts=[1000, 2000, 1500], key=["x", "y", "x"], v=[1, 2, 3])
    b = parquet("b", arrival=[1, 3], ts=[1000, 2500], key=["x", "y"], v=[0.5, 1.5])
    return ["--stream", f"a={a}", "--stream", f"b={b}"]


def test_a_query_may_be_given_as_text(command: Command, query: Query, two: list[str], tmp_path: Path) -> None:
    for name, given in (("file", query(JOIN)), ("text", JOIN.strip())):
        assert command("run", given, *two, "--out", tmp_path / name).code == 0
    assert rows(tmp_path / "text" / "results") == rows(tmp_path / "file" / "results")


def test_a_join_writes_the_select_list_and_the_timestamp(
    command: Command, query: Query, two: list[str], tmp_path: Path
) -> None:
    done = command("run", query(JOIN), *two, "--out", tmp_path / "out", "--epoch", "1000")
    assert done.code == 0, done.err
    results = rows(tmp_path / "out" / "results")
    assert results.schema.names == ["key", "av", "bv", "_ts"]
    assert results.schema.types == [pa.string(), pa.int64(), pa.float64(), UTC_MICROSECONDS]
    assert sorted(results.to_pylist(), key=lambda row: (row["_ts"], row["av"])) == [
        {"key": "x", "av": 1, "bv": 0.5, "_ts": at(1000)},
        {"key": "x", "av": 3, "bv": 0.5, "_ts": at(1500)},
        {"key": "y", "av": 2, "bv": 1.5, "_ts": at(2500)},
    ]
    assert "results" in done.out
    assert "3" in done.out


def test_the_report_has_every_promised_number(command: Command, query: Query, two: list[str], tmp_path: Path) -> None:
    assert command("run", query(JOIN), *two, "--out", tmp_path / "out").code == 0
    report = json.loads((tmp_path / "out" / "report.json").read_text())
    assert set(report["slack_ms"]) == {"avg", "p50", "p95", "max", "last"}
    assert set(report["latency_ms"]) == {"avg", "p50", "p95", "p99"}
    assert report["tuples"] == 5
    assert report["tuples"] == report["in_time"] + report["late"] + report["filtered"] + report["rejected"]
    assert (report["held"], report["runtime"], report["epochs"], report["interrupted"]) == (0, "local", 5, False)
    assert report["seconds"] > 0
    assert report["throughput_tps"] > 0
    assert report["slack_ms"]["max"] == report["slack_ms"]["last"] == 500.0


def test_a_late_row_is_written_with_its_delay_and_the_watermark_it_met(
    command: Command, query: Query, parquet: Written, tmp_path: Path
) -> None:
    path = parquet("s", ts=[1000, 5000, 2000, 6000], stream=["p", "q", "r", "p"], v=[1, 2, 3, 4])
    text = "SELECT COUNT(*) AS n FROM s [RANGE 1 SECOND] WITH NO WAIT"
    assert command("run", query(text), "--stream", f"s={path}", "--out", tmp_path / "out").code == 0
    late = rows(tmp_path / "out" / "late" / "s")
    assert late.to_pylist() == [
        {"stream": "s", "delay": 3000.0, "watermark": at(5000), "ts": 2000, "s_stream": "r", "v": 3}
    ]
    assert not (tmp_path / "out" / "rejected").exists()


def test_a_rejected_row_is_written_with_its_reason(
    command: Command, query: Query, parquet: Written, tmp_path: Path
) -> None:
    path = parquet("s", ts=pa.array([1000, None, 86_400_000 * 3, 1100]), v=[1, 2, 3, 4], tags=[[1], [2], [3], []])
    text = "SELECT v FROM s WITH NO WAIT"
    done = command("run", query(text), "--stream", f"s={path}", "--out", tmp_path / "out")
    assert done.code == 0, done.err
    rejected = rows(tmp_path / "out" / "rejected" / "s")
    assert rejected.schema.names == ["stream", "reason", "ts", "v", "tags"]
    assert rejected.column("reason").to_pylist() == ["null_time", "ahead"]
    assert rejected.column("tags").to_pylist() == [[2], [3]]
    assert "rejected as null_time: 1" in done.out
    assert "rejected as ahead: 1" in done.out
    report = json.loads((tmp_path / "out" / "report.json").read_text())
    assert report["rejected_reasons"] == {"null_time": 1, "ahead": 1}


def test_an_aggregate_writes_its_window_then_the_select_list(
    command: Command, query: Query, parquet: Written, tmp_path: Path
) -> None:
    path = parquet("s", ts=[0, 999, 1000], key=["x", "x", "y"], v=[1, 2, 4])
    text = "SELECT SUM(v) AS total, key FROM s [RANGE 1 SECOND] GROUP BY key WITH DELAY 2 SECONDS"
    assert command("run", query(text), "--stream", f"s={path}", "--out", tmp_path / "out").code == 0
    results = rows(tmp_path / "out" / "results")
    assert results.schema.names == ["window_start", "window_end", "total", "key"]
    assert results.schema.types == [UTC_MICROSECONDS, UTC_MICROSECONDS, pa.int64(), pa.string()]
    assert [tuple(row.values()) for row in results.to_pylist()] == [
        (at(0), at(1000), 3, "x"),
        (at(1000), at(2000), 4, "y"),
    ]


def test_select_star_prefixes_only_names_that_collide(
    command: Command, query: Query, parquet: Written, tmp_path: Path
) -> None:
    a = parquet("a", arrival=[0], ts=[1], key=[7], left=[True])
    b = parquet("b", arrival=[1], ts=[2], key=[7], right=pa.array([2.5], pa.float32()))
    text = "SELECT * FROM a [5 SEC], b [5 SEC] WHERE a.key = b.key"
    streams = ["--stream", f"a={a}", "--stream", f"b={b}"]
    assert command("run", query(text), *streams, "--out", tmp_path / "out").code == 0
    results = rows(tmp_path / "out" / "results")
    names = ["a_arrival", "a_ts", "a_key", "left", "b_arrival", "b_ts", "b_key", "right", "_ts"]
    assert results.schema.names == names
    assert results.schema.field("right").type == pa.float32()
    assert results.schema.field("a_ts").type == UTC_MICROSECONDS


def test_count_writes_results_per_second(command: Command, query: Query, parquet: Written, tmp_path: Path) -> None:
    a = parquet("a", arrival=[0, 1, 4], ts=[100, 200, 1500], key=[1, 1, 1], v=[0, 0, 0])
    b = parquet("b", arrival=[2, 3], ts=[300, 900], key=[1, 1], v=[0, 0])
    streams = ["--stream", f"a={a}", "--stream", f"b={b}"]
    assert command("run", query(JOIN), *streams, "--count", "--out", tmp_path / "out").code == 0
    results = rows(tmp_path / "out" / "results")
    assert results.schema.names == ["second", "count"]
    assert results.schema.types == [UTC_MICROSECONDS, pa.int64()]
    assert results.to_pylist() == [{"second": at(0), "count": 4}, {"second": at(1000), "count": 2}]
    assert json.loads((tmp_path / "out" / "report.json").read_text())["results"] == 6


def test_a_run_without_results_still_writes_their_schema(
    command: Command, query: Query, parquet: Written, tmp_path: Path
) -> None:
    a = parquet("a", arrival=[0], ts=[1], key=[1], v=["t"])
    b = parquet("b", arrival=[1], ts=[2], key=[2], v=[0.5])
    for extra, names in (([], ["key", "av", "bv", "_ts"]), (["--count"], ["second", "count"])):
        done = command(
            "run", query(JOIN), "--stream", f"a={a}", "--stream", f"b={b}", "--out", tmp_path / "out", *extra
        )
        assert done.code == 0, done.err
        results = rows(tmp_path / "out" / "results")
        assert (results.num_rows, results.schema.names) == (0, names)


def test_a_second_run_replaces_the_first_and_touches_nothing_else(
    command: Command, query: Query, parquet: Written, tmp_path: Path
) -> None:
    out = tmp_path / "out"
    late = parquet("late", ts=[5000, 1000, 6000], v=[1, 2, 3])
    orderly = parquet("orderly", ts=[1000, 2000], v=[1, 2])
    text = query("SELECT v FROM s WITH NO WAIT")
    assert command("run", text, "--stream", f"s={late}", "--out", out).code == 0
    assert rows(out / "late" / "s").num_rows == 1
    (out / "notes.txt").write_text("mine")
    (out / "results" / "mine.parquet").write_text("mine")
    assert command("run", text, "--stream", f"s={orderly}", "--out", out).code == 0
    assert rows(out / "results").column("v").to_pylist() == [1, 2]
    assert list(out.glob("late/*/*.parquet")) == []
    assert (out / "notes.txt").exists()
    assert (out / "results" / "mine.parquet").exists()


@pytest.mark.parametrize(("epoch", "epochs"), [("1", 6), ("2", 3), ("4", 1), ("1 second", 2), ("500ms", 5)])
def test_epochs_are_cut_as_asked(
    command: Command, query: Query, parquet: Written, tmp_path: Path, epoch: str, epochs: int
) -> None:
    path = parquet("s", ts=[0, 500, 1000, 1500, 2000, 2500], v=[1, 2, 3, 4, 5, 6])
    text = query("SELECT v FROM s WITH NO WAIT")
    done = command("run", text, "--stream", f"s={path}", "--epoch", epoch, "--out", tmp_path / "out")
    assert done.code == 0, done.err
    assert json.loads((tmp_path / "out" / "report.json").read_text())["epochs"] == epochs
    assert rows(tmp_path / "out" / "results").column("v").to_pylist() == [1, 2, 3, 4, 5, 6]


def test_time_and_its_unit_are_as_named(command: Command, query: Query, parquet: Written, tmp_path: Path) -> None:
    path = parquet("s", moment=[3, 1, 2], ts=["not", "a", "time"], v=[3, 1, 2])
    text = query("SELECT v, moment FROM s WITH DELAY 1 MINUTE")
    for unit, scale in (("s", 1000.0), ("ms", 1.0), ("us", 0.001)):
        options = ("--time", "moment", "--time-unit", unit, "--out", tmp_path / "out")
        assert command("run", text, "--stream", f"s={path}", *options).code == 0
        results = rows(tmp_path / "out" / "results")
        assert results.column("v").to_pylist() == [1, 2, 3]
        moments = [datetime.fromtimestamp(t * scale / 1000, UTC) for t in (1, 2, 3)]
        assert results.column("moment").to_pylist() == results.column("_ts").to_pylist() == moments


def test_a_file_can_hold_many_streams(command: Command, query: Query, parquet: Written, tmp_path: Path) -> None:
    path = parquet(
        "many",
        arrival=range(6),
        ts=[1, 2, 3, 4, 5, 6],
        market=["spot:x", "cm", "spot:y", "cm", "spot:x", "spot:z"],
        open=[True, True, True, False, True, True],
        v=[1, 2, 3, 4, 5, 6],
    )
    text = query("SELECT a.v AS av, b.v AS bv FROM a [5 SEC], b [5 SEC]")
    streams = [f"a={path}?market=spot:x&market=spot:y", f"b={path}?market=cm&open=true"]
    done = command("run", text, "--stream", streams[0], "--stream", streams[1], "--out", tmp_path / "out")
    assert done.code == 0, done.err
    pairs = rows(tmp_path / "out" / "results").select(["av", "bv"]).to_pylist()
    assert [tuple(pair.values()) for pair in pairs] == [(1, 2), (3, 2), (5, 2)]


def test_streams_out_of_one_file_need_no_arrival_column(
    command: Command, query: Query, parquet: Written, tmp_path: Path
) -> None:
    path = parquet("many", ts=[5000, 1000, 2000, 9000, 9000], market=["a", "b", "b", "a", "b"], v=[1, 2, 3, 4, 5])
    text = query("SELECT a.v AS av, b.v AS bv FROM a [1 SEC], b [1 SEC] WITH NO WAIT")
    streams = ["--stream", f"a={path}?market=a", "--stream", f"b={path}?market=b"]
    done = command("run", text, *streams, "--epoch", "1", "--out", tmp_path / "out")
    assert done.code == 0, done.err
    report = json.loads((tmp_path / "out" / "report.json").read_text())
    assert (report["in_time"], report["late"]) == (5, 0)


def test_a_self_join_reads_one_stream_under_two_names(
    command: Command, query: Query, parquet: Written, tmp_path: Path
) -> None:
    path = parquet("positions", ts=[0, 100, 6000], who=["p", "q", "r"])
    text = query("SELECT l.who AS one, r.who AS other FROM positions AS l [5 SEC], positions AS r [5 SEC]")
    done = command("run", text, "--stream", f"positions={path}", "--out", tmp_path / "out")
    assert done.code == 0, done.err
    pairs = {tuple(row.values())[:2] for row in rows(tmp_path / "out" / "results").to_pylist()}
    assert pairs == {("p", "p"), ("p", "q"), ("q", "p"), ("q", "q"), ("r", "r")}


def test_an_alias_cannot_lead_out_of_the_folder(
    command: Command, query: Query, parquet: Written, tmp_path: Path
) -> None:
    path = parquet("s", ts=[5000, 1000, 6000], v=[1, 2, 3])
    text = query('SELECT v FROM s AS "../../x" WITH NO WAIT')
    done = command("run", text, "--stream", f"s={path}", "--out", tmp_path / "deep" / "out")
    assert done.code == 0, done.err
    assert not (tmp_path / "deep" / "x").exists()
    assert rows(tmp_path / "deep" / "out" / "late" / "%2E.%2F..%2Fx").column("v").to_pylist() == [2]


def test_select_star_says_which_columns_it_cannot_give(
    command: Command, query: Query, parquet: Written, tmp_path: Path
) -> None:
    path = parquet("s", ts=[1, 2], v=[1, 2], tags=[[1], [2]])
    star = command("run", query("SELECT * FROM s"), "--stream", f"s={path}", "--out", tmp_path / "out")
    assert (star.code, "note: s.tags (list<" in star.err) == (0, True)
    assert rows(tmp_path / "out" / "results").schema.names == ["ts", "v", "_ts"]
    assert command("run", query("SELECT v FROM s"), "--stream", f"s={path}", "--out", tmp_path / "out").err == ""


def test_functions_of_a_python_file_can_be_called_in_a_query(
    command: Command, query: Query, two: list[str], tmp_path: Path
) -> None:
    functions = tmp_path / "mine.py"
    functions.write_text(
        "import slackwater as sw\n\n"
        "@sw.register('twice_over', args=[sw.Kind.INT], result=sw.Kind.INT)\n"
        "def twice_over(v):\n    return 2 * v\n"
    )
    text = query(JOIN.replace("a.v AS av", "twice_over(a.v) AS av"))
    done = command("run", text, *two, "--out", tmp_path / "out", "--functions", functions)
    assert done.code == 0, done.err
    assert rows(tmp_path / "out" / "results").column("av").to_pylist() == [2, 4]
    broken = tmp_path / "broken.py"
    broken.write_text("1 / 0\n")
    refused = command("run", text, *two, "--out", tmp_path / "out", "--functions", broken)
    assert (refused.code, "ZeroDivisionError" in refused.err) == (2, True)


def test_arrival_times_give_a_wall_latency_in_their_own_unit(
    command: Command, query: Query, parquet: Written, tmp_path: Path
) -> None:
    moments = [1_010_000_000, 2_010_000_000, 3_510_000_000]
    s = parquet("s", ts=[1000, 2000, 3500], v=[1, 2, 3], came=moments)
    text = query("SELECT v FROM s WITH DELAY 1 SECOND")
    done = command("run", text, "--stream", f"s={s}", "--out", tmp_path / "out", "--arrival-time", "came:ns")
    assert done.code == 0, done.err
    report = json.loads((tmp_path / "out" / "report.json").read_text())
    assert report["latency_ms"]["avg"] == pytest.approx((1000 + 1500) / 2)
    assert report["wall_latency_ms"]["avg"] == pytest.approx((1010 + 1510) / 2)


def test_a_static_relation_is_joined_with_a_stream_and_its_rows_keep_their_order_of_arrival(
    command: Command, query: Query, two: list[str], parquet: Written, tmp_path: Path
) -> None:
    names = parquet("names", id=["x", "x", "z"], name=["Ada", "Eve", "Bob"])
    text = "SELECT a.v AS av, c.name, b.v AS bv FROM a [5 s] JOIN names c ON a.key = c.id JOIN b [5 s] ON a.key = b.key"
    given = [*two, "--table", f"names={names}", "--epoch", "1"]
    done = command("run", query(f"{text} WITH NO WAIT"), *given, "--out", tmp_path / "out")
    assert done.code == 0, done.err
    found = [(row["av"], row["name"]) for row in rows(tmp_path / "out" / "results").to_pylist()]
    assert sorted(found) == [(1, "Ada"), (1, "Eve"), (3, "Ada"), (3, "Eve")]
    report = json.loads((tmp_path / "out" / "report.json").read_text())
    # Each row with the key x stands there twice, once for each name; y has none.
    assert (report["tuples"], report["filtered"]) == (7, 1)
    verified = command("verify", query(f"{text} WITH NO WAIT"), *given)
    assert verified.code == 0, verified.err
    both = f"CREATE QUERY named AS {text}; CREATE QUERY all AS SELECT v FROM a WITH DELAY 9 s"
    done = command("run", query(both), *given, "--out", tmp_path / "both")
    assert done.code == 0, done.err
    assert [rows(tmp_path / "both" / name / "results").num_rows for name in ("named", "all")] == [4, 3]
    assert "source a JOIN names c ON key = id" in command("explain", query(both), *given[:-2]).out
    refused = command("run", query(text), *two, "--table", f"a={names}")
    assert (refused.code, "--table a: there is another stream or table of this name" in refused.err) == (2, True)
    missing = command("run", query(text), *two)
    assert "names" in missing.err
