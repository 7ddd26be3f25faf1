"""The driver: some of the cases as streaming queries of one application, which can be killed and started again.

Invariant: micro-batch i of a case reads its file i, whatever was killed when. A file source with a limit does not
promise it, so there is no limit, and whoever watches lets a file appear only when the one before is committed.

Run as `python -m tests.cluster.job FOLDER`, or by `spark-submit`; `FOLDER/job.json` says what it does. While it runs
`FOLDER/running.json` says how many tasks each host runs; a file `FOLDER/stop` ends it.
"""

from __future__ import annotations

import json
import sys
import time
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any

from pyspark.sql import SparkSession

import slackwater as sw
from tests.cluster.cases import CASES, SCHEMA
from tests.spark.supervised import QUICK_START

SHARDS = 2


@dataclass(frozen=True)
class Job:
    """What a driver does."""

    master: str
    base: str
    """Where files, checkpoints and rows are."""
    cases: tuple[str, ...]
    format: str = "parquet"
    settings: dict[str, str] = field(default_factory=dict)

    def write(self, folder: Path) -> None:
        folder.mkdir(parents=True, exist_ok=True)
        (folder / "job.json").write_text(json.dumps(asdict(self)))

    @classmethod
    def read(cls, folder: Path) -> Job:
        return cls(**json.loads((folder / "job.json").read_text()))


def begin(spark: SparkSession, case: str, base: str, format: str = "parquet", available: bool = False) -> Any:
    """Start a case over `base/files`, with its rows in `base/rows` and its checkpoint beside them."""
    reader = spark.readStream.format(format).schema(SCHEMA)
    files = (reader.option("maxFilesPerTrigger", 1) if available else reader).load(f"{base}/files")
    trigger, texts = "available" if available else None, {name: one.text for name, one in CASES[case].items()}
    rows, checkpoint = {name: f"{base}/rows/{name}" for name in texts}, f"{base}/checkpoint"
    if len(texts) == 1:
        return sw.start(
            spark, texts[case], s=files, results=rows[case], checkpoint=checkpoint, trigger=trigger, shards=SHARDS
        )
    handle = sw.queries(spark, streams={"s": files}, queries=texts, shards=SHARDS)
    return handle.start(checkpoint, sinks=rows, trigger=trigger)


def main(folder: Path) -> None:
    job = Job.read(folder)
    spark = sw.session(job.master, SHARDS, quiet=True, **QUICK_START | {"spark.ui.enabled": "false"} | job.settings)
    started = [begin(spark, case, f"{job.base}/{case}", job.format) for case in job.cases]
    tracker = spark.sparkContext._jsc.sc().statusTracker()
    while not (folder / "stop").exists():
        for one in started:
            if not one.is_active:
                one.wait()
        running: dict[str, int] = {}
        for executor in tracker.getExecutorInfos():
            running[executor.host()] = running.get(executor.host(), 0) + executor.numRunningTasks()
        (folder / ".running").write_text(json.dumps(running))
        (folder / ".running").rename(folder / "running.json")
        time.sleep(0.1)
    for one in started:
        one.stop()
    spark.stop()


if __name__ == "__main__":
    main(Path(sys.argv[1]))
