"""The race of the demo: one game, several ways of waiting, side by side at one pace.

Invariant: every contender is an ordinary run over the same arrivals. The pace decides only when a batch is handed over,
never what is in it, so a race in slow motion ends in the same reports as one at full speed.
"""

from __future__ import annotations

import threading
import time
from abc import ABC, abstractmethod
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import FIRST_EXCEPTION, ThreadPoolExecutor, wait
from dataclasses import dataclass, fields

from slackwater.cli.paging import Paged
from slackwater.core.batch import Batch
from slackwater.core.time import AFTER_ALL, BEFORE_ALL
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
        """Show this run on a page."""
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
