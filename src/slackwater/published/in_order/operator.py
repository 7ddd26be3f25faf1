"""A join with a strategy for order, as a pipeline drives it: one join of all streams, or a tree of binary joins.

In its plain state one join is the window join behind a release that brings the streams into order (Sync-Filter). When
tuples are to be joined before their turn (Filter-Order) the synchronizer is taken out of the release and stands in a
node of its own; it goes back when no tuple is ahead of its turn and no result is held. So waiting for order costs what
it ever did, and a query that never needs anything else never pays for it.

In a tree every node holds its own results back, so the node above is given them in order, as ever. What was spent is
measured for the whole tree, so the load decides for the whole of it.

Invariant: a switch loses nothing, doubles nothing and changes no order; the results are those of Sync-Filter whatever
is in force when.

References: 000 §6, steps A to L; §7.2.3 (a pipeline of binary joins).
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from dataclasses import replace

from slackwater.core.batch import Batch
from slackwater.core.results import Ordering, OrderingSeen
from slackwater.core.state import StateUpdate, decode_json, encode_json, state_update
from slackwater.disorder.meters import LedgerTerms
from slackwater.disorder.ordered_batch import OrderedBatch
from slackwater.disorder.release.release import Release, ReleaseSpec
from slackwater.disorder.release.synchronizer import separate, unite
from slackwater.operators.contract import Operator
from slackwater.operators.join.ledger import JoinLedger
from slackwater.operators.join.operator import WindowJoin
from slackwater.operators.join.tree import TreeOperator
from slackwater.operators.output import Output
from slackwater.operators.stages import Stages, Tells
from slackwater.operators.state_size import WindowContents
from slackwater.published.in_order.join import OrderedJoin, OrderedNode
from slackwater.published.in_order.strategy import Strategy

PIECE = 2048
"""Events that are processed together: enough that the way costs little, few enough that results do not pile up."""


class OrderedOperator(Operator, Stages):
    """An `OrderedJoin` of all streams and what decides when its tuples are joined.

    `always_apart`: the node stands by itself also while tuples wait for their turn, as where its work is to be counted.
    """

    def __init__(self, join: OrderedJoin, ordering: Ordering, always_apart: bool = False) -> None:
        self.join, self.spec, self._always_apart = join, join.spec, always_apart
        self.strategy = Strategy(ordering, join.spec.streams)
        self._node: OrderedNode | None = None
        self._release: Release | None = None

    def ledger_for(self, terms: LedgerTerms) -> JoinLedger:
        """That of the join: late tuples are late in their turn, however early others were joined."""
        return self.join.ledger_for(terms)

    def attach(self, release: Release) -> Stages:
        """Follow this release, which synchronizes its streams itself until it is told otherwise."""
        raw: ReleaseSpec = replace(release.spec, external_sync=True)
        self._node = OrderedNode(self.join, tuple(range(self.spec.streams)), self.spec.rows, raw)
        self._release = release
        self._change_over()
        return self

    @property
    def synchronizes_here(self) -> bool:
        """Whether the synchronizer stands by itself."""
        return self._behind.spec.external_sync

    @property
    def _behind(self) -> Release:
        assert self._release is not None, "an ordered join stands behind a release"
        return self._release

    @property
    def node(self) -> OrderedNode:
        assert self._node is not None, "an ordered join stands behind a release"
        return self._node

    def note_arrivals(self, batch: Batch) -> bool:
        """Between two segments of arrivals: choose, and change over; whether tuples that wait are to be joined now."""
        self.strategy.note_arrivals(batch)
        self.strategy.choose()
        joins_now = self.strategy.filters and not self.node.early
        self._change_over()
        return joins_now and self.synchronizes_here

    def _change_over(self) -> None:
        # An epoch emits all that is to be joined at once, sorted: there is no waiting to overlap with.
        if self._behind.spec.discipline == "epoch":
            return
        self.node.early = self.strategy.filters
        if not self.synchronizes_here and (self.node.early or self._always_apart):
            separate(self._behind, self.node.synchronizer)
        elif self.synchronizes_here and not self.node.early and not self._always_apart and self.node.settled:
            self.join.go_in_order()
            unite(self._behind, self.node.synchronizer)

    def report_busy_time(self, seconds: float) -> None:
        self.strategy.load.report_busy_time(seconds)

    def run_stage(self, run: OrderedBatch) -> Iterator[tuple[OrderedBatch, OrderedBatch]]:
        if not self.synchronizes_here:
            yield run, run
            return
        size = max(1, len(run)) if run.ended else PIECE
        for begin in range(0, max(1, len(run)), size):
            events = self.node.admit(run, begin, min(begin + size, len(run)), []).run
            events = replace(events, max_ts=run.max_ts, now=run.now)
            yield events, self.node.raw_part(events)

    def process(self, run: OrderedBatch, ordered: bool) -> Iterator[Output]:
        yield from self.join.process(run, ordered)

    @property
    def watermark(self) -> int:
        return self.node.synchronizer.watermark if self.synchronizes_here else self._behind.watermark

    def pending(self, tells: Tells | None = None) -> int:
        """Tuples in the synchronizer, where it stands by itself."""
        return self.node.held(tells) if self.synchronizes_here else 0

    @property
    def state_rows(self) -> int:
        return self.join.state_rows

    def window_contents(self, watermark: int) -> Iterator[WindowContents]:
        yield from self.join.window_contents(watermark)

    @property
    def ordering(self) -> OrderingSeen:
        """What is in force."""
        return self.strategy.seen(self.join.hold.held, self.join.hold.most)

    def snapshot_delta(self) -> list[StateUpdate]:
        saved = self.strategy.as_json() | {"apart": self.synchronizes_here, "early": self.node.early}
        return [state_update("strategy", "state", encode_json(saved)), *self.node.snapshot_delta()]

    def restore(self, entries: list[StateUpdate]) -> None:
        """Take over persisted state, of the release in front as far as its streams are apart or not."""
        for entry in entries:
            if entry.namespace == "strategy" and entry.value is not None:
                saved = decode_json(entry.value)
                self.strategy.restore(saved)
                self.node.early = saved["early"]
                self._behind.spec = replace(self._behind.spec, external_sync=saved["apart"])
        self.node.restore([entry for entry in entries if entry.namespace != "strategy"])


class OrderedTree(TreeOperator):
    """A `TreeOperator` whose nodes take tuples before their turn: one strategy for all nodes. Tuple release alone."""

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
