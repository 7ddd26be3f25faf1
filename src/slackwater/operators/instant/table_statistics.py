"""How many rows every operator of a tree has at one instant, counted over what stands in the windows.

The planner estimates sizes by rates, shares and numbers of groups. Table statistics are these as counted in the tuples,
the same for every placement: the tree as the query states it is computed once by the row engine, operator by operator,
over the newest part of all windows. It costs about what an instant costs, and is taken rarely.

Invariant: counting changes nothing, and gives the same however the stream was cut. Where windows hold more than
MOST_TUPLES, all are shortened by one factor; where a join has more than MOST_PAIRS, some rows of its left side stand
for all of them.

References: 004 §6.3.2 (cardinalities of instantaneous windows).
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from slackwater.core.collections.numbering import NOBODY, Numbering
from slackwater.core.time import SECOND
from slackwater.expressions.relational import Given, Join, Project, Relation, Scan, Select, scans
from slackwater.operators.contract import BuildContext
from slackwater.operators.instant.adapting import TableStatistics
from slackwater.operators.instant.blocks import JOIN_KEY, Block, Mapper, gathered
from slackwater.operators.instant.fragments import reading
from slackwater.operators.instant.row_engine import Instant, compiled_rows
from slackwater.operators.instant.store import WindowStore

MOST_TUPLES = 1 << 16
MOST_PAIRS = 1 << 20


def rates_at(relation: Relation, stores: Sequence[WindowStore], at: int) -> tuple[float, ...]:
    """Tuples a second of each stream, by what its longest window holds at an instant."""
    found = []
    for stream, store in enumerate(stores):
        longest = max((scan.range for scan in scans(relation) if scan.stream == stream), default=0)
        # A window that is not yet full tells of the time since its first tuple.
        since = max(at - longest, store.first_from(at - longest))
        found.append(store.count(since, at) * SECOND / (at - since) if since < at else 0.0)
    return tuple(found)


def take_statistics(
    relation: Relation, stores: Sequence[WindowStore], at: int, context: BuildContext
) -> TableStatistics:
    """Count the rows of a tree over the windows of an instant; `stores` has the tuples of each stream, with the columns
    that the windows of the tree have."""
    held = sum(stores[scan.stream].count(at - scan.range, at) for scan in scans(relation))
    share = min(1.0, MOST_TUPLES / max(1, held))
    counting = _Counting(stores, at, share, context)
    counting.visit(relation)
    return TableStatistics(
        at, rates_at(relation, stores, at), tuple(counting.rows), tuple(counting.pairs), tuple(counting.keys)
    )


class _Counting:
    """A walk over a tree from the windows up."""

    def __init__(self, stores: Sequence[WindowStore], at: int, share: float, context: BuildContext) -> None:
        self._stores, self._at, self._share, self._context = stores, at, share, context
        self.rows: list[float] = []
        self.pairs: list[float] = []
        self.keys: list[tuple[int, int]] = []

    def visit(self, relation: Relation) -> tuple[Block, float]:
        """The rows of a node, or some of them; and for how many rows each stands."""
        if isinstance(relation, Scan):
            since = self._at - max(1, round(relation.range * self._share))
            found = gathered(self._stores[relation.stream].blocks(since, self._at), len(relation.columns))
            return self._counted(found, 1.0)
        below = [self.visit(one) for one in relation.inputs]
        weight = below[0][1]
        if isinstance(relation, Join):
            return self._joined(relation, below[0], below[1])
        made = self._computed(relation, [below[0][0]])
        # A group is a group, however many rows of it were looked at.
        return self._counted(made, weight if isinstance(relation, Select | Project) else 1.0)

    def _joined(self, join: Join, left: tuple[Block, float], right: tuple[Block, float]) -> tuple[Block, float]:
        (mine, weight), (others, other_weight) = left, right
        pairs, keys = self._meetings(join, mine, others)
        every = max(1, round(pairs / MOST_PAIRS))
        looked = mine if every == 1 else mine.taken(np.arange(0, mine.n, every))
        made = self._computed(join, [looked, others])
        weight *= every * (other_weight if join.kind == "inner" else 1.0)
        return self._counted(made, weight, pairs * left[1] * other_weight, keys)

    def _meetings(self, join: Join, left: Block, right: Block) -> tuple[int, tuple[int, int]]:
        """How many pairs of rows have equal keys, and how many different keys either side has."""
        if not join.keys:
            return left.n * right.n, (0, 0)
        numbering, counts = Numbering(len(join.keys), nulls=False), []
        for side, rows in enumerate((left, right)):
            columns = join.inputs[side].columns
            keys = Mapper([pair[side] for pair in join.keys], JOIN_KEY, columns, self._context.encode_text)
            numbers = numbering.of(*keys(rows))
            counts.append(np.bincount(numbers[numbers != NOBODY], minlength=numbering.count))
        size = min(map(len, counts))
        pairs = int((counts[0][:size] * counts[1][:size]).sum())
        return pairs, (int(np.count_nonzero(counts[0])), int(np.count_nonzero(counts[1])))

    def _computed(self, relation: Relation, inputs: Sequence[Block]) -> Block:
        """One operator over rows that are there."""
        leaves = [Given(number, below.columns) for number, below in enumerate(relation.inputs)]
        node = compiled_rows(reading(relation, *leaves), None, self._context)
        return gathered(node.blocks(Instant(self._at, inputs)), node.columns)

    def _counted(
        self, found: Block, weight: float, pairs: float = 0.0, keys: tuple[int, int] = (0, 0)
    ) -> tuple[Block, float]:
        self.rows.append(found.n * weight)
        self.pairs.append(pairs)
        self.keys.append(keys)
        return found, weight
