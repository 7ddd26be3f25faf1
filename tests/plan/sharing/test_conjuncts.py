"""Conjuncts in normal form pass what the filters passed, and are equal however they were written."""

from __future__ import annotations

import random

import pytest

from slackwater.core.schema import Kind
from slackwater.expressions.functions import typed_call
from slackwater.expressions.render import render
from slackwater.expressions.tree import Call, Column, Expr, Literal
from slackwater.plan.sharing.conjuncts import NEVER, conjuncts_of
from slackwater.plan.sharing.normal_form import key_of, normal_form
from tests.effort import tries
from tests.kit.evaluate import evaluate

from .conditions import MOMENT, VALUES, B, F, T, X, Y, condition, moved, passes, rows_over

COLUMNS = tuple(VALUES)


def of(value: object) -> Literal:
    kinds = {bool: Kind.BOOL, int: Kind.INT, float: Kind.FLOAT, str: Kind.TEXT, type(None): Kind.INT}
    return Literal(value, kinds[type(value)])  # type: ignore[arg-type]


def said(op: str, *args: Expr | object) -> Expr:
    return typed_call(op, tuple(arg if isinstance(arg, (Column, Literal, Call)) else of(arg) for arg in args))


def shown(*filters: Expr) -> list[str]:
    return [render(one.expr) for one in conjuncts_of(filters)]


@pytest.mark.parametrize("seed", range(tries(120)))
def test_conjuncts_pass_exactly_what_the_filters_pass(seed: int) -> None:
    rng = random.Random(seed)
    columns = rng.sample(COLUMNS, 2)
    filters = [condition(rng, columns, rng.randint(0, 3)) for _ in range(rng.randint(1, 3))]
    found = [one.expr for one in conjuncts_of(filters)]
    for row in rows_over(*{*columns, X, Y}):
        assert passes(found, row) == passes(filters, row), (shown(*filters), list(map(render, filters)), row)


@pytest.mark.parametrize("seed", range(tries(120)))
def test_a_normal_form_has_the_value_that_the_expression_has(seed: int) -> None:
    rng = random.Random(seed)
    columns = rng.sample(COLUMNS, 2)
    expr = condition(rng, columns, rng.randint(0, 3))
    normal = normal_form(expr)
    assert key_of(normal_form(normal)) == key_of(normal)
    for row in rows_over(*{*columns, X, Y}):
        assert evaluate(normal, [row]) is evaluate(expr, [row]), (render(expr), render(normal), row)


@pytest.mark.parametrize("seed", range(tries(10)))
def test_equal_conjuncts_are_true_for_the_same_rows(seed: int) -> None:
    """Of few values, so that two conditions written independently are often the same."""
    rng = random.Random(seed)
    keys: dict[str, list[bool]] = {}
    rows = rows_over(X, Y)
    for _ in range(40):
        for one in conjuncts_of([condition(rng, [X], 1)]):
            truths = [passes([one.expr], row) for row in rows]
            assert keys.setdefault(one.key, truths) == truths, render(one.expr)


EQUAL = [
    (said("<", 5, X), said(">", X, 5)),
    (said("not", said("<=", X, 5)), said(">", X, 5)),
    (said(">=", X, 6), said(">", X, 5)),
    (said("not", said("not", said("=", T, "a"))), said("=", "a", T)),
    (said("and", said(">", X, 1), said("<", Y, 2)), said("and", said("<", Y, 2), said(">", X, 1))),
    (said("not", said("or", said("<=", X, 1), said(">=", Y, 2))), said("and", said(">", X, 1), said("<", Y, 2))),
    (said("or", said("=", X, 2), said("=", X, 1), said("=", X, 2)), said("in", X, 1, 2)),
    (said("in", X, 3), said("=", X, 3)),
    (said("in", X, 3, None), said("=", X, 3)),
    (said("=", B, True), B),
    (said("<>", B, True), said("not", B)),
    (said("coalesce", said(">", F, 0.5), False), said("<", 0.5, F)),
    (said(">", X, 2.5), said(">=", X, 3)),
    (said("=", X, 2.0), said("=", X, 2)),
    (said(">", X, said("+", 2, 3)), said(">", X, 5)),
    (said(">", said("+", X, Y), 3), said("<", 3, said("+", Y, X))),
    (said("<", X, Y), said(">", Y, X)),
    (said("=", F, -0.0), said("=", F, 0.0)),
    (said(">", MOMENT, Literal(10, Kind.TIME)), said(">=", MOMENT, Literal(11, Kind.TIME))),
    (said("or", said(">", X, 1), said("=", X, None)), said(">", X, 1)),
]


@pytest.mark.parametrize(("one", "other"), EQUAL, ids=[render(one) for one, _ in EQUAL])
def test_conditions_of_one_meaning_are_one_conjunct(one: Expr, other: Expr) -> None:
    assert set(conjuncts_of([one])) == set(conjuncts_of([moved(other, 2)])), (shown(one), shown(other))


DIFFERENT = [
    (said(">", F, 5.0), said(">=", F, 6.0)),
    (said("not", said("is_null", X)), said("is_null", X)),
    (said("=", T, "a"), said("=", T, "A")),
    (said("coalesce", B, True), B),
    (said(">", said("atan2", F, 0.0), 1.0), said(">", said("atan2", F, -0.0), 1.0)),
    (said(">", said("-", X, Y), 3), said(">", said("-", Y, X), 3)),
    (said("=", X, 1), said("=", Y, 1)),
    (said("<>", X, 1), said("not", said("coalesce", said("=", X, 1), False))),
]


@pytest.mark.parametrize(("one", "other"), DIFFERENT, ids=[render(one) for one, _ in DIFFERENT])
def test_conditions_of_two_meanings_are_two(one: Expr, other: Expr) -> None:
    assert set(conjuncts_of([one])) != set(conjuncts_of([other]))


def test_what_is_always_true_vanishes_and_what_never_is_stands_alone() -> None:
    always = [said("<", 1, 2), Literal(True, Kind.BOOL), said("or", B, said("=", "a", "a"))]
    assert conjuncts_of(always) == ()
    for never in (said("<", 2, 1), said("=", X, None), said("not", said("in", X, 1, None)), Literal(None, Kind.BOOL)):
        assert conjuncts_of([said(">", X, 1), never, said("=", T, "a")]) == (NEVER,)


def test_what_can_fail_is_not_moved() -> None:
    overflow = said(">", said("*", X, Y), 3)
    guarded = said("or", said("=", Y, 0), overflow)
    assert shown(guarded) == ["y = 0 OR x * y > 3"]
    assert shown(said("or", overflow, said("=", Y, 0))) == ["x * y > 3 OR y = 0"]
    found = conjuncts_of([overflow, said("=", Y, 0), said(">", said("*", F, F), 1.0)])
    assert [one.can_fail for one in found] == [True, False, False]


def test_conjuncts_come_in_the_order_of_the_text_and_once() -> None:
    text = said("and", said("like", T, "a%"), said(">", X, 1), said("<", 1, X))
    assert shown(text, said("=", Y, 2), said("not", said("<=", X, 1))) == ["t LIKE 'a%'", "x > 1", "y = 2"]
