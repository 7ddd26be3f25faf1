"""Expressions of one shape share machine code, and stay different expressions."""

from __future__ import annotations

import threading
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import numpy as np
import pytest

from slackwater.core.errors import DataError
from slackwater.core.schema import NULL_WORD, Kind
from slackwater.expressions import filling
from slackwater.expressions.compile import _sifter, compile_filter, compile_maps
from slackwater.expressions.functions import register, typed_call
from slackwater.expressions.lower import lower
from slackwater.expressions.shapes import made_of, shaped
from slackwater.expressions.tree import Column, Expr, Literal

NAMES = [f"v{k}" for k in range(50)] + [f"x{k}" for k in range(50)]


def layout(stream: int, column: str) -> int:
    return NAMES.index(column)


def linear(column: int, factor: int, shift: int) -> Expr:
    product = typed_call("*", (Column(0, f"v{column}", Kind.INT), Literal(factor, Kind.INT)))
    return typed_call("+", (product, Literal(shift, Kind.INT)))


def fraction(column: int, divisor: float) -> Expr:
    return typed_call("/", (Column(0, f"x{column}", Kind.FLOAT), Literal(divisor, Kind.FLOAT)))


@pytest.fixture
def compiled(monkeypatch: pytest.MonkeyPatch) -> list[int]:
    """The number of shapes in each function that is compiled, in a process that knows no shape yet."""
    sizes: list[int] = []
    make = filling._compiled

    def counted(shapes: Any) -> Any:
        sizes.append(len(shapes))
        return make(shapes)

    monkeypatch.setattr(filling, "_compiled", counted)
    monkeypatch.setattr(filling, "_code", {})
    return sizes


def values(maps: list[Any], words: np.ndarray) -> list[list[Any]]:
    return [one(words, words.view(np.float64), words.shape[1]).tolist() for one in maps]


def test_three_hundred_columns_of_one_shape_are_compiled_once(compiled: list[int]) -> None:
    words = np.arange(500, dtype=np.int64).reshape(100, 5)
    exprs = [linear(k % 50, k + 2, 3 * k) for k in range(300)]
    found = values(compile_maps(exprs, layout, len), words)
    assert compiled == [1]
    assert found == [(words[k % 50] * (k + 2) + 3 * k).tolist() for k in range(300)]


def test_shapes_that_are_asked_for_together_are_compiled_together(compiled: list[int]) -> None:
    words = np.arange(500, dtype=np.int64).reshape(100, 5)
    words.view(np.float64)[50:] = words[50:]
    exprs = [linear(k, k, k) if k % 2 else fraction(k, k + 1.0) for k in range(50)]
    found = values(compile_maps(exprs, layout, len), words)
    assert compiled == [2]
    for k in range(50):
        expected = words[k] * k + k if k % 2 else words.view(np.float64)[50 + k] / (k + 1.0)
        assert found[k] == expected.tolist()


def test_a_shape_that_another_query_has_brought_is_not_compiled_again(compiled: list[int]) -> None:
    words = np.ones((100, 3), np.int64)
    for shift in range(3):
        exprs = [linear(k, k + shift, k) for k in range(filling.MANY)]
        assert values(compile_maps(exprs, layout, len), words) == [[2 * k + shift] * 3 for k in range(filling.MANY)]
    assert compiled == [1]


def test_a_long_list_of_any_length_is_one_shape(compiled: list[int]) -> None:
    words = np.zeros((100, 4), np.int64)
    words[0] = [0, 1, 500, NULL_WORD]
    for length in (10, 100, 1000):
        choices = (Literal(k, Kind.INT) for k in range(1, length))
        (one,) = compile_maps([typed_call("in", (Column(0, "v0", Kind.INT), *choices))], layout, len)
        assert values([one], words) == [[0, 1, int(length > 500), NULL_WORD]]
    assert compiled == [1]


def test_few_expressions_keep_their_constants_in_the_code(compiled: list[int]) -> None:
    words = np.ones((100, 1), np.int64)
    assert values(compile_maps([linear(0, 2, 1), linear(1, 3, 1)], layout, len), words) == [[3], [4]]
    assert compiled == [2]


def test_constants_of_shared_code_may_be_null_and_negative_zero(compiled: list[int]) -> None:
    words = np.zeros((100, 1), np.int64)
    words.view(np.float64)[50] = 1.0
    given = [2.0, None, -0.0, 0.5, float("inf")]
    x = Column(0, "x0", Kind.FLOAT)
    exprs = [typed_call("*", (x, Literal(one, Kind.FLOAT))) for one in given]
    found = [one(words, words.view(np.float64), 1)[0] for one in compile_maps(exprs, layout, len)]
    assert compiled == [1]
    assert np.isnan(found[1])
    assert np.signbit(found[2])
    assert [found[0], found[3], found[4]] == [2.0, 0.5, float("inf")]


def test_an_overflow_in_shared_code_names_the_expression_that_failed() -> None:
    words = np.full((100, 2), 2**40, np.int64)
    maps = compile_maps([linear(0, 2**k, 0) for k in range(20, 26)], layout, len)
    assert values(maps[:2], words) == [[2**60] * 2, [2**61] * 2]
    with pytest.raises(DataError, match=r"integer overflow in v0 \* 33554432 \+ 0"):
        maps[5](words, words.view(np.float64), 2)


def test_threads_that_ask_for_one_shape_at_once_share_its_code(compiled: list[int]) -> None:
    words, together = np.ones((100, 2), np.int64), threading.Barrier(4)

    def ask(shift: int) -> list[list[int]]:
        together.wait()
        return values(compile_maps([linear(k, k, shift) for k in range(8)], layout, len), words)

    with ThreadPoolExecutor(4) as pool:
        assert list(pool.map(ask, range(4))) == [[[k + shift] * 2 for k in range(8)] for shift in range(4)]
    assert filling.shapes_known() == 1


def test_filters_that_compare_with_other_numbers_share_code() -> None:
    words = np.arange(500, dtype=np.int64).reshape(100, 5)
    words[3, 2] = NULL_WORD

    def kept(*conjuncts: Expr) -> list[bool]:
        return compile_filter(conjuncts, layout, len)(words, words.view(np.float64), 5).tolist()

    def between(column: int, low: int, high: int) -> list[bool]:
        v = Column(0, f"v{column}", Kind.INT)
        return kept(typed_call(">", (v, Literal(low, Kind.INT))), typed_call("<", (v, Literal(high, Kind.INT))))

    _sifter.cache_clear()
    for column in range(3, 8):
        ints = words[column]
        for low in (16, 21):
            known = ints != NULL_WORD
            assert between(column, low, low + 4) == (known & (ints > low) & (ints < low + 4)).tolist()
    assert _sifter.cache_info().misses == 1
    # A factor is part of the code: to check a product by a known number for overflow is faster.
    for factor in (2, 3):
        assert kept(typed_call("<", (linear(1, factor, 0), Literal(15, Kind.INT)))) == (words[1] * factor < 15).tolist()
    assert _sifter.cache_info().misses == 3


def test_what_lies_in_one_process_alone_has_no_code_on_disk() -> None:
    v = Column(0, "v0", Kind.INT)
    register("next_of", lambda n: n + 1, [Kind.INT], Kind.INT)
    short, long = (typed_call("in", (v, *(Literal(k, Kind.INT) for k in range(n)))) for n in (5, 50))
    user = typed_call("next_of", (v,))
    nodes = [lower(expr, layout, len) for expr in (short, long, user)]
    assert [made_of([node]) is None for node in nodes] == [False, True, True]
    assert [made_of([shaped(node).shape]) is None for node in nodes] == [False, False, True]
    assert len({made_of([lower(linear(0, factor, 1), layout, len)]) for factor in (2, 3)}) == 2
