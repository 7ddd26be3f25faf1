"""A run over recorded streams, as commands see it on any runtime.

Invariant: every row of the sources that made no result of its own can be named: late rows with the watermark they met,
rejected rows with their reason. The report at the end covers exactly the tables that were handed out.
"""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Callable, Iterator
from dataclasses import replace
from typing import Any

import numpy as np
import pyarrow as pa

from slackwater.core.batch import Words
from slackwater.core.errors import UsageError
from slackwater.core.outlook import Outlook
from slackwater.core.quality import Quality
from slackwater.core.rates import Resize
from slackwater.core.state import Observation
from slackwater.core.wrong_clocks import WrongClock
from slackwater.disorder.controllers import SlackController
from slackwater.observe.report import Report, RunStatistics, named_wrong_clocks
from slackwater.observe.value import QueryProgress
from slackwater.plan.partitioning import rates_at_first
from slackwater.plan.physical import PhysicalPlan
from slackwater.runtime.side_outputs.collectors import RecordedSideOutput
from slackwater.runtime.watching import Watchable
from slackwater.sources.replay import Replay

Tick = Callable[[], None]


def no_tick() -> None:
    """Does nothing, for a run that nothing watches."""


def begin_of(ts: Words, max_behind: int) -> int:
    """The event time of the first tuple, or of most of the first few where it is far from theirs."""
    first, most = int(ts[0]), int(np.median(ts[:9]))
    return first if abs(first - most) <= max_behind else most


class RecordedRun(Watchable):
    """Take all of `tables`, then ask for the report and for late and rejected rows."""

    runtime: str
    shards: int | None = None
    in_epochs: bool = True

    def __init__(self, plan: PhysicalPlan, replay: Replay, controller: SlackController) -> None:
        self.plan, self.replay = plan, replay
        self.side_outputs = RecordedSideOutput(plan, replay)
        self.interrupted = False
        self._controller = controller
        self._statistics = RunStatistics(plan, controller.slack)
        self._news: list[str] = []
        self._done = 0
        self.resizes: list[tuple[int, Resize]] = rates_at_first(plan.operator)
        """All that has come into force in windows that follow rates, each with the number of its join."""

    @abstractmethod
    def warm_up(self) -> None:
        """Compile everything before time is measured."""

    @abstractmethod
    def tables(self, tick: Tick = no_tick) -> Iterator[pa.Table]:
        """The results in output order, to the end of the input or until interrupted; at least one table.

        `tick` is called every now and then, between two steps of the run, in the caller's thread.
        """

    def set_target(self, target: Quality | str) -> None:
        """Ask for another quality from the next step on."""
        raise UsageError("this run cannot be told another target; start it again with one")

    @abstractmethod
    def known(self) -> QueryProgress:
        """Its progress as far as kernels know it, with the delays since the last call."""

    def progress(self) -> QueryProgress:
        known = self.known()
        ahead = {"ahead": known.observed.ahead} if known.observed.ahead else {}
        return replace(
            known,
            seconds=self.seconds,
            waiting=self._statistics.latency.causes.so_far,
            idle_options=None,
            rejected=self.side_outputs.unreadable() | ahead,
        )

    def samples(self, most: int) -> list[tuple[str, str, Any]]:
        return self.side_outputs.newest(most)

    def interrupt(self) -> None:
        """Stop after the step at hand: no tuple is then half way through, so the counts of the report add up."""
        self.interrupted = True

    @property
    def done(self) -> int:
        return self._done

    @property
    @abstractmethod
    def seconds(self) -> float:
        """What the work took."""

    @abstractmethod
    def observe(self) -> Observation:
        """Clocks, slack and counts as they are now."""

    def _note_outlook(self, outlook: Outlook | None) -> None:
        news = self._statistics.news(outlook)
        if news is not None:
            self._news.append(news)

    def take_news(self) -> list[str]:
        """Sentences to print while it runs, since the last call."""
        news, self._news = self._news, []
        return news

    def wrong_clocks(self) -> tuple[WrongClock, ...]:
        """Parts of streams whose clocks are wrong, by name."""
        return named_wrong_clocks(self.plan, self.replay.codebook, self.observe())

    def report(self) -> Report:
        """What the run amounts to so far."""
        return Report(
            self.plan,
            self._statistics,
            controller=self._controller.describe(),
            runtime=self.runtime,
            observation=self.observe(),
            unreadable=self.side_outputs.unreadable(),
            seconds=self.seconds,
            in_epochs=self.in_epochs,
            interrupted=self.interrupted,
            shards=self.shards,
            wrong_clocks=self.wrong_clocks(),
        )
