"""Where answers are judged: each in a database of its own, also where one DuckDB serves many."""

from __future__ import annotations

from threading import Barrier, Thread

import duckdb
import pytest

from slackwater.core.errors import DataError
from slackwater.core.schema import Kind
from slackwater.expressions.functions import typed_call
from slackwater.expressions.tree import Column
from slackwater.verify.inputs import workbench

TEXT = typed_call("upper", (Column(0, "name", Kind.TEXT),))


def databases() -> set[str]:
    with workbench([]) as connection:
        return {name for (name,) in connection.execute("SELECT database_name FROM duckdb_databases()").fetchall()}


def tables_of(connection: duckdb.DuckDBPyConnection) -> set[str]:
    return {name for (name,) in connection.execute("SELECT table_name FROM duckdb_tables()").fetchall()}


def test_two_at_a_time_see_nothing_of_each_other() -> None:
    with workbench([]) as first, workbench([]) as second, workbench([TEXT]) as third:
        for number, connection in enumerate((first, second, third)):
            connection.execute(f"CREATE TABLE s0 AS SELECT {number} AS x, sw_floor(7, 5) AS five")
            connection.execute(f"CREATE TEMP TABLE t0 AS SELECT {number} AS x")
        for number, connection in enumerate((first, second, third)):
            assert connection.execute("SELECT s0.x, t0.x, five FROM s0, t0").fetchall() == [(number, number, 5)]


def test_threads_judge_beside_each_other() -> None:
    begin, seen = Barrier(4), {}

    def work(number: int) -> None:
        begin.wait()
        for turn in range(5):
            with workbench([]) as connection:
                connection.execute(f"CREATE TABLE s0 AS SELECT {number} AS x")
                seen[number, turn] = connection.execute("SELECT x FROM s0").fetchall()

    threads = [Thread(target=work, args=(number,)) for number in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert seen == {(number, turn): [(number,)] for number in range(4) for turn in range(5)}


def test_nothing_stays_of_an_answer_not_even_of_one_that_cannot_be_judged() -> None:
    before = len(databases())
    with (
        pytest.raises(DataError, match="the true answer of this query cannot be computed"),
        workbench([]) as connection,
    ):
        connection.execute("CREATE TABLE s0 AS SELECT 1 AS x; SELECT nothing FROM s0")
    with workbench([]) as connection:
        assert tables_of(connection) == set()
    assert len(databases()) == before


def test_a_function_is_known_only_where_it_was_asked_for() -> None:
    with workbench([TEXT]) as connection:
        assert connection.execute("SELECT sw_upper('é')").fetchall() == [("É",)]
    with pytest.raises(DataError, match="sw_upper"), workbench([]) as connection:
        connection.execute("SELECT sw_upper('é')")
