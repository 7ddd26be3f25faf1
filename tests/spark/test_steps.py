"""A program asks a streaming query for its next time step."""

from __future__ import annotations

import pyarrow as pa
import pytest
from pyspark.sql import SparkSession

import slackwater as sw
from tests.request.streams import at, rows, seen
from tests.spark.conftest import Streamed

pytestmark = pytest.mark.xdist_group("spark")

JOIN = "SELECT r.k, r.v AS rv, m.v AS mv FROM radar r [2 s], metar m [2 s] WHERE r.k = m.k WITH NO WAIT"


def test_steps_are_whole_then_reduced_then_whole_again(spark: SparkSession, streamed: Streamed) -> None:
    radar = streamed("radar", [rows((1000, 1), (1500, 2), (3000, 1))])
    timeless = pa.table([[None], [1], [0.0]], schema=rows().schema)
    metar = streamed("metar", [pa.concat_tables([rows((1000, 1), (2000, 2)), timeless])])
    with sw.start(spark, JOIN, patience="5 seconds", radar=radar, metar=metar, clock=lambda: 0.0) as live:
        step = live.next(timeout=120)
        assert seen(step, "k", "rv", "mv") == (1000, {(1, 1.0, 1.0): 1})
        assert [one.id for one in spark.streams.active] == [live.query.id], "each source is read once"
        streamed("radar", [rows((8000, 1), (8000, 2), (9000, 1))])
        step = live.next(after=at(1000), timeout=120)
        assert step is not None
        assert (step.degraded, step.missing) == (True, ("metar",))
        assert seen(step, "k", "rv", "mv") == (8000, {(1, 8.0, None): 1, (2, 8.0, None): 1})
        # Both go on, so that the watermark passes what they have in common.
        streamed("metar", [rows((8500, 2), (9000, 1), (9500, 1))])
        step = live.next(after=at(8000), timeout=120)
        assert step is not None
        assert (step.time, step.degraded, step.missing) == (at(8500), False, ())
        assert seen(step, "k", "rv", "mv") == (8500, {(2, 8.0, 8.5): 1})
        assert live.take_side_outputs().column("reason").to_pylist() == ["null_time"]
    assert live.next() is step
    report = live.report()
    assert (report["rejected"], report["late"], report["steps"]["degraded"]) == (1, 0, 1)
