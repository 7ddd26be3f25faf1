"""What a task reads of its state and writes to it: as much as an epoch's data, whatever came before."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pyarrow as pa
import pytest

pytest.importorskip("pyspark", reason="the Spark runtime needs pyspark")

from slackwater.runtime.spark.members import KeyGroups, member
from slackwater.runtime.spark.state.cached import Cached, Place, TaskState, replaced
from slackwater.runtime.spark.state.root import ONE_TASK, TaskLog
from tests.spark.in_process import UNIT, blocks_of, planned

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


def traffic(text: str, epochs: int, workers: int, folder: Path) -> tuple[float, float]:
    """Bytes read and written an epoch, at the end of so many of them; `workers` take turns at random."""
    streams = {name: second_of(0, 0) for name in ("a", "b") if f"FROM {name}" in text or f", {name} [" in text}
    one = member("query", 0, planned(text, streams), KeyGroups(1, 1), UNIT)
    key = (0, one.key)
    cached: dict[int, Cached] = {}
    turns = np.random.default_rng(1).integers(0, workers, epochs)
    seen = []
    for epoch in range(epochs):
        blocks = blocks_of(one, {name: second_of(epoch, i) for i, name in enumerate(streams)})
        log = TaskLog(str(folder), ONE_TASK, epoch)
        state = TaskState(log, {0}, cached.pop(turns[epoch], None))
        shard = state.shard(one, 0, None, None)
        for _ in shard.epoch(blocks):
            pass
        mark, account = state.write((replaced(key, entry, entry.value) for entry in shard.snapshot_delta()), {one.key})
        cached[turns[epoch]] = Cached(mark, {key: Place(shard, {})}, account)
        reported = log.pages.traffic()
        seen.append((reported["state_read"], reported["state_written"]))
    read, written = np.array(seen[-20:]).mean(axis=0)
    return float(read), float(written)


@pytest.mark.parametrize(
    ("query", "workers"),
    [(JOIN, 1), (JOIN, 2), (SUM, 1), (SUM, 2), (CHAIN, 2)],
    ids=["join-1", "join-2", "aggregate-1", "aggregate-2", "chain-2"],
)
def test_state_traffic_grows_neither_with_the_window_nor_with_the_history(
    query: str, workers: int, tmp_path: Path
) -> None:
    read, written = traffic(query.format(5), 90, workers, tmp_path / "short")
    wider = traffic(query.format(50), 90, workers, tmp_path / "wider")
    longer = traffic(query.format(5), 900, workers, tmp_path / "longer")
    for wider_or_longer in (wider, longer):
        assert wider_or_longer[1] < 1.25 * written
        assert wider_or_longer[0] < 1.5 * read + 1
    # Who is alone reads only what it cleans.
    assert workers > 1 or read < 0.5 * written
