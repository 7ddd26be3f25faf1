from __future__ import annotations

import math
import subprocess
import sys

import numpy as np
import pytest
from numba import njit

from slackwater.core.errors import DataError, UsageError
from slackwater.core.schema import NULL_WORD, Kind
from slackwater.expressions.compile import compile_condition, compile_filter, compile_map, no_condition
from slackwater.expressions.functions import register, typed_call
from slackwater.expressions.tree import Column, Expr, Literal
from tests.kit.evaluate import evaluate

X, Y, N = Column(0, "x", Kind.FLOAT), Column(0, "y", Kind.FLOAT), Column(0, "i", Kind.INT)
B, T = Column(0, "b", Kind.BOOL), Column(0, "t", Kind.TEXT)
ROWS = {"ts": 0, "x": 1, "y": 2, "i": 3, "b": 4, "t": 5}


def layout(stream: int, column: str) -> int:
    return ROWS[column]


def encode_text(text: str) -> int:
    return ["red", "green"].index(text)


def words_of(**columns: list) -> np.ndarray:
    words = np.zeros((len(ROWS), len(next(iter(columns.values())))), np.int64)
    for name, values in columns.items():
        target = words.view(np.float64) if name in "xy" else words
        null = math.nan if name in "xy" else NULL_WORD
        target[ROWS[name]] = [null if value is None else value for value in values]
    return words


def computed(expr: Expr, **columns: list) -> list:
    words = words_of(**columns)
    out = compile_map(expr, layout, encode_text)(words, words.view(np.float64), words.shape[1])
    return [None if value != value or value == NULL_WORD else value for value in out.tolist()]


UNARY = [
    "sqrt",
    "exp",
    "ln",
    "log10",
    "sin",
    "cos",
    "tan",
    "asin",
    "acos",
    "atan",
    "floor",
    "ceil",
    "round",
    "sign",
    "to_int",
]
CORNERS = [None, 0.0, 0.5, -0.5, 1.0, 0.49999999999999994, 2.5, -2.5, 1e300, 800.0, 9.3e18, -1e19, math.inf, -0.25]


@pytest.mark.parametrize("op", UNARY)
def test_a_function_of_one_number_agrees_with_the_oracle(op: str) -> None:
    expr = typed_call(op, (X,))
    assert_close(computed(expr, x=CORNERS), [evaluate(expr, [{"x": value}]) for value in CORNERS])


@pytest.mark.parametrize("op", ["pow", "atan2", "hypot"])
def test_a_function_of_two_numbers_agrees_with_the_oracle(op: str) -> None:
    expr = typed_call(op, (X, Y))
    pairs = [(a, b) for a in CORNERS for b in (None, 0.0, 0.5, 2.0, -1.0, 3.0)]
    expected = [evaluate(expr, [{"x": a, "y": b}]) for a, b in pairs]
    assert_close(computed(expr, x=[a for a, _ in pairs], y=[b for _, b in pairs]), expected)


def assert_close(given: list, expected: list) -> None:
    np.testing.assert_allclose(np.array(given, np.float64), np.array(expected, np.float64), rtol=1e-13)


def test_a_remainder_has_the_sign_of_the_dividend() -> None:
    three = Literal(3, Kind.INT)
    assert computed(typed_call("%", (N, three)), i=[7, -7, None, 2**63 - 1]) == [1, -1, None, 1]
    assert computed(typed_call("mod", (three, N)), i=[2, -2, 0, -1]) == [1, 1, None, 0]
    assert computed(typed_call("%", (X, three)), x=[7.5, -7.5]) == [1.5, -1.5]


def test_dividing_by_zero_is_unknown() -> None:
    assert computed(typed_call("/", (X, N)), x=[1.0, 1.0, -1.0], i=[0, 2, 0]) == [None, 0.5, None]


def test_halves_round_away_from_zero() -> None:
    assert computed(typed_call("round", (X,)), x=[0.5, -0.5, 1.5, 2.5]) == [1.0, -1.0, 2.0, 3.0]
    assert computed(typed_call("round", (X, Literal(1, Kind.INT))), x=[0.25, -0.75, 1e300]) == [0.3, -0.8, 1e300]


@pytest.mark.parametrize(("op", "value"), [("+", 2**62), ("*", 3), ("-", -(2**62) - 5)])
def test_an_integer_overflow_is_an_error_that_shows_the_expression(op: str, value: int) -> None:
    expr = typed_call(op, (N, Literal(value, Kind.INT)))
    with pytest.raises(DataError, match=f"integer overflow in i [{op}] {value}"):
        computed(expr, i=[1, 2**62])


def test_reaching_the_word_of_null_is_an_overflow() -> None:
    lowest = Literal(-(2**63) + 1, Kind.INT)
    with pytest.raises(DataError, match="integer overflow"):
        computed(typed_call("-", (lowest, N)), i=[1])


def test_an_overflow_on_a_side_not_needed_does_not_matter() -> None:
    huge = typed_call(">", (typed_call("*", (N, N)), Literal(0, Kind.INT)))
    assert computed(typed_call("and", (B, huge)), b=[0, 1], i=[2**40, 2]) == [0, 1]
    assert computed(typed_call("or", (B, huge)), b=[1, 0], i=[2**40, 2]) == [1, 1]
    assert computed(typed_call("case", (B, N, typed_call("*", (N, N)))), b=[1, 0], i=[2**40, 3]) == [2**40, 9]
    assert computed(typed_call("coalesce", (N, typed_call("*", (N, N)))), i=[2**40]) == [2**40]
    with pytest.raises(DataError):
        computed(typed_call("and", (B, huge)), b=[1], i=[2**40])


def test_least_and_greatest_do_not_count_unknowns() -> None:
    assert computed(typed_call("least", (X, Y, N)), x=[None, 1.0, None], y=[2.0, 0.5, None], i=[3, 3, None]) == [
        2.0,
        0.5,
        None,
    ]


def test_a_nan_is_unknown() -> None:
    minus = typed_call("-", (X, X))
    assert computed(minus, x=[math.inf, 1.0]) == [None, 0.0]
    assert computed(typed_call("is_null", (minus,)), x=[math.inf, 1.0]) == [1, 0]


def test_text_is_compared_by_code() -> None:
    assert computed(typed_call("=", (T, Literal("green", Kind.TEXT))), t=[0, 1, None]) == [0, 1, None]


def test_constants_that_differ_only_in_the_sign_of_zero_are_told_apart() -> None:
    def angle(zero: float) -> Expr:
        return typed_call("atan2", (typed_call("*", (X, Literal(0.0, Kind.FLOAT))), Literal(zero, Kind.FLOAT)))

    assert computed(angle(0.0), x=[1.0]) == [0.0]
    assert computed(angle(-0.0), x=[1.0]) == [math.pi]


def test_a_plain_column_is_a_copy_and_a_constant_is_repeated() -> None:
    words = words_of(i=[1, 2, 3])
    column = compile_map(N, layout, encode_text)(words, words.view(np.float64), 2)
    words[ROWS["i"]] = 9
    assert column.tolist() == [1, 2]
    assert computed(Literal("green", Kind.TEXT), i=[0, 0]) == [1, 1]
    assert computed(Literal(2.5, Kind.FLOAT), i=[0]) == [2.5]
    assert computed(Literal(None, Kind.FLOAT), i=[0]) == [None]


def test_plain_columns_and_constants_do_not_wait_for_the_compiler(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("slackwater.expressions.filling._compiled", None)
    assert computed(N, i=[4]) == [4]
    assert computed(Literal(True, Kind.BOOL), i=[4]) == [1]


def test_a_filter_without_conjuncts_keeps_everything() -> None:
    words = words_of(i=[1, 2, 3])
    assert compile_filter((), layout, encode_text)(words, words.view(np.float64), 3).tolist() == [True] * 3


def test_a_filter_names_the_conjunct_that_overflows() -> None:
    conjuncts = [typed_call("is_null", (T,)), typed_call("<", (typed_call("*", (N, N)), Literal(5, Kind.INT)))]
    sift = compile_filter(conjuncts, layout, encode_text)
    words = words_of(i=[2**40, 2], t=[0, None])
    assert sift(words, words.view(np.float64), 2).tolist() == [False, True]
    words[ROWS["t"]] = NULL_WORD
    with pytest.raises(DataError, match=r"integer overflow in i \* i < 5"):
        sift(words, words.view(np.float64), 2)


def test_a_condition_that_fails_is_shown_whole() -> None:
    product = typed_call("<", (typed_call("*", (N, N)), Literal(5, Kind.INT)))
    condition = compile_condition([typed_call("not", (B,)), product], layout, encode_text)
    assert str(condition.failure()) == "integer overflow in NOT b AND i * i < 5"


def test_equal_queries_share_their_code() -> None:
    one = compile_condition([typed_call("<", (X, Y))], layout, encode_text)
    assert compile_condition([typed_call(">", (Y, X))], layout, encode_text).refine is one.refine
    assert no_condition() is no_condition()


def test_no_condition_keeps_what_lies_inside_the_horizon() -> None:
    words, out = words_of(ts=[5, 1, 7, 3]), np.zeros(4, np.int64)
    condition, slots = compile_condition((), layout, encode_text), np.zeros(8, np.int64)
    kept = call_first_class(condition.refine, 0, 0, words, words.view(np.float64), slots, 0, 4, 3, out)
    assert out[:kept].tolist() == [0, 2, 3]
    kept = call_first_class(
        condition.refine_listed, 0, 0, words, words.view(np.float64), slots, np.array([1, 3]), 2, out
    )
    assert out[:kept].tolist() == [1, 3]


@njit
def call_first_class(function, *args):
    return function(*args)


def test_more_streams_than_slots_are_refused() -> None:
    with pytest.raises(UsageError, match="at most 8 streams"):
        compile_condition([typed_call("not", (Column(8, "b", Kind.BOOL),))], layout, encode_text)


def test_a_user_function_sees_no_nulls_and_its_nan_is_null() -> None:
    register("reciprocal", lambda x: 1.0 / x if x != 2.0 else math.nan, [Kind.FLOAT], Kind.FLOAT)
    assert computed(typed_call("reciprocal", (X,)), x=[None, 4.0, 2.0, 0.0]) == [None, 0.25, None, math.inf]


def test_a_user_function_takes_and_gives_booleans_and_integers() -> None:
    register("chosen", lambda yes, n: n > 3 if yes else n < 3, [Kind.BOOL, Kind.INT], Kind.BOOL)
    expr = typed_call("chosen", (B, N))
    assert computed(expr, b=[1, 1, 0, None], i=[4, 2, 2, 2]) == [1, 0, 1, None]
    register("always_seven", lambda: 7, [], Kind.INT)
    assert computed(typed_call("+", (typed_call("always_seven", ()), N)), i=[1]) == [8]


def test_an_exception_in_a_user_function_is_a_failure() -> None:
    def picky(n):
        if n < 0:
            raise ValueError("negative")
        return n

    register("picky", picky, [Kind.INT], Kind.INT)
    expr = typed_call("picky", (N,))
    assert computed(expr, i=[1, None]) == [1, None]
    with pytest.raises(DataError, match=r"a failing function in picky\(i\)"):
        computed(expr, i=[1, -1])


def test_a_replaced_user_function_takes_effect() -> None:
    register("shifted", lambda n: n + 1, [Kind.INT], Kind.INT)
    assert computed(typed_call("shifted", (N,)), i=[1]) == [2]
    register("shifted", lambda n: n + 2, [Kind.INT], Kind.INT)
    assert computed(typed_call("shifted", (N,)), i=[1]) == [3]


def test_typing_a_query_does_not_load_the_compiler() -> None:
    code = (
        "import sys, slackwater.expressions.functions, slackwater.expressions.render; sys.exit('numba' in sys.modules)"
    )
    assert subprocess.run([sys.executable, "-c", code], check=False).returncode == 0
