"""Functions of text and time mean the same in the judge's SQL as to the oracle, row by row."""

from __future__ import annotations

import random

import pyarrow as pa
import pytest

from slackwater.core.errors import UsageError
from slackwater.core.schema import Field, Kind, Schema
from slackwater.expressions.tree import Expr
from slackwater.language.bind import bind
from slackwater.verify.inputs import words, workbench
from slackwater.verify.sql import Renderer
from tests.kit.evaluate import evaluate

FIELDS = {
    "ts": (Kind.TIME, pa.timestamp("us")),
    "t": (Kind.TEXT, pa.string()),
    "u": (Kind.TEXT, pa.string()),
    "i": (Kind.INT, pa.int64()),
    "x": (Kind.FLOAT, pa.float64()),
    "b": (Kind.BOOL, pa.bool_()),
}
SCHEMA = Schema(tuple(Field(name, *field) for name, field in FIELDS.items()), "ts")
ASKED = (
    *("upper(t)", "lower(t)", "length(t)", "trim(t)", "ltrim(t)", "rtrim(t)", "concat(t, u, i)", "t || u"),
    *("substring(t, i)", "substring(t, i, 2)", "substring(t, 2, i)", "replace(t, u)", "replace(t, u, 'q')"),
    *(
        "startswith(t, u)",
        "endswith(t, u)",
        "contains(t, u)",
        "t LIKE '%a_'",
        "t LIKE '%!%%' ESCAPE '!'",
        "t ILIKE 'A%'",
    ),
    *("t < u", "t >= u", "t BETWEEN 'a' AND u", "t LIKE '%\\%%'"),
    *("year(ts)", "quarter(ts)", "month(ts)", "day(ts)", "dayofweek(ts)", "weekday(ts)", "dayofyear(ts)"),
    *(
        "weekofyear(ts)",
        "hour(ts)",
        "minute(ts)",
        "second(ts)",
        "EXTRACT(SECOND FROM ts)",
        "EXTRACT(YEAROFWEEK FROM ts)",
    ),
    *(
        f"date_trunc('{unit}', ts)"
        for unit in ("year", "quarter", "month", "week", "day", "hour", "second", "millisecond")
    ),
    *("ts + INTERVAL 5 MINUTES", "ts - INTERVAL 13 MONTHS", "ts + INTERVAL 1 YEAR", "time_bucket('7 min', ts)"),
    *(
        f"CAST({column} AS {kind})"
        for column in "ixb"
        for kind in ("TINYINT", "INT", "BIGINT", "DOUBLE", "FLOAT", "BOOLEAN")
    ),
    *("CAST(i AS STRING)", "CAST(b AS STRING)", "CAST(ts AS STRING)", "CAST(t AS INT)", "CAST(t AS BOOLEAN)"),
    *("CAST(ts AS BIGINT)", "CAST(ts AS DOUBLE)", "CAST(i AS TIMESTAMP)", "CAST(x AS TIMESTAMP)"),
)


def bound(text: str) -> Expr:
    return bind(f"SELECT {text} AS c FROM s", {"s": SCHEMA}).query.outputs[0].expr


def rows() -> list[dict[str, object]]:
    of = random.Random(3)
    texts = ("a", "ab", " Ab ", "straße", "", "b%a", "ΑΣ", "12", "-7", "true", "F", "1e3", "q")
    makes = {
        "ts": lambda: of.randrange(-60_000_000_000_000_000, 250_000_000_000_000_000), "t": lambda: of.choice(texts),
        "u": lambda: of.choice(("", "a", "b", "ß")), "i": lambda: of.randrange(-9, 300),
        "x": lambda: of.choice((0.0, -1.5, of.uniform(-300, 300), 1e9)), "b": lambda: of.random() < 0.5,
    }  # fmt: skip
    return [{name: None if of.random() < 0.1 else make() for name, make in makes.items()} for _ in range(300)]


@pytest.mark.parametrize("text", ASKED)
def test_a_function_means_to_the_judge_what_it_means_to_the_oracle(text: str) -> None:
    given, expr = rows(), bound(text)
    columns = {
        f"v0_{at}": words(pa.chunked_array([pa.array([row[name] for row in given], kind)]), FIELDS[name][0])
        for at, (name, (_, kind)) in enumerate(FIELDS.items())
    }
    with workbench([expr]) as connection:
        connection.register("s", pa.table(columns))
        found = [row[0] for row in connection.execute(f"SELECT {Renderer([SCHEMA])(expr)} FROM s").fetchall()]
    assert found == [evaluate(expr, [row]) for row in given]


@pytest.mark.parametrize("text", ["CAST(x AS STRING)", "CAST(t AS DOUBLE)", "CAST(t AS TIMESTAMP)"])
def test_what_duckdb_casts_otherwise_is_refused(text: str) -> None:
    with pytest.raises(UsageError, match="verify cannot compute a CAST from"):
        Renderer([SCHEMA])(bound(text))
