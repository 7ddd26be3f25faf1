"""Every function that Spark SQL has too gives Spark's answer, on a thousand random rows with nulls among them.

All functions are asked in one SELECT, of the engine and of Spark, over the same rows. Casts are compared with
`try_cast`, and the zone of Spark's session is UTC. A NaN of Spark's is a null here, as everywhere in an expression.
"""

from __future__ import annotations

import math
import random
from typing import Any

import pyarrow as pa
import pytest

from slackwater.expressions.textual import time_as_text
from slackwater.runtime.local.answer import replay

pytestmark = pytest.mark.xdist_group("spark")

ROWS = 1000
LETTERS = "aAbBzZ09 _%\\-+.,'\"éÉßÄöøıİñΣσςΩωЖжДд中文語ﬁŉǆ\U0001f600\U00010428\tKᾳ"
WORDS = ("", " ", "a", "ab", "Ab", "bA", "abc", "straße", "STRASSE", "  padded  ", "\ttab", "x%y", "a_b", "ΑΣ", "ΣΑΣ β")
PATTERNS = ("%", "_", "a%", "%b", "%a%", "_b%", "%\\%%", "%\\_%", "ab", "", "%ß%", "%σ%", "__", "%%a_%")
NUMBERS = (
    *("0", "1", "-1", "+7", "007", " 12 ", "127", "128", "-128", "-129", "32767", "32768", "2147483647", "2147483648"),
    *("9223372036854775807", "9223372036854775808", "-9223372036854775807", "1.5", "-.5", "5.", "1e3", "1E-5", "1e400"),
    *(
        "-1e400",
        "inf",
        "-Infinity",
        "NaN",
        "1d",
        "2F",
        "0x1p3",
        "0x10",
        "",
        "-",
        "+",
        "abc",
        "1 2",
        "1_0",
        "\t7\n",
        "٣",
    ),
    *("true", "T", "yes", "Y", "false", "F", "no", "n", "on", " TRUE ", "truee", "1,5", "--1", "1e", "e1", "1L"),
)
MOMENTS = (
    *("2024", "2024-1", "2024-01-", "2024-02-30", "2024-13-01", "2024-01-02T", "2024-01-02 3", "2024-01-02 3:4"),
    *("2024-01-02 3:", "2024-01-02 03:04:05.", "2024-01-02 03:04:05.123456789", "2024-01-02T03:04Z"),
    *("2024-01-02T03:04:05Z", "2024-01-02T03:04:05+1", "2024-01-02T03:04:05+1:3", "2024-01-02T03:04:05 +01:30"),
    *("2024-01-02T03:04:05-01:30:15", "2024-01-02T03:04:05 UTC+2", "2024-01-02T03:04:05GMT-02:00", "0000-01-01"),
    *("2024-01-02T03:04:05 Europe/Berlin", "2024-07-02T03:04:05 Europe/Berlin", "2024-01-02T03:04:05 PST"),
    *("2024-01-02 24:00:00", "2024-01-02 23:60:00", "-0001-01-02", "12345-01-01", "999-01-01", "now", "epoch"),
    *("2024-01-02 03:04:05+19:00", "2024-01-02 03:04:05+18:00", "2024/01/02", "2024-01-02Z", "2024--02", " 2024 "),
    *("1800-01-01 00:00:00 Europe/Berlin", "2024-03-31 02:30:00 Europe/Berlin", "2024-10-27 02:30:00 Europe/Berlin"),
    *("2024-01-02 03:04:05 Nowhere/Land", "2024-01-02 03:04:05z", "2024-001-01", "+2024-01-02", "2024-01-02T03:04:05+"),
)
UNITS = ("year", "yyyy", "quarter", "month", "MON", "week", "day", "DD", "hour", "minute", "second", "millisecond")
TIMES = ("year", "quarter", "month", "day", "dayofmonth", "dayofweek", "weekday", "dayofyear", "weekofyear")
FIELDS = ("YEAR", "YEAROFWEEK", "WEEK", "DOW", "SECOND")
INTERVALS = (
    *("INTERVAL 5 MINUTES", "INTERVAL '3' SECOND", "INTERVAL 1 DAY", "INTERVAL '1' WEEK", "INTERVAL 1 MONTH"),
    *("INTERVAL '13' MONTH", "INTERVAL 4 YEARS", "INTERVAL 250 MILLISECONDS"),
)
TARGETS = ("TINYINT", "SMALLINT", "INT", "BIGINT", "FLOAT", "DOUBLE", "BOOLEAN", "STRING")

OF_TEXT = (
    *("upper(t)", "lower(t)", "length(t)", "char_length(t)", "ucase(t)", "lcase(t)", "trim(t)", "ltrim(t)", "rtrim(t)"),
    *("substring(t, n)", "substring(t, n, m)", "substr(t, 2)", "substring(t, 0, 2)", "substring(t, -3, 2)"),
    *("concat(t, u)", "concat(t, '-', i, b)", "t || u", "t || '/' || i", "concat(t, NULL)"),
    *("replace(t, u)", "replace(t, 'a', u)", "replace(t, u, '-')", "startswith(t, u)", "endswith(t, u)"),
    *("contains(t, u)", "t LIKE p", "t ILIKE p", "t NOT LIKE '%a%'", "t LIKE '%!%%' ESCAPE '!'", "t ILIKE 'AB%'"),
    *("t < u", "t <= u", "t > u", "t >= u", "t BETWEEN u AND p", "t = u", "t <> u", "t < 'b'", "upper(t) = upper(u)"),
    *("coalesce(upper(t), u, 'none')", "nullif(lower(t), 'ab')", "CASE WHEN t LIKE 'a%' THEN upper(t) ELSE u END"),
    *("t IN ('ab', 'Ab', 'a')", "length(concat(t, u)) + n", "lower(NULL)", "coalesce(NULL, t)"),
    *("nvl(t, u)", "ifnull(upper(t), 'none')", "if(b, t, u)", "if(n > m, n, m)", "if(b, n, 0.5D)", "nvl(n, m)"),
)
OF_TIME = (
    *(f"{name}(ts)" for name in (*TIMES, "hour", "minute", "second")),
    *(f"EXTRACT({field} FROM ts)" for field in FIELDS),
    *("date_part('hour', ts)", "date_part('DOW', ts)"),
    *("ts + INTERVAL 1 MONTH > us", "ts - INTERVAL 5 MINUTES > TIMESTAMP '1970-01-01 00:00:00'"),
    *("ts - us < INTERVAL 1 DAY", "us - ts >= INTERVAL '36' HOUR", "ts < us", "ts BETWEEN us - INTERVAL 9 DAYS AND us"),
    *("ts - INTERVAL 1 HOUR < us", "ts > '2001-02-03'"),
)
MOMENTS_GIVEN = (
    *(f"date_trunc('{unit}', ts)" for unit in UNITS),
    *(f"ts {sign} {interval}" for interval in INTERVALS for sign in "+-"),
    *(
        "INTERVAL 5 MINUTES + ts",
        "ts + INTERVAL '1' MONTH - INTERVAL 2 DAYS",
        "date_trunc('hour', ts + INTERVAL 1 DAY)",
    ),
    *("TRY_CAST(k AS TIMESTAMP)", "TRY_CAST(y AS TIMESTAMP)", "TRY_CAST(w AS TIMESTAMP)", "TRY_CAST(q AS TIMESTAMP)"),
    *("coalesce(ts, us)", "least(ts, us)", "greatest(ts, us)"),
)
CASTS = tuple(f"TRY_CAST({column} AS {target})" for column in "ixbw" for target in TARGETS)
CASTS += tuple(f"TRY_CAST(ts AS {target})" for target in ("INT", "BIGINT", "DOUBLE", "FLOAT", "STRING"))
OF_NUMBERS = (
    *("least(i, n)", "greatest(i, n)", "least(x, y)", "greatest(x, y, 0.5D)", "least(n, m, NULL)", "greatest(NULL, m)"),
    *("abs(n)", "coalesce(n, m)", "nullif(n, m)", "abs(y)"),
)
PRINTED = "TRY_CAST(x AS STRING)"
GROUPS = {"text": OF_TEXT, "time": OF_TIME, "moments": MOMENTS_GIVEN, "casts": CASTS, "numbers": OF_NUMBERS}
ASKED = tuple(expr for group in GROUPS.values() for expr in group)


def values() -> dict[str, list[Any]]:
    """Columns of random values, a tenth of them null."""
    of = random.Random(11)

    def some(make: Any) -> list[Any]:
        return [None if of.random() < 0.1 else make() for _ in range(ROWS)]

    def text() -> str:
        if of.random() < 0.4:
            return of.choice(WORDS)
        return "".join(of.choice(LETTERS) for _ in range(of.randrange(12)))

    def moment() -> int:
        far = of.choice((10**9, 10**13, 10**16, 7 * 10**16, 30 * 10**16))
        return max(of.randrange(-far, far), -7 * 10**16)

    def whole() -> int:
        edge = of.choice((0, 127, 128, 32767, 32768, 2**31 - 1, 2**31, 2**62, 2**63 - 1))
        return of.choice((edge, -edge, of.randrange(-1000, 1000), of.randrange(-(2**63) + 1, 2**63)))

    def number() -> float:
        drawn = (of.uniform(-200, 200), of.uniform(-1e10, 1e10), of.uniform(-1, 1) * 10 ** of.randrange(-30, 30))
        return of.choice((*drawn, float(of.randrange(-300, 300)), 0.0, -0.0, math.inf, -math.inf, 0.5, 1e19, 2.0**31))

    def written() -> str:
        return of.choice(NUMBERS) if of.random() < 0.7 else str(of.choice((whole(), of.randrange(-300, 300))))

    def written_moment() -> str:
        return of.choice(MOMENTS) if of.random() < 0.5 else time_as_text(moment())

    return {
        "t": some(text), "u": some(lambda: of.choice(("", "a", "b", "ab", "ß", text()))),
        "p": some(lambda: of.choice(PATTERNS)), "n": some(lambda: of.randrange(-6, 7)),
        "m": some(lambda: of.randrange(-2, 6)), "i": some(whole), "x": some(number),
        "y": some(lambda: of.uniform(-1e9, 1e9)), "k": some(lambda: of.randrange(-(10**10), 10**10)),
        "b": some(lambda: of.random() < 0.5), "ts": some(moment), "us": some(moment), "w": some(written),
        "q": some(written_moment),
    }  # fmt: skip


KINDS = {"n": "bigint", "m": "bigint", "i": "bigint", "k": "bigint", "x": "double", "y": "double", "b": "boolean"}


@pytest.fixture(scope="module")
def rows() -> dict[str, list[Any]]:
    return values()


@pytest.fixture(scope="module")
def ours(rows: dict[str, list[Any]]) -> dict[str, list[Any]]:
    """What the engine gives for each expression."""
    arrow = {"bigint": pa.int64(), "double": pa.float64(), "boolean": pa.bool_(), "string": pa.string()}
    table = pa.table(
        {
            "at": pa.array(range(ROWS), pa.timestamp("ms")),
            **{
                name: pa.array(column, pa.timestamp("us") if name in ("ts", "us") else arrow[KINDS.get(name, "string")])
                for name, column in rows.items()
            },
        }
    )
    asked = [expr.replace("0.5D", "0.5") for expr in ASKED]
    items = ", ".join(f"{expr} AS c{at}" for at, expr in enumerate(asked))
    results = replay(f"SELECT {items} FROM s WITH NO WAIT", {"s": table}, time="at").results
    found = {}
    for at, expr in enumerate(ASKED):
        column = results.column(f"c{at}")
        found[expr] = column.cast(pa.int64()).to_pylist() if pa.types.is_timestamp(column.type) else column.to_pylist()
    return found


@pytest.fixture(scope="module")
def theirs(spark: Any, rows: dict[str, list[Any]]) -> dict[str, list[Any]]:
    """What Spark gives; times as microseconds, for Python knows no year beyond 9999."""
    kinds = {name: "bigint" if name in ("ts", "us") else KINDS.get(name, "string") for name in rows}
    given = spark.createDataFrame(
        list(zip(*rows.values(), strict=True)), ", ".join(f"{name} {kind}" for name, kind in kinds.items())
    )
    times = [f"timestamp_micros({name}) AS {name}" if name in ("ts", "us") else name for name in rows]
    asked = [f"unix_micros({expr})" if expr in MOMENTS_GIVEN else expr for expr in ASKED]
    named = [f"{expr} AS c{at}" for at, expr in enumerate(asked)]
    collected = given.coalesce(1).selectExpr(*times).selectExpr(*named).collect()
    return {expr: [row[at] for row in collected] for at, expr in enumerate(ASKED)}


def alike(given: Any, wanted: Any) -> bool:
    if isinstance(wanted, float) and math.isnan(wanted):
        return given is None
    if isinstance(given, float) and wanted is not None:
        return given == float(wanted)
    return type(given) is type(wanted) and given == wanted


def same(expr: str, given: Any, wanted: Any) -> bool:
    if expr == PRINTED and given is not None and wanted is not None:
        # A JVM before version 19 prints some floats with more digits than it takes to tell them.
        return bool(float(given) == float(wanted) and ("E" in given) == ("E" in wanted))
    return alike(given, wanted)


@pytest.mark.parametrize("group", GROUPS)
def test_a_function_gives_the_answer_of_spark(
    group: str, rows: dict[str, list[Any]], ours: dict[str, list[Any]], theirs: dict[str, list[Any]]
) -> None:
    wrong = {}
    for expr in GROUPS[group]:
        compared = zip(range(ROWS), ours[expr], theirs[expr], strict=True)
        differing = [(at, given, wanted) for at, given, wanted in compared if not same(expr, given, wanted)]
        if differing:
            wrong[expr] = differing[:3]
    read = {at: {name: column[at] for name, column in rows.items()} for found in wrong.values() for at, *_ in found}
    assert not wrong, f"{wrong}, reading {read}"
