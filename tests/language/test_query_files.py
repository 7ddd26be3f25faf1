"""Files of named queries: every golden_files/NAME.sql binds to, or is refused with, what NAME.expected says."""

from __future__ import annotations

from pathlib import Path

import pyarrow as pa
import pytest

import slackwater as sw
from slackwater.core.errors import QueryError, UsageError
from slackwater.language.bind import bind
from slackwater.language.query_file import (
    MOST_CHARACTERS,
    MOST_QUERIES,
    is_query_file,
    queries_by_name,
    read_query_file,
)

from .streams import SCHEMAS, show

_CASES = sorted((Path(__file__).parent / "golden_files").glob("*.sql"))


def _bound(text: str) -> str:
    file = read_query_file(text)
    bound = file.of_each(lambda query: bind(query.text, SCHEMAS))
    shown = [
        f"query {name}\n" + "".join(f"  {line}\n" for line in show(one).splitlines()) for name, one in bound.items()
    ]
    return "".join(shown)


@pytest.mark.parametrize("case", _CASES, ids=lambda case: case.stem)
def test_a_file_binds_to_what_its_golden_says(case: Path) -> None:
    try:
        found = _bound(case.read_text())
    except QueryError as error:
        found = f"{error}\n"
    assert found == case.with_suffix(".expected").read_text()


def test_there_are_golden_files() -> None:
    assert len(_CASES) > 20


def test_a_query_of_a_file_binds_as_it_does_alone() -> None:
    text = "SELECT SUM(v) AS total, name FROM s [RANGE 1 SECOND] WHERE ok GROUP BY name WITH DELAY 1 SECOND"
    file = read_query_file(f"/* one */ CREATE QUERY q AS {text} ; -- the end")
    assert file.queries[0].text == text
    assert bind(file.queries[0].text, SCHEMAS) == bind(text, SCHEMAS)


def test_the_place_of_an_error_is_that_in_the_file() -> None:
    text = "CREATE QUERY a AS SELECT v FROM s;\n\nCREATE QUERY b AS SELECT v,\n       nothing FROM s;"
    with pytest.raises(QueryError) as caught:
        _bound(text)
    start, stop = caught.value.start, caught.value.stop
    assert start is not None
    assert caught.value.text[start:stop] == "nothing"
    assert "line 4:" in str(caught.value)


def test_a_stream_that_is_not_there_is_told_before_anything_is_bound() -> None:
    file = read_query_file(
        "CREATE QUERY a AS SELECT v FROM S;\nCREATE QUERY b AS SELECT v FROM (SELECT v FROM quotes) t;"
    )
    assert file.sources() == ("S", "quotes")
    with pytest.raises(QueryError, match="query b: there is no stream 'quotes'; the streams are s, u\n  line 2: "):
        file.check_streams(["s", "u"])
    file.check_streams(["s", "quotes"])


def test_queries_may_be_given_by_name() -> None:
    file = queries_by_name({"a": "SELECT v FROM s", "b": "SELECT w FROM s"})
    assert file.sources() == ("s",)
    with pytest.raises(QueryError, match=r"query b: no column 'w'.*\n  line 1: SELECT w FROM s\n +\^$"):
        file.of_each(lambda query: bind(query.text, SCHEMAS))
    with pytest.raises(QueryError, match="queries a and A differ in case alone"):
        queries_by_name({"a": "SELECT v FROM s", "A": "SELECT v FROM s"})
    with pytest.raises(UsageError, match="there is no query"):
        queries_by_name({})
    with pytest.raises(UsageError, match="called by a text"):
        queries_by_name({"": "SELECT v FROM s"})


def test_errors_that_have_no_place_name_the_query_too() -> None:
    file = read_query_file("CREATE QUERY a AS SELECT v FROM s; CREATE QUERY b AS SELECT v FROM s;")

    def make(query: object) -> None:
        if query == file.queries[1]:
            raise UsageError("there is no such option")

    with pytest.raises(UsageError, match=r"^query b: there is no such option$"):
        file.of_each(make)


def test_a_file_is_told_from_a_query() -> None:
    files = ("CREATE QUERY q AS SELECT v FROM s", "  -- a note\n create query", "/* x */ CREATE", "CREATE 'x")
    queries = ("SELECT v FROM s", "", "SELECT created FROM s", "EXPLAIN SELECT v FROM create", "SELECT 'create")
    assert [is_query_file(text) for text in (*files, *queries)] == [True] * len(files) + [False] * len(queries)


def test_what_is_too_long_is_refused() -> None:
    one = "CREATE QUERY q{} AS SELECT v FROM s;"
    assert len(read_query_file("\n".join(map(one.format, range(200)))).queries) == 200
    with pytest.raises(QueryError, match=f"at most {MOST_QUERIES:,} queries"):
        read_query_file("\n".join(map(one.format, range(MOST_QUERIES + 1))))
    with pytest.raises(QueryError, match="characters"):
        read_query_file(" " * (MOST_CHARACTERS + 1))
    with pytest.raises(UsageError, match="not a int"):
        read_query_file(7)  # type: ignore[arg-type]


def test_a_file_or_its_text_gives_queries_by_name(tmp_path: Path) -> None:
    text = "-- both\nCREATE QUERY a AS SELECT v FROM s;\nCREATE QUERY b AS SELECT ok FROM s;\n"
    path = tmp_path / "queries.sql"
    path.write_text(text)
    assert sw.query_file(text) == sw.query_file(path) == sw.query_file(str(path)) == read_query_file(text).texts()
    with pytest.raises(UsageError, match=r"nowhere\.sql: this cannot be read: No such file"):
        sw.query_file("nowhere.sql")
    path.write_text("SELECT v FROM s")
    with pytest.raises(QueryError, match="needs a name"):
        sw.query_file(path)


def test_several_queries_are_explained_as_one_plan() -> None:
    ticks = {"s": pa.table({"ts": [1], "v": [2]})}
    text = "CREATE QUERY a AS SELECT v FROM s WHERE v > 1; CREATE QUERY b AS SELECT v FROM s WHERE 1 < v WITH NO WAIT"
    told = sw.explain(text, ticks)
    assert told == sw.explain(sw.query_file(text), ticks)
    assert told.count("filter v > 1, for a, b") == 1
    with pytest.raises(QueryError, match="query b: no column 'w'"):
        sw.explain({"a": "SELECT v FROM s", "b": "SELECT w FROM s"}, ticks)
