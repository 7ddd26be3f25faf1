"""Bands and distances by cells: at their borders, of all kinds of numbers, against trying all combinations."""

from __future__ import annotations

import math
from collections import Counter
from fractions import Fraction

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from slackwater.core.batch import FIRST_COLUMN, ROW, TS, Batch
from slackwater.core.schema import NULL_FLOAT, NULL_WORD, Kind
from slackwater.disorder.controllers import FixedSlack
from slackwater.expressions.functions import typed_call
from slackwater.expressions.tree import Column, Literal
from slackwater.operators.join.bands import CONVERTED, FLOATS, INTEGERS, SLACK, bands_of
from slackwater.operators.join.operator import WindowJoin
from slackwater.operators.join.probing import INDEX, NEAR, NOT_BY_CELLS, SCAN, Equality
from slackwater.operators.pipeline import Epochs
from tests.effort import tried
from tests.kit.drive import drive, pipeline_of, results_of
from tests.kit.oracle_join import oracle_join
from tests.kit.traces import cuttings, pieces

X, Y, K, N = range(FIRST_COLUMN, FIRST_COLUMN + 4)
ROWS = N + 1
NAMED = ((X, "x", Kind.FLOAT), (Y, "y", Kind.FLOAT), (K, "k", Kind.INT), (N, "n", Kind.DECIMAL))


def column(stream, name):
    if name == "ts":
        return Column(stream, "ts", Kind.TIME)
    ((kind, scale),) = [(kind, 2 if kind is Kind.DECIMAL else 0) for _, n, kind in NAMED if n == name]
    return Column(stream, name, kind, scale)


def call(op, *args):
    return typed_call(op, tuple(Literal(arg, Kind.FLOAT if isinstance(arg, float) else Kind.INT)
                                if isinstance(arg, int | float) else arg for arg in args))  # fmt: skip


def within(op, name, d, one=0, other=1):
    return call(op, call("abs", call("-", column(one, name), column(other, name))), d)


def distance(op, d, names="xy", one=0, other=1):
    first, second = names
    places = column(one, first), column(one, second), column(other, first), column(other, second)
    return call(op, call("dist", *places), d)


def join(*conditions, equalities=(), streams=2, window=50):
    columns = tuple((s, name, row) for s in range(streams) for row, name, _ in NAMED)
    columns += tuple((s, "ts", TS) for s in range(streams))
    emit = tuple((s, ROW) for s in range(streams))
    return WindowJoin((window,) * streams, equalities, conditions, columns, emit, ROWS)


def by_cells(spec):
    return bool((spec.probes().steps[:, :, NEAR] != NOT_BY_CELLS).all())


BETWEEN = (call(">=", column(0, "x"), call("-", column(1, "x"), 2.5)),
           call("<=", column(0, "x"), call("+", column(1, "x"), 2.5)))  # fmt: skip
JOINS = {
    "floats": join(within("<", "x", 2.5)),
    "floats, the end among them": join(within("<=", "x", 0.1)),
    "between": join(*BETWEEN),
    "between, lopsided": join(call("<=", column(1, "x"), column(0, "x")),
                              call("<", call("-", column(0, "x"), column(1, "x")), 2.5)),
    "moved": join(call(">", 2.5, call("abs", call("+", call("-", column(1, "x"), column(0, "x")), 10.0)))),
    "two axes": join(within("<", "x", 2.5), within("<=", "k", 2)),
    "three axes": join(within("<", "x", 2.5), within("<=", "k", 2), within("<", "y", 5.0)),
    "distance": join(distance("<", 2.5)),
    "distance, a large one": join(distance("<=", 1e30)),
    "distance of other kinds": join(distance("<", 2.5, "kn")),
    "integers": join(within("<=", "k", 2)),
    "integers and a float": join(within("<", "k", 2.5)),
    "integers, wide": join(within("<", "k", 2**59)),
    "decimals": join(within("<", "n", 0.75)),
    "event times": join(within("<", "ts", 3)),
    "an integer and a float": join(call("<", call("abs", call("-", column(0, "k"), column(1, "x"))), 2.5)),
    "with a key": join(within("<", "x", 2.5), equalities=(Equality(0, K, 1, K),)),
    "three streams": join(within("<", "x", 2.5), within("<=", "k", 1, 1, 2), streams=3, window=8),
    "three streams around one": join(distance("<", 2.5), distance("<", 5.0, "xy", 0, 2), streams=3, window=8),
}  # fmt: skip
SPECIAL = [0.0, -0.0, math.inf, -math.inf, math.nan, 5e-324, -1e-200, 1e15, -1e15, 2.0**60, 1.7e308, -1.7e308]
WHOLE = [NULL_WORD, NULL_WORD + 1, 2**63 - 1, 2**62, -(2**62), 2**53 + 1]


@st.composite
def floats(draw):
    """Close to multiples of the bands, a few floats up or down; or something special."""
    if draw(st.integers(0, 7)) == 0:
        return draw(st.sampled_from(SPECIAL))
    width = draw(st.sampled_from([2.5, 0.1, 1e15, 5.0]))
    value = draw(st.integers(-4, 4)) * width + draw(st.sampled_from([0.0, 0.0, 1e6, 1e9]))
    for _ in range(draw(st.integers(0, 3))):
        value = math.nextafter(value, draw(st.sampled_from([-math.inf, math.inf])))
    return value


def float_word(value):
    return NULL_FLOAT if value is None else int(np.array(value).view(np.int64))


def tuples(streams, whole):
    few = st.integers(-6, 6)
    integers = st.one_of(few, few, few, st.sampled_from(WHOLE)) if whole else few
    x = st.one_of(floats(), floats(), floats(), st.none()).map(float_word)
    cents = few.map(lambda n: n * 25)
    one = st.tuples(st.integers(0, streams - 1), st.integers(0, 40), x, x, integers, cents)
    return st.lists(one, max_size=30 if streams == 2 else 18)


@pytest.mark.parametrize("name", JOINS)
@tried(60)
@given(data=st.data())
def test_results_are_those_of_trying_all_combinations(name, data):
    spec = JOINS[name]
    # Differences of large integers do not fit, which fails who computes them.
    whole = name in ("floats", "distance", "between")
    batch = Batch.of(data.draw(tuples(spec.streams, whole)), ROWS)
    cuts = data.draw(cuttings(len(batch)))
    outcome = drive(pipeline_of(spec)(FixedSlack(100), Epochs()), pieces(batch, cuts))
    assert results_of(spec, outcome.emissions) == oracle_join(spec, batch)


@pytest.mark.parametrize("name", [name for name in JOINS if name != "with a key"])
def test_each_of_them_goes_by_cells(name):
    assert by_cells(JOINS[name])


@pytest.mark.parametrize(
    "conditions",
    [
        (within(">", "x", 2.5),),
        (within("<", "x", math.inf),),
        (within("<", "x", -1.0),),
        (within("<=", "x", 0.0),),
        (within("<", "x", 1e-160),),
        (distance("<", 1e-170),),
        (within("<", "k", 2**62),),
        (BETWEEN[0],),
        (call("<", call("abs", call("*", column(0, "x"), column(1, "x"))), 2.5),),
        (call("<", call("abs", call("+", column(0, "x"), column(1, "x"))), 2.5),),
        (call("or", within("<", "x", 2.5), within("<", "y", 2.5)),),
    ],
)
def test_what_is_no_band_is_scanned_for(conditions):
    assert bands_of(conditions, {(s, name): row for s in (0, 1) for row, name, _ in NAMED}) == ()
    assert (join(*conditions).probes().steps[:, :, INDEX] == SCAN).all()


@tried(300)
@given(a=floats(), b=floats(), name=st.sampled_from(["x", "between", "moved", "dist"]))
def test_a_band_is_never_narrower_than_its_condition(a, b, name):
    """The claim of `bands.py`, in exact numbers."""
    spec = {"x": JOINS["floats"], "between": JOINS["between"], "moved": JOINS["moved"], "dist": JOINS["distance"]}[name]
    batch = Batch.of([(0, 1, float_word(a), 0, 0, 0), (1, 1, float_word(b), 0, 0, 0)], ROWS)
    if not oracle_join(spec, batch) or math.isinf(a):
        return
    band = spec.bands[0].seen_from(0)
    difference = Fraction(a) - Fraction(b)
    for value in (a, b):
        slack = Fraction(abs(value)) * Fraction(SLACK)
        assert Fraction(band.low) - slack <= difference <= Fraction(band.high) + slack


def test_sides_are_read_as_their_condition_reads_them():
    reads = {name: JOINS[name].bands[0].left.read for name in ("floats", "integers", "decimals")}
    assert reads == {"floats": FLOATS, "integers": INTEGERS, "decimals": INTEGERS}
    assert JOINS["distance of other kinds"].bands[1].left.unit == 100.0
    assert JOINS["an integer and a float"].bands[0].left.read == CONVERTED


def test_few_tuples_are_looked_at():
    """On a line of places a tenth of a band apart, the cells around a tuple have thirty of them on average."""
    places = np.arange(600) * 0.1
    spec = join(within("<", "x", 1.0), window=10**6)
    batch = Batch.of([(i % 2, i, float_word(x), 0, 0, 0) for i, x in enumerate(places)], ROWS)
    operator = spec.build()
    pipeline = pipeline_of(spec)(FixedSlack(0), Epochs())
    made = results_of(spec, drive(pipeline, [batch]).emissions)
    assert made == Counter(oracle_join(spec, batch))
    assert operator.order.indexes[0].cells[0].width == pytest.approx(1.0)
