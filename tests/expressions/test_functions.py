from __future__ import annotations

import pytest

from slackwater.core.errors import UsageError
from slackwater.core.schema import Kind
from slackwater.expressions.functions import (
    FUNCTIONS,
    TEXT_OPERATORS,
    ExpressionTypeError,
    function_names,
    is_text_call,
    register,
    typed_call,
)
from slackwater.expressions.kernels import CASTS, KERNELS, TRUNCATED
from slackwater.expressions.textual import TEXT_FUNCTIONS, text_function
from slackwater.expressions.tree import Call, Column, Literal

N, X, B, T, TS = (
    Column(0, name, kind)
    for name, kind in (("i", Kind.INT), ("x", Kind.FLOAT), ("b", Kind.BOOL), ("t", Kind.TEXT), ("ts", Kind.TIME))
)
NULL = Literal(None, Kind.INT)
BAD_PATTERN = "the pattern of LIKE has the escape character before something else than %, _ or itself"
BUCKET = "as in time_bucket('5 minutes', ts)"
NOTHING = Literal("0 s", Kind.TEXT)
UNITS = "year, quarter, month, week, day, hour, minute, second, millisecond, microsecond"
ONE = Literal(1, Kind.INT)


def test_an_integer_that_meets_a_float_is_converted() -> None:
    assert typed_call("+", (N, X)) == Call("+", (Call("to_float", (N,), Kind.FLOAT), X), Kind.FLOAT)
    assert typed_call("=", (X, ONE)).args == (X, Literal(1.0, Kind.FLOAT))
    assert typed_call("+", (N, ONE)) == Call("+", (N, ONE), Kind.INT)


def test_division_is_always_of_floats() -> None:
    assert typed_call("/", (N, ONE)) == Call(
        "/", (Call("to_float", (N,), Kind.FLOAT), Literal(1.0, Kind.FLOAT)), Kind.FLOAT
    )


@pytest.mark.parametrize("other", [N, X, B, T, TS])
def test_an_untyped_null_takes_the_kind_of_its_neighbour(other: Column) -> None:
    for args in ((NULL, other), (other, NULL)):
        for op in ("=", "coalesce", "nullif"):
            assert {arg.kind for arg in typed_call(op, args).args} == {other.kind}
    assert typed_call("case", (B, NULL, other)).kind is other.kind


def test_a_null_condition_is_a_boolean() -> None:
    assert typed_call("not", (NULL,)) == Call("not", (Literal(None, Kind.BOOL),), Kind.BOOL)
    assert typed_call("and", (NULL, B)).args[0].kind is Kind.BOOL
    assert typed_call("case", (NULL, T, T)).args[0].kind is Kind.BOOL


@pytest.mark.parametrize(
    ("op", "args", "kind"),
    [
        ("-", (TS, TS), Kind.INT),
        ("<", (TS, TS), Kind.BOOL),
        ("abs", (N,), Kind.INT),
        ("abs", (X,), Kind.FLOAT),
        ("floor", (X,), Kind.INT),
        ("sign", (X,), Kind.INT),
        ("sqrt", (N,), Kind.FLOAT),
        ("pow", (N, N), Kind.FLOAT),
        ("round", (X,), Kind.FLOAT),
        ("round", (N,), Kind.INT),
        ("least", (N, X, N), Kind.FLOAT),
        ("greatest", (TS, TS), Kind.TIME),
        ("coalesce", (T, T), Kind.TEXT),
        ("is_null", (T,), Kind.BOOL),
        ("case", (B, N, B, X, N), Kind.FLOAT),
        ("dist", (X, N, X, N), Kind.FLOAT),
    ],
)
def test_a_call_has_the_kind_its_rule_says(op: str, args: tuple, kind: Kind) -> None:
    assert typed_call(op, args).kind is kind


@pytest.mark.parametrize(("name", "op"), [("mod", "%"), ("min", "least"), ("max", "greatest")])
def test_a_synonym_becomes_what_it_stands_for(name: str, op: str) -> None:
    assert typed_call(name, (N, N)) == typed_call(op, (N, N))


def test_what_changes_nothing_is_left_out() -> None:
    assert typed_call("to_float", (X,)) is X
    assert typed_call("floor", (N,)) is N
    assert typed_call("round", (N, Literal(2, Kind.INT))) is N


@pytest.mark.parametrize(
    ("op", "args", "message", "argument"),
    [
        ("sqrt", (T,), "sqrt needs a number, not text", 0),
        ("+", (N, TS), "+ needs numbers, not a timestamp", 1),
        ("-", (TS, N), "- needs a timestamp, not an integer", 1),
        ("=", (N, T), "= cannot mix an integer and text", 1),
        ("<", (B, B), "< needs numbers, timestamps or text, not a boolean", 0),
        ("<", (T, N), "< cannot mix text and an integer", 1),
        ("upper", (N,), "upper needs text, not an integer", 0),
        ("substring", (T, X), "substring needs an integer, not a float", 1),
        ("like", (T, N), "LIKE needs text, not an integer", 1),
        ("like", (T, Literal("a\\b", Kind.TEXT)), BAD_PATTERN, 1),
        ("like", (T, Literal("ab\\", Kind.TEXT)), BAD_PATTERN, 1),
        ("like", (T, T, Literal("ab", Kind.TEXT)), "ESCAPE takes one character", 2),
        ("hour", (N,), "hour needs a timestamp, not an integer", 0),
        ("date_trunc", (T, TS), f"date_trunc needs a unit in quotes: {UNITS}", 0),
        *(("time_bucket", (of, TS), f"time_bucket needs a duration in quotes, {BUCKET}", 0) for of in (N, T, NOTHING)),
        ("cast_timestamp", (B,), "a boolean cannot be cast to a timestamp", 0),
        ("cast_boolean", (TS,), "a timestamp cannot be cast to a boolean", 0),
        ("and", (B, N), "and needs a boolean, not an integer", 1),
        ("case", (N, T, T), "a case condition needs a boolean, not an integer", 0),
        ("case", (B, T, N), "case cannot mix text and an integer", 2),
        ("case", (B, T, B, T), "case needs a condition and a value for each branch, and a last value for ELSE", None),
        ("sqrt", (X, X), "sqrt takes 1 argument, not 2", None),
        ("round", (X, N, N), "round takes 1 to 2 arguments, not 3", None),
        ("least", (X,), "least takes at least 2 arguments, not 1", None),
        ("round", (X, N), "round needs its number of digits as an integer constant from 0 to 15", 1),
        ("round", (X, NULL), "round needs its number of digits as an integer constant from 0 to 15", 1),
        ("+", (N, Literal(2**63, Kind.INT)), "9223372036854775808 does not fit in 64 bits", 1),
        ("sqr", (X,), "there is no function 'sqr'", None),
    ],
)
def test_a_call_that_does_not_fit_says_what_would(op: str, args: tuple, message: str, argument: int | None) -> None:
    with pytest.raises(ExpressionTypeError) as caught:
        typed_call(op, args)
    assert (str(caught.value), caught.value.argument) == (message, argument)


def test_every_operator_has_a_kernel_or_is_computed_over_columns_of_text() -> None:
    synonyms = {"mod", "min", "max", ">", ">=", "ucase", "lcase", "substr", "char_length", "character_length"}
    synonyms |= {"dayofmonth", "to_timestamp", "date_part", "time_bucket"}
    registered = {name for name in FUNCTIONS if f"user:{name}" in FUNCTIONS or name.startswith("user:")}
    made = set(KERNELS) | {op for op, _ in CASTS} | set(TEXT_FUNCTIONS) | {"cast_string", "date_trunc"}
    assert set(FUNCTIONS) - synonyms - registered == made
    assert set(TEXT_FUNCTIONS) == TEXT_OPERATORS
    assert set(UNITS.split(", ")) == set(TRUNCATED)


CAST_OPERATORS = [name for name in FUNCTIONS if name.startswith("cast_")]


@pytest.mark.parametrize("op", CAST_OPERATORS)
@pytest.mark.parametrize("arg", [N, X, B, T, TS])
def test_a_cast_that_is_offered_can_be_computed(op: str, arg: Column) -> None:
    try:
        made = typed_call(op, (arg,))
    except ExpressionTypeError:
        return
    assert made is arg or is_text_call(made) or (op, arg.kind) in CASTS
    if isinstance(made, Call) and is_text_call(made):
        assert callable(text_function(made))


@pytest.mark.parametrize(
    ("name", "args", "same"),
    [
        ("ucase", (T,), ("upper", (T,))),
        ("substr", (T, ONE), ("substring", (T, ONE))),
        ("char_length", (T,), ("length", (T,))),
        ("dayofmonth", (TS,), ("day", (TS,))),
        ("date_part", (Literal("DOW", Kind.TEXT), TS), ("dayofweek", (TS,))),
        ("date_trunc", (Literal("MON", Kind.TEXT), TS), ("date_trunc", (Literal("month", Kind.TEXT), TS))),
        ("to_timestamp", (T,), ("cast_timestamp", (T,))),
    ],
)
def test_a_name_of_spark_becomes_ours(name: str, args: tuple, same: tuple) -> None:
    assert typed_call(name, args) == typed_call(*same)


def test_what_is_put_together_is_written_out_first() -> None:
    assert typed_call("concat", (T, N)).args == (T, Call("cast_string", (N,), Kind.TEXT))


def test_names_are_those_a_query_can_call() -> None:
    assert {"sqrt", "dist", "mod", "coalesce"} <= set(function_names())
    assert not {"+", "and", "neg", "case", "is_null"} & set(function_names())


def test_a_built_in_name_cannot_be_taken() -> None:
    with pytest.raises(UsageError, match="'SQRT' is a built-in function"):
        register("SQRT", lambda x: x, [Kind.FLOAT], Kind.FLOAT)


def test_a_name_no_query_can_write_is_refused() -> None:
    with pytest.raises(UsageError, match="not a name"):
        register("user:x", lambda x: x, [Kind.FLOAT], Kind.FLOAT)


def test_a_function_numba_cannot_compile_is_refused_with_the_reason() -> None:
    def opens(x):
        return open(str(x))

    with pytest.raises(UsageError, match=r"function 'opens' cannot be compiled: .*open") as caught:
        register("opens", opens, [Kind.FLOAT], Kind.FLOAT)
    assert "\n" not in str(caught.value)
    assert "opens" not in function_names()


def test_a_function_must_return_what_it_promises() -> None:
    with pytest.raises(UsageError, match="returns float64, which is not integer"):
        register("halved", lambda x: x / 2, [Kind.FLOAT], Kind.INT)
    with pytest.raises(UsageError, match="cannot take or give text"):
        register("shout", lambda x: x, [Kind.TEXT], Kind.TEXT)


def test_a_registered_function_is_called_with_converted_arguments() -> None:
    register("Twice_It", lambda x: x * 2, [Kind.FLOAT], Kind.FLOAT)
    call = typed_call("twice_it", (N,))
    assert call == Call("user:twice_it", (Call("to_float", (N,), Kind.FLOAT),), Kind.FLOAT)
    assert typed_call("user:twice_it", call.args) == call
    assert "twice_it" in function_names()
    with pytest.raises(ExpressionTypeError, match="twice_it takes 1 argument, not 2"):
        typed_call("twice_it", (N, N))
