"""Static relations of tables: what a stream is joined with, against DuckDB; what is refused."""

from __future__ import annotations

from collections import Counter

import duckdb
import numpy as np
import pyarrow as pa
import pytest

import slackwater as sw
from slackwater.core.errors import DataError, UsageError

PEOPLE = [{"id": 7, "name": "Ada", "vip": True}, {"id": 9, "name": "Bob", "vip": None}]
ORDERS = [{"ts": i, "customer": (7, 8, 9, None)[i % 4], "v": i} for i in range(8)]
ON = "JOIN people c ON o.customer = c.id"


def answered(query, people=PEOPLE, orders=ORDERS, **options):
    return sw.replay(query, {"o": orders, "people": sw.lookup(people, **options)})


def test_inner_and_left_joins_give_what_they_give_of_tables():
    query = f"SELECT o.v, c.name, c.vip FROM o {{}} {ON} WITH DELAY 1 SECOND"
    names = {0: ("Ada", True), 2: ("Bob", None), 4: ("Ada", True), 6: ("Bob", None)}
    rows = answered(query.format("LEFT")).results.select(["v", "name", "vip"]).to_pylist()
    assert [tuple(row.values()) for row in rows] == [(v, *names.get(v, (None, None))) for v in range(8)]
    rows = answered(query.format("")).results.to_pylist()
    assert [row["v"] for row in rows] == [0, 2, 4, 6]


def test_what_finds_nothing_is_filtered_and_still_moves_the_clock():
    orders = [{"ts": ts, "customer": customer} for ts, customer in ((1000, 7), (9000, 8), (2000, 7), (9100, 9))]
    query = f"SELECT COUNT(*) AS n FROM o [1 SECOND] {ON} WITH NO WAIT"
    streams = {"o": orders, "people": sw.lookup(PEOPLE)}
    answer = sw.replay(query, streams, epochs=sw.Epochs(tuples=1))
    assert answer.results["n"].to_pylist() == [1, 1]
    assert (answer.report["filtered"], answer.report["late"]) == (1, 1)


def test_columns_of_a_relation_are_keys_conditions_and_arguments():
    query = f"SELECT c.name, SUM(v) AS total FROM o [4 MS] {ON} WHERE c.name <> 'Bob' OR v > 3 GROUP BY c.name"
    rows = answered(query).results.select(["name", "total"]).to_pylist()
    assert sorted(tuple(row.values()) for row in rows) == [("Ada", 0), ("Ada", 4), ("Bob", 6)]


def test_a_relation_may_stand_beside_joins_and_below():
    streams = {
        "o": [{"ts": i, "arrival": 2 * i, "customer": 7 + i % 3, "k": i % 2} for i in range(6)],
        "p": [{"ts": i, "arrival": 2 * i + 1, "k": i % 2, "at": i % 2} for i in range(6)],
        "people": sw.lookup(PEOPLE),
        "places": sw.lookup([{"id": 0, "place": "Rome"}]),
    }
    query = (
        f"SELECT c.name, d.place, o.ts AS t FROM o [0 MS] {ON} JOIN p [0 MS] ON o.k = p.k"
        " LEFT JOIN places d ON p.at = d.id WITH DELAY 1 SECOND"
    )
    rows = sw.replay(query, streams).results
    names, places = ("Ada", None, "Bob"), ("Rome", None)
    wanted = [(names[i % 3], places[i % 2]) for i in range(6) if names[i % 3]]
    assert list(zip(rows["name"].to_pylist(), rows["place"].to_pylist(), strict=True)) == wanted
    query = f"SELECT COUNT(*) AS n FROM (SELECT o.k FROM o {ON}) j [1 SECOND] WITH COMPLETE"
    assert sw.replay(query, streams).results["n"].to_pylist() == [4]


@pytest.mark.parametrize("seed", range(4))
def test_rows_are_those_of_duckdb_whatever_is_there_twice(seed):
    random = np.random.default_rng(seed)

    def some(values, count):
        picked = random.integers(0, len(values), count)
        return [values[i] for i in picked]

    o = pa.table({"ts": range(60), "a": some([1, 2, 3, None], 60), "b": some(["x", "y", None], 60), "v": range(60)})
    c = pa.table(
        {"a": pa.array(some([1, 2, None, 5], 12), pa.int16()), "b": some(["x", "z", None], 12), "w": range(12)}
    )
    answer = sw.replay(
        "SELECT o.v, c.w FROM o LEFT JOIN c ON o.a = c.a AND c.b = o.b", {"o": o, "c": sw.lookup(c)}
    ).results
    with duckdb.connect() as connection:
        connection.register("o", o)
        connection.register("c", c)
        wanted = connection.execute("SELECT o.v, c.w FROM o LEFT JOIN c ON o.a = c.a AND c.b = o.b").fetchall()
    assert Counter(zip(answer["v"].to_pylist(), answer["w"].to_pylist(), strict=True)) == Counter(wanted)
    assert answer["v"].to_pylist() == sorted(answer["v"].to_pylist())


def test_a_plan_tells_what_is_read_of_a_relation():
    text = sw.explain(f"SELECT c.name FROM o {ON}", {"o": pa.schema([("ts", pa.int64()), ("customer", pa.int64())])},
                      people=sw.lookup(PEOPLE))  # fmt: skip
    assert "ships ts, c.name" in text
    assert "filter NOT c.id IS NULL" in text


@pytest.mark.parametrize(
    ("people", "query", "said"),
    [
        (PEOPLE + PEOPLE[:1], "JOIN people c ON o.customer = c.id", "static relation people has id = 7 2 times"),
        (PEOPLE, "JOIN people c ON o.customer = c.name", "keys are both whole numbers"),
        (PEOPLE, "JOIN people c ON o.customer = c.idd", "no 'idd' in static relation people; did you mean 'id'"),
        (PEOPLE, "JOIN people c ON o.customers = c.id", "there is no 'customers' in stream o; did you mean 'customer'"),
        (PEOPLE, "JOIN people v ON o.customer = v.id", "stream o has a column 'v'"),
        ([{"id": 7.0}], "JOIN people c ON o.customer = c.id", "keys are both whole numbers"),
        (7, "JOIN people c ON o.customer = c.id", "cannot be read as rows"),
    ],
)
def test_what_is_refused_is_said_by_its_name(people, query, said):
    with pytest.raises((DataError, UsageError), match=said):
        answered(f"SELECT 1 AS one FROM o {query}", people, unique=True)


def test_what_is_not_offered_is_refused():
    with pytest.raises(UsageError, match="refresh is not offered"):
        sw.lookup(PEOPLE, refresh="10 minutes")
    with pytest.raises(UsageError, match="a set of queries does not take"):
        sw.explain({"q": "SELECT v FROM o"}, {"o": ORDERS, "people": sw.lookup(PEOPLE)})
    with pytest.raises(UsageError, match="cannot be read as rows"):
        sw.live("SELECT v FROM o", {"o": pa.schema([("ts", pa.int64())]), "people": sw.lookup(PEOPLE)})
