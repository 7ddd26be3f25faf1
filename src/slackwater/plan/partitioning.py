"""By which of its columns a query can be cut into shards, by place, where bands say which tuples can meet, or by rows.

Invariant: tuples that can meet, in a join or in a group, at any operator of the query, have the same words in the rows
of their route; or, in a join without a common key, they meet in exactly one shard: that of a tile (`tiling.py`), or the
cell of a grid (`grid.py`).
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace

from slackwater.core.errors import UsageError
from slackwater.core.quality import Recall, RelativeError
from slackwater.core.rates import Resize
from slackwater.operators.contract import OperatorSpec, WithoutKey
from slackwater.operators.graph import keys_of_nodes
from slackwater.operators.inputs import node_of, reads_node
from slackwater.operators.join.bands import Band
from slackwater.plan.fragments import all_rows, learned, may_be_cut, upper
from slackwater.plan.physical import Partitioning, PhysicalPlan
from slackwater.plan.rate_model import Expected
from slackwater.plan.tiling import tiled
from slackwater.quality.registry import STEADY

NO_KEY = "no key is common to all that its operators bring together"
ALL_MEET = "all rows meet in every window"
JUDGED = "the target is judged by all rows"


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
    why = plan.operator.one_shard
    if why is not None:
        return Partitioning(None, why)
    if isinstance(plan.quality, Recall | RelativeError) and plan.options.controller not in (None, STEADY):
        return Partitioning(None, f"controller = '{plan.options.controller}' learns in one place")
    keys = plan.operator.shard_rows
    if keys is not None:
        return Partitioning(keys)
    if plan.operator.without_key is not WithoutKey.BY_COMBINATION:
        return Partitioning(None, NO_KEY)
    return _by_combination(plan, plan.operator, _rates(plan, expected))


def _by_combination(plan: PhysicalPlan, join: OperatorSpec, rates: tuple[float, ...]) -> Partitioning:
    """A join of all inputs of a plan, by place or by rows."""
    axes = _axes(join, rates, plan.options.shards_by)
    return Partitioning(tuple(all_rows(plan, at) for at in range(len(plan.inputs))), rates=rates, axes=axes)


def _in_two(plan: PhysicalPlan, expected: Mapping[str, Expected], whole: Partitioning) -> Partitioning:
    """The same in two fragments, where that can be, else as it is in one shard."""
    if not may_be_cut(plan):
        return whole
    if plan.nodes:
        lower = _below_the_last(plan, expected)
    elif plan.options.shards_by == ROWS:
        lower = Partitioning((all_rows(plan, 0),), rates=(1.0,))
    else:
        # Adding up is so quick that another exchange mostly costs more than it saves.
        return replace(whole, why=f"{whole.why}; OPTIONS (shards_by = 'rows') would cut it")
    if lower is None:
        return whole
    why = learned(plan)
    return replace(whole, why=f"{whole.why}, and {why}") if why else replace(lower, above=_of_last(upper(plan)))


def _below_the_last(plan: PhysicalPlan, expected: Mapping[str, Expected]) -> Partitioning | None:
    """How everything but the last operator is cut; None where that has no common key either. What is read by different
    inputs of the last operator has keys of its own."""
    nodes, streams = plan.operator.all_nodes, plan.operator.streams
    keys = keys_of_nodes(nodes)
    rows: dict[int, tuple[int, ...]] = {}
    for one in nodes[-1].inputs:
        if not reads_node(one):
            rows[one] = all_rows(plan, one)
        elif keys[node_of(one)]:
            rows |= {stream: (row,) for stream, row in keys[node_of(one)][0].rows.items()}
        else:
            first = nodes[0].operator
            plain = len(nodes) == 2 and streams > 1 and nodes[0].inputs == tuple(range(streams))
            if not plain or first.without_key is not WithoutKey.BY_COMBINATION:
                return None
            return _by_combination(plan, first, _rates(plan, expected))
    return Partitioning(tuple(rows[stream] for stream in range(streams)))


def _of_last(last: PhysicalPlan) -> Partitioning:
    """How what is handed on is cut for the last operator."""
    operator = last.operator
    if operator.one_shard is not None:
        return Partitioning(None, operator.one_shard)
    if last.below is not None:
        return Partitioning(None, JUDGED)
    if operator.without_key is WithoutKey.FREELY:
        return Partitioning(tuple(all_rows(last, at) for at in range(len(last.inputs))))
    if operator.shard_rows is not None:
        return Partitioning(operator.shard_rows)
    if operator.without_key is WithoutKey.BY_COMBINATION:
        return _by_combination(last, operator, (1.0,) * operator.streams)
    return Partitioning(None, ALL_MEET if operator.windowed else NO_KEY)


def _axes(join: OperatorSpec, rates: tuple[float, ...], asked: str | None) -> tuple[Band, ...]:
    """The bands by which a join is cut by place; none where it is cut by rows.

    Columns of times go on with the stream. At any moment all tuples would be in the same few tiles, and one shard would
    have all the work. So they count only where that is asked for.
    """
    if join.streams != 2 or asked == ROWS:
        return ()
    return tiled(join.bands_for_tiles(times=asked == PLACE), rates)


def _rates(plan: PhysicalPlan, expected: Mapping[str, Expected]) -> tuple[float, ...]:
    """The rates of all inputs; where one is not known, they count as equal."""
    known = [expected.get(one.stream.alias, expected.get(one.stream.source)) for one in plan.inputs]
    rates = tuple(one.rate for one in known if one is not None and one.rate > 0)
    return rates if len(rates) == len(known) else (1.0,) * len(known)


def rates_at_first(operator: OperatorSpec) -> list[tuple[int, Resize]]:
    """What is in force at the beginning in joins whose windows follow rates, each with its number."""
    found = ((n, node.operator.resize_at_first) for n, node in enumerate(operator.all_nodes))
    return [(n, resize) for n, resize in found if resize is not None]
