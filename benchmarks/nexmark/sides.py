"""Who answers: ours in this process, ours on Spark, Flink.

Invariant: every side reads the same rows from parquet files and gives its own as a table; a side's seconds and CPU time
begin with the query and end with its last row, and what is begun for all queries (JVM, session) is there before.
"""

from __future__ import annotations

import json
import shutil
import subprocess
import tempfile
import time
from collections.abc import Callable, Mapping
from contextlib import AbstractContextManager, ExitStack
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
from rich.console import Console

import slackwater as sw
from benchmarks.flink import made_environment
from benchmarks.nexmark.queries import Query
from benchmarks.processes import counts_now

Folders = Mapping[str, Path]
EVENT_TIME = "dateTime"
FLINK_SIDE = Path(__file__).parent / "flink_side.py"
DELAY_S = 2
"""What watermarks of Flink wait; our default target waits as long."""


class Side(AbstractContextManager["Side"]):
    """One who answers."""

    one_file = False
    """Whether it needs each stream in a single file."""

    def answer(self, query: Query, folders: Folders) -> pa.Table:
        """The rows of a query over streams in folders."""
        raise NotImplementedError

    def __exit__(self, *_: object) -> None:
        """Most leave nothing."""


@dataclass
class Ours(Side):
    """`sw.replay` in this process, in epochs of a second."""

    target: str

    def answer(self, query: Query, folders: Folders) -> pa.Table:
        streams = {name: str(folders[name]) for name in query.streams}
        epochs = sw.Epochs(span=1_000_000)
        return sw.replay(f"{query.ours} {self.target}", streams, epochs=epochs, time=EVENT_TIME).results


class OnSpark(Side):
    """`sw.start` over file streams, a file of each stream a micro-batch."""

    def __init__(self, target: str) -> None:
        self._target = target
        self._spark = sw.session("local[2]", shards=2, quiet=True, **{"spark.ui.enabled": "false"})

    def answer(self, query: Query, folders: Folders) -> pa.Table:
        streams = {name: self._stream(folders[name]) for name in query.streams}
        with tempfile.TemporaryDirectory() as folder:
            running: Any = sw.start(
                self._spark, f"{query.ours} {self._target}", results=f"{folder}/results",
                checkpoint=f"{folder}/checkpoint", trigger="available", flush=True, time=EVENT_TIME, **streams,
            )  # fmt: skip
            running.wait()
            return pq.read_table(f"{folder}/results")

    def _stream(self, folder: Path) -> Any:
        schema = self._spark.read.parquet(str(folder)).schema
        return self._spark.readStream.schema(schema).option("maxFilesPerTrigger", 1).parquet(str(folder))

    def __exit__(self, *_: object) -> None:
        self._spark.stop()


class Flink(Side):
    """Flink SQL in a process of its own, whose watermarks are `DELAY_S` behind. It reads the files of a folder in an
    order of its own, in which most rows would be late."""

    one_file = True

    def __init__(self, python: Path) -> None:
        jars = sorted(str(jar) for jar in (python.parent.parent / "jars").glob("*.jar"))
        self._process = subprocess.Popen(
            [str(python), str(FLINK_SIDE), json.dumps(jars), str(DELAY_S)],
            stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True,
        )  # fmt: skip

    def answer(self, query: Query, folders: Folders) -> pa.Table:
        assert self._process.stdin is not None
        assert self._process.stdout is not None
        *views, select = (query.flink or query.ours).split(";")
        out = Path(tempfile.mkdtemp())
        asked = {"streams": {name: str(folders[name]) for name in query.streams}, "views": views, "query": select}
        self._process.stdin.write(json.dumps(asked | {"out": str(out)}) + "\n")
        self._process.stdin.flush()
        try:
            for line in self._process.stdout:
                if line.startswith('{"done"'):
                    failed = json.loads(line)["done"]
                    if failed:
                        raise RuntimeError(failed)
                    return _rows_in(out)
            raise RuntimeError("Flink has ended")
        finally:
            shutil.rmtree(out, ignore_errors=True)

    def __exit__(self, *_: object) -> None:
        self._process.communicate()


def _rows_in(folder: Path) -> pa.Table:
    """What Flink has written; files that are hidden are not finished."""
    files = [file for file in sorted(folder.rglob("*")) if file.is_file() and not file.name.startswith((".", "_"))]
    if not files:
        raise RuntimeError("Flink gave no rows")
    return pa.concat_tables(pq.read_table(file) for file in files)


def opened(name: str, target: str, flink: Path, console: Console, stack: ExitStack) -> Side | None:
    """A side that is ready; None, with a word, where it cannot be."""
    if name == "ours":
        return Ours(target)
    if name == "spark":
        return stack.enter_context(OnSpark(target))
    python = made_environment(flink, console)
    return None if python is None else stack.enter_context(Flink(python))


@dataclass(frozen=True)
class Measured:
    """What a run took."""

    rows: pa.Table
    seconds: float
    cpu_seconds: float
    """Of this process and all that it has started."""


def measured(run: Callable[[], pa.Table]) -> Measured:
    """A run, by the clock and by what it used."""
    before, begun = sum(counts_now().values()), time.monotonic()
    rows = run()
    return Measured(rows, time.monotonic() - begun, sum(counts_now().values()) - before)
