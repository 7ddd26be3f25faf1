"""A tree that is written as text is read as the same tree, and means the same."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest
import sqlglot
from hypothesis import given
from hypothesis import strategies as st

from slackwater.core.errors import QueryError
from slackwater.language.bind import Bound
from slackwater.language.dialect import Slackwater, parse, written
from slackwater.language.nodes import Clause, place_of
from slackwater.language.query_file import is_query_file, query_file
from tests.effort import tried

from .streams import bound

_HERE = Path(__file__).parent
_EXPRESSIONS = (
    "v IS NOT NULL", "ok IS NOT FALSE", "key NOT IN (1, 2)", "v NOT BETWEEN 1 AND 2", "name NOT LIKE 'a%'",
    "name ILIKE 'a!%' ESCAPE '!'", "NOT v > 1 AND ok OR ok", "- - v", "(v + 1) * 2 - v / 2 % 3", "name || 'x' || 'y'",
    "v != 1", "v == 1", "key::string", "v::double precision", "'2024-01-01'::timestamp", "TIMESTAMP '2024-01-01'",
    "TRY_CAST(name AS INT)", "CAST(v AS double precision)", "ts + INTERVAL 5 SECONDS", "EXTRACT(year FROM ts)",
    "ts - INTERVAL '1 month 2 days'", "CASE key WHEN 1 THEN 'a' ELSE 'b' END", "CASE WHEN ok THEN v END", "'it''s'",
    "'a\\b'", '"name"', 's."v"', "`v`", "1.5e3", "NULL", "MIN(v, 1)",
)  # fmt: skip


_FORMS = (
    "({})", "NOT {}", "- {}", "abs({})", "{} IS NOT NULL", "{} IS TRUE", "{}::string", "CAST({} AS DOUBLE)",
    "{} + {}", "{} - {}", "{} * {}", "{} / {}", "{} % {}", "{} || {}", "{} = {}", "{} <> {}", "{} <= {}", "{} AND {}",
    "{} OR {}", "{} LIKE {}", "{} NOT ILIKE {}", "least({}, {})", "{} IN ({}, {})", "{} NOT IN ({}, {})",
    "{} BETWEEN {} AND {}", "{} NOT BETWEEN {} AND {}", "CASE WHEN {} THEN {} ELSE {} END",
    "CASE {} WHEN {} THEN {} END", "{} + INTERVAL 5 SECONDS", "EXTRACT(HOUR FROM {})",
)  # fmt: skip
_VALUES = ("v", "s.key", '"name"', "ok", "ts", "1", "2.5", ".5", "1e3", "'x'", "'it''s'", "NULL", "TRUE")


@st.composite
def _formed(draw: st.DrawFn, inner: st.SearchStrategy[str]) -> str:
    form = draw(st.sampled_from(_FORMS))
    return form.format(*(draw(inner) for _ in range(form.count("{}"))))


def _accepted() -> list[str]:
    """The golden queries that are not refused, those of files one by one."""
    paths = [path for folder in ("golden", "golden_files") for path in sorted((_HERE / folder).glob("*.sql"))]
    found = []
    for path in paths:
        text = path.read_text()
        try:
            queries = list(query_file(text).values()) if is_query_file(text) else [text]
            found += [(query, bound(query))[0] for query in queries]
        except QueryError:
            continue
    return found


def meaning(text: str) -> Bound:
    return replace(bound(text), text="")


@pytest.mark.parametrize("text", [*_accepted(), *(f"SELECT {one} FROM s" for one in _EXPRESSIONS)])
def test_what_is_written_is_read_as_the_same_tree(text: str) -> None:
    query = parse(text)
    again = written(query)
    assert parse(again) == query
    assert written(parse(again)) == again
    assert meaning(again) == meaning(text)


@given(st.recursive(st.sampled_from(_VALUES), lambda inner: _formed(inner), max_leaves=8))
@tried(200, deadline=None)
def test_any_expression_is_read_again_as_it_is_written(expression: str) -> None:
    text = f"SELECT {expression} FROM s"
    try:
        query = parse(text)
    except QueryError:
        return
    again = written(query)
    assert parse(again) == query
    assert written(parse(again)) == again
    try:
        meant = meaning(f"SELECT {expression} AS x FROM s")
    except QueryError:
        return
    assert meaning(written(parse(f"SELECT {expression} AS x FROM s"))) == meant


def test_there_are_accepted_queries() -> None:
    assert len(_accepted()) > 90


def test_the_dialect_is_one_of_sqlglot() -> None:
    tree = sqlglot.parse_one("SELECT v FROM s [5 s] WITH RECALL 0.9 OVER 1 MINUTE", dialect=Slackwater)
    assert tree.sql(dialect=Slackwater) == "SELECT v FROM s [RANGE 5 s] WITH RECALL 0.9 OVER 1 min"


def test_trees_of_other_targets_differ() -> None:
    query = "SELECT a.v FROM a [5 s], b [5 s] WITH RECALL {} OVER 1 MINUTE OPTIONS (max_ahead = {} s)"
    assert parse(query.format("0.9", 1)) == parse(query.format("90%", 1))
    assert parse(query.format("0.9", 1)) != parse(query.format("0.8", 1))
    assert parse(query.format("0.9", 1)) != parse(query.format("0.9", 2))


def test_every_clause_knows_its_place() -> None:
    text = "SELECT RSTREAM EVERY 1 s a.v AS w FROM a [5 s], b [RANGE 2 s] WHERE a.key = b.key WITH NO WAIT"
    places = {
        type(node).__name__: text[slice(*place_of(node))] for node in parse(text).walk() if isinstance(node, Clause)
    }
    assert places == {
        "Select": "SELECT RSTREAM EVERY 1 s a.v AS w FROM a [5 s], b [RANGE 2 s] WHERE a.key = b.key",
        "RelationToStream": "RSTREAM EVERY 1 s",
        "Item": "a.v AS w",
        "Stream": "b",
        "Window": "[RANGE 2 s]",
        "Target": "WITH NO WAIT",
    }
