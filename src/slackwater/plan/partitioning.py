"""By which of its columns a query can be cut into shards, by place, where bands say which tuples can meet, or by rows.

Invariant: tuples that can meet, in a join or in a group, at any operator of the query, have the same words in the rows
of their route; or, in a join without a common key, they meet in exactly one shard: that of a tile (`tiling.py`), or the
cell of a grid (`grid.py`).
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from itertools import product

from slackwater.core.errors import UsageError
from slackwater.core.quality import Recall, RelativeError
from slackwater.core.rates import Resize
from slackwater.core.schema import Kind
from slackwater.expressions.tree import Column, walk
from slackwater.operators.aggregate.landmark import LandmarkAggregate
from slackwater.operators.aggregate.operator import WindowAggregate
from slackwater.operators.aggregate.row_aggregate import RowAggregate
from slackwater.operators.contract import PlannedSpec
from slackwater.operators.graph import NodeSpec, OperatorGraph
from slackwater.operators.handing import Handing
from slackwater.operators.inputs import node_of, reads_node
from slackwater.operators.join.bands import Band
from slackwater.operators.join.count_windows import CountWindowJoin
from slackwater.operators.join.operator import WindowJoin
from slackwater.operators.join.probing import classes_of
from slackwater.operators.join.rate_windows import RateJoin
from slackwater.operators.projection import Projection
from slackwater.operators.union import StreamUnion
from slackwater.plan.fragments import all_rows, learned, may_be_cut, upper
from slackwater.plan.physical import Partitioning, PhysicalPlan
from slackwater.plan.rate_model import Expected
from slackwater.plan.tiling import tiled
from slackwater.quality.registry import STEADY

ShardKeys = list[tuple[int, ...]]
NO_KEY = "no key is common to all that its operators bring together"
ALL_MEET = "all rows meet in every window"


PLACE, ROWS = "place", "rows"
"""By what a join without a key can be cut."""


def partitioning_of(plan: PhysicalPlan, expected: Mapping[str, Expected] | None = None) -> Partitioning:
    """How a query is cut into shards, or why it is not; `expected` says what is known of streams beforehand."""
    found, asked = _partitioning(plan, expected or {}), plan.options.shards_by
    if found.keys is None:
        found = _in_two(plan, expected or {}, found)
    if asked not in (None, PLACE, ROWS):
        raise UsageError(f"option shards_by = '{asked}': there is {PLACE} and {ROWS}")
    if asked is not None and not found.rates:
        why = found.why or "it has a key"
        raise UsageError(f"option shards_by is for joins without a key that run in many shards; here {why}")
    if asked == PLACE and not found.axes:
        raise UsageError("option shards_by = 'place' is for two streams that a band or a distance joins")
    return found


def _partitioning(plan: PhysicalPlan, expected: Mapping[str, Expected]) -> Partitioning:
    for operator in operators_of(plan.operator):
        why = one_shard(operator)
        if why is not None:
            return Partitioning(None, why)
    if isinstance(plan.quality, Recall | RelativeError) and plan.options.controller not in (None, STEADY):
        return Partitioning(None, f"controller = '{plan.options.controller}' learns in one place")
    keys = shard_keys_of(plan)
    if keys is not None:
        return Partitioning(tuple(keys))
    # Only of a plain join each result hangs on nothing but its own members.
    if type(plan.operator) is not WindowJoin or plan.operator.streams == 1:
        return Partitioning(None, NO_KEY)
    return _without_key(plan, plan.operator, _rates(plan, expected))


def _without_key(plan: PhysicalPlan, join: WindowJoin, rates: tuple[float, ...]) -> Partitioning:
    """A join of all inputs of a plan, by place or by rows."""
    axes = _axes(join, rates, plan.options.shards_by)
    return Partitioning(tuple(all_rows(plan, at) for at in range(len(plan.inputs))), rates=rates, axes=axes)


def _in_two(plan: PhysicalPlan, expected: Mapping[str, Expected], whole: Partitioning) -> Partitioning:
    """The same in two fragments, where that can be, else as it is in one shard."""
    if not may_be_cut(plan):
        return whole
    if isinstance(plan.operator, OperatorGraph):
        lower = _below_the_last(plan, plan.operator, expected)
    elif plan.options.shards_by == ROWS:
        lower = Partitioning((all_rows(plan, 0),), rates=(1.0,))
    else:
        # Adding up is so quick that another exchange mostly costs more than it saves.
        return replace(whole, why=f"{whole.why}; OPTIONS (shards_by = 'rows') would cut it")
    if lower is None:
        return whole
    why = learned(plan)
    return replace(whole, why=f"{whole.why}, and {why}") if why else replace(lower, above=_of_last(upper(plan)))


def _below_the_last(plan: PhysicalPlan, graph: OperatorGraph, expected: Mapping[str, Expected]) -> Partitioning | None:
    """How everything but the last operator is cut; None where that has no common key either. What is read by different
    inputs of the last operator has keys of its own."""
    keys = _keys_of_nodes(graph)
    rows: dict[int, tuple[int, ...]] = {}
    for one in graph.nodes[-1].inputs:
        if not reads_node(one):
            rows[one] = all_rows(plan, one)
        elif keys[node_of(one)]:
            rows |= {stream: (row,) for stream, row in keys[node_of(one)][0].rows.items()}
        else:
            first = graph.nodes[0].operator
            plain = len(graph.nodes) == 2 and graph.streams > 1 and graph.nodes[0].inputs == tuple(range(graph.streams))
            if not plain or type(first) is not WindowJoin:
                return None
            return _without_key(plan, first, _rates(plan, expected))
    return Partitioning(tuple(rows[stream] for stream in range(graph.streams)))


def _of_last(last: PhysicalPlan) -> Partitioning:
    """How what is handed on is cut for the last operator."""
    operator = last.operator
    why = one_shard(operator)
    if why is not None:
        return Partitioning(None, why)
    if isinstance(operator, StreamUnion):
        return Partitioning(tuple(all_rows(last, at) for at in range(len(last.inputs))))
    keys = shard_keys_of(last)
    if keys is not None:
        return Partitioning(tuple(keys))
    if type(operator) is WindowJoin and operator.streams > 1:
        return _without_key(last, operator, (1.0,) * operator.streams)
    return Partitioning(None, ALL_MEET if isinstance(operator, WindowAggregate) else NO_KEY)


def _axes(join: WindowJoin, rates: tuple[float, ...], asked: str | None) -> tuple[Band, ...]:
    """The bands by which a join is cut by place; none where it is cut by rows.

    Columns of times go on with the stream. At any moment all tuples would be in the same few tiles, and one shard would
    have all the work. So they count only where that is asked for.
    """
    if join.streams != 2 or asked == ROWS:
        return ()
    if asked == PLACE:
        return tiled(join.bands, rates)
    rows = {(stream, name): row for stream, name, row in join.columns}
    columns = (part for condition in join.conditions for part in walk(condition) if isinstance(part, Column))
    times = {(one.stream, rows[one.stream, one.name]) for one in columns if one.kind is Kind.TIME}
    still = [band for band in join.bands if not times & {(side.stream, side.row) for side in (band.left, band.right)}]
    return tiled(still, rates)


def _rates(plan: PhysicalPlan, expected: Mapping[str, Expected]) -> tuple[float, ...]:
    """The rates of all inputs; where one is not known, they count as equal."""
    known = [expected.get(one.stream.alias, expected.get(one.stream.source)) for one in plan.inputs]
    rates = tuple(one.rate for one in known if one is not None and one.rate > 0)
    return rates if len(rates) == len(known) else (1.0,) * len(known)


def one_shard(operator: object) -> str | None:
    """Why an operator must see the tuples of all keys, and so runs in one shard; None where a key may spread it.

    >>> one_shard(CountWindowJoin((), (), (), (), (), 2))
    'windows that count tuples count those of all keys'
    """
    if isinstance(operator, RateJoin):
        return "windows that follow rates count the tuples of all keys"
    if isinstance(operator, CountWindowJoin | RowAggregate):
        return "windows that count tuples count those of all keys"
    if isinstance(operator, LandmarkAggregate):
        return "a tuple of any key may open or close the window"
    return None


def shard_keys_of(plan: PhysicalPlan) -> ShardKeys | None:
    """Per input, the rows whose words choose the shard; None where the query runs in one shard."""
    operator = plan.operator
    if any(map(one_shard, operators_of(operator))):
        return None
    if isinstance(operator, OperatorGraph):
        found = _of_graph(operator)
        return None if found is None else [(found.rows[stream],) for stream in range(operator.streams)]
    if isinstance(operator, WindowAggregate):
        return [operator.keys] if operator.keys else None
    if isinstance(operator, PlannedSpec):
        return None if operator.shard_rows is None else list(operator.shard_rows)
    assert not isinstance(operator, StreamUnion), "a union is planned as part of a graph"
    for members in classes_of(operator.equalities):
        rows = dict(sorted(members, reverse=True))
        if len(rows) == operator.streams:
            return [(rows[stream],) for stream in range(operator.streams)]
    return None


def operators_of(operator: object) -> list[object]:
    """An operator, or those of all nodes of a graph."""
    return [node.operator for node in operator.nodes] if isinstance(operator, OperatorGraph) else [operator]


def rates_at_first(operator: object) -> list[tuple[int, Resize]]:
    """What is in force at the beginning in joins whose windows follow rates, each with its number."""
    return [(n, one.at_first) for n, one in enumerate(operators_of(operator)) if isinstance(one, RateJoin)]


@dataclass(frozen=True)
class _Key:
    """A key that everything under a node can be told apart by: its row in each raw stream, and the kernel columns of
    the node that hold it."""

    rows: dict[int, int]
    columns: frozenset[int] = field(default_factory=frozenset)


def _of_graph(graph: OperatorGraph) -> _Key | None:
    keys = _keys_of_nodes(graph)
    return keys[-1][0] if keys[-1] else None


def _keys_of_nodes(graph: OperatorGraph) -> list[list[_Key]]:
    """Of every node the keys of all that is under it."""
    keys: list[list[_Key]] = []
    for node in graph.nodes:
        keys.append([])
        for places, columns in _classes(node.operator):
            per_input = [
                _at_input(one, places[at], keys, graph.nodes[node_of(one)].outlet if reads_node(one) else None)
                for at, one in enumerate(node.inputs)
            ]
            for chosen in product(*per_input):
                rows = {stream: row for key in chosen for stream, row in key.rows.items()}
                keys[-1].append(_Key(rows, frozenset(columns)))
                break
    return keys


def _classes(operator: NodeSpec) -> list[tuple[dict[int, int], list[int]]]:
    """What is equal in all tuples that meet at an operator: per input its row, and the kernel columns that hold it."""
    if one_shard(operator):
        return []
    if isinstance(operator, Handing):
        return []
    if isinstance(operator, WindowAggregate):
        # The bounds of the window come before the keys.
        return [({0: row}, [2 + at]) for at, row in enumerate(operator.keys)]
    if isinstance(operator, StreamUnion):
        first = operator.rows_of_columns()
        return [(dict.fromkeys(range(operator.streams), row), [at]) for at, row in enumerate(first)]
    if operator.streams == 1:
        return [({0: row}, [at]) for at, (_, row) in enumerate(operator.emit)]
    found = []
    for members in classes_of(operator.equalities):
        rows = dict(sorted(members, reverse=True))
        if len(rows) == operator.streams:
            found.append((rows, [at for at, place in enumerate(operator.emit) if place in members]))
    return found


def _at_input(one: int, row: int, keys: list[list[_Key]], projection: Projection | None) -> list[_Key]:
    """The keys that stand in a row of an input: of a raw stream, or of a node whose results carry one there."""
    if projection is None:
        return [_Key({one: row})]
    sources = {carried.source for carried in projection.carried if carried.row == row and carried.source is not None}
    return [key for key in keys[node_of(one)] if key.columns & sources]
