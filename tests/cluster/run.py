"""Feeds, watches, kills and restarts the driver of `job.py`.

Invariant: a file of a case appears only when the one before is committed.
"""

from __future__ import annotations

import json
import os
import time
from collections.abc import Callable
from pathlib import Path

import pyarrow as pa

from slackwater.runtime.spark.store import At, inside, store_at
from tests.cluster.attempts import SETTINGS, Attempt, attempts, repeated
from tests.cluster.cases import publish
from tests.cluster.job import Job
from tests.kit.processes import QUICK_JVM, ROOT, Process, python, spark_home

LASTING = 0.8
"""Seconds after which a task that runs on a host which stands still is one that waits for its Python worker."""
SPREAD = {"spark.locality.wait": "0s", "spark.shuffle.reduceLocality.enabled": "false"}
"""Two tasks at the same time are to run on two hosts."""


class Run:
    """One application over fixed files, however many drivers it takes."""

    def __init__(self, folder: Path, job: Job, base: At, tables: list[pa.Table], submit: bool = False) -> None:
        self.folder, self._base, self._tables, self._submit = folder, base, tables, submit
        (folder / "events").mkdir(parents=True)
        self._home = spark_home(folder / "spark")
        log = {"spark.eventLog.dir": (folder / "events").as_uri(), **SETTINGS}
        job = Job(**{**vars(job), "settings": log | SPREAD | job.settings})
        job.write(folder)
        self.fed = dict.fromkeys(job.cases, 0)
        self._driver: Process | None = None
        for case in self.fed:
            # With the first file there from the beginning no micro-batch has messages alone.
            self.feed(case)

    def of(self, case: str, *names: str) -> At:
        """A folder of a case."""
        found = inside(self._base, case)
        for name in names:
            found = inside(found, name)
        return found

    def start(self) -> None:
        """Start a driver, which goes on where the last one was."""
        (self.folder / "running.json").unlink(missing_ok=True)
        given = {"JDK_JAVA_OPTIONS": QUICK_JVM, "SPARK_LOCAL_IP": "127.0.0.1", "SPARK_HOME": str(self._home)}
        command = python("-m", "tests.cluster.job", str(self.folder))
        if self._submit:
            given["PYSPARK_PYTHON"] = python()[0]
            given["PYTHONPATH"] = os.pathsep.join((os.environ.get("PYTHONPATH", ""), str(ROOT)))
            script = ROOT / "tests" / "cluster" / "job.py"
            master = ("--master", Job.read(self.folder).master)
            command = [str(self._home / "bin" / "spark-submit"), *master, str(script), str(self.folder)]
        self._driver = Process(command, self.folder / "log", given)

    @property
    def driver(self) -> Process:
        assert self._driver is not None
        return self._driver

    def kill(self) -> None:
        """End the driver at once."""
        if self._driver is not None:
            self._driver.kill()
            self._driver = None

    def stop(self) -> None:
        """End the driver in its own time, so that it has written down all that happened."""
        (self.folder / "stop").touch()
        assert self.driver.ended() == 0, self.driver.said()
        (self.folder / "stop").unlink()
        self._driver = None

    def feed(self, case: str) -> None:
        """Let the next file of a case appear."""
        publish(self.of(case, "files"), self.fed[case], self._tables[self.fed[case]])
        self.fed[case] += 1

    def feed_and_commit(self, *cases: str) -> None:
        """Let a file of each of these cases appear, and wait for what it brings."""
        for case in cases:
            self.feed(case)
        self.commit(*cases)

    def feed_rest(self) -> None:
        """Bring all cases to their end."""
        while waiting := [case for case, fed in self.fed.items() if fed < len(self._tables)]:
            self.feed_and_commit(*waiting)

    def commit(self, *cases: str) -> None:
        """Wait until all that has appeared of these cases is committed."""
        self.driver.until(lambda: not any(map(self.is_behind, cases or self.fed)))

    def is_behind(self, case: str) -> bool:
        """Whether a file of a case is not yet committed."""
        return self._files_in(case, "commits") < self.fed[case]

    def is_planned(self, case: str) -> bool:
        """Whether some micro-batch has taken the last file."""
        return self._files_in(case, "offsets") == self.fed[case]

    def _files_in(self, case: str, log: str) -> int:
        """Files that belong to the micro-batches in a log of the checkpoint: planned ones, or committed ones."""
        store = store_at(self.of(case, "checkpoint"))
        numbers = [int(name) for name in store.names(log) if name.isdigit()]
        if not numbers:
            return 0
        # Behind two lines of its own an entry has a line a source; the files are the first.
        lines = (store.read(f"offsets/{max(numbers)}") or b"").decode().splitlines()
        if len(lines) < 3 or lines[2] == "-":
            return 0
        offset = json.loads(lines[2])
        return int(offset["cut"] if "cut" in offset else offset["logOffset"] + 1)

    def until_stuck(self, case: str, host: str) -> None:
        """Wait until a micro-batch of a case waits for a host that stands still, and for nothing else."""

        def waits() -> bool:
            running = self._running()
            return self.is_planned(case) and running.pop(host, 0) > 0 and not any(running.values())

        self._lasts(waits)
        assert self.is_behind(case)

    def until_idle(self) -> None:
        """Wait until no task runs, also none that warms up workers."""
        self._lasts(lambda: not any(self._running().values()))

    def _lasts(self, so: Callable[[], bool]) -> None:
        """Wait until something is so for a while."""
        since = [time.monotonic()]

        def lasts() -> bool:
            if not so():
                since[0] = time.monotonic()
            return time.monotonic() - since[0] > LASTING

        self.driver.until(lasts)

    def _running(self) -> dict[str, int]:
        """How many tasks each host runs."""
        try:
            return dict(json.loads((self.folder / "running.json").read_text()))
        except FileNotFoundError:
            return {}

    def query(self, case: str) -> str:
        """The id of the streaming query of a case."""
        return str(json.loads(store_at(self.of(case, "checkpoint")).read("metadata") or b"{}")["id"])

    def attempts(self, case: str) -> list[Attempt]:
        """The attempts of the tasks of a case."""
        query = self.query(case)
        return [one for one in attempts(self.folder / "events") if one.query == query]

    def was_repeated(self, case: str, number: int) -> bool:
        """Whether two drivers have begun a micro-batch of a case."""
        return (self.query(case), number) in repeated(self.folder / "events")

    def until_noted(self, case: str, what: Callable[[list[Attempt]], bool]) -> None:
        """Wait until Spark has written down something about the attempts of a case; it does so a little later."""
        self.driver.until(lambda: what(self.attempts(case)), limit=30)
