"""The join of tuples in the order in which they come: each is combined with all that came before it.

Windows are indexed for a search in which any member may be the newest. Who uses it says by a `Step` which tuples enter,
which of them probe, and which results are wanted: Filter-Order takes tuples before their turn, a ledger counts what is
true, and a join that emits on arrival, or corrects what it has emitted, gives what it finds.

Invariant: a combination is found once, at its last member to come.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import TYPE_CHECKING

import numpy as np

from slackwater.core.errors import DataError
from slackwater.disorder.ordered_batch import OrderedTuples
from slackwater.expressions.compile import Condition
from slackwater.operators.join.eager_probe import Lines, N, lines
from slackwater.operators.join.loop import BUFFER_FULL, OVERFLOW
from slackwater.operators.join.probing import first_plan
from slackwater.operators.join.search import Probes, Search, probes_of, search_space
from slackwater.operators.join.store import Windows, WindowStore
from slackwater.operators.join.unordered_probe import Reach, reach_of

if TYPE_CHECKING:
    from slackwater.operators.join.operator import WindowJoin

Step = Callable[[int, Probes, OrderedTuples, int, Windows, Search, Reach, Lines], tuple[int, int]]
"""Takes tuples from one on, until their end or until the results of one have no room: (tuples, status). The first
argument is the address of the condition."""
FIRST_CAPACITY = 1 << 14
"""Lines that are made before they are handed on; one tuple's are never split."""
MOST = 2.0**53
"""Ways are multiplied as floats; up to here they are exact."""


class ArrivalProbe:
    """The windows of a join, and the search in them; with more `rows` a tuple has some that the join does not know."""

    def __init__(self, spec: WindowJoin, condition: Condition, count_only: bool, rows: int) -> None:
        plan = first_plan(spec.linkage(count_only, in_order=False))
        self._condition, self._streams = condition, spec.streams
        self._plan = probes_of(plan, np.array(spec.windows, np.int64), spec.most, count_only)
        self._slots = 0 if count_only else spec.streams
        self._reach = reach_of(spec.streams)
        self.store = WindowStore(spec.streams, rows, plan.indexes)

    def combine(self, new: OrderedTuples, step: Step, ahead: int = 0) -> Iterator[tuple[int, int, Lines]]:
        """Take tuples, for which there is room; yields what each part of them has made: from one tuple to another, and
        the lines. `ahead` of those in the windows have their turn still to come."""
        windows, count = self.store.windows, new.words.shape[1]
        search = search_space(self._streams, windows.words.shape[1])
        begin, capacity = 0, FIRST_CAPACITY
        while begin < count:
            found = lines(capacity, self._slots, ahead)
            address = self._condition.addresses[1]
            end, status = step(address, self._plan, new, begin, windows, search, self._reach, found)
            if status == OVERFLOW:
                raise self._condition.failure()
            if status == BUFFER_FULL and end == begin:
                capacity *= 4
                continue
            n = int(found.state[N])
            made = Lines(found.ts[:n], found.multiplicity[:n], found.by[:n], found.slots[:, :n], found.state)
            if n and made.multiplicity.max() > MOST:
                raise DataError("one tuple has more results than can be counted exactly out of order")
            yield begin, end, made
            begin = end
