"""A query that a program pushes rows into, as a page watches it.

Invariant: it is looked at only while nobody pushes; its delays are counted from the first look on.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any

from slackwater.core.state import Observation
from slackwater.core.trade_off import TradeOff
from slackwater.observe.delays import Buckets, DelayTally
from slackwater.observe.moment import Moment
from slackwater.observe.waiting import Causes
from slackwater.page.hub import Hub
from slackwater.runtime.watch import Follower, plan_of
from slackwater.runtime.watching import PartitionNamed, Watchable, Watcher, named_partitions

if TYPE_CHECKING:
    from slackwater.runtime.local.live import LiveQuery, Parts

LARGEST_PIECE = 1000
"""Rows are made of tuples that came at once; of more than so many, none are made just to be shown."""


class LiveWatched(Watchable):
    """The parts of a live query that are looked at."""

    def __init__(self, query: LiveQuery, parts: Parts) -> None:
        self.plan, self._parts, self._query = parts.plan, parts, query
        aliases = [one.stream.alias for one in self.plan.inputs]
        query.delays = self._delays = DelayTally(aliases, self.plan.options.max_ahead)

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

    def take_delays(self) -> Buckets:
        return self._delays.take()

    def trade_off(self) -> TradeOff | None:
        return self._parts.kernel.trade_off()

    def idle_now(self) -> Sequence[bool]:
        idle: list[bool] = (self._parts.kernel.release.state.clock.idle == 1).tolist()
        return idle

    def partitions(self) -> list[PartitionNamed]:
        return named_partitions(self.plan, self._parts.codebook, self._parts.kernel.release.partition_clocks)


def following(query: LiveQuery, parts: Parts, name: str = "live") -> Callable[[Hub], Follower]:
    """How a live query is followed."""

    def follow(hub: Hub) -> Follower:
        hub.add(name, plan_of(parts.plan))
        found: list[Moment] = []
        watcher = Watcher(name, LiveWatched(query, parts), found.append)
        told = 0

        def ask() -> list[Moment]:
            nonlocal told
            with parts.changed:
                epochs = parts.kernel.release.epochs
                if epochs != told or query.closed:
                    told = epochs
                    watcher.look()
            moments, found[:] = list(found), []
            return moments

        return Follower(hub, ask, lambda: query.closed)

    return follow
