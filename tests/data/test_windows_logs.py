"""Event logs that Windows hosts forward to one collector: each channel of each host comes at a pace of its own."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pyarrow.parquet as pq
import pytest

import slackwater as sw

QUERY = "SELECT host, COUNT(*) AS n FROM log [RANGE 10 SECONDS] GROUP BY host WITH DELAY {} MS"
OPTIONS = "OPTIONS (clock_by = '{}')"


@pytest.mark.parametrize(("log", "delay"), [("covenant", 600), ("empire", 2300), ("purplesharp", 20)])
def test_a_clock_a_channel_of_a_host_needs_a_hundredth_of_the_slack(
    recorded: Callable[[str], Path], log: str, delay: int
) -> None:
    table = pq.read_table(recorded(f"winlog_{log}"))

    def late(options: str) -> float:
        answer = sw.replay(
            f"{QUERY.format(delay)} {options}", {"log": table}, time_unit="us", epochs=sw.Epochs(tuples=100)
        )
        return float(answer.report["late"] / table.num_rows)

    assert late(OPTIONS.format("host, channel")) <= 0.01
    assert min(late(""), late(OPTIONS.format("host"))) > 0.14, "nor does a clock a host help"
