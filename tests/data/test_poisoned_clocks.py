"""Weather bulletins: delays of hours, and reports dated into the future."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from statistics import median
from typing import Any

import pyarrow.parquet as pq
import pytest

from slackwater.cli.prepare import prepare, runtime_of
from slackwater.cli.run import run_query
from tests.data.conftest import Verify
from tests.data.test_recorded import assert_complete, assert_sound
from tests.effort import more

Recorded = Callable[[str], Path]
FILES = ("metar_20190701_12z", "metar_20200106_00z")
TEN_MINUTES = 600_000
HOUR = 3_600_000

NEIGHBOURS = """
SELECT a.station AS here, b.station AS there FROM k AS a [RANGE 5 MINUTES], c AS b [RANGE 5 MINUTES]
WHERE round(a.temp_c) = round(b.temp_c) WITH
"""


@pytest.mark.parametrize("name", FILES)
def test_stations_of_two_regions_with_equal_temperature_are_all_found(
    recorded: Recorded, verify: Verify, epoch: str, name: str
) -> None:
    path = recorded(name)
    streams = [f"k={path}?stream=K", f"c={path}?stream=C"]
    assert_complete(verify(NEIGHBOURS + "DELAY 4 HOURS", streams, epoch))
    assert_sound(verify(NEIGHBOURS + "COMPLETE", streams, epoch))
    hasty = verify(NEIGHBOURS + "DELAY 5 MINUTES", streams, epoch)
    assert_sound(hasty)
    assert hasty.verdict.missing_late > 0


@pytest.mark.parametrize(
    ("name", "streams"),
    [
        (FILES[0], ("K", "C")),
        (FILES[1], ("all",)),
        *more("one file by streams, the other as a whole, here", (FILES[0], ("all",)), (FILES[1], ("K", "C"))),
    ],
)
def test_only_reports_far_ahead_of_most_others_are_rejected(
    recorded: Recorded, tmp_path: Path, name: str, streams: tuple[str, ...]
) -> None:
    path = recorded(name)
    given = [f"{stream}={path}" + ("" if stream == "all" else f"?stream={stream}") for stream in streams]
    froms = ", ".join(f"{stream} [RANGE 1 SECOND]" for stream in streams)
    (tmp_path / "query.sql").write_text(f"SELECT {streams[0]}.station AS station FROM {froms} WITH NO WAIT")
    prepared = prepare(tmp_path / "query.sql", given, "ts", "ms", {})
    run_query(prepared, runtime_of("local", "1000"), tmp_path / "out", False, None, quiet=True)
    rejected = {row["arrival"]: row for row in _rejected(tmp_path / "out" / "rejected")}
    assert {row["reason"] for row in rejected.values()} <= {"ahead"}

    rows = [row for row in pq.read_table(path).to_pylist() if "all" in streams or row["stream"] in streams]
    assert len(rejected) <= 0.003 * len(rows)
    lately: dict[str, list[int]] = {}
    for row in rows:
        mine = lately.setdefault("all" if "all" in streams else row["stream"], [])
        if row["arrival"] in rejected:
            assert row["ts"] > median(mine[-64:]) + TEN_MINUTES, f"rejected without being ahead: {row}"
        elif len(mine) >= 64:
            assert row["ts"] < max(mine) + 12 * HOUR or row["ts"] < median(mine[-64:]) + 12 * HOUR, row
        mine.append(row["ts"])
    if name == "metar_20200106_00z":
        assert any(row["future_dated"] for row in rejected.values())


def _rejected(folder: Path) -> list[dict[str, Any]]:
    return [row for part in sorted(folder.glob("*/*.parquet")) for row in pq.read_table(part).to_pylist()]
