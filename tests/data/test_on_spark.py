"""Recorded streams against the truth, by shards in this process and on Spark."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

pytest.importorskip("pyspark", reason="shards use the types of pyspark")

from slackwater.cli.prepare import Runtime, prepare, runtime_of
from slackwater.cli.verify import verify_query
from slackwater.core.time import SECOND
from slackwater.operators.pipeline import Epochs
from tests.data.test_poisoned_clocks import NEIGHBOURS
from tests.data.test_recorded import DEVICES, assert_complete, assert_sound
from tests.spark.in_process import InProcess

CASES = pytest.mark.parametrize(
    ("query", "name", "streams", "late"),
    [
        (NEIGHBOURS + "DELAY 5 MINUTES", "metar_20190701_12z", {"k": "K", "c": "C"}, True),
        (DEVICES + "DELAY 6 SECONDS", "ooo_umts", {"a": "dev_2", "b": "dev_5"}, False),
    ],
    ids=["metar", "umts"],
)


@CASES
@pytest.mark.xdist_group("spark")
@pytest.mark.long("the same of shards in process, below")
def test_two_recorded_streams_are_joined_on_spark(
    spark: Any, recorded: Callable[[str], Path], tmp_path: Path,
    query: str, name: str, streams: dict[str, str], late: bool,
) -> None:  # fmt: skip
    are_joined(runtime_of("spark", "5000", 2), recorded(name), tmp_path, query, streams, late)


@CASES
def test_two_recorded_streams_are_joined_in_two_shards(
    recorded: Callable[[str], Path], tmp_path: Path, query: str, name: str, streams: dict[str, str], late: bool
) -> None:
    shards = InProcess(Epochs(tuples=5000), 2, tmp_path / "run")
    are_joined(shards, recorded(name), tmp_path, query, streams, late)


def are_joined(runtime: Runtime, file: Path, folder: Path, query: str, streams: dict[str, str], late: bool) -> None:
    (folder / "query.sql").write_text(query)
    given = [f"{alias}={file}?stream={stream}" for alias, stream in streams.items()]
    prepared = prepare(folder / "query.sql", given, "ts", "ms", {})
    verified = verify_query(prepared, runtime, False, None, None, SECOND, quiet=True)
    (assert_sound if late else assert_complete)(verified)
    assert verified.verdict.results > 1000
    assert (verified.verdict.missing_late > 0) == late
