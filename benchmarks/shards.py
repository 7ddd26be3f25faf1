"""What shards cost: `python -m benchmarks.shards [QUERY] [--groups 1 2 4 16] [--tasks 2] [--field 100]`.

Packing and shards of a query (T2 of `benchmarks.spark`, unless another is named) as tasks on Spark run them, from files
to results as parquet, one after the other in this process, without the JVM. Told are CPU seconds: of packing, of each
task; and the tuples a second that follow if tasks run at the same time, packing is shared among them, and nothing else
costs time.
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
import pytest

from benchmarks.inputs import LATE_SHARE, MAX_DELAY_MS
from papers.workloads import uniform_stream
from slackwater.plan.physical import PhysicalPlan
from slackwater.plan.planner import plan
from slackwater.runtime.spark.exchange import files
from slackwater.runtime.spark.exchange.packing import Reads, packer_of
from slackwater.runtime.spark.folders import Folder
from slackwater.runtime.spark.members import ALONE, KeyGroups, columns_read, member
from slackwater.runtime.spark.output_schema import COLUMNS, ROWS, written_schema
from slackwater.runtime.spark.packed_source import NOTHING_KNOWN
from slackwater.runtime.spark.state import host
from slackwater.runtime.spark.state.cached import CachedShards
from slackwater.runtime.spark.state.host import run_shards
from slackwater.runtime.spark.state.root import Share
from slackwater.sources.binding import bind_to_tables

PAIRS = "SELECT a.v AS av, b.v AS bv FROM a [RANGE 5 SECONDS], b [RANGE 5 SECONDS] WHERE {} WITH "
NEAR = "dist(a.x, a.y, b.x, b.y) < 5"
QUERIES = {
    "near": PAIRS + "DELAY 2 SECONDS",
    "near-recall": PAIRS + "RECALL 0.95 OVER 1 MINUTE",
    "sum": "SELECT SUM(v) AS total FROM a [RANGE 5 SECONDS SLIDE 1 SECOND] WITH DELAY 2 SECONDS",
    "sum-error": "SELECT SUM(v) AS total FROM a [RANGE 5 SECONDS SLIDE 1 SECOND] WITH ERROR 1% CONFIDENCE 95%",
    "count": "SELECT COUNT(*) AS n FROM ("
    + PAIRS.removesuffix(" WITH ")
    + ") j [RANGE 5 SECONDS] WITH DELAY 2 SECONDS",
}
RATE, FIELD_M, EACH = 330, 100.0, 3_300
"""Tuples a second of each stream, metres along each side, tuples a file."""


def measure(
    streams: dict[str, list[str]], physical: PhysicalPlan, groups: int, tasks: int, most: int, place: str
) -> tuple[float, list[float], int]:
    """CPU seconds of packing and of each task, and how many tuples reached shards; so many files make a micro-batch."""
    one = member(ALONE, 0, physical, KeyGroups(groups, tasks), "ms")
    schema = written_schema(physical, ROWS)
    folder = Folder(place, schema, tuple(COLUMNS.get(ROWS, schema.names)), "snappy")
    hosted = host.Hosted((one,), False, (), {(one.key, ROWS): folder}, emits_all=False)
    packing_s, task_s = 0.0, [0.0] * tasks
    cached = host.CACHED = CachedShards()
    for number, begin in enumerate(range(0, len(next(iter(streams.values()))), most)):
        begun = time.process_time()
        lines: list[pa.RecordBatch] = []
        for source, names in streams.items():
            packer = packer_of([(one.key, one.packings)], source, "ms", False, by_files=True)
            found = pq.read_schema(names[0])
            columns = tuple(columns_read([one], source, "ts", found.names))
            reads = Reads(source, files.Folder("", "parquet", found, None), packer, columns)
            lines += reads.packed(tuple(names[begin : begin + most]), 0, 1, 0, NOTHING_KNOWN)
        packing_s += time.process_time() - begun
        for task in range(tasks):
            mine = one.shards[task::tasks]
            own = [batch.filter(pc.is_in(batch["shard"], pa.array([*mine, task], pa.int32()))) for batch in lines]
            with pytest.MonkeyPatch.context() as patch:
                # As in a worker, a shard is kept from one micro-batch to the next.
                patch.setattr(host, "run_of_task", lambda: "benchmark/run")
                patch.setattr(host, "task_number", lambda task=task: task)
                begun = time.process_time()
                for _ in run_shards(hosted, mine, own, f"{place}/state", number, Share(task, tasks)):
                    pass
                task_s[task] += time.process_time() - begun
    shards = [place.shard for kept in cached._cached.values() for place in kept.places.values()]
    return packing_s, task_s, sum(shard.read for shard in shards)


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
    parser.add_argument("query", nargs="?", default="near", choices=QUERIES)
    parser.add_argument("--groups", type=int, nargs="+", default=[1, 2, 4, 16], help="key groups")
    parser.add_argument("--tasks", type=int, default=2)
    parser.add_argument("--tuples", type=int, default=198_000)
    parser.add_argument("--size", type=int, default=66_000, help="tuples a micro-batch")
    parser.add_argument("--field", type=float, default=FIELD_M, help="metres along each side")
    parser.add_argument("--near", default=NEAR, help="the condition")
    parser.add_argument("--by-rows", action="store_true", help="cut by rows, and not by place")
    parser.add_argument("--runs", type=int, default=3)
    asked = parser.parse_args()
    query = QUERIES[asked.query].format(asked.near) + (" OPTIONS (shards_by = 'rows')" if asked.by_rows else "")
    with tempfile.TemporaryDirectory() as folder:
        names = "ab" if " b [" in query else "a"
        each = asked.tuples // len(names)
        streams = {name: written(Path(folder), name, seed, each, asked.field) for seed, name in enumerate(names)}
        tables = {name: pq.read_table(files[0]) for name, files in streams.items()}
        physical = plan(bind_to_tables(query, tables, "ts").query)
        for run in range(asked.runs + 1):
            for groups in asked.groups:
                gc.collect()
                tasks = min(asked.tasks, groups)
                with tempfile.TemporaryDirectory() as place:
                    most = asked.size // EACH // len(names)
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
