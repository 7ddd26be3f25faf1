"""Trees cut into fragments: put together again they are the tree, and no two engines meet inside one."""

from __future__ import annotations

import itertools

import pyarrow as pa
import pytest

from slackwater.core.schema import Field, Kind
from slackwater.expressions.relational import (
    Aggregate,
    AggregateCall,
    Given,
    Join,
    Relation,
    Scan,
    Select,
    nodes,
    operators,
)
from slackwater.expressions.tree import Call, Column, Literal
from slackwater.operators.instant.fragments import COLUMN, ROW, all_placed, cut, reading

KEY = Field("k", Kind.INT, pa.int64())
LOAD = Field("v", Kind.INT, pa.int64())
TOP = Field("top", Kind.INT, pa.int64())


def correlated() -> Relation:
    """How many loads of each key are above nine tenths of the greatest."""
    window = Select(Scan(0, 5, (KEY, LOAD)), Call(">", (Column(0, "v", Kind.INT), Literal(0, Kind.INT)), Kind.BOOL))
    key = Column(0, "k", Kind.INT)
    greatest = Aggregate(
        Scan(1, 5, (KEY, LOAD)), (key,), (KEY,), (AggregateCall("MAX", Column(0, "v", Kind.INT), None, TOP),)
    )
    above = Call(">", (Column(0, "v", Kind.INT), Column(1, "top", Kind.INT)), Kind.BOOL)
    other = Field("m.k", Kind.INT, pa.int64())
    joined = Join(window, greatest, ((key, key),), above, "inner", (KEY, LOAD, other, TOP))
    return Aggregate(joined, (key,), (KEY,), (AggregateCall("COUNT", None, None, Field("n", Kind.INT, pa.int64())),))


def put_together(fragments: tuple, relation: Relation) -> Relation:
    if isinstance(relation, Given):
        return put_together(fragments, fragments[relation.fragment].relation)
    return reading(relation, *(put_together(fragments, one) for one in relation.inputs))


@pytest.mark.parametrize("placement", itertools.product((ROW, COLUMN), repeat=4))
def test_fragments_put_together_are_the_tree(placement: tuple[str, ...]) -> None:
    tree = correlated()
    fragments = cut(tree, placement)
    assert put_together(fragments, fragments[-1].relation) == tree
    assert sum(len(operators(one.relation)) for one in fragments) == 4
    for at, one in enumerate(fragments):
        for leaf in nodes(one.relation):
            if isinstance(leaf, Given):
                assert leaf.fragment < at
                assert fragments[leaf.fragment].engine != one.engine


def test_one_engine_is_one_fragment() -> None:
    (one,) = cut(correlated(), all_placed(correlated(), COLUMN))
    assert one.engine == COLUMN
    assert not one.by_row


def test_a_filter_of_a_window_is_kept_row_by_row() -> None:
    first, *_ = cut(correlated(), (ROW, COLUMN, COLUMN, COLUMN))
    assert first.by_row


def test_an_engine_is_needed_for_every_operator() -> None:
    with pytest.raises(ValueError, match="4 operators"):
        cut(correlated(), (ROW,))
