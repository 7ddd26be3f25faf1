"""What operators mean in the judge's SQL, edge by edge."""

from __future__ import annotations

import math

import pytest

from slackwater.core.errors import DataError, UsageError
from slackwater.core.schema import Kind
from slackwater.expressions.functions import register
from slackwater.expressions.tree import Call, Literal
from slackwater.verify.inputs import workbench
from slackwater.verify.sql import Renderer

N, F, B, T = Kind.INT, Kind.FLOAT, Kind.BOOL, Kind.TEXT


def value_of(op, kind, *args):
    kinds = {bool: B, int: N, float: F, str: T, type(None): kind}
    expr = Call(op, tuple(Literal(arg, kinds[type(arg)]) for arg in args), kind)
    with workbench([expr]) as connection:
        return connection.execute(f"SELECT {Renderer([])(expr)}").fetchone()[0]


@pytest.mark.parametrize(
    ("op", "kind", "args", "wanted"),
    [
        ("/", F, (7, 2), 3.5),
        ("/", F, (7, 0), None),
        ("/", F, (0.0, 0.0), None),
        ("%", N, (-7, 3), -1),
        ("%", N, (7, 0), None),
        ("%", F, (-7.5, 2.0), -1.5),
        ("mod", F, (7.5, 0.0), None),
        ("+", F, (math.nan, 1.0), None),
        ("-", F, (math.inf, math.inf), None),
        ("neg", N, (5,), -5),
        ("=", B, (math.nan, math.nan), None),
        ("is_null", B, (math.nan,), True),
        ("and", B, (None, False), False),
        ("or", B, (None, True), True),
        ("in", B, (2, 1, 2, None), True),
        ("in", B, (3, 1, 2, None), None),
        ("in", B, (3, 1, 2), False),
        ("in", B, (math.nan, 1.0, 2.0), None),
        ("in", B, (3.0, 1.0, math.nan), None),
        ("not", B, (None,), None),
        ("case", N, (False, 1, None, 2, 3), 3),
        ("case", N, (False, 1), None),
        ("coalesce", F, (math.nan, 2.0), 2.0),
        ("nullif", N, (2, 2), None),
        ("sqrt", F, (-1.0,), None),
        ("ln", F, (0.0,), None),
        ("log10", F, (-1.0,), None),
        ("log10", F, (1000.0,), 3.0),
        ("asin", F, (2.0,), None),
        ("acos", F, (1.0,), 0.0),
        ("pow", F, (-8.0, 0.5), None),
        ("pow", F, (2.0, 3.0), 8.0),
        ("exp", F, (1e4,), math.inf),
        ("floor", N, (-2.5,), -3),
        ("ceil", N, (2.1,), 3),
        ("floor", N, (1e300,), None),
        ("to_int", N, (-2.7,), -2),
        ("to_float", F, (2,), 2.0),
        ("round", F, (2.5,), 3.0),
        ("round", F, (-2.5,), -3.0),
        ("round", F, (2.25, 1), 2.3),
        ("sign", N, (-0.5,), -1),
        ("least", N, (3, None, 2), 2),
        ("greatest", F, (math.nan, 1.0), 1.0),
        ("min", N, (3, 4), 3),
        ("dist", F, (0.0, 0.0, 3.0, 4.0), 5.0),
        ("hypot", F, (3.0, 4.0), 5.0),
        ("atan2", F, (0.0, 1.0), 0.0),
        ("abs", F, (-2.0,), 2.0),
        ("=", B, ("it's", "it's"), True),
    ],
)
def test_an_operator_keeps_its_edges(op, kind, args, wanted):
    got = value_of(op, kind, *args)
    assert got == wanted
    assert type(got) is type(wanted)


def test_integer_overflow_is_an_error_not_a_wrap():
    with pytest.raises(DataError, match="cannot be computed"):
        value_of("+", N, 2**63 - 1, 1)


def test_an_unknown_operator_is_refused():
    with pytest.raises(UsageError, match="frobnicate"):
        value_of("frobnicate", N, 1)


def test_a_function_of_the_users_own_is_called_as_it_is():
    register("judge_ratio", lambda a, b: a / b, args=[F, F], result=F)
    assert value_of("user:judge_ratio", F, 3.0, 2.0) == 1.5
    assert value_of("user:judge_ratio", F, 3.0, 0.0) == math.inf
    assert value_of("user:judge_ratio", F, 0.0, 0.0) is None
    assert value_of("user:judge_ratio", F, None, 1.0) is None


def test_a_function_nobody_registered_is_refused_by_name():
    with pytest.raises(UsageError, match="no_such"):
        value_of("user:no_such", F, 1.0)
