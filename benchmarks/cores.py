"""What shards, input partitions and key groups cost: `python -m benchmarks.cores [--json FILE] [NAME ...]`.

Sliding sums for 1000 keys (A2) and a join on 1000 keys (J2) run with shards, input partitions, key groups and sizes of
micro-batches that differ. Of each run the first micro-batches are left out; of the others are told, for one: CPU
seconds of tasks and of the driver, bytes shuffled, bytes of headers, bytes of state read and written, files.

CPU time is Linux's own, of the JVM and of all Python workers; shuffled bytes and tasks are Spark's, from its page on
this machine. One machine shows what work there is, and how it grows. It does not show what a network adds.

`benchmarks.cores_model` fits a model to the measurements.
"""

from __future__ import annotations

import argparse
import json
import os
import random
import subprocess
import sys
import tempfile
import time
import urllib.request
from collections.abc import Iterable, Sequence
from dataclasses import asdict, dataclass
from datetime import UTC, datetime
from itertools import pairwise
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pyspark
from pyspark.sql import SparkSession
from pyspark.sql.pandas.types import from_arrow_schema

import slackwater as sw
from benchmarks.inputs import FIELD_M, LATE_SHARE, MAX_DELAY_MS
from benchmarks.processes import Cpu, counts_now, used_between
from benchmarks.stream_files import KEYS
from papers.workloads import uniform_stream
from slackwater.plan.planner import plan
from slackwater.runtime.spark import packed_source
from slackwater.runtime.spark.exchange.writer import packed
from slackwater.runtime.spark.progress import shards_of
from slackwater.runtime.spark.query import packings_of
from slackwater.sources.binding import bind_to_tables

QUERIES = {
    "A2": "SELECT key, SUM(v) AS total FROM s [RANGE 1 SECOND SLIDE 100 MS] GROUP BY key WITH DELAY 2 SECONDS",
    "J2": "SELECT a.key, a.v AS av, b.v AS bv FROM a [RANGE 5 SECONDS], b [RANGE 5 SECONDS] WHERE a.key = b.key"
    " WITH DELAY 2 SECONDS",
}
RATES = {"A2": {"s": 10_000}, "J2": {"a": 1_000, "b": 1_000}}
"""Tuples a second of every stream."""
FILES = 8
"""Files of a stream in a micro-batch: the most partitions it can have."""
WARM, MEASURED = 2, 4
"""Micro-batches that are left out, and that count."""
DEFAULT_GROUPS = 16


@dataclass(frozen=True)
class Setting:
    """One run."""

    query: str
    partitions: int
    """Tasks that read, for each stream."""
    shards: int
    groups: int = DEFAULT_GROUPS
    each: int = 5_000
    """Tuples a file."""
    master: str = "local[2]"

    @property
    def streams(self) -> int:
        return len(RATES[self.query])

    @property
    def tuples(self) -> int:
        """Of a micro-batch."""
        return FILES * self.each * self.streams


@dataclass(frozen=True)
class Measured:
    """Of one micro-batch, on average."""

    setting: Setting
    cpu: Cpu
    shuffled: float
    """Bytes, as Spark has compressed them."""
    header_bytes: float
    """Of headers alone, before they are compressed."""
    block_bytes: float
    tasks: float
    task_seconds: float
    """Of tasks on the wall, each by itself."""
    seconds: float
    driver_seconds: float
    """On the wall, while no job ran."""
    state_read: float
    state_written: float
    state_files: int
    """In the checkpoint, at the end."""
    imbalance: float


def settings(quick: bool) -> list[Setting]:
    """What is run: shards, partitions, key groups and sizes are changed one by one, then together."""
    if quick:
        return [Setting("A2", 1, 1), Setting("A2", 2, 4), Setting("J2", 2, 2, each=2_500)]
    sums = [(2, 1), (2, 2), (2, 4), (2, 8), (2, 16), (1, 4), (8, 4), (8, 1), (8, 16), (2, 4, 64), (8, 16, 64)]
    joins = [(1, 1), (2, 4), (8, 16), (2, 16), (8, 2), (2, 4, 64)]
    found = [Setting("A2", *one) for one in sums]
    found += [Setting("A2", 2, 2, each=50_000), Setting("A2", 8, 8, each=50_000)]
    found += [Setting("J2", *one, each=2_500) for one in joins]
    found += [Setting("J2", 2, 2, each=10_000), Setting("J2", 8, 8, each=10_000)]
    # A JVM gets faster with age; that must not look like the effect of a setting.
    random.Random(0).shuffle(found)
    return found


OTHER_MASTERS = (
    Setting("A2", 2, 8, master="local[8]"),
    Setting("J2", 2, 8, each=2_500, master="local[8]"),
    Setting("A2", 2, 4, master="local-cluster[4,1,1024]"),
    Setting("J2", 2, 4, each=2_500, master="local-cluster[4,1,1024]"),
)
"""Where a shard may be run by another worker in every micro-batch: threads of one JVM, and JVMs of their own."""


class ManyPartitions(packed_source.PackedReader):
    """Reads a micro-batch with as many tasks as it is told, whatever the size of its files."""

    def partitions(self, start: dict[str, int], end: dict[str, int]) -> list[Any]:
        found: list[Any] = []
        cuts = self._log.cuts[start["cut"] : end["cut"]]
        for stream in range(len(self._folders)):
            files = [file for cut in cuts for file in cut[stream]]
            edges = [round(k * len(files) / self._tasks) for k in range(self._tasks + 1)]
            found += [packed_source.Slice(stream, tuple(files[a:b]), a, 0, 1) for a, b in pairwise(edges) if a < b]
        return found


def write_input(folder: Path, setting: Setting) -> dict[str, Path]:
    """The streams of a run, as files."""
    made = {}
    for seed, (name, rate) in enumerate(RATES[setting.query].items(), 1):
        made[name] = folder / f"{setting.query}-{name}-{setting.each}"
        if made[name].exists():
            continue
        made[name].mkdir(parents=True)
        count = FILES * (WARM + MEASURED)
        table = uniform_stream(
            count * setting.each, rate, KEYS, seed, max_delay_ms=MAX_DELAY_MS, late_share=LATE_SHARE, field_m=FIELD_M
        ).select(["ts", "key", "v"])
        for number in range(count):
            pq.write_table(table.slice(number * setting.each, setting.each), made[name] / f"{number:05d}.parquet")
    return made


def run(spark: SparkSession, setting: Setting, folder: Path) -> Measured:
    """Run a query over all its micro-batches, and measure the last of them."""
    folders = write_input(folder, setting)
    place = Path(tempfile.mkdtemp(dir=folder))
    checkpoint = place / "checkpoint"
    schema = from_arrow_schema(pq.read_schema(next(next(iter(folders.values())).iterdir())))
    streams: dict[str, Any] = {
        name: spark.readStream.format("slackwater").schema(schema).option("maxFilesPerTrigger", FILES).load(str(path))
        for name, path in folders.items()
    }
    reader = packed_source.PackedReader
    # What is told to a reader as its tasks is the number of shards; here it is that of partitions.
    packed_source.PackedReader = lambda reads, log, _: ManyPartitions(reads, log, setting.partitions)  # type: ignore
    try:
        running: Any = sw.start(
            spark, QUERIES[setting.query], trigger="available", shards=setting.shards, key_groups=setting.groups,
            results=str(place / "out"), checkpoint=str(checkpoint), **streams,
        )  # fmt: skip
    finally:
        packed_source.PackedReader = reader  # type: ignore[misc]
    wait_for(checkpoint / "commits" / str(WARM - 1), running)
    before = counts_now()
    wait_for(checkpoint / "commits" / str(WARM + MEASURED - 1), running)
    used = used_between(before, counts_now())
    running.wait()
    progress = [one for one in running.query.recentProgress if one["numInputRows"]][WARM:]
    assert len(progress) == MEASURED, [one["batchId"] for one in progress]
    told = [one.shards[0] for batch in progress for one in shards_of(batch)]
    begun = datetime.fromisoformat(progress[0]["timestamp"]).timestamp()
    stages = [one for one in stages_of(spark) if one["submitted"] >= begun]
    jobs = sum(one["ended"] - one["submitted"] for one in stages)
    seconds = sum(one["durationMs"]["triggerExecution"] for one in progress) / 1000
    headers, blocks = line_bytes(setting, folders)
    seen = running.progress()
    measured = Measured(
        setting,
        Cpu(*(value / MEASURED for value in asdict(used).values())),
        sum(one["shuffled"] for one in stages) / MEASURED,
        headers,
        blocks,
        sum(one["tasks"] for one in stages) / MEASURED,
        sum(one["run"] for one in stages) / MEASURED,
        seconds / MEASURED,
        max(0.0, seconds - jobs) / MEASURED,
        sum(one.state_read for one in told) / MEASURED,
        sum(one.state_written for one in told) / MEASURED,
        sum(1 for path in (checkpoint / "slackwater-state").rglob("*") if path.is_file()),
        seen.imbalance,
    )
    subprocess.run(["rm", "-rf", str(place)], check=False)
    return measured


def wait_for(file: Path, running: Any) -> None:
    """Until Spark has committed a micro-batch."""
    looked = time.monotonic()
    while not file.exists():
        # To ask Spark costs the driver, which is measured; files cost nothing.
        if time.monotonic() - looked > 1:
            looked = time.monotonic()
            if not running.is_active and not file.exists():
                running.wait()
                raise RuntimeError(f"{file} was never written")
        time.sleep(0.01)


def stages_of(spark: SparkSession) -> list[dict[str, float]]:
    """What Spark's own page says of all stages that are done."""
    context = spark.sparkContext
    address = f"{context.uiWebUrl}/api/v1/applications/{context.applicationId}/stages?status=complete"
    with urllib.request.urlopen(address) as answer:
        found = json.load(answer)
    return [
        {
            "submitted": _moment(one["submissionTime"]),
            "ended": _moment(one["completionTime"]),
            "shuffled": one["shuffleWriteBytes"],
            "tasks": one["numCompleteTasks"],
            "run": one["executorRunTime"] / 1000,
        }
        for one in found
    ]


def _moment(text: str) -> float:
    return datetime.strptime(text, "%Y-%m-%dT%H:%M:%S.%fGMT").replace(tzinfo=UTC).timestamp()


def line_bytes(setting: Setting, folders: dict[str, Path]) -> tuple[float, float]:
    """Bytes of all headers and of all blocks of one micro-batch, packed here as its tasks pack it."""
    tables = {name: _first_files(path) for name, path in folders.items()}
    planned = plan(bind_to_tables(QUERIES[setting.query], tables, "ts").query)
    headers = blocks = 0
    for packing in packings_of(planned, tuple(range(setting.groups)), "ms", tasks=setting.shards):
        table = tables[packing.plan.stream.source]
        edges = [round(k * table.num_rows / setting.partitions) for k in range(setting.partitions + 1)]
        for part, (a, b) in enumerate(pairwise(edges)):
            lines = packed(packing, table.slice(a, b - a), part)
            headers += sum(map(len, lines.column("header").to_pylist()))
            blocks += sum(len(one) for one in lines.column("block").to_pylist() if one is not None)
    return headers, blocks


def _first_files(folder: Path) -> pa.Table:
    return pa.concat_tables([pq.read_table(file) for file in sorted(folder.iterdir())[:FILES]]).combine_chunks()


def in_session(master: str, asked: Sequence[Setting], folder: Path) -> Iterable[Measured]:
    """Runs in one session, after one that nobody counts: a JVM is slow when it is young."""
    more: dict[str, Any] = {"spark.ui.enabled": "true", "spark.ui.port": "0", "spark.driver.memory": "2g"}
    # A thread that compiles and ends takes its count of CPU time with it.
    more |= {"spark.driver.extraJavaOptions": "-XX:-UseDynamicNumberOfCompilerThreads"}
    if master.startswith("local-cluster"):
        # Executors are started from a home of Spark, and write there: not into the installed package.
        home = folder / "spark"
        home.mkdir()
        for part in Path(pyspark.__file__).parent.iterdir():
            (home / part.name).symlink_to(part)
        os.environ["SPARK_HOME"] = str(home)
        more |= {"spark.executor.memory": "1g", "spark.executorEnv.PYTHONPATH": os.pathsep.join(sys.path[1:])}
    spark = sw.session(master, max(one.shards for one in asked), quiet=True, **more)
    try:
        run(spark, asked[0], folder)
        for one in asked:
            yield run(spark, one, folder)
    finally:
        spark.stop()


def main() -> None:
    """Run, print, and write."""
    parser = argparse.ArgumentParser(prog="python -m benchmarks.cores", description=(__doc__ or "").splitlines()[0])
    parser.add_argument("names", nargs="*", metavar="NAME", help=f"some of: {', '.join(QUERIES)}")
    parser.add_argument("--quick", action="store_true", help="three runs")
    parser.add_argument("--masters", action="store_true", help="the runs with other masters instead")
    parser.add_argument("--json", type=Path, metavar="FILE", help="add what it does not have yet to this file")
    asked = parser.parse_args()
    wanted = list(OTHER_MASTERS) if asked.masters else settings(asked.quick)
    done = read(asked.json) if asked.json and asked.json.exists() else []
    known = {one.setting for one in done}
    wanted = [one for one in wanted if one not in known and (not asked.names or one.query in asked.names)]
    with tempfile.TemporaryDirectory(ignore_cleanup_errors=True) as name:
        for master in dict.fromkeys(one.master for one in wanted):
            for one in in_session(master, [each for each in wanted if each.master == master], Path(name)):
                print(told(one), flush=True)
                if asked.json:
                    with asked.json.open("a", encoding="utf-8") as file:
                        file.write(json.dumps(asdict(one)) + "\n")


def read(file: Path) -> list[Measured]:
    """Measurements, as they were written."""
    lines = [json.loads(line) for line in file.read_text("utf-8").splitlines()]
    return [Measured(**{**line, "setting": Setting(**line["setting"]), "cpu": Cpu(**line["cpu"])}) for line in lines]


def told(one: Measured) -> str:
    """A run as a line."""
    at = one.setting
    return (
        f"{at.query} {at.master:14} P={at.partitions} S={at.shards:2} G={at.groups:3} {at.tuples:7,} tuples:"
        f" CPU {one.cpu.tasks:.2f} s in tasks, {one.cpu.driver + one.cpu.program:.2f} s driver;"
        f" {one.shuffled / at.tuples:.1f} B shuffled a tuple, headers {one.header_bytes / 1024:.0f} KB;"
        f" state {one.state_written / 1024:.0f} KB written, {one.state_read / 1024:.0f} KB read,"
        f" {one.state_files} files;"
        f" {one.seconds:.2f} s, driver {one.driver_seconds:.2f} s, {one.tasks:.0f} tasks; busiest {one.imbalance:.2f}"
    )


if __name__ == "__main__":
    main()
