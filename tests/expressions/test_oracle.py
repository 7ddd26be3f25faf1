"""The compiler against the oracle, on random well-typed expressions over random rows.

Only operators that are exact in floating point take part, so the two must agree to the last bit; the others are
compared one by one in test_compile.py.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from functools import cache
from typing import Any

import numpy as np
import pytest
from hypothesis import HealthCheck, Phase, given
from hypothesis import strategies as st
from numba import njit, types

from slackwater.core.errors import DataError
from slackwater.core.schema import NULL_WORD, Kind
from slackwater.expressions.compile import (
    REFINE_LISTED_SIGNATURE,
    REFINE_SIGNATURE,
    Condition,
    compile_condition,
    compile_filter,
    compile_map,
)
from slackwater.expressions.functions import typed_call
from slackwater.expressions.tree import Column, Expr, Literal
from tests.effort import tried
from tests.kit.evaluate import evaluate

COLUMNS = {
    "i": Kind.INT,
    "j": Kind.INT,
    "x": Kind.FLOAT,
    "y": Kind.FLOAT,
    "b": Kind.BOOL,
    "t": Kind.TEXT,
    "ts": Kind.TIME,
    "p": Kind.DECIMAL,
    "q": Kind.DECIMAL,
}
SCALES = {"p": 1, "q": 3}
NAMES = tuple(COLUMNS)
TEXTS = ("red", "green", "blue")
BIG = 2**63 - 1

integers = st.sampled_from([0, 1, -1, 2, 3, 7, -7, 2**31, 2**62, -(2**62), BIG, -BIG]) | st.integers(-5, 5)
floats = st.sampled_from(
    [0.0, -0.0, 0.5, -0.5, 1.0, 2.5, -2.5, 1e18, 1e19, -1e19, 1e308, math.inf, -math.inf]
) | st.floats(-9, 9)
VALUES: dict[Kind, st.SearchStrategy[Any]] = {
    Kind.INT: integers,
    Kind.FLOAT: floats,
    Kind.BOOL: st.booleans(),
    Kind.TEXT: st.sampled_from(TEXTS),
    Kind.TIME: st.integers(-3, 3),
    Kind.DECIMAL: st.sampled_from([0, 5, -5, 25, 10**17, -(10**18)]) | st.integers(-2000, 2000),
}

row = st.fixed_dictionaries(
    {name: st.none() | VALUES[kind] for name, kind in COLUMNS.items() if name != "ts"} | {"ts": VALUES[Kind.TIME]}
)


def rows(size: int) -> st.SearchStrategy[list[dict[str, Any]]]:
    return st.lists(row, min_size=size, max_size=size)


def layout(stream: int, column: str) -> int:
    """Event time in row 0 for both streams (they share positions); each other column has a row a stream."""
    return 0 if column == "ts" else 1 + stream * len(NAMES) + NAMES.index(column)


def encode_text(text: str) -> int:
    return TEXTS.index(text)


def new_words(width: int) -> np.ndarray:
    return np.full((1 + 2 * len(NAMES), width), 123456789, np.int64)


def put(words: np.ndarray, stream: int, position: int, values: dict[str, Any]) -> None:
    for name, value in values.items():
        kind, at = COLUMNS[name], layout(stream, name)
        if kind is Kind.FLOAT:
            words.view(np.float64)[at, position] = math.nan if value is None else value
        else:
            words[at, position] = NULL_WORD if value is None else (encode_text(value) if kind is Kind.TEXT else value)


def leaf(kind: Kind, streams: int) -> st.SearchStrategy[Expr]:
    names = [name for name, its_kind in COLUMNS.items() if its_kind is kind]
    columns = st.builds(
        lambda stream, name: Column(stream, name, kind, SCALES.get(name, 0)),
        st.integers(0, streams - 1),
        st.sampled_from(names),
    )
    literals = st.builds(Literal, st.none() | VALUES[kind], st.just(kind))
    if kind is Kind.DECIMAL:
        literals = st.builds(Literal, st.none() | st.integers(-2000, 2000), st.just(kind), st.integers(0, 4))
    return columns | columns | literals


def one_of_many(kind: Kind, value: st.SearchStrategy[Expr]) -> st.SearchStrategy[Expr]:
    """IN with few choices, which are compared one by one, or with many, which are looked up."""
    # A decimal of many digits does not fit beside one with many digits behind the point, and is refused.
    values = st.integers(-2000, 2000) if kind is Kind.DECIMAL else VALUES[kind]
    choices = st.lists(st.builds(Literal, st.none() | values, st.just(kind)), min_size=1, max_size=30)
    return st.tuples(value, choices).map(lambda given: typed_call("in", (given[0], *given[1])))


@cache
def trees(kind: Kind, depth: int = 4, streams: int = 1) -> st.SearchStrategy[Expr]:
    if depth == 0:
        return leaf(kind, streams)

    def sub(of: Kind) -> st.SearchStrategy[Expr]:
        return trees(of, depth - 1, streams)

    def call(op: str, *args: st.SearchStrategy[Expr]) -> st.SearchStrategy[Expr]:
        return st.tuples(*args).map(lambda given: typed_call(op, given))

    def any_of(ops: Sequence[str], *args: st.SearchStrategy[Expr]) -> st.SearchStrategy[Expr]:
        return st.sampled_from(ops).flatmap(lambda op: call(op, *args))

    same, truth = st.deferred(lambda: sub(kind)), st.deferred(lambda: sub(Kind.BOOL))
    number = st.deferred(lambda: sub(Kind.INT)) | st.deferred(lambda: sub(Kind.FLOAT))
    own = {
        Kind.INT: lambda: (
            any_of(["+", "-", "*", "%", "least", "greatest"], same, same)
            | any_of(["neg", "abs", "sign", "to_int"], same)
            | any_of(["floor", "ceil", "sign", "to_int"], sub(Kind.FLOAT))
            | any_of(["floor", "ceil", "sign", "to_int"], sub(Kind.DECIMAL))
            | call("-", sub(Kind.TIME), sub(Kind.TIME))
        ),
        Kind.FLOAT: lambda: (
            any_of(["+", "-", "*", "%", "min", "max"], same, number)
            | call("/", number, number)
            | any_of(["neg", "abs", "round", "sqrt"], same)
            | any_of(["+", "*", "max"], same, sub(Kind.DECIMAL))
            | call("round", same, st.just(Literal(2, Kind.INT)))
            | call("dist", same, number, number, same)
            | call("greatest", same, number, same)
        ),
        Kind.BOOL: lambda: (
            any_of(["=", "<>", "<", "<=", ">", ">="], number, number)
            | any_of(["=", "<>", "<", "<=", ">", ">="], sub(Kind.TIME), sub(Kind.TIME))
            | any_of(["=", "<>", "<", "<=", ">", ">="], sub(Kind.DECIMAL), sub(Kind.DECIMAL))
            | any_of(["=", "<>"], sub(Kind.TEXT), sub(Kind.TEXT))
            | any_of(["and", "or", "=", "<>"], truth, truth)
            | any_of(["and", "or"], truth, truth, truth)
            | call("not", truth)
            | st.sampled_from(list(Kind)).flatmap(lambda of: one_of_many(of, sub(of)))
            | st.sampled_from(list(Kind)).flatmap(lambda of: call("is_null", sub(of)))
        ),
        Kind.DECIMAL: lambda: (
            any_of(["+", "-", "%", "least", "greatest"], same, same)
            | call("*", same, leaf(Kind.INT, streams))
            | any_of(["neg", "abs"], same)
            | call("round", same, st.just(Literal(1, Kind.INT)))
        ),
        Kind.TEXT: lambda: leaf(kind, streams),
        Kind.TIME: lambda: any_of(["least", "greatest"], same, same),
    }[kind]()
    general = (
        call("case", truth, same, same)
        | call("case", truth, same, truth, same, same)
        | any_of(["coalesce", "nullif"], same, same)
    )
    return leaf(kind, streams) | own | own | own | general


def value_of(expr: Expr, rows: Sequence[dict[str, Any]]) -> Any:
    """The oracle's answer, with "overflow" for an error."""
    try:
        return evaluate(expr, rows)
    except OverflowError:
        return "overflow"


def compiled_value(compiled: Any, kind: Kind, words: np.ndarray, position: int) -> Any:
    one = np.ascontiguousarray(words[:, position : position + 1])
    try:
        word = compiled(one, one.view(np.float64), 1)[0]
    except DataError:
        return "overflow"
    if kind is Kind.FLOAT:
        return None if math.isnan(word) else float(word)
    return None if word == NULL_WORD else int(word)


def as_word(value: Any, kind: Kind) -> Any:
    return encode_text(value) if kind is Kind.TEXT and value not in (None, "overflow") else value


# A new expression takes a fifth of a second to compile, so there are few examples, each with many rows.
few = tried(
    20,
    deadline=None,
    phases=(Phase.explicit, Phase.reuse, Phase.generate),
    suppress_health_check=list(HealthCheck),
)


@few
@given(st.sampled_from([Kind.INT, Kind.FLOAT, Kind.BOOL]).flatmap(trees), rows(24))
def test_a_compiled_expression_gives_what_the_oracle_gives(expr: Expr, given_rows: list[dict[str, Any]]) -> None:
    words = new_words(len(given_rows))
    for position, values in enumerate(given_rows):
        put(words, 0, position, values)
    compiled = compile_map(expr, layout, encode_text)
    expected = [as_word(value_of(expr, [values]), expr.kind) for values in given_rows]
    assert [compiled_value(compiled, expr.kind, words, at) for at in range(len(given_rows))] == expected
    if "overflow" in expected:
        with pytest.raises(DataError, match="integer overflow in"):
            compiled(words, words.view(np.float64), len(given_rows))
    else:
        null = math.nan if expr.kind is Kind.FLOAT else NULL_WORD
        whole = np.array(
            [null if value is None else value for value in expected], compiled(words, words.view(np.float64), 0).dtype
        )
        np.testing.assert_array_equal(compiled(words, words.view(np.float64), len(given_rows)), whole)


@few
@given(st.lists(trees(Kind.BOOL, 3), min_size=1, max_size=4), rows(24))
def test_a_filter_keeps_the_rows_for_which_every_conjunct_is_true(
    conjuncts: list[Expr], given_rows: list[dict[str, Any]]
) -> None:
    words = new_words(len(given_rows))
    for position, values in enumerate(given_rows):
        put(words, 0, position, values)
    sift = compile_filter(conjuncts, layout, encode_text)
    expected = [filter_verdict(conjuncts, values) for values in given_rows]
    for position, verdict in enumerate(expected):
        one = np.ascontiguousarray(words[:, position : position + 1])
        if verdict == "overflow":
            with pytest.raises(DataError):
                sift(one, one.view(np.float64), 1)
        else:
            assert sift(one, one.view(np.float64), 1).tolist() == [verdict]
    if "overflow" not in expected:
        assert sift(words, words.view(np.float64), len(given_rows)).tolist() == expected


def filter_verdict(conjuncts: Sequence[Expr], values: dict[str, Any]) -> bool | str:
    for conjunct in conjuncts:
        verdict = value_of(conjunct, [values])
        if verdict is not True:
            return "overflow" if verdict == "overflow" else False
    return True


@tried(12, few)
@given(st.lists(trees(Kind.BOOL, 3, streams=2), min_size=1, max_size=5), rows(12), rows(12), st.integers(-4, 4))
def test_refining_keeps_the_candidates_the_oracle_finds_true(
    conjuncts: list[Expr], left: list[dict[str, Any]], right: list[dict[str, Any]], horizon: int
) -> None:
    words = new_words(len(left) + len(right))
    for stream, (start, its_rows) in enumerate(((0, left), (len(left), right))):
        for offset, values in enumerate(its_rows):
            put(words, stream, start + offset, values)
    condition = compile_condition(conjuncts, layout, encode_text)
    for number, conjunct in enumerate(conjuncts):
        for fixed in range(0, 12, 5):
            check_refining(condition, number, conjunct, words, (left, right), 0, 12 + fixed, horizon)
            check_refining(condition, number, conjunct, words, (left, right), 1, fixed, horizon)


def check_refining(
    condition: Condition,
    number: int,
    conjunct: Expr,
    words: np.ndarray,
    streams: tuple[list[dict[str, Any]], list[dict[str, Any]]],
    candidate_stream: int,
    fixed: int,
    horizon: int,
) -> None:
    start = 12 * candidate_stream
    slots = np.full(8, fixed)
    slots[candidate_stream] = 10**9  # must never be looked at
    verdicts = {}
    for offset, candidate in enumerate(streams[candidate_stream]):
        other = streams[1 - candidate_stream][fixed - 12 * (1 - candidate_stream)]
        verdicts[start + offset] = value_of(
            conjunct, [candidate, other] if candidate_stream == 0 else [other, candidate]
        )
    listed = np.array(sorted(verdicts), np.int64)
    inside = [at for at in listed.tolist() if words[0, at] >= horizon]
    floats = words.view(np.float64)
    out = np.zeros(12, np.int64)
    kept = refine(condition, number, candidate_stream, words, floats, slots, start, start + 12, horizon, out)
    expected = [at for at in inside if verdicts[at] is True]
    assert (kept, out[: max(kept, 0)].tolist()) == (
        (-1, []) if any(verdicts[at] == "overflow" for at in inside) else (len(expected), expected)
    )
    kept = refine_listed(condition, number, candidate_stream, words, floats, slots, listed, 12, listed)
    expected = [at for at in sorted(verdicts) if verdicts[at] is True]
    assert (kept, listed[: max(kept, 0)].tolist()) == (
        (-1, []) if "overflow" in verdicts.values() else (len(expected), expected)
    )


@njit(REFINE_SIGNATURE.return_type(types.FunctionType(REFINE_SIGNATURE), *REFINE_SIGNATURE.args))
def call_refine(function, conjunct, stream, words, floats, slots, lo, hi, horizon, out):
    return function(conjunct, stream, words, floats, slots, lo, hi, horizon, out)


@njit(REFINE_LISTED_SIGNATURE.return_type(types.FunctionType(REFINE_LISTED_SIGNATURE), *REFINE_LISTED_SIGNATURE.args))
def call_refine_listed(function, conjunct, stream, words, floats, slots, candidates, n, out):
    return function(conjunct, stream, words, floats, slots, candidates, n, out)


def refine(condition: Condition, *args: Any) -> int:
    return call_refine(condition.refine, *args)


def refine_listed(condition: Condition, *args: Any) -> int:
    return call_refine_listed(condition.refine_listed, *args)
