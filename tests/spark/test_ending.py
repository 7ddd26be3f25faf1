"""When a query over what is there now is over, though Spark is asked for the time in every micro-batch."""

from __future__ import annotations

from pathlib import Path

import pytest
from pyspark.sql import SparkSession

import slackwater as sw
from tests.spark.conftest import Streamed
from tests.spark.streams import pieces

pytestmark = pytest.mark.xdist_group("spark")

ROWS = "SELECT v FROM s WITH NO WAIT OPTIONS (idle_timeout = 1 HOUR)"


def test_a_start_ends_once_it_has_read_all_micro_batches_that_were_there_and_the_next_reads_what_has_come_since(
    spark: SparkSession, streamed: Streamed, tmp_path: Path
) -> None:
    tables = pieces(0, 5, 50)
    for already, now in ((0, 3), (3, 5)):
        frame = streamed("s", tables[already:now])
        started = sw.start(
            spark, ROWS, s=frame, time_unit="ms", results=str(tmp_path / "rows"), checkpoint=tmp_path / "checkpoint",
            trigger="available",
        )  # fmt: skip
        try:
            assert started.wait(120), "Spark goes on for ever to tell the time"
        finally:
            started.stop()
        latest = started.progress().latest
        assert latest is not None
        assert latest.streams["s"].rows == 50 * now
