"""The physical plan: what each input ships, which kernel runs, how results are named.

Invariant: a plan is plain, frozen data. Row 0 of a tuple is its event time, row 1 its identity; every other row is
given here, and columns that only a filter reads come last and are not shipped to the kernel.
"""

from __future__ import annotations

from dataclasses import dataclass

import pyarrow as pa

from slackwater.disorder.state import NO_PARTITION
from slackwater.expressions.computed import Computed
from slackwater.expressions.tree import Expr
from slackwater.language.bound import BoundQuery, StreamRef
from slackwater.model.options import Options
from slackwater.model.quality import Quality
from slackwater.model.schema import Kind
from slackwater.operators.aggregate import WindowAggregate
from slackwater.operators.graph import OperatorGraph
from slackwater.operators.join.operator import WindowJoin
from slackwater.operators.join.tree import JoinTree
from slackwater.operators.state_size import Member
from slackwater.operators.union import StreamUnion
from slackwater.plan.rate_order import JoinOrder

IDENTITY = "\0row"
"""The pseudo-column that stands for a tuple's identity: a name that no query can spell."""


@dataclass(frozen=True)
class InputPlan:
    """One entry of FROM."""

    stream: StreamRef
    position: int
    columns: tuple[tuple[str, Kind, int], ...]
    """(column, kind, row) of everything read from the source."""
    computed: tuple[Computed, ...]
    rows: int
    """Rows shipped to the kernel."""
    all_rows: int
    """Rows including those that only filters read."""
    partition_slot: int = NO_PARTITION
    """The row that tells the parts of the stream apart, where it has parts."""
    members: tuple[Member, ...] = ()
    """The events that a tuple is made of, where they are known: one of a raw stream, those that a join below has put
    together where the query says how large events are."""


@dataclass(frozen=True)
class OutputColumn:
    """A result column: a kernel column as it is, or an expression over kernel columns."""

    name: str
    kind: Kind
    arrow: pa.DataType
    source: int | None
    expr: Expr | None = None


@dataclass(frozen=True)
class PhysicalPlan:
    """Everything a runtime needs."""

    query: BoundQuery
    inputs: tuple[InputPlan, ...]
    operator: WindowJoin | JoinTree | WindowAggregate | StreamUnion | OperatorGraph
    outputs: tuple[OutputColumn, ...]
    emitted: tuple[tuple[int, str], ...]
    """Joins: the (stream, column) that each kernel column holds."""
    quality: Quality
    options: Options
    nodes: tuple[PhysicalPlan, ...] = ()
    """Of a graph: the plan of every node by itself, as if its sub-queries were streams."""
    orders: tuple[JoinOrder, ...] = ()
    """Of every join whose windows follow rates, inside out: the order of its streams, and why."""

    @property
    def windows(self) -> tuple[int, ...]:
        """The windows of a join; none for an aggregate, or where there are several operators."""
        return self.operator.windows if isinstance(self.operator, WindowJoin | JoinTree) else ()

    @property
    def partition_slots(self) -> tuple[int, ...]:
        """Per input, the row of its parts; empty where no input has any."""
        rows = tuple(one.partition_slot for one in self.inputs)
        return rows if any(row != NO_PARTITION for row in rows) else ()

    @property
    def count_only(self) -> bool:
        return isinstance(self.operator, WindowJoin | JoinTree) and self.operator.count_only

    @property
    def joins(self) -> bool:
        """Whether results have a time of their own, and not the bounds of a window."""
        top = self.operator.top if isinstance(self.operator, OperatorGraph) else self.operator
        return not isinstance(top, WindowAggregate)
