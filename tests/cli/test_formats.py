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
