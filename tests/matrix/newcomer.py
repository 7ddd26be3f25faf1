"""What a newcomer does first, on the PySpark of this environment: `python tests/matrix/newcomer.py FOLDER`.

Invariant: every feature says in one line of JSON whether it runs, is refused, or fails; none keeps another from being
tried. What runs has been checked: rows are there, and no pair came twice over a restart.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
import time
import traceback
from collections.abc import Callable
from importlib.metadata import version
from pathlib import Path
from typing import Any

import slackwater as sw
from slackwater.core.errors import SlackwaterError, UsageError
from slackwater.testing.broker import UnavailableError, fetched

PATIENCE = 600.0
"""Seconds that a query has to give its first rows; the first one compiles its kernels."""
SERVER = "org.apache.spark:spark-connect_2.12:3.5.5"
"""That of Spark Connect for PySpark 3.5; a newer one is not in every repository."""
PAIRS = """
    SELECT a.device, a.value AS inside, b.value AS outside
    FROM a [RANGE 1 SECOND], b [RANGE 1 SECOND]
    WHERE a.device = b.device
    WITH RECALL 0.95 OVER 10 SECONDS
    """
LOAD = "SELECT device, COUNT(*) AS n FROM a [RANGE 1 SECOND] GROUP BY device WITH DELAY 100 MS"
TOTALS = "SELECT key, SUM(v) AS total FROM s [RANGE 1 SECOND] GROUP BY key WITH DELAY 5 SECONDS"
BEGIN = 1_700_000_000_000


class Newcomer:
    """A session, and a folder for all that is written."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.spark: Any = sw.session("local[2]", quiet=True, **{"spark.ui.enabled": "false"})

    def delayed(self, seconds: float) -> Any:
        """The stream of the README: readings of 20 devices, each delayed by this much on average."""
        rate = self.spark.readStream.format("rate").option("rowsPerSecond", 200).load()
        delay = f"make_dt_interval(0, 0, 0, -ln(1 - rand()) * {seconds})"
        return rate.selectExpr(f"timestamp - {delay} AS ts", "value % 20 AS device", "value", "rand() AS reading")

    def files(self) -> str:
        """A folder with recorded rows, in three files."""
        import pyarrow as pa
        import pyarrow.parquet as pq

        folder = self.folder / "recorded"
        if not folder.exists():
            folder.mkdir()
            for number in range(3):
                rows = range(1000 * number, 1000 * (number + 1))
                table = pa.table({"ts": [BEGIN + 10 * i for i in rows], "key": [i % 7 for i in rows], "v": list(rows)})
                pq.write_table(table, folder / f"{number}.parquet")
        return str(folder)

    def totals(self) -> Any:
        """What `TOTALS` gives of these files, by the local runtime."""
        return sorted((row["key"], row["total"]) for row in sw.replay(TOTALS, {"s": self.files()}).results.to_pylist())

    def read(self, name: str) -> Any:
        """The rows of a folder of results."""
        return self.spark.read.parquet(str(self.folder / name))

    # What is tried.

    def start_stop_and_restart(self) -> str:
        """The README's running query, with a restart from its checkpoint."""
        for run in range(2):
            query = sw.start(
                self.spark, PAIRS, a=self.delayed(0.5), b=self.delayed(2), results=str(self.folder / "pairs"),
                late=str(self.folder / "late"), checkpoint=str(self.folder / "checkpoint"),
            )  # fmt: skip
            until(query, lambda query=query: emitted(query.progress()))
            if run == 0:
                query.set_target(sw.recall(0.99))
                until(query, lambda query=query: "0.99" in str(query.progress().latest.target))
            assert "target" in str(query.progress())
            query.stop()
        pairs = self.read("pairs")
        count = pairs.count()
        assert count == pairs.select("inside", "outside").distinct().count(), "a pair came twice"
        assert pairs.select("batch").distinct().count() > 1
        return f"{count} pairs, each once"

    def a_dataframe_of_results(self) -> str:
        """`sw.sql(...).writeStream`."""
        pairs = sw.sql(self.spark, LOAD, a=self.delayed(0.2), state=str(self.folder / "state"))
        writer = pairs.writeStream.format("parquet").option("checkpointLocation", str(self.folder / "by hand"))
        query = writer.start(str(self.folder / "load"))
        until(query, lambda: emitted(sw.progress(query)))
        query.stop()
        return f"{self.read('load').count()} rows"

    def a_batch(self) -> str:
        """`sw.aggregate` over a batch DataFrame."""
        batch = self.spark.read.parquet(self.files())
        totals = sw.aggregate(batch, time="ts", window="1 second", by="key", select={"total": "SUM(v)"})
        found = sorted((row.key, row.total) for row in totals.collect())
        assert found == self.totals(), (found[:3], self.totals()[:3])
        return f"{len(found)} rows, those of the local runtime"

    def queries_of_two(self) -> str:
        """`sw.queries`, with one more that is added while they run."""
        texts = {"pairs": PAIRS, "load": LOAD}
        handle = sw.queries(self.spark, streams={"a": self.delayed(0.2), "b": self.delayed(0.5)}, queries=texts)
        # What is not a folder of parquet is written by Spark, in threads.
        sinks: dict[str, Any] = {
            "pairs": {
                "results": str(self.folder / "set pairs"),
                "late": sw.sink("json", str(self.folder / "set late")),
            },
            "load": str(self.folder / "set load"),
        }
        running = handle.start(str(self.folder / "set"), sinks=sinks)
        until(running, lambda: set(texts) <= {name for name, one in running.progress().items() if emitted(one)})
        running.add("more", LOAD.replace("COUNT(*)", "SUM(reading)"), sinks=str(self.folder / "set more"))
        until(running, lambda: emitted(running.progress().get("more")))
        until(running, lambda: running.progress()["pairs"].latest.late)
        running.stop()
        assert self.spark.read.json(str(self.folder / "set late")).count()
        return ", ".join(f"{name} {self.read(f'set {name}').count()} rows" for name in ("load", "pairs", "more"))

    def time_steps(self) -> str:
        """A query without sinks, asked for time steps."""
        query = sw.start(self.spark, LOAD, a=self.delayed(0.1), checkpoint=str(self.folder / "steps"))
        try:
            step = query.next(timeout=PATIENCE)
        finally:
            query.close()
        return f"a step of {step.rows.num_rows} rows"

    def our_own_source(self) -> str:
        """`format("slackwater")`, over the files that are there."""
        return self._packed({}, "packed")

    def our_own_source_in_parts(self) -> str:
        """The same, one file a micro-batch."""
        return self._packed({"maxFilesPerTrigger": 1}, "packed in parts")

    def _packed(self, options: dict[str, Any], name: str) -> str:
        stream = self.spark.readStream.format("slackwater").options(**options).load(self.files())
        query = sw.start(
            self.spark, TOTALS, s=stream, results=str(self.folder / name), trigger="available", flush=True,
            checkpoint=str(self.folder / f"{name} checkpoint"),
        )  # fmt: skip
        query.wait()
        found = sorted((row.key, row.total) for row in self.read(name).collect())
        assert found == self.totals(), (found[:3], self.totals()[:3])
        return f"{len(found)} rows, those of the local runtime"

    def over_connect(self) -> str:
        """`sw.sql` over Spark Connect, in a process of its own."""
        folder = self.folder / "connect"
        for name in "ab":
            (folder / name).mkdir(parents=True)
            rows = [{"ts": f"2026-01-01T00:00:0{i}.000Z", "k": f"k{i % 2}", "v": i} for i in range(1, 5)]
            (folder / name / "0.json").write_text("\n".join(map(json.dumps, rows)) + "\n")
        program = Path(__file__).parents[1] / "spark" / "connected.py"
        command = [sys.executable, str(program), str(folder)]
        environment = dict(os.environ)
        if version("pyspark").startswith("3."):
            # There the server is no part of the package.
            [jar] = fetched("connect", (SERVER,)).iterdir()
            environment["PYSPARK_SUBMIT_ARGS"] = f"--jars {jar} pyspark-shell"
        done = subprocess.run(command, capture_output=True, text=True, timeout=PATIENCE, check=False, env=environment)
        if done.returncode:
            raise RuntimeError(done.stderr.strip()[-2000:])
        reported = json.loads(done.stdout.strip().splitlines()[-1])
        assert reported == {"plain": 8, "results": 8, "batch": 8}, reported
        return "a stream and a batch, 8 pairs each"


def emitted(history: Any) -> int:
    """How many results a query has given."""
    return history.latest.results if history else 0


def until(query: Any, is_so: Callable[[], Any]) -> None:
    """Wait for something, or for the query to fail."""
    end = time.monotonic() + PATIENCE
    while not is_so():
        if not (query.is_active if hasattr(query, "is_active") else query.isActive):
            getattr(query, "wait", getattr(query, "awaitTermination", None))()
            raise RuntimeError("the query has ended")
        if time.monotonic() > end:
            raise TimeoutError(f"nothing in {PATIENCE:g} s")
        time.sleep(0.3)


FEATURES: dict[str, Callable[[Newcomer], str]] = {
    "sw.start, set_target, restart": Newcomer.start_stop_and_restart,
    "sw.sql(...).writeStream": Newcomer.a_dataframe_of_results,
    "sw.aggregate, batch": Newcomer.a_batch,
    "sw.queries of two, and add": Newcomer.queries_of_two,
    "sw.start without sinks, next()": Newcomer.time_steps,
    'format("slackwater")': Newcomer.our_own_source,
    "the same, maxFilesPerTrigger": Newcomer.our_own_source_in_parts,
    "Spark Connect": Newcomer.over_connect,
}


def tried(feature: Callable[[Newcomer], str], newcomer: Newcomer) -> dict[str, Any]:
    """What became of a feature."""
    begun = time.monotonic()
    try:
        outcome, said = "runs", feature(newcomer)
    except UsageError as error:
        outcome, said = "refused", str(error)
    except UnavailableError as error:
        outcome, said = "not tried", str(error)
    except (SlackwaterError, Exception) as error:
        traceback.print_exc()
        outcome, said = "fails", f"{type(error).__name__}: {error}"
    return {"outcome": outcome, "said": said, "seconds": round(time.monotonic() - begun, 1)}


def main(folder: Path, wanted: list[str]) -> None:
    """Try everything, or what is named."""
    os.environ.setdefault("SPARK_LOCAL_IP", "127.0.0.1")
    newcomer = Newcomer(folder)
    for name, feature in FEATURES.items():
        if not wanted or any(one in name for one in wanted):
            sys.stdout.write(json.dumps({"feature": name} | tried(feature, newcomer)) + "\n")
            sys.stdout.flush()
    newcomer.spark.stop()


if __name__ == "__main__":
    main(Path(sys.argv[1]), sys.argv[2:])
