"""A run over recorded streams, as commands see it on any runtime.

Invariant: every row of the sources that made no result of its own can be named: late rows with the watermark they met,
rejected rows with their reason. What is told at the end covers exactly the tables that were handed out.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Iterator

import numpy as np
import pyarrow as pa

from slackwater.disorder.controllers import SlackController
from slackwater.kernel import Observation
from slackwater.model.batch import Words
from slackwater.model.outlook import Outlook
from slackwater.model.rates import Resize
from slackwater.model.wrong_clocks import WrongClock
from slackwater.observe.foreseen import Foretelling
from slackwater.observe.memory_use import MemoryUse
from slackwater.observe.report import LatencyUse, Report, SlackUse, named_wrong_clocks
from slackwater.observe.waiting import SlowestUse
from slackwater.plan.partitioning import rates_at_first
from slackwater.plan.physical import PhysicalPlan
from slackwater.sources.encode import AHEAD, GOOD, REASONS, UTC, Reasons
from slackwater.sources.replay import Replay

Tick = Callable[[], None]


def no_tick() -> None:
    """Nobody watches."""


class RecordedRun(ABC):
    """Take all of `tables`, then ask for the report and for late and rejected rows."""

    runtime: str
    shards: int | None = None
    in_epochs: bool = True

    def __init__(self, plan: PhysicalPlan, replay: Replay, controller: SlackController) -> None:
        self.plan, self.replay = plan, replay
        self.side_outputs = SideOutputs(plan, replay)
        self.interrupted = False
        self._controller = controller
        self._slack = SlackUse(controller.slack)
        self._latency = LatencyUse()
        self._memory = MemoryUse()
        self._slowest = SlowestUse()
        self._foretelling = Foretelling()
        self._news: list[str] = []
        self._seconds = 0.0
        self._done = 0
        self.resizes: list[tuple[int, Resize]] = rates_at_first(plan.operator)
        """All that has come into force in windows that follow rates, each with the number of its join."""

    @abstractmethod
    def warm_up(self) -> None:
        """Have everything compiled before time is measured."""

    @abstractmethod
    def tables(self, tick: Tick = no_tick) -> Iterator[pa.Table]:
        """The results in output order, to the end of the input or until interrupted; at least one table.

        `tick` is called every now and then, between two steps of the run, in the caller's thread.
        """

    def interrupt(self) -> None:
        """Stop after the step at hand: no tuple is then half way through, so the counts of the report add up."""
        self.interrupted = True

    @property
    def done(self) -> int:
        """Arrivals taken in."""
        return self._done

    @abstractmethod
    def observe(self) -> Observation:
        """Clocks, slack and counts as they are now."""

    def _note_outlook(self, outlook: Outlook | None) -> None:
        """Whether the target can be met, as it looks now."""
        news = self._foretelling.news(self.plan.quality, outlook)
        if news is not None:
            self._news.append(news)

    def take_news(self) -> list[str]:
        """What is to be said while it runs, since the last call."""
        news, self._news = self._news, []
        return news

    def wrong_clocks(self) -> tuple[WrongClock, ...]:
        """Parts of streams whose clocks are wrong, by name."""
        return named_wrong_clocks(self.plan, self.replay.codebook, self.observe())

    def report(self) -> Report:
        """What the run amounts to so far."""
        return Report(
            quality=str(self.plan.quality),
            controller=self._controller.describe(),
            runtime=self.runtime,
            observation=self.observe(),
            unreadable=self.side_outputs.unreadable(),
            slack=self._slack,
            latency=self._latency,
            seconds=self._seconds,
            interrupted=self.interrupted,
            aliases=tuple(one.stream.alias for one in self.plan.inputs),
            memory=self._memory,
            shards=self.shards,
            slowest=self._slowest,
            target=self.plan.quality,
            options=self.plan.options,
            in_epochs=self.in_epochs,
            wrong_clocks=self.wrong_clocks(),
        )


class SideOutputs:
    """The source rows that came late or were rejected."""

    def __init__(self, plan: PhysicalPlan, replay: Replay) -> None:
        self._plan, self._replay = plan, replay
        self._late: list[tuple[Words, Words, Words, Words]] = []
        self._rejected: list[tuple[Words, Words, int]] = []

    def came_late(self, stream: Words, row: Words, delay: Words, watermark: Words) -> None:
        """Rows of these inputs met the watermark behind which they were; times are microseconds."""
        self._late.append((stream, row, delay, watermark))

    def were_rejected(self, stream: Words, row: Words, reason: int) -> None:
        """Rows of these inputs were rejected for a reason, a place in REASONS."""
        self._rejected.append((stream, row, reason))

    def late_rows(self, position: int) -> pa.Table:
        """Late rows of one input: stream, delay (milliseconds), the watermark they met, and the row."""
        row, watermark = self.frontiers(position)
        delay = _joined([delay[stream == position] for stream, _, delay, _ in self._late])
        return self._side_output(
            position, row, {"delay": pa.array(delay / 1000.0), "watermark": pa.array(watermark).cast(UTC)}
        )

    def rejected_rows(self, position: int) -> pa.Table:
        """Rejected rows of one input: stream, reason, and the row."""
        reasons = self.reasons(position)
        row = np.flatnonzero(reasons != GOOD)
        return self._side_output(
            position, row, {"reason": pa.array([REASONS[code] for code in reasons[row]], pa.string())}
        )

    def frontiers(self, position: int) -> tuple[Words, Words]:
        """The late rows of one input and the watermark that each of them met."""
        mine = [(row[stream == position], watermark[stream == position]) for stream, row, _, watermark in self._late]
        return _joined([row for row, _ in mine]), _joined([watermark for _, watermark in mine])

    def rejected(self, position: int) -> Words:
        """Which rows of one input were rejected, for any reason."""
        return np.flatnonzero(self.reasons(position) != GOOD)

    def unreadable(self) -> dict[str, int]:
        """How many rows were rejected before they could move a clock, by reason."""
        counts: dict[str, int] = {}
        for _, row, reason in self._rejected:
            if reason != AHEAD:
                counts[REASONS[reason]] = counts.get(REASONS[reason], 0) + len(row)
        return counts

    def ahead(self) -> int:
        """How many rows were ahead of all evidence."""
        return sum(len(row) for _, row, reason in self._rejected if reason == AHEAD)

    def reasons(self, position: int) -> Reasons:
        """Of every row of one input, the place of its reason in REASONS."""
        reasons: Reasons = np.zeros(self._replay.tables[position].num_rows, np.uint8)
        for stream, row, reason in self._rejected:
            reasons[row[stream == position]] = reason
        return reasons

    def _side_output(self, position: int, row: Words, columns: dict[str, pa.Array]) -> pa.Table:
        alias = self._plan.inputs[position].stream.alias
        source = self._replay.tables[position].take(pa.array(row))
        taken = {"stream": pa.array([alias] * len(row), pa.string()), **columns}
        names = [f"{alias}_{name}" if name in taken else name for name in source.column_names]
        return pa.table([*taken.values(), *source.columns], names=[*taken, *names])


def _joined(parts: list[Words]) -> Words:
    return np.concatenate(parts) if parts else np.zeros(0, np.int64)
