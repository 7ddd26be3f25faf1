"""Where a recorded run on Spark keeps its files: cut streams, Spark's checkpoint, what was emitted.

Invariant: a folder belongs to one query over one recording, cut in one way. The same command on the same folder goes
on where the last one stopped; any other command is refused before anything is touched.
"""

from __future__ import annotations

import hashlib
import shutil
import tempfile
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

import pyarrow as pa
from pyspark import SparkFiles

from slackwater.core.batch import TS
from slackwater.core.errors import UsageError
from slackwater.operators.pipeline import Epochs
from slackwater.plan.physical import PhysicalPlan
from slackwater.runtime.spark.failures import one_sentence
from slackwater.runtime.spark.query import fingerprint
from slackwater.runtime.spark.replay.run import AVAILABLE, SparkRun
from slackwater.runtime.spark.replay.streams import cut_by, read_streams, write_streams
from slackwater.runtime.spark.session import quiet_session
from slackwater.runtime.spark.store import signed, verified
from slackwater.sources.replay import Replay

MANIFEST = "recorded.json"


@dataclass(frozen=True)
class SparkRuntime:
    """How and where to run on Spark."""

    epochs: Epochs
    shards: int
    master: str
    checkpoint: Path | None = None
    """None: a temporary folder."""
    trigger: str = AVAILABLE

    @contextmanager
    def begin(
        self, plan: PhysicalPlan, replay: Replay, sources: Mapping[str, pa.Table], time_unit: str
    ) -> Iterator[SparkRun]:
        """A run whose files are there; a temporary folder goes when it is over."""
        if replay.arrival_time is not None:
            raise UsageError("--arrival-time is not offered on Spark; leave it out, or take --runtime local")
        with self._folder() as folder:
            cut = cut_by(plan, replay, self.epochs)
            if _is_new(folder, self._mark(plan, replay)):
                write_streams(plan, sources, cut, folder / "streams")
                (folder / MANIFEST).write_text(signed(self._mark(plan, replay)) + "\n")
            spark = quiet_session(self.master, self.shards)
            with one_sentence():
                frames = read_streams(spark, plan, sources, folder / "streams")
            yield SparkRun(
                spark, plan, replay, frames, cut.arrivals, folder,
                shards=self.shards, time_unit=time_unit, trigger=self.trigger,
            )  # fmt: skip

    @contextmanager
    def _folder(self) -> Iterator[Path]:
        if self.checkpoint is not None:
            if self.checkpoint.exists() and not self.checkpoint.is_dir():
                raise UsageError(f"--checkpoint {self.checkpoint}: this is a file; name a folder")
            self.checkpoint.mkdir(parents=True, exist_ok=True)
            yield self.checkpoint.resolve()
            return
        if not self.master.startswith("local"):
            raise UsageError(f"--master {self.master}: name a folder that all its machines share with --checkpoint DIR")
        quiet_session(self.master, self.shards)
        # Spark goes on uploading state after a query has ended; what it puts back here, it removes when it stops.
        within = SparkFiles.getRootDirectory()
        with tempfile.TemporaryDirectory(prefix="recorded-", dir=within, ignore_cleanup_errors=True) as temporary:
            yield Path(temporary)

    def _mark(self, plan: PhysicalPlan, replay: Replay) -> dict[str, str]:
        rows = hashlib.sha256(replay.stream.tobytes() + replay.row.tobytes())
        for one in replay.inputs:
            rows.update(one.words[TS].tobytes())
        query = fingerprint(plan, tuple(range(self.shards)))
        return {"query and shards": query, "streams": rows.hexdigest(), "epochs": repr(self.epochs)}


def _is_new(folder: Path, mark: dict[str, str]) -> bool:
    """Whether streams are still to be cut into a folder; refuses one that belongs to something else."""
    manifest = folder / MANIFEST
    if manifest.exists():
        found = verified(manifest.read_bytes(), manifest)
        others = [name for name, value in mark.items() if found.get(name) != value]
        if others:
            raise UsageError(
                f"--checkpoint {folder}: it belongs to a run with other {others[0]}; name a new folder, or repeat the"
                " command it was made by"
            )
        return False
    strange = [entry.name for entry in folder.iterdir() if entry.name != "streams"]
    if strange:
        raise UsageError(f"--checkpoint {folder}: it holds other files ({strange[0]}); name an empty or a new folder")
    # Cut by a command that was stopped in the middle of it.
    shutil.rmtree(folder / "streams", ignore_errors=True)
    return True
