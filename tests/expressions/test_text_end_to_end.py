"""Functions of text and time wherever a query can have them: filters, keys of joins and groups, arguments, landmarks,
sub-queries; and the judge agrees."""

from __future__ import annotations

import math
import random
from typing import Any

import numpy as np
import pyarrow as pa
import pytest

from slackwater.core.errors import UsageError
from slackwater.core.schema import NULL_WORD, Kind
from slackwater.expressions.columnar import Coding
from slackwater.expressions.compile import compile_condition, compile_filter, compile_map
from slackwater.expressions.functions import typed_call
from slackwater.expressions.tree import Column, Expr, Literal
from slackwater.runtime.local.answer import replay
from slackwater.sources.codebook import Codebook
from tests.kit.evaluate import evaluate

NAMES = ["Ann", "bob", "Änne", None, "cid", "ANN", "x%y", "Bob", "", "  pad "]
ROWS = 300


def stream(seed: int) -> pa.Table:
    of = random.Random(seed)
    return pa.table(
        {
            "ts": pa.array([1_700_000_000_000_000 + at * 50_000 + seed for at in range(ROWS)], pa.timestamp("us")),
            "key": [of.randrange(9) for _ in range(ROWS)],
            "v": [of.random() * 10 for _ in range(ROWS)],
            "name": [of.choice(NAMES) for _ in range(ROWS)],
            "arrival": list(range(seed, seed + 2 * ROWS, 2)),
        }
    )


A, B = stream(0), stream(1)
STREAMS = {"a": A, "b": B}


def rows_of(query: str) -> list[dict[str, Any]]:
    return replay(query, {name: table for name, table in STREAMS.items() if f" {name} " in query}).results.to_pylist()


def test_a_filter_looks_into_text() -> None:
    found = rows_of("SELECT name FROM a WHERE name LIKE '%n%' AND key > 3 AND upper(name) <> 'ANN' WITH DELAY 1 s")
    wanted = [row for row in A.to_pylist() if row["name"] and "n" in row["name"] and row["key"] > 3]
    assert [row["name"] for row in found] == [row["name"] for row in wanted if row["name"].upper() != "ANN"]


def test_streams_are_joined_by_what_a_function_makes_of_their_text() -> None:
    found = rows_of(
        "SELECT a.name AS x, b.name AS y, concat(a.name, '/', b.name) AS z FROM a [1 s], b [1 s]"
        " WHERE upper(a.name) = upper(b.name) WITH DELAY 1 s"
    )
    wanted = [
        (one["name"], other["name"])
        for one in A.to_pylist()
        for other in B.to_pylist()
        if None not in (one["name"], other["name"]) and one["name"].upper() == other["name"].upper()
        if abs((one["ts"] - other["ts"]).total_seconds()) <= 1
    ]
    assert len(wanted) > 1000
    assert sorted((row["x"], row["y"]) for row in found) == sorted(wanted)
    assert all(row["z"] == f"{row['x']}/{row['y']}" for row in found)


@pytest.mark.parametrize("options", ["", " OPTIONS (shape = 'binary')"])
def test_a_condition_between_streams_reads_what_was_made_of_text_before(options: str) -> None:
    found = rows_of(
        "SELECT a.key AS x, b.key AS y, a.ts AS s, b.ts AS t FROM a [1 s], b [1 s]"
        f" WHERE length(a.name) + a.key > length(b.name) + 5 OR b.name LIKE 'x%' WITH DELAY 1 s{options}"
    )
    wanted = [
        (one["key"], other["key"])
        for one in A.to_pylist()
        for other in B.to_pylist()
        if abs((one["ts"] - other["ts"]).total_seconds()) <= 1
        if (other["name"] or "").startswith("x")
        or (None not in (one["name"], other["name"]) and len(one["name"]) + one["key"] > len(other["name"]) + 5)
    ]
    assert sorted((row["x"], row["y"]) for row in found) == sorted(wanted)


def test_groups_and_arguments_are_made_of_text_and_time() -> None:
    found = rows_of(
        "SELECT lower(name) AS k, second(ts) % 2 AS odd, SUM(length(name)) AS n, COUNT(DISTINCT upper(name)) AS d"
        " FROM a [1 HOUR] GROUP BY lower(name), second(ts) % 2 WITH DELAY 1 s"
    )
    wanted: dict[tuple[str | None, int], int] = {}
    for row in A.to_pylist():
        key = (row["name"] and row["name"].lower(), row["ts"].second % 2)
        wanted[key] = wanted.get(key, 0) + len(row["name"] or "")
    assert {(row["k"], row["odd"]): row["n"] or 0 for row in found} == wanted
    assert all(row["d"] == (row["k"] is not None) for row in found)


def test_a_query_around_another_makes_text_of_its_results() -> None:
    found = rows_of(
        "SELECT upper(k) || '!' AS loud, n FROM (SELECT lower(name) AS k, COUNT(*) AS n FROM a [1 HOUR]"
        " GROUP BY lower(name)) t WHERE k LIKE '%b' WITH DELAY 1 s"
    )
    assert [row["loud"] for row in found] == ["BOB!"]
    assert found[0]["n"] == sum((name or "").lower() == "bob" for name in A["name"].to_pylist())


def test_an_aggregate_above_a_join_reads_text_of_both_streams() -> None:
    found = rows_of(
        "SELECT COUNT(DISTINCT a.name || b.name) AS n FROM a , b WHERE lower(a.name) = lower(b.name)"
        " WINDOW 1 HOUR WITH DELAY 1 s"
    )
    names = [name for name in NAMES if name is not None]
    assert found[0]["n"] == sum(x.lower() == y.lower() for x in names for y in names)


def test_landmarks_are_conditions_on_text() -> None:
    found = rows_of(
        "SELECT COUNT(*) AS n FROM a [START WHEN name LIKE 'x%' END WHEN lower(name) = 'bob'] WITH DELAY 1 s"
    )
    counts, open_since = [], None
    for at, name in enumerate(A["name"].to_pylist()):
        if open_since is None and (name or "").startswith("x"):
            open_since = at
        if open_since is not None and (name or "").lower() == "bob":
            counts.append(at - open_since + 1)
            open_since = None
    assert [row["n"] for row in found][: len(counts)] == counts


def test_least_and_greatest_pass_over_nulls_and_nan_is_one() -> None:
    table = pa.table({"ts": [1, 2, 3], "x": [1.0, math.nan, None], "y": [None, 2.0, None]})
    found = replay("SELECT least(x, y) AS l, greatest(x, y) AS g FROM s", {"s": table}).results
    assert found["l"].to_pylist() == found["g"].to_pylist() == [1.0, 2.0, None]


T, U, N, X, P, S = (
    Column(0, name, kind)
    for name, kind in zip("tuixbs", (Kind.TEXT, Kind.TEXT, Kind.INT, Kind.FLOAT, Kind.BOOL, Kind.TIME), strict=True)
)


def literal(value: Any) -> Literal:
    return Literal(value, Kind.TEXT if isinstance(value, str) else Kind.INT)


CALLS = [
    *(typed_call(op, (T,)) for op in ("upper", "lower", "length", "trim", "ltrim", "rtrim")),
    *(typed_call(op, (T, U)) for op in ("startswith", "endswith", "contains", "replace", "concat", "<", ">=")),
    *(typed_call("substring", (T, *numbers)) for numbers in ((N,), (N, literal(2)), (literal(-2), N))),
    *(typed_call("like", (T, literal(pattern))) for pattern in ("%a%", "_b", "%", "", "a\\%")),
    typed_call("ilike", (T, literal("%A!%%"), literal("!"))),
    *(typed_call(op, (S,)) for op in ("year", "quarter", "month", "day", "dayofweek", "weekday", "dayofyear")),
    *(typed_call(op, (S,)) for op in ("weekofyear", "yearofweek", "hour", "minute", "second", "seconds")),
    *(typed_call("date_trunc", (literal(unit), S)) for unit in ("year", "quarter", "week", "hour", "millisecond")),
    typed_call("time_bucket", (literal("7 min"), S)),
    typed_call("shift_months", (S, literal(-13))),
    typed_call("shift", (S, literal(77))),
    *(typed_call(f"cast_{target}", (arg,)) for target in ("int", "tinyint", "boolean", "string") for arg in (N, X, P)),
    *(typed_call(f"cast_{target}", (S,)) for target in ("bigint", "double", "string")),
    typed_call("cast_bigint", (typed_call("concat", (typed_call("cast_string", (N,)), literal("1"))),)),
    typed_call("case", (typed_call("<", (T, U)), typed_call("upper", (T,)), U)),
]


@pytest.mark.parametrize("expr", CALLS, ids=str)
def test_columns_and_kernels_give_what_the_oracle_gives(expr: Expr) -> None:
    of = random.Random(5)
    texts = ("a", "b", "ab", " Ab ", "aßb", "", "b%a", "ñ\n")
    makes = {
        "t": lambda: of.choice(texts), "u": lambda: of.choice(texts), "i": lambda: of.randrange(-5, 300),
        "x": lambda: of.choice((0.0, -1.5, of.uniform(-300, 300), 1e9, 2.5e-7)), "b": lambda: of.random() < 0.5,
        "s": lambda: of.randrange(-60_000_000_000_000_000, 250_000_000_000_000_000),
    }  # fmt: skip
    rows = [{name: None if of.random() < 0.1 else make() for name, make in makes.items()} for _ in range(200)]
    book, names = Codebook(), list(makes)
    words = np.empty((len(names), len(rows)), np.int64)
    for at, name in enumerate(names):
        values = [row[name] for row in rows]
        if name in "tu":
            words[at] = book.encode(pa.array(values, pa.string()))
        elif name == "x":
            words.view(np.float64)[at] = [math.nan if value is None else value for value in values]
        else:
            words[at] = [NULL_WORD if value is None else value for value in values]
    found = compile_map(expr, lambda stream, name: names.index(name), Coding(book))(
        words, words.view(np.float64), len(rows)
    )
    if expr.kind is Kind.TEXT:
        given = book.decode(found).to_pylist()
    elif expr.kind is Kind.FLOAT:
        given = [None if math.isnan(value) else value for value in found.tolist()]
    else:
        given = [None if value == NULL_WORD else value for value in found.tolist()]
    assert given == [evaluate(expr, [row]) for row in rows]


def test_a_later_filter_is_not_asked_about_what_an_earlier_one_dropped() -> None:
    huge = typed_call("*", (N, literal(2**62)))
    asks = [typed_call("<", (N, literal(2))), typed_call("like", (typed_call("cast_string", (huge,)), literal("4%")))]
    words = np.array([[1, 5]])
    kept = compile_filter(asks, lambda stream, name: 0, Coding(Codebook()))(words, words.view(np.float64), 2)
    assert kept.tolist() == [True, False]


def test_compiled_conditions_refuse_text_calls() -> None:
    with pytest.raises(UsageError, match="looks into text"):
        compile_condition([typed_call("<", (T, U))], lambda stream, name: 0, len)


def test_codes_alone_do_not_make_text() -> None:
    with pytest.raises(UsageError, match="only their codes"):
        compile_map(typed_call("upper", (T,)), lambda stream, name: 0, len)
