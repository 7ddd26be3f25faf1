"""IN: a table to look things up in, with the meaning of a chain of equalities."""

from __future__ import annotations

import gc
import math
from typing import Any

import numpy as np
import pytest

from slackwater.core.errors import DataError
from slackwater.core.schema import NULL_WORD, Kind
from slackwater.expressions.compile import compile_condition, compile_filter, compile_map, compile_maps
from slackwater.expressions.functions import ExpressionTypeError, typed_call
from slackwater.expressions.lower import FEW, Step, lower
from slackwater.expressions.membership import Table
from slackwater.expressions.tree import Column, Expr, Literal
from tests.effort import more
from tests.kit.evaluate import evaluate

BIG = 2**63 - 1
CASES = {
    Kind.INT: ("i", [*range(-20, 40, 3), BIG, -BIG, 2**53 + 1], [None, -20, -19, 0, 1, 37, BIG, -BIG, BIG - 1, 2**53]),
    Kind.FLOAT: (
        "x", [*(k / 4 for k in range(20)), -0.0, math.inf, -1e300],
        [None, math.nan, 0.0, -0.0, 0.25, 0.3, math.inf, -math.inf, -1e300, 4.75],
    ),
    Kind.TEXT: ("t", [f"w{k}" for k in range(0, 40, 2)], [None, "w0", "w1", "w38", "w39"]),
    Kind.TIME: ("m", list(range(0, 100, 7)), [None, 0, 7, 8, 98, 99]),
    Kind.BOOL: ("b", [True], [None, True, False]),
}  # fmt: skip
NAMES = ["ts", "i", "x", "t", "m", "b"]


def layout(stream: int, column: str) -> int:
    return NAMES.index(column)


def code(text: str) -> int:
    # Codes need not be in the order of texts, nor close to each other.
    return (int(text[1:]) * 7919) % 1009


def words_of(kind: Kind, values: list[Any]) -> np.ndarray:
    words = np.zeros((len(NAMES), len(values)), np.int64)
    row = layout(0, CASES[kind][0])
    if kind is Kind.FLOAT:
        words.view(np.float64)[row] = [math.nan if value is None else value for value in values]
    else:
        words[row] = [NULL_WORD if v is None else code(v) if kind is Kind.TEXT else int(v) for v in values]
    return words


def among(kind: Kind, choices: list[Any]) -> Expr:
    return typed_call("in", (Column(0, CASES[kind][0], kind), *(Literal(choice, kind) for choice in choices)))


@pytest.mark.parametrize("kind", list(CASES))
@pytest.mark.parametrize("extra", [[], [None], *more("one null, here", [None, None])], ids=["", "null", "nulls"])
@pytest.mark.parametrize("most", [1, FEW, FEW + 1, *more("as many, or fewer, here", 2, 100)])
def test_in_means_what_a_chain_of_equalities_means(kind: Kind, extra: list[None], most: int) -> None:
    name, choices, values = CASES[kind]
    said = among(kind, [*choices[:most], *extra])
    both = [said, typed_call("not", (said,))]
    words = words_of(kind, values)
    maps = compile_maps(both, layout, code)
    for expr, computed in zip(both, maps, strict=True):
        out = computed(words, words.view(np.float64), len(values)).tolist()
        expected = [evaluate(expr, [{name: value}]) for value in values]
        assert [None if word == NULL_WORD else bool(word) for word in out] == expected
        kept = compile_filter([expr], layout, code)(words, words.view(np.float64), len(values))
        assert kept.tolist() == [one is True for one in expected]


def test_every_length_of_a_table_finds_its_words_and_nothing_between_them() -> None:
    for count in range(FEW + 1, 70):
        expr = among(Kind.INT, [10 * k for k in range(count)])
        words = words_of(Kind.INT, list(range(-15, 10 * count + 15, 5)))
        out = compile_map(expr, layout, code)(words, words.view(np.float64), words.shape[1])
        found = words[1][out == 1].tolist()
        assert found == [10 * k for k in range(count)]


def test_choices_that_are_said_twice_count_once() -> None:
    words = words_of(Kind.INT, [1, 2, 3])
    expr = among(Kind.INT, [1, 2] * 500)
    assert isinstance(lower(expr, layout, code), Step)
    assert lower(expr, layout, code) == lower(among(Kind.INT, [2, 1]), layout, code)
    assert compile_map(expr, layout, code)(words, words.view(np.float64), 3).tolist() == [1, 1, 0]


def test_a_long_list_makes_no_more_code_than_one_of_moderate_length() -> None:
    def steps(node: Any) -> int:
        return 1 + sum(map(steps, node.args)) if isinstance(node, Step) else 0

    assert steps(lower(among(Kind.INT, list(range(100_000))), layout, code)) == 1


def test_a_value_that_fails_fails_the_list() -> None:
    too_much = typed_call("*", (Column(0, "i", Kind.INT), Literal(BIG, Kind.INT)))
    expr = typed_call("in", (too_much, *(Literal(k, Kind.INT) for k in range(50))))
    words = words_of(Kind.INT, [0, 1, 2])
    assert compile_map(expr, layout, code)(words, words.view(np.float64), 2).tolist() == [1, 0]
    with pytest.raises(DataError, match=r"integer overflow in i \* 9223372036854775807 IN \(0, 1, .* 39 more\)"):
        compile_map(expr, layout, code)(words, words.view(np.float64), 3)


def test_a_table_lives_as_long_as_the_code_that_reads_it() -> None:
    words = words_of(Kind.INT, list(range(30)))
    compiled = compile_map(among(Kind.INT, list(range(0, 30, 2))), layout, code)
    conditions = [compile_condition([among(Kind.INT, list(range(0, 30, k)))], layout, code) for k in (1, 2)]
    gc.collect()
    # Whatever was freed is written over now.
    rubbish = [np.full(15, 7, np.int64) for _ in range(10_000)]
    assert compiled(words, words.view(np.float64), 30).tolist() == [1, 0] * 15
    assert len(rubbish) == 10_000
    assert conditions[0].addresses != conditions[1].addresses


def test_equal_tables_are_equal_and_share_the_code_of_a_condition() -> None:
    assert Table([1, 2], floats=False) == Table([2, 1, 2], floats=False)
    assert Table([1.0], floats=True) != Table([np.float64(1.0).view(np.int64)], floats=False)
    assert Table([0.0], floats=True) == Table([-0.0], floats=True)
    one, other = (compile_condition([among(Kind.INT, list(range(20)))], layout, code) for _ in range(2))
    assert one.addresses == other.addresses


def test_a_choice_that_is_no_constant_is_refused() -> None:
    i = Column(0, "i", Kind.INT)
    with pytest.raises(ExpressionTypeError, match="in needs constants to choose from"):
        typed_call("in", (i, i))
    with pytest.raises(ExpressionTypeError, match="in cannot mix an integer and text"):
        typed_call("in", (i, Literal("one", Kind.TEXT)))
