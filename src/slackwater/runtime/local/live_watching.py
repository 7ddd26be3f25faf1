"""A query that a program pushes rows into, as it is watched.

Invariant: it is looked at only while its lock is held, by the thread that has pushed; its delays are counted from when
it is first watched.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any

from slackwater.core.batch import Batch
from slackwater.observe.delays import DelayTally
from slackwater.observe.run_statistics import RunStatistics
from slackwater.observe.value import QueryProgress
from slackwater.operators.pipeline import Pipeline
from slackwater.plan.physical import PhysicalPlan
from slackwater.runtime.driver import Driver
from slackwater.runtime.side_outputs.collectors import BufferedSideOutput
from slackwater.runtime.side_outputs.rejections import RejectionCounts
from slackwater.runtime.watching import Watchable, progress_of
from slackwater.sources.codebook import Codebook

if TYPE_CHECKING:
    pass

LARGEST_PIECE = 1000
"""Rows are made of tuples that came at once; of more than so many, none are made just to be shown."""


@dataclass(frozen=True)
class Parts:
    """What a live query is made of."""

    plan: PhysicalPlan
    kernel: Pipeline
    driver: Driver
    statistics: RunStatistics
    unreadable: RejectionCounts
    side_output: BufferedSideOutput
    codebook: Codebook


class LiveWatched(Watchable):
    """The parts of a live query that are looked at."""

    def __init__(self, parts: Parts) -> None:
        self.plan, self._parts = parts.plan, parts
        self._delays = DelayTally([one.stream.alias for one in self.plan.inputs], self.plan.options.max_ahead)

    def note(self, batch: Batch) -> None:
        """Tuples arrive, and have not moved the clocks yet."""
        self._delays.note(batch, self._parts.kernel.release.clocks)

    def progress(self) -> QueryProgress:
        parts = self._parts
        known = progress_of(self.plan, parts.kernel, parts.codebook)
        ahead = {"ahead": known.observed.ahead} if known.observed.ahead else {}
        return replace(
            known,
            seconds=parts.driver.seconds,
            waiting=parts.statistics.latency.causes.so_far,
            rejected=parts.unreadable.by_reason() | ahead,
            delays=self._delays.take(),
        )

    def samples(self, most: int) -> list[tuple[str, str, Any]]:
        rows = self._parts.side_output.newest(most, LARGEST_PIECE)
        return [(row["stream"], row["reason"], row["row"]) for row in rows]
