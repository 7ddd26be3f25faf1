"""Filters judged together pass what each of them passes alone."""

from __future__ import annotations

import random

import numpy as np
import pyarrow as pa
import pytest

from slackwater.core.batch import Flags
from slackwater.core.schema import Kind
from slackwater.expressions import compile as compiling
from slackwater.expressions.columnar import Coding
from slackwater.expressions.computed import Taking
from slackwater.expressions.functions import typed_call
from slackwater.expressions.tree import Column, Expr, Literal
from slackwater.sources.codebook import Codebook
from slackwater.sources.encode import encode_column
from slackwater.sources.shared_reading import SharedFilters
from tests.plan.sharing.conditions import VALUES, B, F, T, X, Y, condition, rows_over

COLUMNS = [X, Y, F, T, B]
ARROW = {Kind.INT: pa.int64(), Kind.FLOAT: pa.float64(), Kind.TEXT: pa.string(), Kind.BOOL: pa.bool_()}


def laid_out() -> tuple[np.ndarray, Coding]:
    """Every row of a few columns, as words."""
    rows = rows_over(X, F, T, B)
    codebook = Codebook()
    words = np.zeros((len(COLUMNS) + 1, len(rows)), np.int64)
    for at, column in enumerate(COLUMNS):
        values = pa.chunked_array([pa.array([row[column.name] for row in rows], ARROW[column.kind])])
        words[at + 1], _ = encode_column(values, column.kind, codebook)
    return words, Coding(codebook)


def place(stream: int, name: str) -> int:
    return 1 + [column.name for column in COLUMNS].index(name)


@pytest.mark.parametrize("seed", range(6))
def test_filters_pass_together_what_they_pass_alone(seed: int) -> None:
    rng = random.Random(seed)
    words, coding = laid_out()
    pool: list[Expr] = [condition(rng, COLUMNS, rng.randint(0, 1)) for _ in range(5)]
    pool.append(typed_call("like", (T, Literal("a%", Kind.TEXT))))
    filters = {number: tuple(rng.sample(pool, rng.randint(1, 3))) for number in rng.sample(range(70), 6)}
    usable = {number: np.array([rng.random() < 0.9 for _ in range(words.shape[1])]) for number in filters}
    passed, failed = SharedFilters(filters, place, coding).judge(words, usable.__getitem__)
    assert failed == {}
    assert set(passed) == set(filters)
    for number, own in filters.items():
        alone: Flags = Taking(own, (), place, coding).take(words, usable[number])
        assert (passed[number] == alone).all(), own


def test_a_filter_that_fails_fails_alone() -> None:
    words = np.array([[0, 0, 0], [1, 2**62, 3]])
    k = Column(0, "k", Kind.INT)
    square = typed_call(">", (typed_call("*", (k, k)), Literal(0, Kind.INT)))
    small = typed_call("<", (k, Literal(9, Kind.INT)))
    filters = {0: [small], 1: [square], 2: [small, square], 3: [square, small]}
    found = SharedFilters(filters, lambda stream, name: 1, len)
    passed, failed = found.judge(words, lambda number: np.ones(3, np.bool_))
    assert {number: one.tolist() for number, one in passed.items()} == {0: [True, False, True], 2: [True, False, True]}
    assert {number: str(error) for number, error in failed.items()} == dict.fromkeys(
        (1, 3), "integer overflow in k * k > 0"
    )


def test_what_filters_have_in_common_is_computed_once(monkeypatch: pytest.MonkeyPatch) -> None:
    """Conditions of several branches too; text is looked at where the filters above have left something."""
    words, coding = laid_out()
    computed: list[int] = []
    real = compiling.compile_maps

    def counting(exprs, layout, encode):  # type: ignore[no-untyped-def]
        def counted(number, compute):  # type: ignore[no-untyped-def]
            return lambda ints, floats, n: (computed.append(n), compute(ints, floats, n))[1]

        return [counted(number, one) for number, one in enumerate(real(exprs, layout, encode))]

    monkeypatch.setattr("slackwater.sources.shared_reading.compile_maps", counting)
    above = [typed_call(">", (X, Literal(at, Kind.INT))) for at in (1, 2)]
    like = typed_call("like", (T, Literal("a%", Kind.TEXT)))
    filters = {0: [above[0]], 1: [above[0], B], 2: [above[1], like], 3: [F_POSITIVE, B]}
    SharedFilters(filters, place, coding).judge(words, lambda number: np.ones(words.shape[1], np.bool_))
    n = words.shape[1]
    assert sorted(computed) == sorted([n, n, n, n, n * 2 // len(VALUES[X])])


F_POSITIVE = typed_call(">", (F, Literal(0.0, Kind.FLOAT)))
