"""Long IN lists and many computed columns: the same answers as ever, with code for the shapes alone."""

from __future__ import annotations

import math
from typing import Any

import pyarrow as pa
import pytest

from slackwater.expressions import filling
from tests.runtime.streams import Runtime, arrived

INT, FLOAT, TEXT = pa.int64(), pa.float64(), pa.string()
COLUMNS = {"k": INT, "v": INT, "x": FLOAT, "t": TEXT}
ROWS = [(("a", "b")[n % 2], 10 * n, n % 5, n, n / 2, f"w{n % 40}") for n in range(200)]
ROWS += [("a", 1990, None, None, None, None), ("b", 1991, 3, None, math.nan, None)]


def listed(values: Any) -> str:
    return ", ".join(map(str, values))


THIRDS = listed(range(0, 3000, 3))
HALVES = listed(k / 2 for k in range(1000))
TEXTS = listed(f"'w{n}'" for n in range(0, 2000, 2))


@pytest.mark.parametrize(
    ("where", "kept"),
    [
        (f"v IN ({THIRDS})", lambda v, x, t: v % 3 == 0),
        (f"v NOT IN ({THIRDS})", lambda v, x, t: v % 3 != 0),
        (f"v IN ({THIRDS}, NULL)", lambda v, x, t: v % 3 == 0),
        (f"v NOT IN ({THIRDS}, NULL)", lambda v, x, t: False),
        (f"v IN ({THIRDS}, 1.5, 7.0)", lambda v, x, t: v % 3 == 0 or v == 7),
        (f"x IN ({HALVES}) AND x IN ({THIRDS})", lambda v, x, t: x % 3 == 0),
        (f"t IN ({TEXTS})", lambda v, x, t: int(t[1:]) % 2 == 0),
        (f"CASE WHEN v IN ({THIRDS}) THEN t IN ({TEXTS}) ELSE v > 150 END",
         lambda v, x, t: int(t[1:]) % 2 == 0 if v % 3 == 0 else v > 150),
    ],
)  # fmt: skip
def test_a_filter_with_a_long_list_keeps_what_is_in_it(runtime: Runtime, where: str, kept: Any) -> None:
    streams = arrived(COLUMNS, *(("a", *row[1:]) for row in ROWS))
    query = f"SELECT v FROM a WHERE {where} WITH COMPLETE"
    expected = [v for _, _, _, v, x, t in ROWS if v is not None and kept(v, x, t)]
    assert [v for (v,) in runtime.run(query, streams, "1000").rows("v")] == expected


def test_a_join_condition_may_hold_a_long_list(runtime: Runtime) -> None:
    streams = arrived(COLUMNS, *ROWS)
    query = f"SELECT a.v AS av, b.v AS bv FROM a [1 SEC], b [1 SEC] WHERE a.k = b.k AND a.v + b.v IN ({THIRDS}) "
    query += "WITH COMPLETE"
    left, right = ([row for row in ROWS if row[0] == name and row[3] is not None] for name in "ab")
    expected = sorted(
        (a[3], b[3])
        for a in left
        for b in right
        if a[2] == b[2] and abs(a[1] - b[1]) <= 1000 and (a[3] + b[3]) % 3 == 0
    )
    assert sorted(runtime.run(query, streams, "1000").rows("av", "bv")) == expected
    assert runtime.verify(query, streams, "1000").missing == 0


@pytest.mark.local_only("the machine code of other processes cannot be counted")
def test_hundreds_of_computed_columns_are_compiled_by_their_shapes(
    runtime: Runtime, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(filling, "_code", {})
    streams = arrived(COLUMNS, *(("a", *row[1:]) for row in ROWS[:20]))
    forms = {"v * {} + {}": lambda v, x, p, q: v * p + q, "x / {} - {}": lambda v, x, p, q: x / p - q}
    forms["CASE WHEN v > {} THEN {} ELSE k END"] = lambda v, x, p, q: q if v > p else v % 5
    texts = list(forms)
    items = [(texts[n % 3].format(n + 1, n + 7), n) for n in range(300)]
    query = f"SELECT {', '.join(f'{text} AS c{n}' for text, n in items)} FROM a WITH COMPLETE"
    ran = runtime.run(query, streams, "1000").rows(*(f"c{n}" for n in range(300)))
    assert ran == [tuple(forms[texts[n % 3]](v, x, n + 1, n + 7) for n in range(300)) for *_, v, x, _ in ROWS[:20]]
    assert filling.shapes_known() == 3
