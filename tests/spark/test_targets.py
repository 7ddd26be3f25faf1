"""A quality target holds on Spark: micro-batches put in order what they hold, and slack does the rest."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pyarrow as pa
import pytest
from pyspark.sql import SparkSession

import slackwater as sw
from slackwater.cli.prepare import Prepared, Runtime, runtime_of
from slackwater.cli.verify import verify_query
from slackwater.core.time import MILLISECOND, SECOND
from slackwater.sources.binding import bind_to_tables
from tests.spark.in_process import InProcess

SHARDS = 2
EPOCH = 500 * MILLISECOND
TARGET, PERIOD = 0.9, 2 * SECOND
JOIN = "SELECT a.v AS av, b.v AS bv FROM a [RANGE 50 MS], b [RANGE 50 MS] WHERE a.key = b.key WITH "


def streams_with_long_delays(n: int = 4500) -> dict[str, pa.Table]:
    """A tuple every 2 ms: a fifth up to 0.8 s late, which is longer than an epoch, one in a hundred up to 4 s."""
    rng = np.random.default_rng(5)
    made = {}
    for place, name in enumerate("ab"):
        kind = rng.random(n)
        delay = np.where(kind < 0.2, rng.integers(0, 800, n), np.where(kind > 0.99, rng.integers(0, 4000, n), 0))
        ts = 1_700_000_000_000 + 2 * np.arange(n) - delay
        keys, values = rng.integers(0, 12, n), rng.integers(0, 1000, n)
        made[name] = pa.table({"arrival": 2 * np.arange(n) + place, "ts": ts, "key": keys, "v": values})
    return made


@pytest.mark.xdist_group("spark")
@pytest.mark.long("the same of shards in process, below")
def test_a_recall_that_needs_slack_is_reached_on_spark_with_less_waiting_than_complete(spark: SparkSession) -> None:
    is_reached_with_less_waiting_than_complete(runtime_of("spark", "500ms", SHARDS))


def test_a_recall_that_needs_slack_is_reached_in_two_shards_with_less_waiting_than_complete(tmp_path: Path) -> None:
    is_reached_with_less_waiting_than_complete(InProcess(sw.Epochs(span=EPOCH), SHARDS, tmp_path / "run"))


def is_reached_with_less_waiting_than_complete(runtime: Runtime) -> None:
    streams = streams_with_long_delays()
    query = f"{JOIN} RECALL {TARGET} OVER {PERIOD // SECOND} SECONDS"
    prepared = Prepared(bind_to_tables(query, streams, "ts"), streams, None, "ms")
    verified = verify_query(prepared, runtime, False, None, PERIOD, SECOND // 5, quiet=True)
    verdict, report = verified.verdict, verified.report.as_json()
    assert (verdict.missing_unexplained, verdict.spurious, verdict.out_of_order) == (0, 0, 0)

    without_slack, complete = (
        sw.replay(JOIN + waiting, streams, epochs=sw.Epochs(span=EPOCH)).report for waiting in ("NO WAIT", "COMPLETE")
    )
    assert without_slack["results"] / verdict.true_results < 0.8
    assert 0 < report["slack_ms"]["avg"] < 0.6 * complete["slack_ms"]["avg"]
    assert without_slack["latency_ms"]["avg"] < report["latency_ms"]["avg"] < complete["latency_ms"]["avg"]

    # What is lost before the first long delays have been seen could not be known.
    learned = [recall for _, recall in verdict.measurements][len(verdict.measurements) // 2 :]
    assert len(learned) > 10
    assert min(learned) >= TARGET < verdict.recall_overall
    # Shards keep their own ledger; together they are the ledger of the whole query.
    assert report["measured_quality"]["measured"] == pytest.approx(verdict.recall_overall, abs=1e-9)
