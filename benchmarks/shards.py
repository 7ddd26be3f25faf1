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
from pathlib import Path

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq
from slackwater.runtime.spark.state.shard_task import Hosted

from benchmarks.inputs import LATE_SHARE, MAX_DELAY_MS
from papers.workloads import uniform_stream
from slackwater.plan.physical import PhysicalPlan
from slackwater.plan.planner import plan
from slackwater.runtime.spark.exchange import files
from slackwater.runtime.spark.folders import Folder
from slackwater.runtime.spark.output_schema import COLUMNS, ROWS, written_schema
from slackwater.runtime.spark.query import packings_of
from slackwater.runtime.spark.state import shard_task
from slackwater.runtime.spark.state.checkpoint import structure
from slackwater.runtime.spark.state.stage import run_shards
from slackwater.sources.binding import bind_to_tables

QUERY = "SELECT a.v AS av, b.v AS bv FROM a [RANGE 5 SECONDS], b [RANGE 5 SECONDS] WHERE {} WITH DELAY 2 SECONDS"
NEAR = "dist(a.x, a.y, b.x, b.y) < 5"
RATE, FIELD_M, EACH = 330, 100.0, 3_300
"""Tuples a second of each stream, metres along each side, tuples a file."""


def measure(
    streams: dict[str, list[str]], physical: PhysicalPlan, groups: int, tasks: int, most: int, place: str
) -> tuple[float, list[float], int]:
    """CPU seconds of packing and of each task, and how many tuples reached shards; so many files make a micro-batch."""
    labels = tuple(range(groups))
    packings = packings_of(physical, labels, "ms", tasks=tasks)
    reads = {one.plan.stream.alias: one for one in packings}
    schema = written_schema(physical, ROWS)
    folder = Folder(place, schema, tuple(COLUMNS.get(ROWS, schema.names)), "snappy")
    texts = tuple(packing.text_rows for packing in packings)
    kept = structure(physical, labels, "ms", False)
    hosted = Hosted(physical, texts, kept, (), {ROWS: folder}, False, labels, tells_latency=False)
    shard_task._kept.clear()
    packing_s, task_s = 0.0, [0.0] * tasks
    count = len(next(iter(streams.values())))
    for number, begin in enumerate(range(0, count, most)):
        begun = time.process_time()
        lines: list[pa.RecordBatch] = []
        for alias, names in streams.items():
            stream = files.Folder("", "parquet", pq.read_schema(names[0]), None)
            lines += files.Reads(stream, (reads[alias],)).packed(names[begin : begin + most], 0, 1, 0)
        packing_s += time.process_time() - begun
        for task in range(tasks):
            mine = labels[task::tasks]
            own = [batch.filter(pc.is_in(batch["shard"], pa.array(mine, pa.int32()))) for batch in lines]
            begun = time.process_time()
            for _ in run_shards(hosted, mine, own, f"{place}/state", number):
                pass
            task_s[task] += time.process_time() - begun
    return packing_s, task_s, sum(one.shard.counts["read"] for one in shard_task._kept.values())


def written(folder: Path, name: str, seed: int, tuples: int, field: float) -> list[str]:
    """The files of a stream, which has as many tuples a second and square metre whatever the field."""
    rate = RATE * (field / FIELD_M) ** 2
    table = uniform_stream(
        tuples, rate, 1000, seed, max_delay_ms=MAX_DELAY_MS, late_share=LATE_SHARE, field_m=field
    ).select(["ts", "x", "y", "v"])
    found = []
    for begin in range(0, tuples, EACH):
        found.append(str(folder / f"{name}-{begin:08}.parquet"))
        pq.write_table(table.slice(begin, EACH), found[-1])
    return found


def main() -> None:
    """Measure, all settings in turns."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--groups", type=int, nargs="+", default=[1, 2, 4, 16], help="key groups")
    parser.add_argument("--tasks", type=int, default=2)
    parser.add_argument("--tuples", type=int, default=198_000)
    parser.add_argument("--size", type=int, default=66_000, help="tuples a micro-batch")
    parser.add_argument("--field", type=float, default=FIELD_M, help="metres along each side")
    parser.add_argument("--near", default=NEAR, help="the condition")
    parser.add_argument("--by-rows", action="store_true", help="cut by rows, and not by place")
    parser.add_argument("--runs", type=int, default=3)
    asked = parser.parse_args()
    # As in a worker, a shard is kept from one micro-batch to the next.
    shard_task.query_run = lambda: "benchmark/run"
    with tempfile.TemporaryDirectory() as folder:
        streams = {
            name: written(Path(folder), name, seed, asked.tuples // 2, asked.field) for seed, name in enumerate("ab")
        }
        tables = {name: pq.read_table(names[0]) for name, names in streams.items()}
        query = QUERY.format(asked.near) + (" OPTIONS (shards_by = 'rows')" if asked.by_rows else "")
        physical = plan(bind_to_tables(query, tables, "ts").query)
        for run in range(asked.runs + 1):
            for groups in asked.groups:
                gc.collect()
                tasks = min(asked.tasks, groups)
                with tempfile.TemporaryDirectory() as place:
                    most = asked.size // EACH // 2
                    packing, shards, given = measure(streams, physical, groups, tasks, most, place)
                if run == 0:
                    continue
                parts = " + ".join(f"{one:.2f}" for one in shards)
                sustained = asked.tuples / (packing / tasks + max(shards))
                print(
                    f"{groups:3} key groups: packing {packing:.2f} s, shards {sum(shards):.2f} s ({parts}), tuples"
                    f" copied {given / asked.tuples:.2f} times; {tasks} tasks {sustained / 1e6:.2f} M tuples/s",
                    flush=True,
                )


if __name__ == "__main__":
    main()
