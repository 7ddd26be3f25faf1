"""The race of the demo: one game, several ways of waiting, side by side at one pace, in this process or on Spark.

Invariant: every contender is an ordinary run over the same arrivals. The pace decides only when a batch is handed over,
never what is in it, so a race in slow motion ends in the same reports as one at full speed. Micro-batches on Spark are
cut by event time, so the outcome depends on the game alone and not on how fast Spark is.
"""

from __future__ import annotations

import threading
import time
from abc import ABC, abstractmethod
from collections.abc import Callable, Iterator, Mapping, Sequence
from concurrent.futures import FIRST_EXCEPTION, Future, ThreadPoolExecutor, wait
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, fields
from typing import Any

import pyarrow as pa

from slackwater.cli.paging import Paged
from slackwater.cli.prepare import ANYWHERE
from slackwater.core.batch import Batch
from slackwater.core.time import AFTER_ALL, BEFORE_ALL, SECOND
from slackwater.observe.report import Report
from slackwater.observe.value import QueryProgress
from slackwater.operators.pipeline import Epochs
from slackwater.plan.physical import PhysicalPlan
from slackwater.runtime.local.run import LocalRun
from slackwater.runtime.recorded import RecordedRun
from slackwater.sources.replay import Replay

TUPLE_RELEASE = Epochs(each_tuple=True)
STEPS = 250
FRAME = 0.1
Gate = Callable[[int], None]


@dataclass(frozen=True)
class GatedReplay(Replay):
    """Arrivals in small batches, each of which passes a gate first."""

    gate: Gate
    step: int

    @classmethod
    def of(cls, replay: Replay, gate: Gate) -> GatedReplay:
        same = {field.name: getattr(replay, field.name) for field in fields(Replay)}
        return cls(**same, gate=gate, step=max(1, len(replay) // STEPS))

    def batches(self, size: int) -> Iterator[Batch]:
        handed_over = 0
        for batch in super().batches(min(size, self.step)):
            handed_over += len(batch)
            self.gate(handed_over)
            yield batch


class RacePace:
    """When the next tuples are due, for all contenders alike; stopping it interrupts their runs."""

    def __init__(self, tuples: int, seconds: float) -> None:
        self._per_tuple = seconds / max(1, tuples)
        self._begun = time.monotonic()
        self._stopped = threading.Event()

    def await_turn(self, tuples: int) -> bool:
        """Return once so many tuples may have been handed over, or at once with False when stopped."""
        due = self._begun + tuples * self._per_tuple
        return not self._stopped.wait(max(0.0, due - time.monotonic()))

    def stop(self) -> None:
        self._stopped.set()

    @property
    def stopped(self) -> bool:
        return self._stopped.is_set()


class Contender(ABC):
    """One way of waiting, run on the arrivals that all share."""

    def __init__(self, run: RecordedRun) -> None:
        self.quality = run.plan.quality
        self.name = str(run.plan.quality)
        self.progress: list[QueryProgress] = []
        self._run = run

    @abstractmethod
    def run(self, pace: RacePace) -> Report:
        """Run to the end of the game, or until the pace is stopped."""

    def show_on(self, page: Paged) -> None:
        page.watch(self.name, self._run)

    def _note(self) -> None:
        self.progress.append(QueryProgress(query=self.name, observed=self._run.observe()))


def behind(progress: QueryProgress) -> int | None:
    """How far answers are behind the newest tuple, in microseconds; None before the first answer can be given, and
    after the end."""
    seen = progress.observed
    moving = BEFORE_ALL < seen.watermark < AFTER_ALL
    return max(0, max(seen.clocks) - seen.watermark) if moving else None


class LocalContender(Contender):
    """One way of waiting in this process: every batch passes a gate, at which the pace is kept."""

    def __init__(self, plan: PhysicalPlan, replay: Replay) -> None:
        super().__init__(LocalRun(plan, GatedReplay.of(replay, self._at_gate), TUPLE_RELEASE))
        self._pace: RacePace | None = None

    def run(self, pace: RacePace) -> Report:
        self._pace = pace
        for _ in self._run.tables():
            pass
        self._note()
        return self._run.report()

    def _at_gate(self, tuples: int) -> None:
        assert self._pace is not None, "a contender runs at a pace"
        self._note()
        if not self._pace.await_turn(tuples):
            self._run.interrupt()


def race(
    contenders: Sequence[Contender], tuples: int, seconds: float, show: Callable[[], None] = lambda: None
) -> list[Report]:
    """Run all contenders at once, over at least so many seconds, and call `show` a few times a second meanwhile."""
    pace = RacePace(tuples, seconds)
    with ThreadPoolExecutor(len(contenders)) as pool:
        try:
            runs = [pool.submit(contender.run, pace) for contender in contenders]
            while True:
                done, running = wait(runs, FRAME, FIRST_EXCEPTION)
                show()
                if not running or any(run.exception() for run in done):
                    break
            pace.stop()
            return [run.result() for run in runs]
        finally:
            pace.stop()


MICRO_BATCHES = 50
"""Three queries share the cores; more micro-batches would take longer than anyone watches."""
ONE_SHARD = 1
"""A join by distance has no key to be cut by."""
BRIEF = {
    "spark.driver.extraJavaOptions": "-XX:TieredStopAtLevel=1 -XX:+UseSerialGC",
    "spark.sql.codegen.wholeStage": "false",
    "spark.python.daemon.module": "slackwater.runtime.spark.daemon",
}
"""For a session that lives a minute: a JVM that optimizes its own code, and Spark that compiles its plans, would take
more of the cores than they give back; and workers find what they import already there."""


class SparkContender(Contender):
    """One way of waiting on Spark; it runs as fast as Spark does, and notes its progress after every micro-batch."""

    def __init__(self, run: RecordedRun) -> None:
        super().__init__(run)
        self._noted = 0

    def run(self, pace: RacePace) -> Report:
        def tick() -> None:
            if pace.stopped:
                self._run.interrupt()
            if self._run.done > self._noted:
                self._noted = self._run.done
                self._note()

        for _ in self._run.tables(tick):
            pass
        self._note()
        return self._run.report()


def micro_batches(seconds: int) -> Epochs:
    """How a game of so many seconds is cut.

    >>> micro_batches(120).span, micro_batches(5).span
    (2400000, 1000000)
    """
    return Epochs(span=max(SECOND, seconds * SECOND // MICRO_BATCHES))


@contextmanager
def starting_spark() -> Iterator[Future[Any]]:
    """A session that starts in the background."""
    from slackwater.runtime.spark.session import quiet_session

    with ThreadPoolExecutor(1) as starter:
        yield starter.submit(quiet_session, ANYWHERE, ONE_SHARD, **BRIEF)


@contextmanager
def spark_contenders(
    spark: Future[Any], queries: Sequence[tuple[PhysicalPlan, Replay]], streams: Mapping[str, pa.Table], epochs: Epochs
) -> Iterator[list[SparkContender]]:
    """Contenders that are ready to run once Spark has started."""
    from slackwater.runtime.spark.replay.recording import SparkRuntime

    spark.result()
    with ExitStack() as begun:
        runtime = SparkRuntime(epochs, ONE_SHARD, ANYWHERE)
        runs = [begun.enter_context(runtime.begin(*query, streams, "ms")) for query in queries]
        yield [SparkContender(run) for run in runs]
