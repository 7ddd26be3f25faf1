"""A query that is too long or too deep is refused in one sentence, at once, and never crashed on."""

from __future__ import annotations

import time

import pytest

from slackwater.core.errors import LONG_LINE, QueryError

from .streams import bound


def chain_of_names(count: int) -> str:
    names = ["n0 AS (SELECT v FROM s)", *(f"n{i} AS (SELECT v FROM n{i - 1})" for i in range(1, count))]
    return f"WITH {', '.join(names)} SELECT v FROM n{count - 1}"


@pytest.mark.parametrize(
    ("text", "message"),
    [
        (chain_of_names(600), "queries may stand 8 deep in each other"),
        (chain_of_names(2200), "queries may stand 8 deep in each other"),
        (chain_of_names(4000), "at most 20,000 words"),
        (chain_of_names(10_000), "at most 200,000 characters"),
        ("SELECT v FROM " + "(SELECT v FROM " * 3000 + "s" + ") j" * 3000, "nested too deeply"),
        ("SELECT v FROM s WHERE " + "(" * 9000 + "ok" + ")" * 9000, "nested too deeply"),
        ("SELECT " + "abs(" * 3000 + "v" + ")" * 3000 + " AS x FROM s", "nested too deeply"),
        ("SELECT " + "CASE WHEN ok THEN " * 900 + "1" + " END" * 900 + " AS x FROM s", "nested too deeply"),
        ("SELECT v FROM s WHERE " + "- " * 9000 + "1 > 0", "nested too deeply"),
        (" UNION ALL ".join(["SELECT v FROM s"] * 3000), "UNION ALL takes up to 8 queries, not 3000"),
        ("SELECT v FROM s WHERE key IN (" + ", ".join(map(str, range(15_000))) + ")", "at most 20,000 words"),
        ("SELECT v FROM s [" + "9" * 5000 + " s]", "a number has at most 400 digits"),
        ("SELECT v FROM s WHERE v > " + "9" * 5000, "a number has at most 400 digits"),
    ],
)
def test_what_is_too_large_is_refused_at_once(text: str, message: str) -> None:
    begun = time.process_time()
    with pytest.raises(QueryError) as refused:
        bound(text)
    assert message in str(refused.value)
    assert time.process_time() - begun < 3
    assert len(str(refused.value)) < 3 * LONG_LINE


def test_what_people_write_is_not_too_deep() -> None:
    bound("SELECT v FROM s WHERE " + "(" * 32 + "ok" + ")" * 32)
    bound(chain_of_names(8))
    bound('SELECT "case", s."case", v, s.v FROM odd s WHERE ' + " AND ".join(["s.Case > 1"] * 50))


def test_four_thousand_conditions_are_told_apart_quickly() -> None:
    text = "SELECT v FROM s WHERE " + " AND ".join(f"key <> {n}" for n in range(4000))
    begun = time.process_time()
    assert len(bound(text).query.streams[0].filters) == 4000
    assert time.process_time() - begun < 10


def test_a_very_long_line_is_shown_around_its_place() -> None:
    before, after = (", ".join(f"v AS {name}{i}" for i in range(1500)) for name in "xy")
    text = f"SELECT {before}, wrong, {after} FROM s"
    with pytest.raises(QueryError) as refused:
        bound(text)
    line, marks = str(refused.value).split("\n")[-2:]
    assert line[marks.index("^") :].startswith("wrong")
    assert marks.strip() == "^" * len("wrong")
    assert len(line) < LONG_LINE + 40
