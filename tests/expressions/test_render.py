from __future__ import annotations

import pytest

from slackwater.core.schema import Kind
from slackwater.expressions.functions import typed_call as call
from slackwater.expressions.render import render
from slackwater.expressions.tree import Column, Expr, Literal

A, B, C = (Column(stream, name, Kind.INT) for stream, name in enumerate("abc"))
P, Q = Column(0, "p", Kind.BOOL), Column(1, "q", Kind.BOOL)
T = Column(0, "t", Kind.TEXT)
TS = Column(0, "ts", Kind.TIME)


@pytest.mark.parametrize(
    ("expr", "text"),
    [
        (call("-", (A, call("-", (B, C)))), "a - (b - c)"),
        (call("-", (call("-", (A, B)), C)), "a - b - c"),
        (call("*", (call("+", (A, B)), C)), "(a + b) * c"),
        (call("+", (A, call("*", (B, C)))), "a + b * c"),
        (call("neg", (call("+", (A, B)),)), "-(a + b)"),
        (call("neg", (call("neg", (A,)),)), "-(-a)"),
        (call("*", (call("to_float", (call("+", (A, B)),)), Literal(2.0, Kind.FLOAT))), "(a + b) * 2.0"),
        (call("not", (call("and", (P, Q)),)), "NOT (p AND q)"),
        (call("or", (call("and", (P, Q)), P)), "p AND q OR p"),
        (call("and", (call("or", (P, Q)), P)), "(p OR q) AND p"),
        (call("not", (call("is_null", (A,)),)), "NOT a IS NULL"),
        (call("=", (call("=", (A, B)), P)), "(a = b) = p"),
        (call("=", (T, Literal("it's", Kind.TEXT))), "t = 'it''s'"),
        (call("case", (P, A, Q, B, Literal(None, Kind.INT))), "CASE WHEN p THEN a WHEN q THEN b ELSE NULL END"),
        (call("max", (A, B, C)), "greatest(a, b, c)"),
        (call("in", (A, Literal(1, Kind.INT), Literal(None, Kind.INT))), "a IN (1, NULL)"),
        (call("not", (call("in", (T, Literal("p", Kind.TEXT), Literal("q", Kind.TEXT))),)), "NOT t IN ('p', 'q')"),
        (
            call("in", (call("+", (A, B)), *(Literal(i, Kind.INT) for i in range(1000)))),
            "a + b IN (0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, ... 989 more)",
        ),
        (call("in", (call("=", (A, B)), Literal(True, Kind.BOOL))), "(a = b) IN (TRUE)"),
        (call("and", (P, Literal(True, Kind.BOOL))), "p AND TRUE"),
        (call("not", (call("like", (T, Literal("a%", Kind.TEXT))),)), "NOT t LIKE 'a%'"),
        (call("like", (T, T, Literal("!", Kind.TEXT))), "t LIKE t ESCAPE '!'"),
        (call("cast_int", (call("length", (T,)),)), "CAST(length(t) AS INT)"),
        (call("shift", (TS, Literal(-5_000_000, Kind.INT))), "ts - INTERVAL 5 s"),
        (call("shift_months", (TS, Literal(12, Kind.INT))), "ts + INTERVAL 12 MONTHS"),
        (call("date_trunc", (Literal("dd", Kind.TEXT), TS)), "date_trunc('day', ts)"),
        (call("time_bucket", (Literal("300 s", Kind.TEXT), TS)), "time_bucket('5 min', ts)"),
        (call("date_part", (Literal("sec", Kind.TEXT), TS)), "EXTRACT(SECOND FROM ts)"),
        (call("<", (call("concat", (T, A)), T)), "concat(t, CAST(a AS STRING)) < t"),
    ],
)
def test_an_expression_reads_like_sql(expr: Expr, text: str) -> None:
    assert render(expr) == text


def test_aliases_tell_the_streams_apart() -> None:
    assert render(call("<", (A, B)), ["left", "right"]) == "left.a < right.b"
