"""Filter-Order with switches, slow and obvious: every tuple is joined with all that were joined before it, and results
wait in a list.

Invariant: shares no code with the kernels.

References: 000 §5 (steps 1 to 7), §6 (steps A to L); 003 Alg. 1 in front.
"""

from __future__ import annotations

from collections.abc import Callable
from itertools import product

from slackwater.core.batch import Batch
from slackwater.operators.join.operator import WindowJoin
from tests.kit.oracle_join import Result, joins, near_enough
from tests.kit.oracle_release import SlackRule, Tuple, TupleStages, oracle_tuple_release


class _Ordered(TupleStages):
    def __init__(self, spec: WindowJoin, early: Callable[[int], bool]) -> None:
        super().__init__(spec.streams)
        self.spec, self.early = spec, early
        self.joins_eagerly = early(0)
        self.joined: list[Tuple] = []
        self.hold: list[Result] = []
        self.results: list[tuple[Result, int]] = []

    def advance_clock(self, number: int) -> None:
        self.joins_eagerly = self.early(number)
        if self.joins_eagerly:
            self.join_waiting()

    def join_waiting(self) -> None:
        for e in [e for mine in self.sync_buf for e in mine if e not in self.joined]:
            self.join(e)

    def synchronize(self, e: Tuple, ending: bool = False) -> None:
        super().synchronize(e, ending)
        if self.joins_eagerly:
            self.join_waiting()

    def emit(self, e: Tuple) -> None:
        """The turn of a tuple: it is joined, if it has not been, and what is not newer than T-join leaves."""
        if e not in self.joined:
            self.join(e)
        super().emit(e)
        ready = sorted(result for result in self.hold if result[0] <= self.t_join)
        self.hold = [result for result in self.hold if result[0] > self.t_join]
        self.results += [(result, self.clock) for result in ready]

    def join(self, e: Tuple) -> None:
        late = e.ts < self.t_join
        sides = [[e] if s == e.stream else [o for o in self.joined if o.stream == s] for s in range(self.spec.streams)]
        for members in product(*sides):
            newest = max(member.ts for member in members)
            wanted = newest > self.t_join if late else newest >= self.t_join
            if wanted and near_enough(self.spec, members) and joins(self.spec, members):
                self.hold.append((newest, tuple(member.row for member in members)))
        self.joined.append(e)


def oracle_filter_order(
    spec: WindowJoin, batch: Batch, rule: SlackRule, early: Callable[[int], bool] = lambda number: True
) -> list[tuple[Result, int]]:
    """The results in the order in which they are emitted, each with the largest clock then.

    `early` says of every arrival, by its number, whether from there on tuples are joined before their turn.

    >>> spec = WindowJoin(windows=(6, 6), equalities=(), conditions=(), columns=(), emit=(), rows=2)
    >>> oracle_filter_order(spec, Batch.of([(0, 1), (1, 9), (1, 8), (0, 8)]), SlackRule(0))
    [((8, (3, 2)), 9), ((9, (3, 1)), 9)]
    """
    stages = _Ordered(spec, early)
    oracle_tuple_release(batch, spec.streams, rule, stages)
    return stages.results
