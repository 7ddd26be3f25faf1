"""What a micro-batch brings for a query, as its host takes it: changes to hear, and rows that only pass through; and
what the query reports once it is done.

Invariant: messages are heard in the order of their numbers.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, replace

import pyarrow as pa

from slackwater.observe.imbalance import ShardLoad
from slackwater.observe.value import QueryProgress
from slackwater.runtime.side_outputs.rows import REJECTED, example_of
from slackwater.runtime.spark.control import END, FAIL, PAUSE, RESUME, TARGET
from slackwater.runtime.spark.members import Member
from slackwater.runtime.spark.state.cached import Status
from slackwater.runtime.spark.state.emitters import Emitted
from slackwater.runtime.spark.state.inbox import Delivery
from slackwater.runtime.spark.state.record import QueryRecord

MakesProgress = Callable[[ShardLoad, Mapping[str, str]], QueryProgress]
"""The progress of a query, given where it ran and a row of each stream that could not be used."""


@dataclass(frozen=True)
class Reporting:
    """One query in one shard, after a micro-batch."""

    member: Member
    label: int
    delivery: Delivery
    status: Status
    named: bool
    """Whether its progress says which query it is."""
    record: QueryRecord
    made: MakesProgress

    @property
    def key(self) -> str:
        """The query."""
        return self.member.key

    def progress(self, load: ShardLoad) -> QueryProgress:
        """How it does."""
        known = self.made(load, examples_of(self.delivery, self.member))
        query = self.key if self.named else ""
        return replace(known, query=query, paused=self.status.paused, failure=self.status.failure)


def examples_of(delivery: Delivery, member: Member) -> dict[str, str]:
    """A row of each stream that could not be used."""
    return {
        member.plan.inputs[one.stream].stream.alias: example_of(one.rejected_rows)
        for one in delivery.blocks
        if one.rejected_rows is not None
    }


def rejected_rows(key: str, delivery: Delivery) -> Iterator[Emitted]:
    """Rows that could move no clock, on their way out."""
    for block in delivery.blocks:
        if block.rejected_rows is not None:
            yield Emitted(key, REJECTED, rows=pa.ipc.open_stream(block.rejected_rows).read_all())


def combined(status: Status, delivery: Delivery, stated: str) -> tuple[Status, str | None, bool]:
    """What is in force in a micro-batch, the target that was set in it, and whether the input has ended."""
    target, end = None, False
    for one in sorted(delivery.messages, key=lambda message: message.number):
        if one.kind in (PAUSE, RESUME):
            status = replace(status, paused=one.kind == PAUSE)
        elif one.kind == TARGET and one.text == stated:
            target = one.target
        elif one.kind == FAIL and status.failure is None:
            status = replace(status, failure=one.reason)
        end = end or one.kind == END
    if delivery.failure is not None and status.failure is None and not status.paused:
        status = replace(status, failure=delivery.failure)
    return status, target, end
