"""Trees of binary joins, slow and obvious: slack buffers, then one node after the other, tuple by tuple.

Invariant: shares no code with the kernels. A combination is a tuple of members, one of each stream up to its node's;
every tuple goes as far up as it can before the next one is looked at. What comes out is the results with the largest
clock when each was made, and the fate of every raw tuple.

References: 004 §4.2.6, 003 §V; Alg. 3.1 and 4.6 at every node.
"""

from __future__ import annotations

import heapq
from collections.abc import Sequence
from dataclasses import dataclass, field, replace

from slackwater.core.batch import Batch
from slackwater.operators.join.operator import WindowJoin
from slackwater.operators.join.probing import Equality
from tests.kit.oracle_join import Members, Result, joins_so_far, near_so_far
from tests.kit.oracle_release import NEVER, Released, SlackRule, Tuple, tuples_of

Combination = Members


@dataclass
class TreeOutcome:
    """Results in the order in which they were made, and raw tuples in the order in which their fate was known."""

    results: list[tuple[Result, int]] = field(default_factory=list)
    released: list[Released] = field(default_factory=list)


def newest(combination: Combination) -> int:
    """The event time of a combination."""
    return max(member.ts for member in combination)


class _Node:
    """Joins combinations of streams 0 to n-1 with stream n. Side 0 are the combinations, side 1 the stream."""

    def __init__(self, spec: WindowJoin, n: int, outcome: TreeOutcome, above: _Node | None) -> None:
        self.spec, self.n, self.outcome, self.above = spec, n, outcome, above
        self.window: list[list[Combination]] = [[], []]
        self.clock = self.watermark = self.t_sync = NEVER
        self.watermarks = [NEVER, NEVER]
        self.waiting: list[list[Combination]] = [[], []]

    def process(self, side: int, e: Combination, met: int) -> None:
        """Alg. 4.6 for one tuple that met this watermark: T-join, or the watermark of an epoch."""
        raw = side == 1 or self.n == 1
        ts = newest(e)
        if raw:
            self.outcome.released.append(Released(e[0], met, self.clock))
        assert raw or ts >= met, "a combination from below was late"
        if ts >= met:
            for other in self.window[1 - side]:
                members = e + other if side == 0 else other + e
                if near_so_far(self.spec, members) and joins_so_far(self.spec, members):
                    self.make(members)
            self.window[side].append(e)
        elif ts >= met - self.spec.windows[e[0].stream]:
            self.window[side].append(e)

    def make(self, members: Combination) -> None:
        if self.above is None:
            identities = tuple(member.row for member in members)
            self.outcome.results.append(((newest(members), identities), self.clock))
        else:
            self.above.clock = self.clock
            self.above.take(0, members)

    def take(self, side: int, e: Combination) -> None:
        raise NotImplementedError

    def advance_watermark(self, side: int, ts: int) -> None:
        raise NotImplementedError


class _TupleNode(_Node):
    """Alg. 3.1; a side that has nothing here, but has a watermark behind which nothing comes, is not waited for."""

    ending = False

    def take(self, side: int, e: Combination) -> None:
        if newest(e) > self.t_sync:
            self.waiting[side].append(e)
            self.synchronize()
        else:
            self.emit_to_synchronizer(side, e)

    def advance_watermark(self, side: int, ts: int) -> None:
        self.watermarks[side] = max(self.watermarks[side], ts)
        self.synchronize()

    def synchronize(self) -> None:
        while any(self.waiting):
            first = min(newest(e) for mine in self.waiting for e in mine)
            unsure = [side for side in (0, 1) if not self.waiting[side] and self.watermarks[side] < first]
            if self.ending or unsure:
                return
            self.emit(first)

    def emit(self, ts: int) -> None:
        self.t_sync = ts
        for side in (0, 1):
            for e in [e for e in self.waiting[side] if newest(e) == ts]:
                self.waiting[side].remove(e)
                self.emit_to_synchronizer(side, e)

    def emit_to_synchronizer(self, side: int, e: Combination) -> None:
        met, self.watermark = self.watermark, max(self.watermark, newest(e))
        self.process(side, e, met)
        if self.above is not None and not self.ending:
            self.above.clock = self.clock
            self.above.advance_watermark(0, self.watermark)

    def drain(self) -> None:
        while any(self.waiting):
            self.emit(min(newest(e) for mine in self.waiting for e in mine))


class _EpochNode(_Node):
    """The watermark is the smaller watermark of the two sides."""

    def take(self, side: int, e: Combination) -> None:
        if newest(e) < self.watermark:
            self.process(side, e, self.watermark)
        else:
            self.waiting[side].append(e)

    def advance_watermark(self, side: int, ts: int) -> None:
        self.watermarks[side] = max(self.watermarks[side], ts)
        met, self.watermark = self.watermark, max(self.watermark, min(self.watermarks))
        self.emit(self.watermark, met)
        if self.above is not None:
            self.above.clock = self.clock
            self.above.advance_watermark(0, self.watermark)

    def emit(self, bound: int, met: int) -> None:
        ready = [(newest(e), side, e) for side in (0, 1) for e in self.waiting[side] if newest(e) <= bound]
        for _, side, e in sorted(ready, key=lambda entry: entry[0]):
            self.waiting[side].remove(e)
            self.process(side, e, met)


def closed(spec: WindowJoin) -> WindowJoin:
    """The same join with every equality between two streams that follows from others.

    >>> from slackwater.operators.join.probing import Equality
    >>> spec = WindowJoin((5, 5, 5), (Equality(0, 2, 2, 3), Equality(2, 3, 1, 4)), (), (), (), 5)
    >>> len(closed(spec).equalities)
    3
    """
    pairs = {frozenset({(eq.left, eq.left_row), (eq.right, eq.right_row)}) for eq in spec.equalities}
    while True:
        more = {a ^ b for a in pairs for b in pairs if len(a & b) == 1} - pairs
        if not more:
            break
        pairs |= more
    equal = (sorted(pair) for pair in pairs)
    return replace(spec, equalities=tuple(Equality(*a, *b) for a, b in sorted(equal) if a[0] != b[0]))


def _side(stream: int) -> tuple[int, int]:
    """(node, side) of a raw stream; nodes are counted from 0."""
    return (max(stream - 1, 0), 0 if stream == 0 else 1)


def oracle_tree_by_tuple(spec: WindowJoin, batch: Batch, rule: SlackRule) -> TreeOutcome:
    """A slack buffer per raw stream, one K; then Alg. 3.1 and Alg. 4.6 at every node."""
    spec = closed(spec)
    outcome = TreeOutcome()
    nodes: list[_TupleNode] = []
    for n in range(spec.streams - 1, 0, -1):
        nodes.insert(0, _TupleNode(spec, n, outcome, nodes[0] if nodes else None))
    buffers: list[list[tuple[int, int, Tuple]]] = [[] for _ in range(spec.streams)]
    clocks = [NEVER] * spec.streams
    for number, e in enumerate(tuples_of(batch)):
        updated = e.ts > clocks[e.stream]
        clocks[e.stream] = max(clocks[e.stream], e.ts)
        if e.passes:
            rule.saw(clocks[e.stream] - e.ts)
            heapq.heappush(buffers[e.stream], (e.ts, number, e))
        buffer = buffers[e.stream]
        node, side = _side(e.stream)
        while updated and buffer and buffer[0][0] + rule.slack <= clocks[e.stream]:
            nodes[node].clock = max(clocks)
            nodes[node].take(side, (heapq.heappop(buffer)[2],))
    for one in nodes:
        one.ending, one.clock = True, max(clocks)
    for stream, buffer in enumerate(buffers):
        node, side = _side(stream)
        for _, _, e in sorted(buffer, key=lambda entry: entry[:2]):
            nodes[node].take(side, (e,))
    for one in nodes:
        one.drain()
    return outcome


def oracle_tree_by_epoch(spec: WindowJoin, batch: Batch, cuts: Sequence[int], rule: SlackRule) -> TreeOutcome:
    """Epochs end at the positions in `cuts`: then every raw stream sends its clock, less K, to its node as a
    watermark."""
    spec = closed(spec)
    outcome = TreeOutcome()
    nodes: list[_EpochNode] = []
    for n in range(spec.streams - 1, 0, -1):
        nodes.insert(0, _EpochNode(spec, n, outcome, nodes[0] if nodes else None))
    clocks = [NEVER] * spec.streams
    tuples = tuples_of(batch)
    for begin, end in zip([0, *cuts], [*cuts, len(tuples)], strict=True):
        before = list(clocks)
        for e in tuples[begin:end]:
            clocks[e.stream] = max(clocks[e.stream], e.ts)
            if e.passes:
                rule.saw(before[e.stream] - e.ts)
                node, side = _side(e.stream)
                nodes[node].clock = max(clocks)
                nodes[node].take(side, (e,))
        if end in cuts:
            for stream, clock in enumerate(clocks):
                if clock != NEVER:
                    node, side = _side(stream)
                    nodes[node].clock = max(clocks)
                    nodes[node].advance_watermark(side, clock - rule.slack)
    for one in nodes:
        one.clock = max(clocks)
        one.emit(-NEVER, one.watermark)
    return outcome
