"""A tree of binary joins whose nodes take tuples before their turn: one strategy for all nodes.

Every node holds its own results back, so the node above is given them in order, as ever. What was spent is measured for
the whole tree, so the load decides for the whole of it.

Invariant: as of `OrderedOperator`, node by node.

References: 000 §7.2.3 (a pipeline of binary joins).
"""

from __future__ import annotations

from collections.abc import Callable, Iterable

from slackwater.core.batch import Batch
from slackwater.core.results import Ordering, OrderingSeen
from slackwater.core.state import StateUpdate, decode_json, encode_json, state_update
from slackwater.disorder.release.release import Release
from slackwater.operators.join.operator import WindowJoin
from slackwater.operators.join.tree import TreeOperator
from slackwater.operators.stages import Stages
from slackwater.published.in_order.join import OrderedJoin, OrderedNode
from slackwater.published.in_order.strategy import Strategy


class OrderedTree(TreeOperator):
    """A `TreeOperator` with a strategy for order. Tuple release alone."""

    def __init__(
        self, whole: WindowJoin, joins: Iterable[WindowJoin], encode_text: Callable[[str], int], ordering: Ordering
    ) -> None:
        self._joins = [OrderedJoin(join, encode_text) for join in joins]
        super().__init__(whole, self._joins, encode_text)
        self._ordered: list[OrderedNode] = []
        self.strategy = Strategy(ordering, whole.streams)

    def attach(self, release: Release) -> Stages:
        stages, raw = super().attach(release), release.spec
        if raw.discipline == "tuple":
            self._ordered = [
                OrderedNode(join, node.inputs, max(raw.rows, join.spec.rows), raw)
                for join, node in zip(self._joins, self._nodes, strict=True)
            ]
            self._nodes = [*self._ordered]
        return stages

    def note_arrivals(self, batch: Batch) -> bool:
        """Choose, and have all nodes follow; whether tuples that wait are to be joined now."""
        self.strategy.note_arrivals(batch)
        self.strategy.choose()
        joins_now = self.strategy.filters and any(not node.early for node in self._ordered)
        for node in self._ordered:
            node.early = self.strategy.filters
        return joins_now

    def report_busy_time(self, seconds: float) -> None:
        self.strategy.load.report_busy_time(seconds)

    @property
    def ordering(self) -> OrderingSeen:
        """What is in force; results are held at all nodes."""
        holds = [join.hold for join in self._joins]
        return self.strategy.seen(sum(hold.held for hold in holds), sum(hold.most for hold in holds))

    def snapshot_delta(self) -> list[StateUpdate]:
        early = [node.early for node in self._ordered]
        entry = state_update("strategy", "state", encode_json(self.strategy.as_json() | {"early": early}))
        return [entry, *super().snapshot_delta()]

    def restore(self, entries: list[StateUpdate]) -> None:
        for entry in entries:
            if entry.namespace == "strategy" and entry.value is not None:
                saved = decode_json(entry.value)
                self.strategy.restore(saved)
                for node, early in zip(self._ordered, saved["early"], strict=True):
                    node.early = early
        super().restore([entry for entry in entries if entry.namespace != "strategy"])
