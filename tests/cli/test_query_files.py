"""Files of named queries on the command line: one folder and one verdict a query, and nothing starts that is wrong."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path

import pytest

from slackwater.cli import verify
from tests.cli.conftest import Command, Written, rows

Query = Callable[[str], Path]
PAIRS = "SELECT a.v AS av, b.v AS bv FROM a [RANGE 5 SECONDS], b [RANGE 5 SECONDS] WHERE a.key = b.key AND a.v > 0"
SUMS = "SELECT SUM(v) AS total, key FROM a [RANGE 1 SECOND] WHERE 0 < v GROUP BY key"
QUERIES = {
    "pairs": f"{PAIRS} WITH NO WAIT",
    "patient": f"{PAIRS} WITH DELAY 10 SECONDS",
    "sums": f"{SUMS} WITH NO WAIT",
    "high values": "SELECT v, key FROM a WHERE v > 1 WITH DELAY 1 SECOND",
    "met": f"{PAIRS} WITH RECALL 0.9 OVER 10 SECONDS",
}
FILE = "-- all of them\n" + "\n".join(f'CREATE QUERY "{name}" AS\n  {text};' for name, text in QUERIES.items()) + "\n"
REPORTED = ("results", "tuples", "in_time", "late", "filtered", "rejected", "held", "slack_ms", "latency_ms", "quality")


@pytest.fixture
def two(parquet: Written) -> list[str]:
    times = [1000, 90_000, 92_000, 86_000, 94_000, None]
    a = parquet("a", arrival=[0, 2, 4, 6, 8, 10], ts=times, key=[1, 2, 9, 2, 2, 2], v=[1, 2, 1, 3, 0, 5])
    b = parquet("b", arrival=[1, 3, 5, 7], ts=[1000, 90_500, 91_000, 95_000], key=[1, 2, 3, 2], v=[1, 2, 3, 4])
    return ["--stream", f"a={a}", "--stream", f"b={b}"]


@pytest.mark.parametrize("epoch", ["1", "2"])
def test_every_query_of_a_file_writes_what_it_writes_alone(
    command: Command, query: Query, two: list[str], tmp_path: Path, epoch: str
) -> None:
    done = command("run", query(FILE), *two, "--out", tmp_path / "all", "--epoch", epoch)
    assert done.code == 0, done.err
    for name, text in QUERIES.items():
        streams = two if " b " in text else two[:2]
        alone = command("run", text, *streams, "--out", tmp_path / "alone", "--epoch", epoch)
        assert alone.code == 0, alone.err
        mine, own = tmp_path / "all" / name, tmp_path / "alone"
        assert rows(mine / "results") == rows(own / "results"), name
        for side in ("late", "rejected"):
            parts = {path.relative_to(own) for path in own.glob(f"{side}/*/part-*.parquet")}
            assert {path.relative_to(mine) for path in mine.glob(f"{side}/*/part-*.parquet")} == parts
            for part in {path.parent for path in parts}:
                assert rows(mine / part) == rows(own / part), (name, part)
        report, expected = (json.loads((folder / "report.json").read_text()) for folder in (mine, own))
        assert {key: report[key] for key in REPORTED} == {key: expected[key] for key in REPORTED}, name


def test_a_run_prints_a_line_for_every_query(command: Command, query: Query, two: list[str], tmp_path: Path) -> None:
    done = command("run", query(FILE), *two, "--out", tmp_path / "out")
    assert done.code == 0, done.err
    lines = done.out.splitlines()
    assert lines[0].split() == ["query", "results", "late", "slack", "latency", "quality"]
    assert [line.split("  ")[0] for line in lines[1:6]] == list(QUERIES)
    assert "asked for 0.9" in lines[5]
    assert "a folder for each query" in done.out


def test_a_run_of_a_file_as_json_has_every_report(
    command: Command, query: Query, two: list[str], tmp_path: Path
) -> None:
    done = command("run", query(FILE), *two, "--out", tmp_path / "out", "--json")
    assert done.code == 0, done.err
    found = json.loads(done.out)["queries"]
    assert list(found) == list(QUERIES)
    for name, report in found.items():
        written = json.loads((tmp_path / "out" / name / "report.json").read_text())
        assert report["error"] is None
        assert report["out"] == str(tmp_path / "out" / name)
        assert report["results"] == written["results"] == rows(tmp_path / "out" / name / "results").num_rows


def test_a_run_of_one_query_has_json_too(command: Command, two: list[str], tmp_path: Path) -> None:
    done = command("run", QUERIES["pairs"], *two, "--out", tmp_path / "out", "--json")
    assert json.loads(done.out)["results"] == json.loads((tmp_path / "out" / "report.json").read_text())["results"] == 3


def test_the_text_of_a_file_may_be_given_itself(command: Command, two: list[str], tmp_path: Path) -> None:
    text = f"create query only as {QUERIES['pairs']}"
    assert command("run", text, *two, "--out", tmp_path / "out").code == 0
    assert rows(tmp_path / "out" / "only" / "results").num_rows == 3


def test_a_name_cannot_lead_out_of_the_folder(command: Command, two: list[str], tmp_path: Path) -> None:
    text = 'CREATE QUERY "../../x" AS SELECT v FROM a'
    assert command("run", text, *two[:2], "--out", tmp_path / "deep" / "out").code == 0
    assert not (tmp_path / "x").exists()
    assert (tmp_path / "deep" / "out" / "%2E.%2F..%2Fx" / "report.json").exists()


def test_results_can_be_counted(command: Command, two: list[str], tmp_path: Path) -> None:
    text = f"CREATE QUERY one AS {QUERIES['pairs']}; CREATE QUERY two AS {QUERIES['patient']}"
    assert command("run", text, *two, "--out", tmp_path / "out", "--count").code == 0
    assert rows(tmp_path / "out" / "two" / "results").schema.names == ["second", "count"]
    assert sum(rows(tmp_path / "out" / "two" / "results").column("count").to_pylist()) == 4


def test_every_query_of_a_file_is_judged(command: Command, query: Query, two: list[str]) -> None:
    done = command("verify", query(FILE), *two, "--json")
    assert done.code == 0, done.err
    found = json.loads(done.out)
    assert found["sound"] is True
    assert list(found["queries"]) == list(QUERIES)
    for name, text in QUERIES.items():
        alone = json.loads(command("verify", text, *(two if " b " in text else two[:2]), "--json").out)
        mine = found["queries"][name]
        assert mine["sound"] is True
        for own in (mine, alone):
            own.pop("latency_by_cause_ms")
        assert mine == alone, name
    shown = command("verify", query(FILE), *two)
    assert shown.code == 0
    assert [line.split("  ")[0] for line in shown.out.splitlines()[1:6]] == list(QUERIES)
    assert shown.out.count("sound") == len(QUERIES)


def test_one_wrong_verdict_makes_the_whole_file_bad(
    command: Command, query: Query, two: list[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    """A judge that is told of one result too few for one of the queries."""
    real = verify.judge_run

    def forgetful(bound, run, arrivals, tables, *rest):  # type: ignore[no-untyped-def]
        kept = [table.slice(1) for table in tables] if "total" in tables[0].column_names else tables
        return real(bound, run, arrivals, kept, *rest)

    monkeypatch.setattr(verify, "judge_run", forgetful)
    done = command("verify", query(FILE), *two, "--json")
    assert done.code == 1
    found = json.loads(done.out)
    assert found["sound"] is False
    assert [name for name, one in found["queries"].items() if not one["sound"]] == ["sums"]
    assert "wrong" in command("verify", query(FILE), *two).out


def test_a_query_that_fails_while_it_runs_stops_alone(
    command: Command, query: Query, parquet: Written, tmp_path: Path
) -> None:
    path = parquet("s", ts=[1, 2, 3], v=[1, 2**62, 3])
    text = (
        "CREATE QUERY fine AS SELECT v FROM s; CREATE QUERY broken AS SELECT SUM(v) AS t FROM s [1 s] WHERE v * v > 0;"
    )
    done = command("run", query(text), "--stream", f"s={path}", "--out", tmp_path / "out")
    assert done.code == 3
    assert "query broken failed: integer overflow in v * v > 0" in done.out
    assert rows(tmp_path / "out" / "fine" / "results").column("v").to_pylist() == [1, 2**62, 3]
    assert "overflow" in json.loads((tmp_path / "out" / "broken" / "report.json").read_text())["error"]
    judged = command("verify", query(text), "--stream", f"s={path}", "--json")
    found = json.loads(judged.out)
    assert (judged.code, found["queries"]["fine"]["sound"], found["queries"]["broken"]["sound"]) == (1, True, False)
    assert "query broken failed: " in command("verify", query(text), "--stream", f"s={path}").out


def test_explain_of_a_file_is_one_graph(command: Command, query: Query, two: list[str], tmp_path: Path) -> None:
    done = command("explain", query(FILE), *two, "--figure", tmp_path / "plan.png")
    assert done.code == 0, done.err
    assert [line for line in done.out.splitlines() if line.startswith("output of ")] == [
        "output of pairs: av, bv, _ts",
        "output of patient: av, bv, _ts",
        "output of sums: window_start, window_end, total, key",
        "output of high values: v, key, _ts",
        "output of met: av, bv, _ts",
    ]
    assert done.out.count("\u2514\u2500 source a") == 1
    assert "filter v > 0, for pairs, patient, sums, met, high values" in done.out
    assert (tmp_path / "plan.png").exists()
    data = json.loads(command("explain", query(FILE), *two, "--json").out)
    logs = {node["id"]: node["attributes"]["queries"] for node in data["nodes"] if node["kind"] == "slack"}
    together = ["pairs", "patient", "met"]
    assert logs == {"slack.a": together, "slack.a.2": ["sums", "high values"], "slack.b": together}


GOOD = "CREATE QUERY one AS SELECT v FROM a;\n"
REFUSED = [
    (GOOD + "CREATE QUERY one AS SELECT key FROM a;", "two queries are called one"),
    (GOOD + "CREATE QUERY two AS SELECT v FROM c;", "query two: there is no stream 'c'"),
    (GOOD + "CREATE QUERY two AS\n  SELECT w FROM a;", "query two: no column 'w' in stream a"),
    (GOOD + "CREATE QUERY two AS SELECT v FROM a OPTIONS (shape = 'binary');", "query two: "),
    (GOOD + "and so on", "expected another query here"),
    (GOOD + "SELECT v FROM a;", "a query of a file needs a name"),
    ("CREATE QUERY one SELECT v FROM a;", "expected AS behind the name of query one"),
    ("SELECT v FROM a; CREATE QUERY two AS SELECT v FROM a;", "one query at a time"),
    ("-- nothing\n", "a query begins with SELECT"),
    ("\n", "is empty"),
]


@pytest.mark.parametrize(("text", "message"), REFUSED, ids=[message for _, message in REFUSED])
@pytest.mark.parametrize("verb", ["run", "verify", "explain"])
def test_nothing_starts_where_one_query_is_wrong(
    command: Command, query: Query, two: list[str], tmp_path: Path, verb: str, text: str, message: str
) -> None:
    out = ["--out", tmp_path / "out"] if verb == "run" else []
    done = command(verb, query(text), *two[:2], *out)
    assert (done.code, done.out) == (2, "")
    assert message in done.err
    assert "Traceback" not in done.err
    assert not (tmp_path / "out").exists()


def test_the_place_of_an_error_is_that_in_the_file(command: Command, query: Query, two: list[str]) -> None:
    done = command("explain", query(GOOD + "\n-- a note\nCREATE QUERY two AS\n  SELECT key,\n    w FROM a;"), *two[:2])
    assert "  line 6:     w FROM a;\n              ^" in done.err


def test_streams_and_options_are_checked_for_the_whole_file(
    command: Command, query: Query, two: list[str], tmp_path: Path
) -> None:
    unused = command("run", query(GOOD), *two, "--out", tmp_path / "out")
    assert (unused.code, "--stream b: no query of the file reads it; they read a" in unused.err) == (2, True)
    twice = command("run", query(GOOD), *two[:2], *two[:2], "--out", tmp_path / "out")
    assert (twice.code, "a stream is given twice" in twice.err) == (2, True)
    out = command("run", query(GOOD), *two[:2])
    assert (out.code, "--out FOLDER is missing" in out.err) == (2, True)
    ahead = command("run", query(GOOD), *two[:2], "--out", tmp_path / "out", "--max-ahead", "soon")
    assert (ahead.code, "--max-ahead" in ahead.err, "query one" in ahead.err) == (2, True, False)
    count = command("run", query(GOOD + f"CREATE QUERY two AS {SUMS};"), *two[:2], "--out", tmp_path / "out", "--count")
    assert (count.code, "query two: --count counts the results of a join" in count.err) == (2, True)
    assert not (tmp_path / "out").exists()


def test_columns_that_a_star_cannot_give_are_told_with_the_query(
    command: Command, query: Query, parquet: Written, tmp_path: Path
) -> None:
    path = parquet("s", ts=[1, 2], v=[1, 2], tags=[[1], [2]])
    text = query("CREATE QUERY all_of_it AS SELECT * FROM s; CREATE QUERY v AS SELECT v FROM s;")
    done = command("run", text, "--stream", f"s={path}", "--out", tmp_path / "out")
    assert done.code == 0
    assert "note: query all_of_it: s.tags (list<" in done.err
    assert "query v" not in done.err
