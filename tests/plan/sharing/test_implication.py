"""Implications between conjuncts: never a false one, and those that are worth finding are found."""

from __future__ import annotations

import random

import pytest

from slackwater.core.schema import Kind
from slackwater.expressions.render import render
from slackwater.expressions.tree import Expr, Literal
from slackwater.plan.sharing.conjuncts import NEVER, Conjunct, conjuncts_of
from slackwater.plan.sharing.implication import implied, implies, reduced
from tests.effort import tries

from .conditions import MOMENT, VALUES, B, F, T, X, Y, condition, passes, rows_over
from .test_conjuncts import said


def one(expr: Expr) -> Conjunct:
    (found,) = conjuncts_of([expr])
    return found


@pytest.mark.parametrize("seed", range(tries(28)))
def test_what_is_said_to_be_implied_is_true_wherever_the_first_is(seed: int) -> None:
    """Every row of the column is tried, nulls and NaN among them."""
    rng = random.Random(seed)
    column = list(VALUES)[seed % len(VALUES)]
    rows = rows_over(column, X, Y) if column.kind is Kind.INT else rows_over(column)
    known: dict[Conjunct, frozenset[int]] = {}
    while len(known) < 25:
        for found in conjuncts_of([condition(rng, [column], rng.randint(0, 2))]):
            known[found] = frozenset(at for at, row in enumerate(rows) if passes([found.expr], row))
    said_so = 0
    for first, passed in known.items():
        for second, others in known.items():
            if first != second and implies(first, second):
                said_so += 1
                assert passed <= others, (render(first.expr), render(second.expr))
    assert said_so > 0
    conjuncts = list(known)
    for _ in range(60):
        given, asked = rng.sample(conjuncts, 3), rng.choice(conjuncts)
        met = frozenset.intersection(*(known[some] for some in given))
        if implied(given, asked):
            assert met <= known[asked], ([render(some.expr) for some in given], render(asked.expr))
        left = reduced(given)
        assert frozenset(at for at, row in enumerate(rows) if passes([some.expr for some in left], row)) == met


MOMENTS = [Literal(at, Kind.TIME) for at in (10, 12)]
IMPLIED = [
    (said(">", X, 10), said(">", X, 5)),
    (said("=", X, 3), said("in", X, 1, 2, 3)),
    (said("=", X, 3), said("or", said(">", X, 2), said("<", Y, 1))),
    (said("in", X, 1, 2), said("<", X, 3)),
    (said("in", X, 1, 2), said("<>", X, 3)),
    (said("in", X, 1, 2), said("not", said("in", X, 3, 4))),
    (said("=", X, 3), said("not", said("is_null", X))),
    (said(">", F, 0.5), said(">=", F, 0.5)),
    (said(">", F, 0.5), said("<>", F, 0.5)),
    (said("=", T, "ab"), said(">", T, "a")),
    (said("<", T, "a"), said("<>", T, "é")),
    (said(">", MOMENT, MOMENTS[1]), said(">=", MOMENT, MOMENTS[0])),
    (said("or", said("=", X, 1), said("=", X, 7)), said(">", X, 0)),
    (said("or", said(">", X, 10), said(">", Y, 10)), said("or", said(">", X, 5), said(">", Y, 5))),
    (B, said("not", said("is_null", B))),
    (said(">", said("*", X, Y), 10), said(">", said("*", Y, X), 5)),
    (said("like", T, "a%"), said("or", said("like", T, "a%"), said("=", X, 1))),
]


@pytest.mark.parametrize(("first", "second"), IMPLIED, ids=[f"{render(a)} implies {render(b)}" for a, b in IMPLIED])
def test_an_implication_is_found(first: Expr, second: Expr) -> None:
    assert implies(one(first), one(second))
    assert not implies(one(second), one(first))


def test_a_stretch_is_implied_at_both_of_its_ends() -> None:
    between = conjuncts_of([said("and", said(">=", X, 0), said("<=", X, 9))])
    assert all(implies(one(said("=", X, 3)), part) for part in between)
    assert implied(conjuncts_of([said(">=", X, 3), said("<", X, 5)]), one(said("in", X, 3, 4, 8)))
    assert not implied(conjuncts_of([said(">=", X, 3), said("<", X, 6)]), one(said("in", X, 3, 4, 8)))
    assert not implied(conjuncts_of([said(">=", F, 3.0), said("<", F, 5.0)]), one(said("in", F, 3.0, 4.0)))


def test_nothing_follows_from_what_is_of_another_value_or_may_fail() -> None:
    fails = said("or", said(">", X, 5), said(">", said("*", Y, Y), 1))
    for first, second in (
        (said(">", X, 10), said(">", Y, 5)),
        (said("<>", X, 3), said("not", said("in", X, 3, 4))),
        (said("is_null", X), said("<", X, 3)),
        (said("<", X, 3), said("is_null", X)),
        (said(">", X, 10), fails),
        (said(">", said("*", X, Y), 5), said("not", said("in", said("*", X, Y), 1, None))),
    ):
        assert not implies(one(first), one(second))


def test_conjuncts_are_reduced_to_what_they_say() -> None:
    several = conjuncts_of([said(">", X, 1), said(">", X, 3), said("<>", X, 0), said("=", T, "a")])
    assert [render(some.expr) for some in reduced(several)] == ["x > 3", "t = 'a'"]
    assert reduced(conjuncts_of([said(">", X, 3), said("=", T, "a"), said("<", X, 4)])) == (NEVER,)
    assert reduced(conjuncts_of([said("is_null", X), said(">", X, 0)])) == (NEVER,)
    assert len(reduced(conjuncts_of([said(">", F, 3.0), said("<", F, 4.0)]))) == 2
