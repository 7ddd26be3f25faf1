"""What a shard reads from its log of pages and writes to it: as much as an epoch's data, whatever came before."""

from __future__ import annotations

import json

import numpy as np
import pyarrow as pa
import pytest

pytest.importorskip("pyspark", reason="the Spark runtime needs pyspark")

from slackwater.runtime.spark.state.shard_task import Hosted, current
from slackwater.runtime.spark.state.spark_pages import SparkPages

from slackwater.plan.partitioning import shard_keys_of
from slackwater.plan.planner import plan
from slackwater.runtime.spark.exchange.writer import Packing, packed
from slackwater.runtime.spark.state.pages import Account, Mark, PageStore
from slackwater.runtime.spark.state.shard import Block, Shard
from slackwater.sources.binding import bind_to_tables
from tests.spark.in_process import Handle

SECOND = 1000
RATE = 200
JOIN = "SELECT a.key FROM a [RANGE {0} SECONDS], b [RANGE {0} SECONDS] WHERE a.key = b.key WITH DELAY 1 SECOND"
SUM = "SELECT key, SUM(v) AS total FROM a [RANGE {0} SECONDS SLIDE 1 SECOND] GROUP BY key WITH DELAY 1 SECOND"
CHAIN = """SELECT key, COUNT(*) AS n FROM
    (SELECT a.key AS key FROM a [RANGE {0} SECONDS], b [RANGE {0} SECONDS] WHERE a.key = b.key) j
    [RANGE 2 SECONDS SLIDE 1 SECOND] GROUP BY key WITH DELAY 1 SECOND"""


def second_of(number: int, seed: int) -> pa.Table:
    """One second of a stream; one in ten tuples is up to half a second late."""
    rng = np.random.default_rng([number, seed])
    ts = number * SECOND + np.arange(RATE) * SECOND // RATE
    ts -= np.where(rng.random(RATE) < 0.1, rng.integers(0, 500, RATE), 0)
    return pa.table({"ts": 1_700_000_000_000 + ts, "key": rng.integers(0, 50, RATE), "v": rng.random(RATE)})


def traffic(text: str, epochs: int, workers: int) -> tuple[float, float]:
    """Bytes read and written an epoch, at the end of so many of them; `workers` take turns at random."""
    streams = {name: second_of(0, 0) for name in ("a", "b") if f"FROM {name}" in text or f", {name} [" in text}
    physical = plan(bind_to_tables(text, streams, "ts").query)
    routes = shard_keys_of(physical)
    packings = [Packing(one, routes[i], (0,), "ms", 10**12) for i, one in enumerate(physical.inputs)]
    handle, hosted = Handle(), Hosted(physical, ((),) * len(packings), "query", ())
    kept: dict[int, tuple[tuple[Mark, Shard], Account]] = {}
    turns = np.random.default_rng(1).integers(0, workers, epochs)
    seen = []
    for epoch in range(epochs):
        lines = [packed(packing, second_of(epoch, i), 0) for i, packing in enumerate(packings)]
        blocks = [
            Block(row["stream"], row["part"], json.loads(row["header"]), row["block"])
            for line in lines
            for row in line.to_pylist()
        ]
        store = PageStore(SparkPages(handle))
        now = store.mark()
        known, store.account = kept.pop(turns[epoch], (None, None))
        shard = current(hosted, store, known, now)
        for _ in shard.epoch(blocks):
            pass
        mark = store.write(now, shard.snapshot_delta())
        assert store.account is not None
        kept[turns[epoch]] = (mark, shard), store.account
        reported = store.traffic()
        seen.append((reported["state_read"], reported["state_written"]))
    read, written = np.array(seen[-20:]).mean(axis=0)
    return float(read), float(written)


@pytest.mark.parametrize(
    ("query", "workers"),
    [(JOIN, 1), (JOIN, 2), (SUM, 1), (SUM, 2), (CHAIN, 2)],
    ids=["join-1", "join-2", "aggregate-1", "aggregate-2", "chain-2"],
)
def test_state_traffic_grows_neither_with_the_window_nor_with_the_history(query, workers):
    read, written = traffic(query.format(5), 90, workers)
    for wider_or_longer in (traffic(query.format(50), 90, workers), traffic(query.format(5), 900, workers)):
        assert wider_or_longer[1] < 1.25 * written
        assert wider_or_longer[0] < 1.5 * read + 1
    # Who is alone reads only what it cleans.
    assert workers > 1 or read < 0.5 * written
