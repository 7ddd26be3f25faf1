"""What shards of a distance join cost: `python -m benchmarks.shards [--groups 1 2 4 16] [--tasks 2] [--field 100]`.

Packing and shards of T2 (`benchmarks.spark`) as tasks on Spark run them, from files to results as parquet, one after
the other in this process, without the JVM. Told are CPU seconds: of packing, of each task; and the tuples a second that
follow if tasks run at the same time, packing is shared among them, and nothing else costs time.
"""

from __future__ import annotations

import argparse
import gc
import tempfile
import time

import pyarrow as pa

from benchmarks.inputs import LATE_SHARE, MAX_DELAY_MS
from slackwater.plan.planner import plan
from slackwater.runtime.spark.exchange.writer import packed
from slackwater.runtime.spark.folders import Folder
from slackwater.runtime.spark.output_schema import COLUMNS, ROWS, written_schema
from slackwater.runtime.spark.query import packings_of
from slackwater.runtime.spark.state import shard_task
from slackwater.runtime.spark.state.checkpoint import structure
from slackwater.runtime.spark.state.shard_task import Hosted
from slackwater.runtime.spark.state.stage import run_shards
from slackwater.sources.binding import bind_to_tables
from slackwater.workloads import uniform_stream

QUERY = "SELECT a.v AS av, b.v AS bv FROM a [RANGE 5 SECONDS], b [RANGE 5 SECONDS] WHERE {} WITH DELAY 2 SECONDS"
NEAR = "dist(a.x, a.y, b.x, b.y) < 5"
BY_ROWS = f"{NEAR} OR a.v < -1"
"""The same rows, by a condition that is no band."""


def cpu(streams: dict[str, pa.Table], near: str, groups: int, tasks: int, size: int) -> tuple[float, list[float], int]:
    """Seconds of packing, of each task, and how many tuples shards were given."""
    physical = plan(bind_to_tables(QUERY.format(near), streams, "ts").query)
    labels = tuple(range(groups))
    packings = packings_of(physical, labels, "ms", tasks=tasks)
    texts = tuple(packing.text_rows for packing in packings)
    packing_s, task_s, given = 0.0, [0.0] * tasks, 0
    with tempfile.TemporaryDirectory() as place:
        schema = written_schema(physical, ROWS)
        folder = Folder(place, schema, tuple(COLUMNS.get(ROWS, schema.names)), "snappy")
        kept = structure(physical, labels, "ms", False)
        hosted = Hosted(physical, texts, kept, (), {ROWS: folder}, False, labels)
        shard_task._kept.clear()
        rows = max(table.num_rows for table in streams.values())
        for number, begin in enumerate(range(0, rows, size)):
            begun = time.process_time()
            lines = [
                packed(packing, streams[packing.plan.stream.alias].slice(begin, size), at)
                for at, packing in enumerate(packings)
            ]
            packing_s += time.process_time() - begun
            for task in range(tasks):
                mine = labels[task::tasks]
                own = [batch.filter(pa.compute.is_in(batch["shard"], pa.array(mine, pa.int32()))) for batch in lines]
                begun = time.process_time()
                list(run_shards(hosted, mine, own, f"{place}/state", number))
                task_s[task] += time.process_time() - begun
        given = sum(kept.shard.counts["read"] for kept in shard_task._kept.values())
    return packing_s, task_s, given


def main() -> None:
    """Measure."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--groups", type=int, nargs="+", default=[1, 2, 4, 16])
    parser.add_argument("--tasks", type=int, default=2)
    parser.add_argument("--tuples", type=int, default=198_000)
    parser.add_argument("--size", type=int, default=66_000, help="tuples a micro-batch")
    parser.add_argument("--field", type=float, default=100.0, help="metres along each side; as many tuples a metre")
    parser.add_argument("--runs", type=int, default=3)
    parser.add_argument("--near", default=NEAR)
    asked = parser.parse_args()
    # As in a worker, a shard is kept from one micro-batch to the next.
    shard_task.query_run = lambda: "benchmark/run"
    rate = 330 * (asked.field / 100) ** 2
    streams = {
        name: uniform_stream(
            asked.tuples // 2, rate, 1000, seed, max_delay_ms=MAX_DELAY_MS, late_share=LATE_SHARE, field_m=asked.field
        )
        for seed, name in enumerate(("a", "b"))
    }
    cpu(streams, asked.near, asked.groups[0], 1, asked.size // 2)
    for _ in range(asked.runs):
        for groups in asked.groups:
            gc.collect()
            tasks = min(asked.tasks, groups)
            packing, shards, given = cpu(streams, asked.near, groups, tasks, asked.size // 2)
            rate = asked.tuples / (packing / tasks + max(shards))
            told = " + ".join(f"{one:.2f}" for one in shards)
            print(
                f"{groups:3} key groups: packing {packing:.2f} s, shards {sum(shards):.2f} s ({told}),"
                f" {given / asked.tuples:.2f} copies, {tasks} at the same time: {rate / 1e6:.3f} M tuples/s",
                flush=True,
            )


if __name__ == "__main__":
    main()
