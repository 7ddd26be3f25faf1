"""The queries that are measured, each on so many tuples, and the target it must meet.

Invariant: a query is the product's own spec; nothing here computes results.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from functools import partial

from benchmarks.inputs import Input, places, readings, streams_of_keys, synthetic
from slackwater.core.batch import FIRST_COLUMN, ROW
from slackwater.core.schema import Kind
from slackwater.core.time import MILLISECOND, SECOND
from slackwater.expressions.functions import typed_call
from slackwater.expressions.tree import Column, Expr, Literal
from slackwater.operators.aggregate.algebra import AggregateSpec
from slackwater.operators.aggregate.operator import WindowAggregate
from slackwater.operators.join.operator import WindowJoin
from slackwater.operators.join.probing import Equality

KEY, V = FIRST_COLUMN, FIRST_COLUMN + 1
X, Y = FIRST_COLUMN, FIRST_COLUMN + 1
Spec = WindowAggregate | WindowJoin


def sliding_sum(grouped: bool) -> WindowAggregate:
    """SUM(v) over [RANGE 1 s SLIDE 100 ms], for each key where grouped."""
    keys = (KEY,) if grouped else ()
    return WindowAggregate(SECOND, 100 * MILLISECOND, keys, (AggregateSpec("SUM", V, Kind.FLOAT),), rows=4)


def many_way_join(streams: int, count_only: bool, window: int = 5 * SECOND) -> WindowJoin:
    """One key over all streams; the key, and v of the first and the last one come out."""
    equal = tuple(Equality(s, KEY, s + 1, KEY) for s in range(streams - 1))
    emit = () if count_only else ((0, KEY), (0, V), (streams - 1, V))
    return WindowJoin((window,) * streams, equal, (), (), emit, rows=4, count_only=count_only)


def distance_join() -> WindowJoin:
    """dist(a.x, a.y, b.x, b.y) < 5 within 5 s, rows out."""
    columns = tuple((stream, name, row) for stream in (0, 1) for name, row in (("x", X), ("y", Y)))
    near: Expr = typed_call("<", (_distance(), Literal(5.0, Kind.FLOAT)))
    return WindowJoin((5 * SECOND,) * 2, (), (near,), columns, ((0, ROW), (1, ROW)), rows=4)


def _distance() -> Expr:
    return typed_call("dist", tuple(Column(stream, name, Kind.FLOAT) for stream in (0, 1) for name in ("x", "y")))


def all_pairs() -> WindowJoin:
    """How many pairs `distance_join` must check: the same windows without a condition, counted."""
    return WindowJoin((5 * SECOND,) * 2, (), (), (), (), rows=4, count_only=True)


def three_way_count() -> WindowJoin:
    """D_syn x3: one key over three streams within 5 s, counted."""
    equal = Equality(0, KEY, 1, KEY), Equality(1, KEY, 2, KEY)
    return WindowJoin((5 * SECOND,) * 3, equal, (), (), (), rows=3, count_only=True)


@dataclass(frozen=True)
class Job:
    """What is measured on so many tuples, and what is promised about it, if anything is."""

    name: str
    says: str
    tuples: int
    unit: str
    """'tuples', 'results' or 'pairs' a second, or 's' for seconds in all."""
    target: float | None


@dataclass(frozen=True)
class Benchmark(Job):
    """A query over an input, through its kernel alone."""

    make_input: Callable[[int], Input]
    spec: Spec
    pairs: WindowJoin | None = None
    """Counts the pairs to check, where the unit is pairs."""
    flat: bool = False
    """Whether its cost per tuple must not grow with the length of the input."""


BENCHMARKS = (
    Benchmark(
        "A1", "sliding SUM, 1 s / 100 ms", 500_000, "tuples", 5e6,
        partial(readings, keys=1), sliding_sum(grouped=False), flat=True,
    ),
    Benchmark(
        "A2", "the same for each of 1000 keys", 500_000, "tuples", 2e6,
        partial(readings, keys=1000), sliding_sum(grouped=True), flat=True,
    ),
    Benchmark(
        "J2 counted", "equi-join on 1000 keys within 5 s", 200_000, "tuples", 1e6,
        partial(streams_of_keys, streams=2, keys=1000), many_way_join(2, count_only=True), flat=True,
    ),
    Benchmark(
        "J2 rows", "the same with its rows", 200_000, "results", 5e6,
        partial(streams_of_keys, streams=2, keys=1000), many_way_join(2, count_only=False),
    ),
    Benchmark(
        "J6 counted", "6-way equi-join on 1000 keys within 5 s, 3000 results a tuple", 300_000, "tuples", 3e5,
        partial(streams_of_keys, streams=6, keys=1000), many_way_join(6, count_only=True), flat=True,
    ),
    Benchmark(
        "J6 rows", "the same on 5000 keys, with its rows, 1 a tuple", 300_000, "tuples", 3e5,
        partial(streams_of_keys, streams=6, keys=5000), many_way_join(6, count_only=False),
    ),
    Benchmark(
        "D", "distance join without key within 5 s", 33_000, "pairs", 200e6,
        places, distance_join(), pairs=all_pairs(),
    ),
    Benchmark(
        "D_syn x3", "3-way equi-join, 540,000 tuples, counted", 540_000, "s", 1.0, synthetic, three_way_count()
    ),
)  # fmt: skip
