"""Queries of joins whose windows follow rates: the same rows in any order of streams, and what they keep."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import permutations, product

import numpy as np
import pyarrow as pa
import pytest

import slackwater as sw
from papers.experiments.rate_runs import Watched, watch
from papers.workloads import WORKLOADS
from slackwater.core.errors import UsageError
from slackwater.plan.planner import plan
from slackwater.sources.binding import bind_to_tables, expected_of, rate_of
from tests.runtime.streams import Runtime, arrived

COLUMNS = {"k": pa.int64(), "v": pa.int64()}
NEAR = 400
COUNT = 16


def three_streams() -> dict[str, pa.Table]:
    rng = np.random.default_rng(3)
    times = np.sort(rng.choice(4000, 3 * COUNT, replace=False)).tolist()
    streams = rng.permutation(np.repeat(list("abc"), COUNT)).tolist()
    rows = enumerate(zip(streams, times, strict=True))
    return arrived(COLUMNS, *((stream, ts, ts % 2, number) for number, (stream, ts) in rows))


def rows_of(table: pa.Table) -> list[tuple[int, ...]]:
    return list(zip(*(table.column(name).to_pylist() for name in ("ts", "k", "v")), strict=True))


def test_any_two_members_are_near_whatever_the_order_of_streams(runtime: Runtime) -> None:
    """By trying all combinations: windows hold everything here, for no interval is over before the end."""
    streams = three_streams()
    near = sorted(
        (a[2], b[2], c[2])
        for a, b, c in product(*(rows_of(streams[name]) for name in "abc"))
        if max(a[0], b[0], c[0]) - min(a[0], b[0], c[0]) <= NEAR and a[1] == c[1]
    )
    assert 20 < len(near) < 100
    orders = list(permutations("abc")) if runtime.offered("1") else [("b", "c", "a")]
    for order in orders:
        query = f"""SELECT a.v AS a, b.v AS b, c.v AS c FROM {", ".join(f"{name} [RATE 1 HOUR]" for name in order)}
            MATCH TIME WITHIN {NEAR} MS WHERE a.k = c.k WITH DELAY 1 SECOND OPTIONS (order = 'written')"""
        assert sorted(runtime.run(query, streams, "5").rows("a", "b", "c")) == near


def test_windows_that_change_are_the_same_however_the_input_is_cut(runtime: Runtime) -> None:
    """Two joins, with windows of a few tuples and epsilon found at run time; the slack covers all delays."""
    streams = three_streams()
    query = """SELECT a.v AS a, b.v AS b, c.v AS c FROM a [RATE 400 MS], b [RATE 300 MS], c [RATE 500 MS] MATCH TIME
        WITH DELAY 1 SECOND OPTIONS (order = 'written')"""
    wanted = sw.replay(query, streams, epochs=sw.Epochs(each_tuple=True))
    rows = sorted(zip(*(wanted.results.column(name).to_pylist() for name in "abc"), strict=True))
    assert all(one["resized"] > 10 for one in wanted.report["rates"])
    assert len(rows) > 15
    for epoch in ("9", "30"):
        ran = runtime.run(query, streams, epoch)
        assert sorted(ran.rows("a", "b", "c")) == rows
        assert ran.report["rates"] == wanted.report["rates"]


BY_ARRIVAL = "SELECT a.v, b.v AS w FROM a [RATE 1 s BY ARRIVAL], b [RATE 1 s BY ARRIVAL] MATCH TIME WITH DELAY 1 SECOND"


def slowly() -> dict[str, pa.Table]:
    """Two streams with a tuple every 10 ms of event time, which comes every 100 ms."""
    at = np.arange(1000)
    return {
        name: pa.table({"ts": 10 * at, "v": at, "arrival": 2 * at + i, "heard": 100 * at + i})
        for i, name in enumerate("ab")
    }


def test_intervals_by_arrival_are_of_the_moments_at_which_tuples_came() -> None:
    sizes = {
        arrival_time: sw.replay(text, slowly(), arrival_time=arrival_time).report["rates"][0]["sizes"]
        for text, arrival_time in ((BY_ARRIVAL, "heard"), (BY_ARRIVAL.replace(" BY ARRIVAL", ""), None))
    }
    assert [round(size, -1) for size in sizes["heard"]] == [10, 10]
    assert [round(size, -1) for size in sizes[None]] == [100, 100]


def test_intervals_by_arrival_are_refused_where_arrivals_have_no_time(runtime: Runtime) -> None:
    with pytest.raises(UsageError, match="windows BY ARRIVAL need the moments at which rows arriv"):
        runtime.run(BY_ARRIVAL, slowly(), "10")
    with pytest.raises(UsageError, match=r"name the column that has them, with arrival_time='COLUMN' in a program"):
        sw.replay(BY_ARRIVAL, slowly())


@pytest.mark.parametrize("timed", [False, True])
def test_on_spark_intervals_by_arrival_need_an_idle_timeout(timed: bool) -> None:
    pytest.importorskip("pyspark", reason="the Spark runtime needs pyspark")
    from slackwater.runtime.spark.members import KeyGroups, member

    text = BY_ARRIVAL + (" OPTIONS (idle_timeout = '5 s')" if timed else "")
    physical = plan(bind_to_tables(text, slowly(), "ts").query)
    if timed:
        assert member("q", 0, physical, KeyGroups(1, 1), "ms", live=True).timed
        return
    with pytest.raises(UsageError, match=r"query q: windows BY ARRIVAL .* on Spark .* idle_timeout"):
        member("q", 0, physical, KeyGroups(1, 1), "ms", live=True)


def test_a_join_of_two_can_be_verified(runtime: Runtime) -> None:
    streams = {name: table for name, table in three_streams().items() if name != "c"}
    query = "SELECT a.v, b.v AS w FROM a [RATE 1 s], b [RATE 1 s] MATCH TIME WITH DELAY 1 SECOND"
    for count_only in (False, True):
        verdict = runtime.verify(query, streams, "5", count_only=count_only)
        assert (verdict.sound, verdict.recall_overall) == (True, 1.0)
        assert verdict.true_results > 10


@pytest.mark.local_only("what is emitted at once is what a runtime cuts, and only this one cuts nothing")
def test_a_join_whose_windows_change_thousands_of_times_in_one_run_can_be_verified(runtime: Runtime) -> None:
    """All is held until the end; windows of a few tuples change with nearly each of 12,000."""
    rng = np.random.default_rng(5)
    names, times = rng.permutation(np.repeat(["a", "b"], 6000)).tolist(), np.cumsum(rng.integers(1, 9, 12_000)).tolist()
    streams = arrived(COLUMNS, *((name, ts, ts % 2, ts) for name, ts in zip(names, times, strict=True)))
    query = "SELECT a.v, b.v AS w FROM a [RATE 40 MS], b [RATE 40 MS] MATCH TIME WITH DELAY 1 HOUR"
    verdict = runtime.verify(query, streams, "20000")
    assert (verdict.sound, verdict.recall_overall) == (True, 1.0)


@pytest.mark.local_only("it is refused before anything runs")
def test_a_chain_cannot_be_verified(runtime: Runtime) -> None:
    with pytest.raises(UsageError, match="one by one"):
        runtime.verify("SELECT a.v FROM a [RATE 1 s], b [RATE 1 s], c [RATE 1 s] MATCH TIME", three_streams())


def test_rates_are_read_off_recorded_streams_without_their_strays() -> None:
    times = np.arange(1000) * 100
    times[500] = 10**12
    assert rate_of(pa.chunked_array([times]), "ms") == pytest.approx(10, rel=0.01)
    assert rate_of(pa.chunked_array([[5]]), "ms") is None
    assert rate_of(pa.chunked_array([[5, 5]]), "ms") is None
    assert rate_of(pa.chunked_array([[None, 0, 1000, 2000]]), "ms") == 1.0


def test_what_a_tuple_weighs_is_the_mean_of_its_sizes_or_eight_bytes_a_column() -> None:
    table = pa.table({"ts": [0, 1000, 2000], "arrival": [0, 1, 2], "size": [100, 300, -7]})
    tables = {"a": table, "b": table.drop_columns("size")}
    query = "SELECT a.ts FROM a [RATE 1 s], b [RATE 1 s] MATCH TIME OPTIONS (size_by = 'size')"
    found = expected_of(bind_to_tables(query, tables, "ts").query, tables, "ms")
    assert (found["a"].rate, found["a"].bytes, found["b"].bytes) == (1.0, 200.0, 16.0)
    plain = bind_to_tables("SELECT a.ts FROM a [1 s], b [1 s]", tables, "ts").query
    assert expected_of(plain, tables, "ms") == {}, "nobody asks"


CAPS_LATER, CAPS_FIRST = ("metar", "acars", "caps", "nexrad"), ("acars", "caps", "metar", "nexrad")


def weather(names: Sequence[str]) -> str:
    read = ", ".join(f"{name} [RATE 5 MINUTES]" for name in names)
    return f"SELECT metar.id FROM {read} MATCH TIME WITH NO WAIT OPTIONS (order = 'written')"


def settled(seen: Watched) -> float:
    """Tuples in windows on average, after ten minutes."""
    later = [one.query.tuples for second, one in zip(seen.seconds, seen.memory, strict=True) if second > 600]
    return float(np.mean(later))


def test_joining_caps_first_keeps_more_than_joining_it_later_and_the_planner_knows() -> None:
    """001 Fig. 10 and 11, on the first hour, with one storm. What is kept is as expected, but for
    an eighth: windows hold what came at the fullest time of an interval, and are expected to hold its average."""
    tables = WORKLOADS["meteorology"](minutes=60).streams
    bound = bind_to_tables(weather(CAPS_LATER), tables, "ts").query
    (order,) = plan(bound, expected=expected_of(bound, tables, "ms")).orders
    expected = {tuple(order.aliases[number] for number in one.order): one.tuples for one in order.candidates}
    best = next(iter(expected))
    assert best == ("metar", "nexrad", "acars", "caps")
    kept = {names: settled(watch(weather(names), tables, 60)) for names in (best, CAPS_LATER, CAPS_FIRST)}
    assert kept[best] < 0.9 * kept[CAPS_LATER]
    assert kept[CAPS_LATER] < 0.9 * kept[CAPS_FIRST]
    assert all(kept[names] == pytest.approx(expected[names], rel=0.125) for names in (best, CAPS_LATER))
