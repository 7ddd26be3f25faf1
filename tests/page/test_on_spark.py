"""`slackwater.watch` shows what `slackwater.progress` says of a query on Spark, and a target moved there reaches it."""

from __future__ import annotations

import time
from collections.abc import Callable
from pathlib import Path

import httpx
import pytest

pytest.importorskip("pyspark", reason="the Spark runtime needs pyspark")

from pyspark.sql import SparkSession

import slackwater as sw
from slackwater.core.errors import UsageError
from slackwater.page.history import read_history
from tests.spark.conftest import write_stream
from tests.spark.streams import pieces

pytestmark = pytest.mark.xdist_group("spark")

QUERY = """SELECT a.key, a.v AS av, b.v AS bv FROM a [RANGE 50 MS], b [RANGE 50 MS] WHERE a.key = b.key
WITH RECALL 0.9 OVER 300 MS OPTIONS (retention = 500 MS, adaptation_interval = 200 MS)"""


def until(happens: Callable[[], bool]) -> None:
    deadline = time.monotonic() + 60
    while not happens():
        assert time.monotonic() < deadline
        time.sleep(0.1)


def test_the_page_has_the_numbers_of_progress_and_moves_the_target(spark: SparkSession, tmp_path: Path) -> None:
    frames = {name: write_stream(spark, tmp_path / name, pieces(i, 2, 800)) for i, name in enumerate("ab")}
    places = {"results": str(tmp_path / "out"), "checkpoint": str(tmp_path / "checkpoint")}
    with (
        sw.start(spark, QUERY, name="watched", **places, **frames) as running,
        sw.watch(running, port=0, control=True, history=tmp_path / "history") as page,
    ):
        running.process_all_available()
        latest = running.progress().latest
        assert latest is not None
        until(lambda: page.hub.latest.get("watched") == latest)
        told = httpx.get(f"{page.address}snapshots").json()
        last = told["snapshots"][-1]
        assert last["in_time"] == latest.in_time
        assert last["quality"]["measured"] == latest.quality.measured  # type: ignore[union-attr]
        counted = sum(n for one in told["snapshots"] for part in one["delays"].values() for _, n in part)
        assert counted == sum(one["rows"] for one in last["streams"].values()) == 3200
        assert last["trade_off"]["slacks"] == sorted(last["trade_off"]["slacks"])
        assert any(one["kind"] == "operator" for one in told["hello"]["queries"][0]["plan"]["nodes"])
        wish = {"query": "watched", "target": "RECALL 0.99 OVER 300 ms"}
        assert httpx.post(f"{page.address}target", json=wish).status_code == 200
        running.process_all_available()
        assert running.progress().target == "RECALL 0.99 OVER 300 ms"
        until(lambda: page.hub.latest["watched"].target == "RECALL 0.99 OVER 300 ms")
        running.stop()
        until(lambda: page.hub.latest["watched"].ended)
    assert read_history(tmp_path / "history").progress[-1].ended


def test_queries_of_a_set_stand_side_by_side(spark: SparkSession, tmp_path: Path) -> None:
    frames = {name: write_stream(spark, tmp_path / name, pieces(i, 1, 400)) for i, name in enumerate("ab")}
    queries = {"asked": QUERY, "fast": QUERY.split("WITH")[0] + "WITH NO WAIT"}
    handle = sw.queries(spark, streams=frames, queries=queries)
    sinks = {name: str(tmp_path / "out" / name) for name in queries}
    with handle.start(tmp_path / "checkpoint", sinks=sinks) as running, sw.watch(running, port=0) as page:
        running.process_all_available()
        until(lambda: set(page.hub.latest) == {"asked", "fast"})
        progress = running.progress()
        for name, shown in page.hub.latest.items():
            latest = progress[name].latest
            assert latest is not None
            assert (shown.results, shown.late, shown.target) == (latest.results, latest.late, latest.target)
            assert shown.slack == latest.slack


def test_what_is_no_query_is_refused() -> None:
    with pytest.raises(UsageError, match="int is no running query"):
        sw.watch(7)
    with pytest.raises(UsageError, match="say which query"):
        sw.watch()
