"""The physical plan: everything a runtime needs to run a query, decided once.

What each input ships, which operator runs and by which engine, how tuples are released and results brought into order,
when results are emitted and how they are named, how the query is cut into shards. `graph_of_plan.py` shows it as nodes.

Invariant: a plan is plain, frozen data. Row 0 of a tuple is its event time, row 1 its identity; every other row is
given here, and columns that only a filter reads come last and are not shipped to the kernel. What depends on the
quality target is computed on demand, since a target may be replaced while a query runs.
"""

from __future__ import annotations

from dataclasses import dataclass

import pyarrow as pa

from slackwater.core.emitting import Emit
from slackwater.core.options import Options
from slackwater.core.quality import Quality, uncapped
from slackwater.core.results import SYNC, Ordering
from slackwater.core.schema import Kind
from slackwater.disorder.release.release import ReleaseSpec
from slackwater.disorder.release.state import NO_PARTITION
from slackwater.expressions.computed import Computed
from slackwater.expressions.tree import Expr
from slackwater.language.bound import RESULT_TIME, WINDOW_COLUMNS, AggregateQuery, BoundQuery, StreamRef
from slackwater.language.distinct import DistinctQuery
from slackwater.operators.contract import OperatorSpec
from slackwater.operators.join.bands import Band
from slackwater.operators.state_size import Member, Weights
from slackwater.plan.graph import ROW
from slackwater.plan.grid import Grid, cheapest
from slackwater.plan.placement.place import Placed
from slackwater.plan.rate_order import JoinOrder
from slackwater.plan.tiling import Tiling
from slackwater.quality import registry

IDENTITY = "\0row"
"""The pseudo-column that stands for a tuple's identity: a name that no query can spell."""


IN_TURN = Ordering(SYNC)
"""A tuple is processed when no input can bring an older one."""


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
    """The row that names the partition of a tuple, if the stream has partitions."""
    members: tuple[Member, ...] = ()
    """The events that a tuple consists of, if known: one for a raw stream; for the result of a join below, its members
    if the query says how large events are."""

    @property
    def partition_kind(self) -> Kind | None:
        """The kind of what names the partition of a tuple; None where nothing does, or the event time."""
        kinds = {row: kind for _, kind, row in self.columns} | {one.row: one.expr.kind for one in self.computed}
        return kinds.get(self.partition_slot)


@dataclass(frozen=True)
class OutputColumn:
    """A result column: a kernel column as it is, or an expression over kernel columns."""

    name: str
    kind: Kind
    arrow: pa.DataType
    source: int | None
    expr: Expr | None = None


@dataclass(frozen=True)
class Partitioning:
    """How a query is cut into shards."""

    keys: tuple[tuple[int, ...], ...] | None
    """Per input, the rows whose words choose the shard; None where the query runs in one shard."""
    why: str = ""
    """Why the query runs in one shard, in words."""
    rates: tuple[float, ...] = ()
    """Where there is no key, so that inputs are cut by rows or by place: how their rates compare; empty where a key
    tells which tuples can meet. All words of a tuple choose its part then, or where it is."""
    axes: tuple[Band, ...] = ()
    """Where two inputs are cut by place: the bands that say how near to each other tuples are that meet."""
    above: Partitioning | None = None
    """Where a query runs in two fragments (`plan/fragments.py`): how what the lower one hands on is cut for the last
    operator. All else is said of the lower one."""

    def shards(self, asked: int) -> int:
        """How many shards a query runs in if this many are asked for."""
        return 1 if self.keys is None else asked

    def cut(self, shards: int) -> Grid | Tiling | None:
        """How inputs are cut by rows or by place for so many shards; None where a key cuts them, or nothing does."""
        if not self.rates or shards == 1:
            return None
        return Tiling(self.axes, shards) if self.axes else cheapest(self.rates, shards)


ONE_SHARD = Partitioning(None)


@dataclass(frozen=True)
class PhysicalPlan:
    """Everything a runtime needs."""

    query: BoundQuery
    inputs: tuple[InputPlan, ...]
    operator: OperatorSpec
    outputs: tuple[OutputColumn, ...]
    emitted: tuple[tuple[int, str], ...]
    """Joins, and aggregates with something computed around them: the (stream, column) that each kernel column holds;
    the groups of an aggregate are stream 0."""
    quality: Quality
    options: Options
    nodes: tuple[PhysicalPlan, ...] = ()
    """Of a graph: the plan of every node by itself, as if its sub-queries were streams."""
    orders: tuple[JoinOrder, ...] = ()
    """Of every join whose windows follow rates, inside out: the order of its streams, and why."""
    ordering: Ordering = IN_TURN
    """How the results of a join are brought into order, in tuple release."""
    partitioning: Partitioning = ONE_SHARD
    weights: Weights = ()
    """The names of the plan's windows in memory reports, and what their tuples consist of."""
    engine: str = ROW
    """What runs the operator; of a graph every plan in `nodes` has its own."""
    placed: Placed | None = None
    """Of a query over instantaneous windows: which engine computes what, and why."""
    read_by: tuple[int, ...] = ()
    """Where entries of FROM share an input: of every entry, which it reads."""
    below: OperatorSpec | None = None
    """Of the last of two fragments, where a target is judged there: all operators of the query, which true rows tell
    of."""
    judged: bool = False
    """Whether change rows say which of them are the first answer, and when they were emitted."""

    @property
    def windows(self) -> tuple[int, ...]:
        """The windows of a join; none for an aggregate, or where there are several operators."""
        return self.operator.windows_joined

    @property
    def inputs_of_entries(self) -> tuple[int, ...]:
        """Of every entry of FROM that reads a source, the position of the input it reads."""
        return self.read_by or tuple(range(len(self.inputs)))

    @property
    def partition_slots(self) -> tuple[int, ...]:
        """Per input, the row of its partitions; empty if no input has any."""
        rows = tuple(one.partition_slot for one in self.inputs)
        return rows if any(row != NO_PARTITION for row in rows) else ()

    @property
    def release(self) -> ReleaseSpec:
        """How tuples are released, except for how a runtime cuts epochs."""
        return ReleaseSpec(
            self.operator.streams,
            self.operator.rows,
            sorted=self.operator.needs_order,
            idle_timeout=self.options.idle_timeout,
            idle_after=self.options.idle_after,
            partition_slots=self.partition_slots,
            max_behind=self.options.max_behind,
            external_sync=self.operator.external_sync,
            at_once=self.operator.at_once,
        )

    @property
    def target(self) -> str:
        """The quality that is asked for, without its cap."""
        return str(uncapped(self.quality))

    @property
    def learning_key(self) -> str:
        """What two plans must have in common for one to go on with what the controller of the other has learned."""
        key = registry.learning_key(self.quality, self.options, self.windows)
        return key + self.operator.learning_key(self.quality)

    @property
    def count_only(self) -> bool:
        return self.operator.count_only

    @property
    def emit(self) -> Emit:
        """When results leave, and what may follow them."""
        return self.query.emit

    @property
    def correctable(self) -> int | None:
        """How far behind the watermark a result may be corrected; None: not at all."""
        return (self.emit.correctable or self.options.max_behind) if self.emit.corrections else None

    @property
    def change_key(self) -> tuple[str, ...] | None:
        """The columns that tell change rows of one result; None where the query selects none that do."""
        query = self.query
        names = tuple(column.name for column in self.outputs)
        if isinstance(query, AggregateQuery):
            keys = tuple(key.name for key in query.keys)
            return (*WINDOW_COLUMNS, *keys) if set(keys) <= set(names) else None
        return (*names, RESULT_TIME) if isinstance(query, DistinctQuery) else None

    @property
    def joins(self) -> bool:
        """Whether results have a time of their own, and not the bounds of a window."""
        return not self.operator.windowed
