"""A node whose operator may be given tuples before their turn.

Invariant: raw tuples have their fates, and nodes above are told what they are told, as by a `Node`.
"""

from __future__ import annotations

from collections.abc import Iterable

from slackwater.core.state import StateUpdate
from slackwater.disorder.ordered_batch import OrderedBatch
from slackwater.disorder.release.eager import EagerSynchronizer
from slackwater.disorder.release.release import ReleaseSpec
from slackwater.disorder.release.synchronizer import Inflow, Synchronized
from slackwater.operators.in_order.join import OrderedJoin
from slackwater.operators.node import Node


class OrderedNode(Node):
    """A node behind an `EagerSynchronizer`; `early` says whether tuples are joined before their turn."""

    synchronizer: EagerSynchronizer

    def __init__(self, operator: OrderedJoin, inputs: tuple[int, ...], rows: int, raw: ReleaseSpec) -> None:
        super().__init__(operator, inputs, rows, raw)
        self.join = operator
        self.early = False

    def _synchronizer_of(self, spec: ReleaseSpec) -> EagerSynchronizer:
        return EagerSynchronizer(spec)

    @property
    def settled(self) -> bool:
        """Whether no tuple is ahead of its turn, and no result is held."""
        return self.synchronizer.ahead == 0 and self.join.hold.held == 0

    def admit(self, run: OrderedBatch, begin: int, end: int, below: Iterable[Inflow]) -> Synchronized:
        if not self.early and self.settled:
            self.join.go_in_order()
        self.synchronizer.early = self.early
        return super().admit(run, begin, end, below)

    def raw_part(self, run: OrderedBatch) -> OrderedBatch:
        return super().raw_part(run.turns()[0])

    def restore(self, entries: list[StateUpdate]) -> None:
        self.join.forget_ahead(self.synchronizer.watermark)
        super().restore(entries)
        if self.synchronizer.ahead:
            self.join.put_ahead(*self.synchronizer.entered())
