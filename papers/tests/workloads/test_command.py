"""`python -m papers.workloads`: datasets as files."""

from __future__ import annotations

import json
from pathlib import Path

import pyarrow.parquet as pq
import pytest

from papers.workloads.__main__ import make, write_workload
from slackwater.core.errors import UsageError
from tests.cli.conftest import Command

LENGTHS = {"dsyn3": 0.1, "dsyn4": 0.1, "meteorology": 25.0, "meteorology9": 2.0, "drm": 0.5, "rates": 0.1}


@pytest.mark.parametrize("name", LENGTHS)
def test_a_workload_can_be_run_as_it_says(
    name: str, command: Command, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    write_workload(name, tmp_path / "w", seed=3, minutes=LENGTHS[name])
    line = next(line for line in capsys.readouterr().out.splitlines() if line.startswith("run it: slackwater "))
    arguments = line.removeprefix("run it: slackwater ").replace("DIR", str(tmp_path / "out")).split()
    extra = ["--count"] if name.startswith("dsyn") else []
    ran = command(*arguments, *extra, "--epoch", "1 s")
    assert ran.code == 0, ran.err
    report = json.loads((tmp_path / "out" / "report.json").read_text())
    written = sum(pq.read_metadata(file).num_rows for file in (tmp_path / "w").glob("*.parquet"))
    assert report["tuples"] == written


def test_meteorology_says_what_it_made_beside_what_was_published(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    write_workload("meteorology", tmp_path / "w", speed=16.0)
    rows = {tuple(line.split()[:2]): line.split()[2:] for line in capsys.readouterr().out.splitlines()}
    minutes, events, made, published, size, published_size = rows["caps", "storm"]
    assert (minutes, published, size, published_size) == ("60", "2.667", "64,000", "64,000")
    assert abs(float(made) - 2 * 4800 / 3600) < 0.02
    assert abs(int(events.replace(",", "")) - 2 * 4800) < 50


@pytest.mark.parametrize(
    ("name", "minutes", "speed", "option"),
    [("velocity1", 2.0, None, "--minutes"), ("dsyn3", None, 2.0, "--speed"), ("drm", None, 2.0, "--speed")],
)
def test_a_parameter_that_a_workload_does_not_have_is_refused(
    name: str, minutes: float | None, speed: float | None, option: str
) -> None:
    with pytest.raises(UsageError, match=f"leave {option} out"):
        make(name, 0, minutes, speed)


def test_an_unknown_workload_is_refused() -> None:
    with pytest.raises(UsageError, match="there is no workload 'dsyn5'"):
        make("dsyn5", 0, None, None)
