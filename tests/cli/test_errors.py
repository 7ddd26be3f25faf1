"""What is wrong is said in one message, with its place and an exit code, before anything is written."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pyarrow as pa
import pytest

from tests.cli.conftest import Command, Written

Query = Callable[[str], Path]
SELECTION = "SELECT v FROM s WITH NO WAIT"


@pytest.fixture
def stream(parquet: Written) -> str:
    return f"s={parquet('s', ts=[1, 2], v=[1, 2], tags=[[1], [2]], name=['x', 'y'])}"


def assert_refused(command: Command, code: int, message: str, *arguments: object) -> str:
    done = command(*arguments)
    assert done.code == code, done.out + done.err
    assert message in done.err
    assert "Traceback" not in done.err
    return done.err


@pytest.mark.parametrize(
    ("text", "message", "place"),
    [
        ("SELECT w FROM s", "no column 'w'", "       ^"),
        ("SELECT v FROM s WHERE name > 3", "cannot mix text and an integer", None),
        ("SELECT v FROM s\nWHERE nope(v) > 3", "nope", "line 2: WHERE nope(v) > 3"),
        ("SELECT tags FROM s", "holds list<", "       ^^^^"),
        ("SELECT v FROM s WHERE s.tags = 1", "holds list<", None),
        ("SELECT v FROM s LIMIT 3", "LIMIT", "                ^^^^^"),
        ("SELECT v FROM s HAVING v > 3", "HAVING", None),
        ("SELECT SUM(v) FROM s", "needs a window", None),
        ("SELECT v FROM", "", None),
        ("", "", None),
    ],
)
def test_a_wrong_query_is_refused_at_its_place(
    command: Command, query: Query, stream: str, tmp_path: Path, text: str, message: str, place: str | None
) -> None:
    err = assert_refused(command, 2, message, "run", query(text), "--stream", stream, "--out", tmp_path / "out")
    if place is not None:
        assert place in err
    assert not (tmp_path / "out").exists()


def test_the_place_is_shown_under_a_long_line(command: Command, query: Query, stream: str, tmp_path: Path) -> None:
    text = f"SELECT {', '.join(f'v AS v{i}' for i in range(40))}, wrong FROM s"
    err = assert_refused(command, 2, "wrong", "run", query(text), "--stream", stream, "--out", tmp_path / "out")
    line, marks = err.rstrip("\n").split("\n")[-2:]
    assert line[marks.index("^") :].startswith("wrong")


@pytest.mark.parametrize(
    ("options", "message"),
    [
        (["--epoch", "0"], "at least one tuple"),
        (["--epoch", "soon"], "--epoch: 'soon' is not a duration"),
        (["--time-unit", "minutes"], "--time-unit minutes"),
        (["--time", "when"], "no time column 'when'"),
        (["--time", "tags"], "cannot be an event time"),
        (["--idle-timeout", "5"], "--idle-timeout"),
        (["--max-ahead", "far"], "--max-ahead"),
        (["--initial-slack", "x"], "--initial-slack"),
        (["--idle-timeout", "0 s"], "--idle-timeout: it is a duration from 1 us to 1000000 d, not 0 s"),
        (["--max-behind", "0 s"], "--max-behind: it is a duration from 1 us"),
        (["--max-behind", "long ago"], "--max-behind"),
        (["--max-ahead", "0 s"], "--max-ahead: it is a duration from 1 us"),
        (["--max-ahead", "99999999999999999999 d"], "--max-ahead: '99999999999999999999 d' is longer than any stream"),
        (["--epoch", "99999999999999999999"], "an epoch has at most 1,000,000,000,000 tuples"),
        (["--epoch", "9" * 5000], "an epoch has at most 1,000,000,000,000 tuples"),
        (["--epoch", "\u00b2"], "is not a duration"),
        (["--epoch", "2000000 d"], "--epoch: '2000000 d' is longer than any stream"),
        (["--runtime", "flink"], "it is local or spark"),
        (["--arrival-time", "nope"], "no column 'nope'"),
        (["--sream", "a=b"], "No such option"),
    ],
)
def test_a_wrong_option_is_refused(
    command: Command, query: Query, stream: str, tmp_path: Path, options: list[str], message: str
) -> None:
    arguments = ["run", query(SELECTION), "--stream", stream, "--out", tmp_path / "out", *options]
    assert_refused(command, 2, message, *arguments)
    assert not (tmp_path / "out").exists()


HUGE = "99999999999999999999999"


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (
            ["workload", "soccer", "--minutes", "1e308"],
            "a workload lasts from 1 millisecond to 10,080 minutes, not 1e+308",
        ),
        (["workload", "soccer", "--minutes", HUGE], "a workload lasts from 1 millisecond to 10,080 minutes, not 1e+23"),
        (["workload", "soccer", "--minutes", "nan"], "not nan"),
        (["workload", "soccer", "--seed", "-1"], "--seed"),
        (["demo", "--runtime", "local", "--fast", "--seconds", HUGE], f"--seconds {HUGE}: a game of the demo lasts"),
        (["demo", "--runtime", "local", "--page-port", "-1"], "page on 127.0.0.1, port -1: a port is from 0 to 65535"),
    ],
)
def test_a_number_beyond_all_reason_is_refused(
    command: Command, tmp_path: Path, arguments: list[str], message: str
) -> None:
    out = [] if arguments[0] == "demo" else ["--out", tmp_path / "out"]
    assert_refused(command, 2, message, *arguments, *out)
    assert not (tmp_path / "out").exists()


@pytest.mark.parametrize(
    ("options", "message"),
    [
        (["--runtime", "spark", "--shards", HUGE], f"--shards {HUGE}: there are from 1 to 100,000"),
        (["--metrics", "70000"], "metrics on 127.0.0.1, port 70000: a port is from 0 to 65535; choose another port"),
        (["--idle-timeout", "1" * 5000 + " d"], "is longer than any stream"),
        (["--idle-timeout", "0." + "1" * 5000 + " d"], "is finer than a microsecond"),
    ],
)
def test_a_number_beyond_all_reason_is_refused_by_a_run(
    command: Command, query: Query, stream: str, tmp_path: Path, options: list[str], message: str
) -> None:
    arguments = ["run", query(SELECTION), "--stream", stream, "--out", tmp_path / "out", *options]
    err = assert_refused(command, 2, message, *arguments)
    assert len(err) < 400


def test_a_functions_file_that_ends_the_process_is_named(
    command: Command, query: Query, stream: str, tmp_path: Path
) -> None:
    file = tmp_path / "mine.py"
    arguments = ["run", query(SELECTION), "--stream", stream, "--out", tmp_path / "out", "--functions", file]
    for text, message in (
        ("import sys; sys.exit()", "it ends the process"),
        ("import sys; sys.exit('no licence')", "SystemExit: no licence"),
        ("raise SystemExit(3)", "SystemExit: 3"),
        ("class E(BaseException): pass\nraise E('odd')", "E: odd"),
    ):
        file.write_text(text)
        assert_refused(command, 2, f"--functions {file}: ", *arguments)
        assert_refused(command, 2, message, *arguments)


@pytest.mark.parametrize(
    ("given", "message"),
    [
        ("s", "NAME=FILE.parquet"),
        ("=f.parquet", "NAME=FILE.parquet"),
        ("t={path}", "the query reads s"),
        ("s={path}?", "column=value"),
        ("s={path}?v", "column=value"),
        ("s={path}?v=1&w", "column=value"),
        ("s={path}?w=1", "has no column 'w'"),
        ("s={path}?v=one", "no value of column 'v'"),
        ("s={path}?tags=1", "no value of column 'tags'"),
    ],
)
def test_a_wrong_stream_is_refused(
    command: Command, query: Query, stream: str, tmp_path: Path, given: str, message: str
) -> None:
    given = given.format(path=stream.partition("=")[2])
    assert_refused(command, 2, message, "run", query(SELECTION), "--stream", given, "--out", tmp_path / "out")


def test_a_stream_too_many_or_twice_is_refused(command: Command, query: Query, stream: str, tmp_path: Path) -> None:
    out = ["--out", tmp_path / "out"]
    text = query(SELECTION)
    assert_refused(command, 2, "twice", "run", text, "--stream", stream, "--stream", stream, *out)
    assert_refused(command, 2, "does not read it", "run", text, "--stream", stream, "--stream", f"u{stream[1:]}", *out)
    assert_refused(command, 2, "--stream", "run", text, *out)
    assert_refused(command, 2, "--out FOLDER is missing", "run", text, "--stream", stream)


def test_several_files_without_arrival_are_refused(
    command: Command, query: Query, parquet: Written, tmp_path: Path
) -> None:
    a, b = parquet("a", ts=[1], v=[1], arrival=[1]), parquet("b", ts=[1], v=[1])
    text = query("SELECT a.v AS av FROM a [5 SEC], b [5 SEC]")
    streams = ["--stream", f"a={a}", "--stream", f"b={b}", "--out", tmp_path / "out"]
    assert_refused(command, 2, "stream b has no column 'arrival'", "run", text, *streams)
    b = parquet("b", ts=[1], v=[1], arrival=[1.5])
    assert_refused(command, 2, "must hold integers", "run", text, *streams)
    b = parquet("b", ts=[1], v=[1], arrival=pa.array([None], pa.int64()))
    assert_refused(command, 3, "nulls", "run", text, *streams)


def test_data_that_cannot_be_read_gives_3(command: Command, query: Query, tmp_path: Path) -> None:
    text, out = query(SELECTION), tmp_path / "out"
    assert_refused(command, 3, "there is no file", "run", text, "--stream", f"s={tmp_path}/no.parquet", "--out", out)
    (tmp_path / "bad.parquet").write_text("this is no parquet")
    assert_refused(command, 3, "cannot be read", "run", text, "--stream", f"s={tmp_path}/bad.parquet", "--out", out)


def test_an_overflow_is_an_error_of_the_data(command: Command, query: Query, parquet: Written, tmp_path: Path) -> None:
    path = parquet("s", ts=[1, 2], v=[2**63 - 1, 1])
    for text in ("SELECT SUM(v) AS n FROM s [1 SEC]", "SELECT v + 1 AS n FROM s", "SELECT v FROM s WHERE v * 2 > 0"):
        arguments = ["run", query(text), "--stream", f"s={path}", "--out", tmp_path / "out"]
        assert_refused(command, 3, "integer overflow", *arguments)


def test_a_query_that_is_not_there_or_no_text_is_refused(command: Command, stream: str, tmp_path: Path) -> None:
    out = ["--stream", stream, "--out", tmp_path / "out"]
    assert_refused(command, 2, "cannot be read", "run", tmp_path / "no.sql", *out)
    (tmp_path / "binary.sql").write_bytes(b"\xff\xfe\x00")
    assert_refused(command, 2, "cannot be read", "run", tmp_path / "binary.sql", *out)


@pytest.mark.parametrize("option", ["--period", "--interval"])
def test_recall_is_not_measured_over_nothing(command: Command, query: Query, stream: str, option: str) -> None:
    arguments = ["verify", query(SELECTION), "--stream", stream, option, "0 s"]
    assert_refused(command, 2, f"{option} 0 s: it must be longer than nothing", *arguments)


def test_a_folder_that_cannot_be_made_is_one_message(
    command: Command, query: Query, stream: str, tmp_path: Path
) -> None:
    (tmp_path / "file").write_text("")
    text = query(SELECTION)
    assert_refused(command, 2, "this is a file", "run", text, "--stream", stream, "--out", tmp_path / "file")
    err = assert_refused(command, 1, "file", "run", text, "--stream", stream, "--out", tmp_path / "file" / "deeper")
    assert "nothing can be written there: Not a directory" in err
    err = assert_refused(command, 1, "/proc/slackwater", "run", text, "--stream", stream, "--out", "/proc/slackwater")
    assert "nothing can be written there: " in err
    assert "Errno" not in err


@pytest.mark.parametrize("text", ["", "  ", "\n"])
def test_an_empty_query_is_called_empty(command: Command, stream: str, tmp_path: Path, text: str) -> None:
    assert_refused(command, 2, "the query is empty", "run", text, "--stream", stream, "--out", tmp_path / "out")


def test_a_text_that_is_no_file_is_read_as_the_query_it_is(command: Command, stream: str, tmp_path: Path) -> None:
    out = ["--stream", stream, "--out", tmp_path / "out"]
    assert_refused(command, 2, "a query begins with SELECT", "run", "FROM s\nSELECT v", *out)
    assert_refused(command, 2, "a query begins with SELECT", "run", "DELETE FROM s WHERE " + "v = 1 AND " * 99, *out)


@pytest.mark.parametrize(
    ("column", "code", "message"),
    [
        ("name", 3, "2 rows have no arrival time in column 'name'; row 0 holds 'x', and not a time as ISO 8601"),
        ("tags", 2, "column 'tags' of type list<"),
        ("ok", 2, "column 'ok' of type bool cannot be a time of arrival"),
        ("gap", 3, "1 rows have no arrival time in column 'gap'; row 1 holds nothing"),
    ],
)
def test_what_is_no_time_of_arrival_is_told(
    command: Command, query: Query, parquet: Written, tmp_path: Path, column: str, code: int, message: str
) -> None:
    path = parquet("s", ts=[1, 2], v=[1, 2], tags=[[1], [2]], name=["x", "y"], ok=[True, False], gap=[1, None])
    options = ["--stream", f"s={path}", "--out", tmp_path / "out", "--arrival-time", column]
    assert_refused(command, code, message, "run", query(SELECTION), *options)


def test_an_aggregate_cannot_be_counted(command: Command, query: Query, stream: str, tmp_path: Path) -> None:
    text = query("SELECT COUNT(*) AS n FROM s [1 SEC]")
    for arguments in (["run", text, "--out", tmp_path / "out"], ["verify", text], ["explain", text]):
        assert_refused(command, 2, "--count", *arguments, "--stream", stream, "--count")
