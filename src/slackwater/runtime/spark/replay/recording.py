"""Queries over recorded streams on Spark: where their files are, and the streaming query that reads them.

    with runtime.begin(plan, replay, sources, time_unit) as run:
        for table in run.tables(): ...
    with runtime.begin_set(plans, sources, time_unit) as recording:
        recording.drive()
        for name, run in recording.runs().items(): ...

Queries are started as any others are, on a checkpoint in the folder; micro-batch e reads file e of every stream, cut by
the arrivals of all streams together, and what a query emits there is kept in a file of its own (`run.py`).

Invariant: a folder belongs to certain queries over one recording, cut in one way. The same command on the same folder
goes on where the last one stopped; any other command is refused before anything is touched. Of several queries one that
fails stops alone: nothing is kept of it from the micro-batch on in which it did.
"""

from __future__ import annotations

import hashlib
import json
import queue
import shutil
import tempfile
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, replace
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from pyspark import SparkFiles
from pyspark.sql import DataFrame

from slackwater.core.batch import TS, Words
from slackwater.core.errors import UsageError, writing
from slackwater.disorder.release.state import NO_PARTITION
from slackwater.operators.pipeline import Epochs
from slackwater.plan.physical import InputPlan, PhysicalPlan
from slackwater.runtime.recorded import Tick, no_tick
from slackwater.runtime.spark.failures import one_sentence
from slackwater.runtime.spark.members import ALONE
from slackwater.runtime.spark.output_schema import METRICS
from slackwater.runtime.spark.queries import Queries
from slackwater.runtime.spark.query import fingerprint
from slackwater.runtime.spark.replay.run import SparkRun, epochs_kept, write_epoch
from slackwater.runtime.spark.replay.streams import Cut, cut_by, read_streams, write_streams
from slackwater.runtime.spark.running import Running
from slackwater.runtime.spark.session import quiet_session
from slackwater.runtime.spark.started import AVAILABLE, Started, begun
from slackwater.runtime.spark.store import signed, verified
from slackwater.runtime.spark.versions import as_table
from slackwater.sinks.folder import folder_name
from slackwater.sources.replay import Replay, replay

MANIFEST = "recorded.json"
QUERIES = "queries"
"""The folder with what each of several queries has emitted."""
FAILED = "failed.json"
PATIENCE = 0.1
Ranks = Mapping[str, Words] | None
"""The order of arrival of rows where no column has it, as for `sources.replay.replay`."""


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
        """A run of one query; a temporary folder goes when it is over."""
        if replay.arrival_time is not None:
            raise UsageError("--arrival-time is not offered on Spark; leave it out, or take --runtime local")
        with self._recording({ALONE: plan}, plan, replay, sources, time_unit, None) as recording:
            yield SparkRun(
                plan, replay, recording.cut.arrivals, recording.folder_of(ALONE), self.shards, recording.micro_batches
            )

    @contextmanager
    def begin_set(
        self, plans: Mapping[str, PhysicalPlan], sources: Mapping[str, pa.Table], time_unit: str, ranks: Ranks = None
    ) -> Iterator[Recording]:
        """A file of queries: one set, one reading of every stream."""
        union = _union(plans)
        arrivals = replay(_bare(union), sources, time_unit, None, ranks)
        with self._recording(plans, union, arrivals, sources, time_unit, ranks) as recording:
            yield recording

    @contextmanager
    def _recording(
        self,
        plans: Mapping[str, PhysicalPlan],
        union: PhysicalPlan,
        arrivals: Replay,
        sources: Mapping[str, pa.Table],
        time_unit: str,
        ranks: Ranks,
    ) -> Iterator[Recording]:
        """Queries whose streams are in files, by a plan with the inputs of all of them."""
        with self._folder() as folder:
            cut, mark = cut_by(union, arrivals, self.epochs), self._mark(plans, arrivals)
            if _is_new(folder, mark):
                write_streams(union, sources, cut, folder / "streams")
                (folder / MANIFEST).write_text(signed(mark) + "\n")
            spark = quiet_session(self.master, self.shards)
            with one_sentence():
                frames = read_streams(spark, union, sources, folder / "streams")
            yield Recording(self, plans, sources, frames, cut, folder, time_unit, ranks, arrivals.notes)

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

    def _mark(self, plans: Mapping[str, PhysicalPlan], arrivals: Replay) -> dict[str, str]:
        """What a folder must agree with to be taken up again."""
        rows = hashlib.sha256(arrivals.stream.tobytes() + arrivals.row.tobytes())
        for one in arrivals.inputs:
            rows.update(one.words[TS].tobytes())
        queries = hashlib.sha256(repr(self.texts(plans)).encode()).hexdigest()
        return {"query and shards": queries, "streams": rows.hexdigest(), "epochs": repr(self.epochs)}

    def texts(self, plans: Mapping[str, PhysicalPlan]) -> dict[str, str]:
        """What stands for the texts of queries where only their plans are known."""
        return {name: fingerprint(one, tuple(range(self.shards))) for name, one in plans.items()}


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


class Recording:
    """Queries over the files of recorded streams."""

    def __init__(
        self,
        runtime: SparkRuntime,
        plans: Mapping[str, PhysicalPlan],
        sources: Mapping[str, pa.Table],
        frames: Mapping[str, DataFrame],
        cut: Cut,
        folder: Path,
        time_unit: str,
        ranks: Ranks,
        notes: tuple[str, ...],
    ) -> None:
        self._runtime, self._plans, self._sources, self._frames = runtime, plans, sources, frames
        self.cut, self._folder, self._time_unit, self._ranks = cut, folder, time_unit, ranks
        self.notes = notes
        """What is odd about the order of arrival."""
        self.interrupted = False
        self.done = 0
        """Arrivals taken in."""
        self._finished: queue.SimpleQueue[int] = queue.SimpleQueue()
        self._begun = 0.0
        for name in plans:
            (self.folder_of(name) / "epochs").mkdir(parents=True, exist_ok=True)

    def __len__(self) -> int:
        return self.cut.arrivals[-1]

    def interrupt(self) -> None:
        """Stop after the micro-batch at hand."""
        self.interrupted = True

    def drive(self, tick: Tick = no_tick) -> None:
        """Run all queries to the end of the input, or until interrupted."""
        kept = min((self._kept(name) for name in self._plans if self.failure_of(name) is None), default=None)
        if kept is None or kept == self.cut.epochs:
            return
        for number in self.micro_batches(tick, lambda: self.interrupted):
            self.done = self.cut.arrivals[number]

    def micro_batches(self, tick: Tick, interrupted: Callable[[], bool]) -> Iterator[int]:
        """Run to the end of the input, or until interrupted: the numbers of micro-batches as they are kept. The last
        one of an interrupted run may run a second time."""
        with one_sentence():
            started = self._started()
            self._begun = time.perf_counter()
            running = Running(started, flush=False, available=True)
        number, last = -1, self.cut.epochs - 1
        with running:
            while number < last:
                active = running.is_active
                if active and interrupted():
                    running.stop()
                    continue
                try:
                    number = self._finished.get(timeout=PATIENCE)
                    yield number
                except queue.Empty:
                    if not active:
                        break
                tick()
            if number < last and not interrupted():
                running.wait()

    def _started(self) -> Started:
        spark = next(iter(self._frames.values())).sparkSession
        timed = next(iter(self._plans.values())).inputs[0].stream.schema.time
        stated = Queries(
            spark, self._runtime.texts(self._plans), self._plans, self._frames, timed, self._time_unit,
            self._runtime.shards, alone=ALONE in self._plans, recorded=True,
        )  # fmt: skip
        trigger, shards = self._runtime.trigger, self._runtime.shards
        started = begun(stated, self._folder / "query", take=self._keep, trigger=trigger, key_groups=shards)
        started.reports_latency = True
        self._keys = {one.name: one.key for one in started.members()}
        return started

    def _keep(self, frame: DataFrame, number: int) -> None:
        """Called by Spark, in a thread of its own, with what a micro-batch emits."""
        lines = as_table(frame)
        now = time.perf_counter()
        with writing(self._folder):
            for name, key in self._keys.items():
                mine = lines.filter(pc.equal(lines["query"], key)).drop_columns(["query"])
                notes = mine.filter(pc.equal(mine["kind"], METRICS))["note"].to_pylist()
                failures = [reason for note in notes if (reason := json.loads(note)["failure"]) is not None]
                if failures and self.failure_of(name) is None:
                    (self.folder_of(name) / FAILED).write_text(signed({"reason": failures[0]}) + "\n")
                if self.failure_of(name) is None:
                    write_epoch(self.folder_of(name) / "epochs", number, mine, now - self._begun)
        self._begun = now
        self._finished.put(number)

    def runs(self) -> dict[str, SparkRun]:
        """Every query as a run that has come as far as all were driven."""
        return {name: self._run(name, plan) for name, plan in self._plans.items()}

    def _run(self, name: str, plan: PhysicalPlan) -> SparkRun:
        # What a filter or a computed column makes of a row is known to the shards; it might fail here, too.
        inputs = tuple(replace(one, computed=(), stream=replace(one.stream, filters=())) for one in plan.inputs)
        arrivals = replay(replace(plan, inputs=inputs), self._sources, self._time_unit, None, self._ranks)
        done = np.zeros(self.cut.epochs, np.int64)
        for one in plan.inputs:
            done += np.searchsorted(self.cut.epoch[one.stream.source], np.arange(self.cut.epochs), "right")
        taken_in = tuple(done[: self._kept(name)].tolist())
        run = SparkRun(plan, arrivals, taken_in, self.folder_of(name), self._runtime.shards)
        run.interrupted = self.interrupted
        return run

    def failure_of(self, name: str) -> str | None:
        """Why a query has failed; None where it has not."""
        told = self.folder_of(name) / FAILED
        return str(verified(told.read_bytes(), told)["reason"]) if told.exists() else None

    def _kept(self, name: str) -> int:
        return epochs_kept(self.folder_of(name) / "epochs")

    def folder_of(self, name: str) -> Path:
        """Where it is kept what a query has emitted."""
        return self._folder if name == ALONE else self._folder / QUERIES / folder_name(name)


def _union(plans: Mapping[str, PhysicalPlan]) -> PhysicalPlan:
    """A plan with the inputs of all queries: for each source one, and then the others."""
    inputs = [one for plan in plans.values() for one in plan.inputs]
    first: dict[str, InputPlan] = {}
    for one in inputs:
        first.setdefault(one.stream.source, one)
    times = {one.stream.schema.time for one in inputs}
    if len(times) > 1:
        raise UsageError(f"queries of one file take event time from one column, and not from {' and '.join(times)}")
    others = [one for one in inputs if one is not first[one.stream.source]]
    some = next(iter(plans.values()))
    furthest = max(plan.options.max_ahead for plan in plans.values())
    return replace(some, inputs=(*first.values(), *others), options=replace(some.options, max_ahead=furthest))


def _bare(union: PhysicalPlan) -> PhysicalPlan:
    """The sources of a union, each once, with nothing but event times."""

    def timed(one: InputPlan) -> InputPlan:
        stream = replace(one.stream, filters=())
        return replace(one, columns=(), computed=(), stream=stream, partition_slot=NO_PARTITION)

    sources = len({one.stream.source for one in union.inputs})
    return replace(union, inputs=tuple(map(timed, union.inputs[:sources])))
