"""Static relations of tables: what a stream is joined with, against DuckDB; what is refused."""

from __future__ import annotations

from collections import Counter

import duckdb
import numpy as np
import pyarrow as pa
import pytest

import slackwater as sw
from slackwater.core.errors import DataError, UsageError
from slackwater.sources.lookups import looked_up
from slackwater.sources.refreshing import Relations

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
    with pytest.raises(UsageError, match="a list stays as it is; give a path"):
        sw.lookup(PEOPLE, refresh="10 minutes")
    with pytest.raises(UsageError, match=r"refresh='often'"):
        sw.lookup("people.csv", refresh="often")
    with pytest.raises(UsageError, match=r"people: refresh is for sw\.live and sw\.start"):
        answered(f"SELECT c.name FROM o {ON}", lambda: PEOPLE, refresh="1 s")


def test_queries_of_a_set_read_a_stream_with_their_relations_and_as_it_is():
    queries = {
        "named": f"SELECT c.name FROM o {ON}",
        "all": "SELECT v FROM o",
        "again": f"SELECT o.v, c.vip FROM o LEFT {ON}",
    }
    text = sw.explain(queries, {"o": ORDERS, "people": sw.lookup(PEOPLE)})
    assert "source o JOIN people c ON customer = id\n" in text
    assert "source o\n" in text


def test_advice_is_about_the_joined_stream():
    orders = [{"ts": ts, "customer": customer} for ts, customer in ((1000, 7), (9000, 9), (2000, 8), (3000, 7))]
    query = f"SELECT COUNT(*) AS n FROM o [1 SECOND] {ON}"
    advice = sw.advise(query, o=orders, people=sw.lookup(PEOPLE))
    # Of customer 8 there is no name, so losing that order costs nothing.
    assert advice.curve.at(0) == 2 / 3


class Opened:
    """A relation beside orders, whose clock and whose people a test sets."""

    def __init__(self, unique=False):
        self.people = PEOPLE[:1]
        streams = {"o": ORDERS, "people": sw.lookup(self._read, unique=unique, refresh="10 s")}
        _, joins = looked_up(f"SELECT c.name FROM o {ON}", streams)
        self.relations = Relations(joins, streams)
        self.name_at(0)

    def _read(self):
        if self.people is None:
            raise FileNotFoundError("people.csv")
        return self.people

    def name_at(self, now):
        """What customer 9 is called so many seconds after the beginning."""
        order = pa.table({"ts": [1], "customer": [9]})
        (found,) = self.relations.widened("o", order, round(now * 1_000_000))["c"].to_pylist()
        return found and found["name"]


def test_a_relation_is_read_anew_when_that_is_due():
    opened = Opened()
    assert opened.name_at(1) is None
    opened.people = PEOPLE
    assert [opened.name_at(now) for now in (9.9, 10)] == [None, "Bob"]
    opened.people = PEOPLE[:1]
    assert [opened.name_at(now) for now in (19, 45)] == ["Bob", None]


@pytest.mark.parametrize(
    ("people", "said"),
    [
        (None, "FileNotFoundError: people.csv"),
        ([{"id": 9, "named": "Eve", "vip": True}], "its columns were id int64, name string, vip bool, and are id"),
        ([{"id": 9.5, "name": "Eve", "vip": True}], "and are id double"),
        ([PEOPLE[1]] * 2, "people has id = 9 2 times"),
        (7, "cannot be read as rows"),
    ],
)
def test_what_is_no_version_leaves_the_last_one_in_force_and_is_said(people, said):
    opened = Opened(unique=True)
    opened.people = PEOPLE
    assert opened.name_at(10) == "Bob"
    opened.people = people
    with pytest.warns(UserWarning, match=f"people cannot be read anew, so its last version stays in force: .*{said}"):
        assert opened.name_at(20) == "Bob"
    opened.people = [{**PEOPLE[1], "name": "Eve"}]
    assert [opened.name_at(now) for now in (29, 30)] == ["Bob", "Eve"]


def test_a_live_query_reads_a_path_anew(tmp_path):
    file, schema = tmp_path / "people.csv", pa.schema([("ts", pa.int64()), ("customer", pa.int64())])
    file.write_text("id,name\n7,Ada\n")
    now = [0.0]
    streams = {"o": pa.table({"ts": [1], "customer": [7]}, schema), "people": sw.lookup(file, refresh="1 min")}
    query = sw.live(f"SELECT c.name FROM o {ON} WITH NO WAIT", streams, clock=lambda: now[0])
    file.write_text("id,name\n7,Eve\n")
    now[0] = 60.0
    query.push("o", [{"ts": 2, "customer": 7}])
    # Of a live query the rows of the freshest time are at hand.
    assert query.close().results["name"].to_pylist() == ["Eve"]
    assert query.report()["results"] == 2
