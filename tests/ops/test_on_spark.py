"""Metrics, events and views of queries on Spark have the numbers of `slackwater.progress`."""

from __future__ import annotations

import json
import urllib.request
from pathlib import Path

import pytest

pytest.importorskip("pyspark", reason="the Spark runtime needs pyspark")

from pyspark.sql import SparkSession

import slackwater as sw
from tests.page.test_on_spark import QUERY, until
from tests.spark.conftest import write_stream
from tests.spark.streams import pieces

pytestmark = pytest.mark.xdist_group("spark")


def scraped(server: sw.MetricsServer) -> str:
    return urllib.request.urlopen(server.address, timeout=10).read().decode()


def test_a_query_on_spark_is_measured_logged_and_shown(spark: SparkSession, tmp_path: Path) -> None:
    frames = {name: write_stream(spark, tmp_path / name, pieces(i, 2, 400)) for i, name in enumerate("ab")}
    places = {"results": str(tmp_path / "out"), "checkpoint": str(tmp_path / "checkpoint")}
    log = tmp_path / "events.log"
    with sw.metrics(port=0) as server:
        with sw.start(spark, QUERY, name="pairs", **places, **frames) as running:
            server.add(running)
            sw.log_events(running, log)
            view = sw.live_view(running)
            assert 'slackwater_query_running{query="pairs"} 1.0' in scraped(server)
            running.process_all_available()
            latest = running.progress().latest
            assert latest is not None
            counted = f'slackwater_results_total{{query="pairs"}} {float(latest.results)}'
            until(lambda: counted in scraped(server))
            running.set_target("RECALL 0.99 OVER 300 MS")
            running.process_all_available()
            until(lambda: 'target="RECALL 0.99 OVER 300 ms"' in scraped(server))
            assert "<svg" in running._repr_html_()
            assert latest._repr_html_().startswith("<table>")
        until(lambda: 'slackwater_query_running{query="pairs"} 0.0' in scraped(server))
        assert counted in scraped(server)
        until(lambda: view.is_over)
        assert "pairs, ended" in str(view)
        assert "<svg" in view._repr_html_()
    events = [json.loads(line) for line in log.read_text().splitlines()]
    told = [event["event"] for event in events]
    assert told[0] == "started"
    assert told.count("target_changed") == 1
    assert told[-1] == "ended"
    again = tmp_path / "again.log"
    with sw.start(spark, QUERY, name="pairs", **places, **frames) as running:
        sw.log_events(running, again)
        write_stream(spark, tmp_path / "a", pieces(3, 1, 100))
        running.process_all_available()
        until(lambda: again.exists() and "restarted" in again.read_text())


def test_a_query_that_is_dropped_from_its_set_runs_no_more(spark: SparkSession, tmp_path: Path) -> None:
    frames = {name: write_stream(spark, tmp_path / name, pieces(i, 1, 200)) for i, name in enumerate("ab")}
    queries = {"asked": QUERY, "fast": QUERY.split("WITH")[0] + "WITH NO WAIT"}
    sinks = {name: str(tmp_path / "out" / name) for name in queries}
    handle = sw.queries(spark, streams=frames, queries=queries)
    with handle.start(tmp_path / "checkpoint", sinks=sinks) as running, sw.metrics(running, port=0) as server:
        running.process_all_available()
        until(lambda: 'slackwater_results_total{query="asked"}' in scraped(server))
        assert running._repr_html_().count("<h4>") == 2
        running.drop("fast")
        assert 'slackwater_query_running{query="fast"} 0.0' in scraped(server)
        assert 'slackwater_query_running{query="asked"} 1.0' in scraped(server)
