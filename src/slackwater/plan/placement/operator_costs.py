"""What an operator costs in a second, on either engine, and what crossing from one to the other costs.

**Row engine.** What stands on a window alone is computed as tuples come and go: a selection or projection costs by
tuple (λ); an aggregate costs by tuple, and at every instant by group. A median or a distinct count costs more by tuple
than a sum, but no more in a large group than in a small one. Any other operator is computed at every instant, so that
it costs by the rows of its inputs (|w|) and the instants of a second. In the words of Eq. 6.4: its unit cost is a
function of the cardinality of its windows.

**Column engine.** A fragment is one statement, executed at every instant:

    u = n_slide (statement + Σ operators) + Σ inputs + output

A window, or rows that a row operator keeps by tuple, go over once a tuple (λ); rows that are computed at every instant
go over whole at every instant. The output comes back whole at every instant.

So the cost of a fragment is a sum: of a part that is known as soon as an operator is put into it (the operator, and
what of its inputs crosses over), and of a part that is known when the fragment ends (statement and output). That is all
by which costs fail to be additive over operators, and the search of placements carries the first part along.

References: 004 Eq. 6.4, cost of DSPS-ops and DB-ops (§6.3.2).
"""

from __future__ import annotations

from dataclasses import dataclass
from math import inf

from slackwater.expressions.relational import Aggregate, AggregateCall, Join, Project, Relation, Select
from slackwater.expressions.tree import Column
from slackwater.operators.instant.row_engine import keys_held
from slackwater.operators.instant.sql import can_be_column
from slackwater.plan.placement.costs import Costs
from slackwater.plan.placement.sizes import Numbered, Size

RANKED, DISTINCT = frozenset(("MEDIAN", "QUANTILE")), frozenset(("COUNT_DISTINCT",))
"""Aggregates that need all values: by their order, or each value once."""
MET_ONCE = 1.01
"""Up to so many pairs for a row of the larger side, the rows of the smaller one are taken to have different keys."""


def stays_by_tuple(node: Relation) -> bool:
    """Whether a row operator over rows that are kept by tuple gives rows that are."""
    return isinstance(node, Select | Project)


def _expressions(node: Select | Project) -> int:
    """How many expressions are computed for each row; a column that stays what it was is none."""
    if isinstance(node, Select):
        return 1
    return sum(not isinstance(one, Column) for one in node.expressions)


def _counted(calls: tuple[AggregateCall, ...], functions: frozenset[str]) -> int:
    return sum(call.function in functions for call in calls)


def _pairs(node: Join, below: list[Size], out: Size) -> float:
    """How many pairs a join looks at: those with equal keys, or all."""
    return out.pairs if node.keys else below[0].rows * below[1].rows


def row_join_cost(left: float, right: float, pairs: float, made: float, slides: float, unit: Costs) -> float:
    """A join on the row engine, by the rows of its sides, the pairs it looks at, and the rows it makes of them. The
    smaller side is held."""
    of_sides = max(left, right) * unit.row_probe + min(left, right) * unit.row_build
    return slides * (unit.row_instant + of_sides + pairs * unit.row_pair + made * unit.row_made)


def _added(node: Aggregate) -> int:
    """How often a row of a group is added up."""
    return max(1, len(node.calls) - _counted(node.calls, RANKED | DISTINCT))


def _further_keys(node: Aggregate) -> int:
    return max(0, len(node.keys) - 1)


def _all_values(node: Aggregate, ranked: float, distinct: float) -> float:
    """What a row costs for aggregates that need all values."""
    return _counted(node.calls, RANKED) * ranked + _counted(node.calls, DISTINCT) * distinct


@dataclass(frozen=True)
class OperatorCosts:
    """What each node of a tree costs. Nodes are known by their numbers in post-order."""

    tree: tuple[Numbered, ...]
    sizes: tuple[Size, ...]
    slides: float
    """Instants a second."""
    costs: Costs

    def by_row(self, number: int, by_tuple: bool) -> float:
        """An operator on the row engine, over input that is kept by tuple, or is computed at every instant."""
        node, unit = self.tree[number].node, self.costs
        out = self.sizes[number]
        below = [self.sizes[one] for one in self.tree[number].inputs]
        rows = below[0].rows
        if isinstance(node, Select | Project):
            work = _expressions(node)
            if by_tuple:
                return below[0].rate * work * unit.row_judge
            return self.slides * (unit.row_instant + rows * work * unit.row_scan)
        if isinstance(node, Join):
            return row_join_cost(rows, below[1].rows, _pairs(node, below, out), out.rows, self.slides, unit)
        if isinstance(node, Aggregate):
            emitted = self.slides * (unit.row_instant + out.rows * max(1, len(node.calls)) * unit.row_group)
            if by_tuple:
                a_tuple = _added(node) * unit.row_add + _further_keys(node) * unit.row_key
                a_tuple += _all_values(node, unit.row_rank, unit.row_distinct)
                return emitted + below[0].rate * a_tuple
            looked_up = 0 if self._is_met(number) else len(node.keys)
            a_row = _added(node) * unit.row_total + looked_up * unit.row_hash
            a_row += _all_values(node, unit.row_rank_rows, unit.row_distinct_rows)
            return emitted + self.slides * rows * a_row
        a_row = unit.row_total + self._width(number) * unit.row_hash
        return self.slides * (unit.row_instant + rows * a_row + out.rows * unit.row_group)

    def _is_met(self, number: int) -> bool:
        """Whether the groups of a join are the rows that are met, so that none has to be looked up. That the join may
        be on the other engine is left out: what comes back from there costs far more than looking it up."""
        node, (below,) = self.tree[number].node, self.tree[number].inputs
        join = self.tree[below].node
        if not isinstance(node, Aggregate) or not isinstance(join, Join) or join.kind != "inner":
            return False
        left, right = (self.sizes[side].rows for side in self.tree[below].inputs)
        met_once = self.sizes[below].pairs <= MET_ONCE * max(left, right)
        return met_once and bool(keys_held(node, join, int(left >= right)))

    def by_column(self, number: int) -> float:
        """An operator inside a statement of the column engine; no end of it where that cannot compute it exactly."""
        node, unit = self.tree[number].node, self.costs
        if not can_be_column(node):
            return inf
        out = self.sizes[number]
        below = [self.sizes[one] for one in self.tree[number].inputs]
        rows = below[0].rows
        if isinstance(node, Select | Project):
            return self.slides * rows * _expressions(node) * unit.column_scan
        if isinstance(node, Join):
            # The database hashes the smaller side, whichever it is.
            built, probed = sorted((rows, below[1].rows))
            pairs = _pairs(node, below, out) * unit.column_pair
            keys = max(1, len(node.keys))
            return self.slides * (keys * (built * unit.column_build + probed * unit.column_probe) + pairs)
        if isinstance(node, Aggregate):
            a_row = (_added(node) + _further_keys(node)) * unit.column_hash
            a_row += _all_values(node, unit.column_rank, unit.column_distinct)
            return self.slides * (rows * a_row + out.rows * max(1, len(node.calls)) * unit.column_group)
        return self.slides * (rows * unit.column_hash + out.rows * unit.column_group)

    def transfer_in(self, number: int, by_tuple: bool) -> float:
        """The rows of a node go over to the column engine."""
        size, unit = self.sizes[number], self.costs
        rows = size.rate if by_tuple else self.slides * size.rows
        return self.slides * unit.column_input + rows * self._width(number) * unit.column_value_in

    def transfer_out(self, number: int) -> float:
        """A statement, and the rows of its topmost operator on their way back."""
        rows = self.sizes[number].rows
        unit = self.costs
        return self.slides * (unit.column_statement + rows * self._width(number) * unit.column_value_out)

    def _width(self, number: int) -> int:
        return max(1, len(self.tree[number].node.columns))
