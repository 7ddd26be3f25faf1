"""A query that a program pushes rows into, as somebody sees it who watches.

Invariant: it is looked at only while its lock is held, by the thread that has pushed; its delays are counted from when
it is first watched.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from slackwater.core.batch import Batch
from slackwater.core.state import Observation
from slackwater.core.trade_off import TradeOff
from slackwater.core.wrong_clocks import WrongClock
from slackwater.observe.delays import Buckets, DelayTally
from slackwater.observe.moment import Moment
from slackwater.observe.report import named_wrong_clocks
from slackwater.observe.run_statistics import RunStatistics
from slackwater.observe.waiting import Causes
from slackwater.operators.pipeline import Pipeline
from slackwater.plan.physical import PhysicalPlan
from slackwater.runtime.driver import Driver
from slackwater.runtime.side_outputs.collectors import BufferedSideOutput
from slackwater.runtime.side_outputs.rejections import RejectionCounts
from slackwater.runtime.watching import PartitionNamed, Publish, Watchable, named_partitions
from slackwater.sources.codebook import Codebook

if TYPE_CHECKING:
    from slackwater.runtime.local.live import LiveQuery

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

    def observe(self) -> Observation:
        return self._parts.kernel.observe()

    @property
    def seconds(self) -> float:
        return self._parts.driver.seconds

    def watched_causes(self) -> Causes:
        return self._parts.statistics.latency.causes

    def watched_unreadable(self) -> dict[str, int]:
        return self._parts.unreadable.by_reason()

    def watched_samples(self, most: int) -> list[tuple[str, str, Any]]:
        rows = self._parts.side_output.newest(most, LARGEST_PIECE)
        return [(row["stream"], row["reason"], row["row"]) for row in rows]

    def wrong_clocks(self) -> tuple[WrongClock, ...]:
        return named_wrong_clocks(self.plan, self._parts.codebook, self._parts.kernel.observe())

    def take_delays(self) -> Buckets:
        return self._delays.take()

    def trade_off(self) -> TradeOff | None:
        return self._parts.kernel.trade_off()

    def idle_now(self) -> Sequence[bool]:
        idle: list[bool] = (self._parts.kernel.release.state.clock.idle == 1).tolist()
        return idle

    def partitions(self) -> list[PartitionNamed]:
        return named_partitions(self.plan, self._parts.codebook, self._parts.kernel.release.partition_clocks)


class Hearing:
    """Passes moments on until it is stopped."""

    def __init__(self, publish: Publish) -> None:
        self._publish, self._stopped = publish, False

    def publish(self, moment: Moment) -> None:
        """One more."""
        if not self._stopped:
            self._publish(moment)

    def stop(self) -> None:
        """No more."""
        self._stopped = True


def following(query: LiveQuery, plan: PhysicalPlan, name: str = "live") -> Callable[[Any], Hearing]:
    """How a page follows a live query."""

    def follow(hub: Any) -> Hearing:
        from slackwater.runtime.watch import plan_of

        hub.add(name, plan_of(plan))
        hearing = Hearing(hub.publish)
        query.watch(name, hearing.publish)
        return hearing

    return follow
