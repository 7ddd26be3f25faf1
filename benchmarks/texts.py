"""Many distinct texts through a window of one second: memory, state and rate, in a running query and in a shard.

    .venv/bin/python -m benchmarks.texts live|join|shard [million distinct texts]
    .venv/bin/python -m benchmarks.texts few

The shard is driven without Spark: packed blocks in, its state in a dictionary, started anew now and then. `few` has a
hundred texts, for what the common case costs; it reads nothing of the package but what older versions have too, so it
can be run against them.
"""

from __future__ import annotations

import gc
import sys
import time
from collections.abc import Callable

import numpy as np
import pyarrow as pa

import slackwater as sw
from slackwater.core.state import StateUpdate
from slackwater.plan.planner import plan
from slackwater.runtime.spark.exchange.format import parse_header
from slackwater.runtime.spark.exchange.writer import Packing, lines_of
from slackwater.runtime.spark.state.shard import Block, Shard
from slackwater.sources.binding import bind_to_tables
from slackwater.sources.codebook import Codebook

COLUMNS = pa.schema([("ts", pa.int64()), ("name", pa.string()), ("v", pa.int64())])
COUNTS = "SELECT name, COUNT(*) AS n, SUM(v) AS total FROM s [RANGE 1 SECOND] GROUP BY name WITH DELAY 500 MS"
JOIN = "SELECT a.name, a.v, b.v AS w FROM a [1 s], b [1 s] WHERE a.name = b.name WITH DELAY 500 MS"
EACH = 50_000
"""Rows of an epoch, which is half a second of event time."""
TOLD = (0.1, 0.2, 0.5, 1, 2, 5, 10, 15, 20, 30, 40)


def rows(epoch: int, texts: int | None = None, each: int = EACH) -> pa.Table:
    """An epoch of a stream; every row has a text of its own, or one of so many."""
    rng = np.random.default_rng(epoch)
    ts = 500 * epoch + rng.integers(0, 500, each)
    number = pa.array(epoch * each + np.arange(each) if texts is None else rng.integers(0, texts, each))
    names = pa.compute.binary_join_element_wise("user-", number.cast(pa.string()), "")
    return pa.table([ts, names, rng.integers(0, 100, each)], schema=COLUMNS)


def resident() -> int:
    """Bytes of memory in use by this process."""
    gc.collect()
    pa.default_memory_pool().release_unused()
    with open("/proc/self/statm") as file:
        return int(file.read().split()[1]) * 4096


def measured(million: float, epoch: Callable[[int], None], more: Callable[[], str], each: int = EACH) -> None:
    """Run epochs, and tell now and then what they take: memory, and rows a second of processor time since the last."""
    report_busy_time, since = 0.0, 0
    for number in range(int(million * 1e6 / each)):
        begun = time.process_time()
        epoch(number)
        report_busy_time += time.process_time() - begun
        done = (number + 1) * each
        if done / 1e6 in TOLD:
            rate = (done - since) / report_busy_time
            print(f"{done / 1e6:5.1f} M  {resident() / 1e6:6.0f} MB  {rate:9,.0f} rows/s  {more()}", flush=True)
            report_busy_time, since = 0.0, done


def live(million: float, query: str, streams: str, texts: int | None = None) -> None:
    """A running query; every stream brings the same texts."""
    handle = sw.live(query, dict.fromkeys(streams, COLUMNS), keep="5 s" if len(streams) > 1 else None)

    # A hundred texts of two streams meet often.
    each = 500 if texts and len(streams) > 1 else EACH

    def epoch(number: int) -> None:
        table = rows(number, texts, each)
        for stream in streams:
            handle.push(stream, table)

    def more() -> str:
        return f"{len(handle._codebook):,} texts"

    measured(million, epoch, more if texts is None else str, each)


def sharded(million: float, texts: int | None = None) -> None:
    """A shard that is started anew every forty epochs."""
    physical = plan(bind_to_tables(COUNTS, {"s": COLUMNS.empty_table()}, "ts").query)
    packing = Packing(physical.inputs[0], (), (0,), "ms", physical.options.max_ahead, tasks=1)
    state: dict[tuple[str, str], bytes] = {}
    shard = Shard(physical, (packing.text_rows,), "one")
    most = most_texts = 0

    def epoch(number: int) -> None:
        nonlocal shard, most, most_texts
        if number % 40 == 39:
            shard = Shard(physical, (packing.text_rows,), "one")
            shard.restore([StateUpdate(*place, value) for place, value in state.items()])
        lines = lines_of(packing, rows(number, texts), False, Codebook())
        blocks = [Block(0, part, parse_header(line.header or ""), line.block) for part, line in enumerate(lines)]
        for emission in shard.epoch(blocks):
            if len(emission.ts):
                shard.codebook.decode(emission.columns[2])
        for change in shard.snapshot_delta():
            if change.value is None:
                state.pop((change.namespace, change.key), None)
            else:
                state[change.namespace, change.key] = change.value
        most = max(most, sum(map(len, state.values())))
        most_texts = max(most_texts, sum(len(value) for (namespace, _), value in state.items() if namespace == "texts"))

    def more() -> str:
        """The most there was since the last time."""
        nonlocal most, most_texts
        summary = f"{most / 1e6:.1f} MB of state at most, {most_texts / 1e6:.1f} MB of texts"
        most = most_texts = 0
        return summary

    measured(million, epoch, more)


def few() -> None:
    """A hundred texts: what the common case costs."""
    for name, run in (
        ("live", lambda: live(10, COUNTS, "s", 100)),
        ("join", lambda: live(0.2, JOIN, "ab", 100)),
        ("shard", lambda: sharded(10, 100)),
    ):
        print(name)
        run()


if __name__ == "__main__":
    what, *rest = sys.argv[1:]
    most = float(rest[0]) if rest else 20.0
    if what == "few":
        few()
    elif what == "shard":
        sharded(most)
    else:
        live(most, COUNTS if what == "live" else JOIN, "s" if what == "live" else "ab")
