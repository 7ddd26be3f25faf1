"""Recorded streams on Spark against the truth."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from slackwater.cli.prepare import prepare
from slackwater.cli.runtimes import runtime_of
from slackwater.cli.verify import verify_query
from slackwater.core.time import SECOND
from tests.data.test_poisoned_clocks import NEIGHBOURS
from tests.data.test_recorded import DEVICES, assert_complete, assert_sound

pytestmark = pytest.mark.xdist_group("spark")


@pytest.mark.parametrize(
    ("query", "name", "streams", "late"),
    [
        (NEIGHBOURS + "DELAY 5 MINUTES", "metar_20190701_12z", {"k": "K", "c": "C"}, True),
        (DEVICES + "DELAY 6 SECONDS", "ooo_umts", {"a": "dev_2", "b": "dev_5"}, False),
    ],
    ids=["metar", "umts"],
)
def test_two_recorded_streams_are_joined_in_two_shards(
    spark: Any, recorded: Callable[[str], Path], tmp_path: Path,
    query: str, name: str, streams: dict[str, str], late: bool,
) -> None:  # fmt: skip
    (tmp_path / "query.sql").write_text(query)
    given = [f"{alias}={recorded(name)}?stream={stream}" for alias, stream in streams.items()]
    prepared = prepare(tmp_path / "query.sql", given, "ts", "ms", {})
    verified = verify_query(prepared, runtime_of("spark", "5000", 2), False, None, None, SECOND, quiet=True)
    (assert_sound if late else assert_complete)(verified)
    assert verified.verdict.results > 1000
    assert (verified.verdict.missing_late > 0) == late
