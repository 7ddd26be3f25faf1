"""A node whose operator may be given tuples before their turn.

Invariant: raw tuples have their fates, and nodes above are told what they are told, as by a `Node`.
"""

from __future__ import annotations

from collections.abc import Iterable

from slackwater.disorder.early import EarlySynchronizer, Events
from slackwater.disorder.release import ReleaseSpec
from slackwater.disorder.run import Run
from slackwater.disorder.synchronizer import Inflow, Synchronized
from slackwater.kernel import Change
from slackwater.operators.node import Node
from slackwater.operators.ordering.join import OrderedJoin


class OrderedNode(Node):
    """A node behind an `EarlySynchronizer`; `early` says whether tuples are joined before their turn."""

    def __init__(self, operator: OrderedJoin, inputs: tuple[int, ...], rows: int, raw: ReleaseSpec) -> None:
        super().__init__(operator, inputs, rows, raw)
        self.join = operator
        self.synchronizer: EarlySynchronizer = EarlySynchronizer(self.synchronizer.spec)
        self.early = False

    @property
    def settled(self) -> bool:
        """Whether no tuple is ahead of its turn, and no result is held."""
        return self.synchronizer.ahead == 0 and self.join.hold.held == 0

    def let_in(self, run: Run, begin: int, end: int, below: Iterable[Inflow]) -> Synchronized:
        if not self.early and self.settled:
            self.join.go_in_order()
        self.synchronizer.early = self.early
        return super().let_in(run, begin, end, below)

    def raw_part(self, run: Run) -> Run:
        return super().raw_part(run.take(run.turn) if isinstance(run, Events) else run)

    def restore(self, entries: list[Change]) -> None:
        self.join.forget_ahead(self.synchronizer.frontier)
        super().restore(entries)
        if self.synchronizer.ahead:
            self.join.put_ahead(*self.synchronizer.entered())
