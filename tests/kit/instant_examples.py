"""Queries over instantaneous windows that every law is tried on: trees of the shapes that 004 evaluates.

Invariant: sums are of integers and floats are only compared, so that results are equal word for word.

References: 004 §6.1, §6.4 (Q1, Q3).
"""

from __future__ import annotations

from collections.abc import Iterator

from slackwater.core.batch import FIRST_COLUMN
from slackwater.core.schema import Kind
from slackwater.expressions.functions import typed_call
from slackwater.expressions.relational import Aggregate, AggregateCall, Distinct, Join, Project, Relation, Scan, Select
from slackwater.expressions.tree import Column, Literal
from slackwater.operators.instant.spec import InstantRelation
from tests.kit.random_relations import KINDS, NAMES, ROWS, reading_of, relation_column

PLACES = tuple((name, FIRST_COLUMN + at) for at, name in enumerate(NAMES))
K, L = (Column(0, name, Kind.INT) for name in ("k", "l"))
V = Column(0, "v", Kind.FLOAT)


def window(size: int) -> Scan:
    """The last `size` of the stream, all columns."""
    return Scan(0, size, tuple(relation_column(name, kind) for name, kind in zip(NAMES, KINDS, strict=True)))


def by_key(below: Relation, prefix: str, **calls: tuple[str, Column | None, Kind]) -> Aggregate:
    """Aggregates by the first column, under names with a prefix."""
    key = reading_of(below.columns[0])
    made = tuple(
        AggregateCall(function, argument, None, relation_column(prefix + name, kind))
        for name, (function, argument, kind) in calls.items()
    )
    return Aggregate(below, (key,), (relation_column(f"{prefix}k", key.kind),), made)


def correlated() -> Relation:
    """Per key, how many values are above half of the largest: the first query of the evaluation."""
    top = by_key(window(9), "m_", top=("MAX", V, Kind.FLOAT))
    high = typed_call(">", (V, typed_call("*", (Literal(0.5, Kind.FLOAT), Column(1, "m_top", Kind.FLOAT)))))
    scan = window(9)
    joined = Join(scan, top, ((K, reading_of(top.columns[0])),), high, "inner", (*scan.columns, *top.columns))
    return by_key(joined, "", high=("COUNT", None, Kind.INT))


def two_lengths() -> Relation:
    """Per key, the sum of a long window less that of a short one."""
    long = by_key(window(10), "a_", total=("SUM", L, Kind.INT), top=("MAX", V, Kind.FLOAT))
    short = by_key(window(4), "b_", total=("SUM", L, Kind.INT))
    keys = ((reading_of(long.columns[0]), reading_of(short.columns[0])),)
    joined = Join(long, short, keys, None, "inner", (*long.columns, *short.columns))
    less = typed_call("-", (Column(0, "a_total", Kind.INT), Column(0, "b_total", Kind.INT)))
    named = (relation_column("k", Kind.INT), relation_column("less", Kind.INT), relation_column("top", Kind.FLOAT))
    return Project(joined, (Column(0, "a_k", Kind.INT), less, Column(0, "a_top", Kind.FLOAT)), named)


def gone() -> Relation:
    """Pairs of the long window whose key the short one does not have."""
    pairs = Project(window(12), (K, L), (relation_column("k", Kind.INT), relation_column("l", Kind.INT)))
    some = Select(window(5), typed_call(">=", (L, Literal(1, Kind.INT))))
    return Distinct(Join(pairs, some, ((K, K),), None, "anti", pairs.columns))


def instant_specs() -> Iterator[tuple[str, InstantRelation]]:
    """Each with its name."""
    yield "a correlated aggregate", InstantRelation(correlated(), 3, (PLACES,), ROWS)
    yield "windows of two lengths", InstantRelation(two_lengths(), 2, (PLACES,), ROWS)
    yield "keys that are gone", InstantRelation(gone(), 5, (PLACES,), ROWS)
