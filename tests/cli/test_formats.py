"""The command line over streams that are in other files than one of parquet."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.cli.conftest import Command, rows

TEXT = "SELECT COUNT(*) AS n, SUM(v) AS total FROM s [RANGE 1 SECOND] WITH COMPLETE"


@pytest.mark.parametrize("given", ["{0}/day-1.csv", "{0}", "{0}/day-*.csv", "{0}/day-*.csv?kind=a"])
def test_streams_of_csv_are_run(command: Command, tmp_path: Path, given: str) -> None:
    folder = tmp_path / "days"
    folder.mkdir()
    for day in (1, 2):
        lines = [f"2026-01-01T00:00:0{day}.{i}00Z,{i},{'ab'[i % 2]}" for i in range(4)]
        (folder / f"day-{day}.csv").write_text("\n".join(["ts,v,kind", *lines]))
    done = command("run", TEXT, "--stream", f"s={given.format(folder)}", "--out", tmp_path / "out")
    assert done.code == 0, done.err
    total = 2 if "kind" in given else 6
    assert rows(tmp_path / "out" / "results").column("total").to_pylist() == [total] * (1 if "day-1" in given else 2)


def test_files_of_other_formats_and_empty_patterns_give_3(command: Command, tmp_path: Path) -> None:
    (tmp_path / "s.xml").write_text("<s/>")
    for given, message in (("s.xml", ".csv.gz, .jsonl"), ("day-*.csv", "no file has a name like")):
        done = command("run", TEXT, "--stream", f"s={tmp_path / given}", "--out", tmp_path / "out")
        assert (done.code, message in done.err) == (3, True), done.err


def test_what_is_odd_about_streams_is_said_on_the_side(command: Command, tmp_path: Path) -> None:
    for name, arrival in (("a", [3, 2, 1]), ("b", [4, 5, 6])):
        lines = [f"{i},{i},{place}" for i, place in enumerate(arrival)]
        (tmp_path / f"{name}.csv").write_text("\n".join(["ts,v,arrival", *lines]))
    text = "SELECT a.v AS av FROM a [5 s], b [5 s] WHERE a.v = b.v WITH NO WAIT"
    streams = ["--stream", f"a={tmp_path}/a.csv", "--stream", f"b={tmp_path}/b.csv"]
    done = command("run", text, *streams, "--out", tmp_path / "out", "--quiet")
    assert (done.code, "warning: stream a: column 'arrival' runs backwards" in done.err) == (0, True), done.err
    done = command("run", text, *streams, "--out", tmp_path / "out", "--quiet", "--time", "arrival")
    assert "rejected" not in done.err
    (tmp_path / "b.csv").write_text("ts,v,arrival\nx,1,4\n")
    done = command("verify", text, *streams, "--json", "--quiet")
    assert "1 of 1 rows of stream b were rejected: unparsable_time" in done.err
    assert done.out.startswith("{")
