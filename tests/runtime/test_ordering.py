"""Strategies for order in a local run: the same answer, and what the report tells of them."""

from __future__ import annotations

from collections import Counter
from typing import Any

import numpy as np
import pyarrow as pa
import pytest

from slackwater.core.errors import QueryError, UsageError
from slackwater.language.bind import bind
from slackwater.operators.pipeline import Epochs
from slackwater.plan.explain import explain
from slackwater.plan.physical import PhysicalPlan
from slackwater.plan.planner import plan
from slackwater.runtime.local.run import BATCH, LocalRun
from slackwater.sources.files import schema_of
from slackwater.sources.replay import replay

pytestmark = pytest.mark.local_only("tuple release")
COUNT = 3 * BATCH
QUERY = "SELECT a.v AS av, b.v AS bv FROM a [2 SEC], b [2 SEC] WHERE a.k = b.k WITH DELAY 100 MS"


def streams() -> dict[str, pa.Table]:
    """Two streams of a tuple every 20 ms, one of them a second behind the other."""
    made = {}
    for number, name in enumerate("ab"):
        at = 20 * np.arange(COUNT // 2)
        jitter = np.random.default_rng(number).integers(0, 150, len(at))
        came = at + 1000 * number + jitter
        order = np.argsort(came, kind="stable")
        columns = {"ts": at, "k": np.arange(len(at)) % 50, "v": np.arange(len(at)), "arrival": 2 * came + number}
        made[name] = pa.table({key: column[order] for key, column in {**columns, "came": came}.items()})
    return made


TABLES = streams()


def planned(options: str = "", query: str = QUERY) -> PhysicalPlan:
    text = f"{query} OPTIONS ({options})" if options else query
    return plan(bind(text, {name: schema_of(name, table, "ts") for name, table in TABLES.items()}).query)


def ran(options: str = "", came: bool = True, epochs: Epochs | None = None, tick: float = 0.0) -> Any:
    """The rows and the report; with `tick`, every look at the clock takes so many seconds."""
    physical = planned(options)
    arrivals = replay(physical, TABLES, "ms", "came" if came else None)
    looks = iter(range(10**9))
    run = LocalRun(physical, arrivals, epochs or Epochs(each_tuple=True), lambda: tick * next(looks))
    rows = pa.concat_tables(run.tables())
    return rows, run.report().as_json()


@pytest.fixture(scope="module")
def sync() -> Any:
    return ran("ordering = 'sync'")


@pytest.mark.parametrize("shape", ["multiway", "binary"])
def test_filter_gives_the_answer_of_sync_and_holds_results_for_their_turn(sync: Any, shape: str) -> None:
    rows, report = ran(f"ordering = 'filter', shape = '{shape}'")
    order = [("_ts", "ascending"), ("av", "ascending"), ("bv", "ascending")]
    assert rows.sort_by(order).equals(sync[0].sort_by(order))
    assert rows["_ts"].to_pylist() == sync[0]["_ts"].to_pylist()
    reported = report["ordering"]
    assert (reported["asked"], reported["strategy"], reported["switches"], reported["held_results"]) == (
        "filter",
        "filter",
        0,
        0,
    )
    assert reported["most_held_results"] > 10
    assert (report["late"], report["in_time"]) == (sync[1]["late"], sync[1]["in_time"])


def test_the_report_tells_what_a_tuple_takes_where_arrival_times_are_known(sync: Any) -> None:
    waiting = sync[1]["response_ms"]["waiting"]
    # The first stream waits for the second, a second behind; on average that is half a second a tuple, and the slack.
    assert 500 < waiting < 800
    assert sync[1]["ordering"] is None
    _, report = ran(came=False)
    assert report["response_ms"] is None
    assert (report["ordering"]["strategy"], report["ordering"]["load"]) == ("sync", None)


def test_adaptive_switches_when_the_work_takes_too_long(sync: Any) -> None:
    # A batch of arrivals is 82 s long. Looking at the clock twice for it makes 40 s of work, and so a load of .25.
    for alpha, strategy in ((0.1, "filter"), (0.9, "sync")):
        rows, report = ran(f"alpha = {alpha}", tick=20.0)
        assert report["ordering"]["strategy"] == strategy
        assert rows["_ts"].to_pylist() == sync[0]["_ts"].to_pylist()


@pytest.mark.parametrize("option", ["ordering = 'adaptive'", "alpha = 0.2"])
def test_in_epochs_what_would_do_nothing_is_refused(option: str) -> None:
    with pytest.raises(UsageError, match=f"option {option} does nothing in epochs"):
        ran(option, epochs=Epochs(tuples=100))


@pytest.mark.parametrize("epochs", [Epochs(tuples=100), Epochs(span=700_000)])
def test_in_epochs_filter_joins_on_arrival_and_gives_the_same_in_the_same_order(epochs: Epochs) -> None:
    plain, before = ran("ordering = 'sync'", epochs=epochs)
    rows, report = ran("ordering = 'filter'", epochs=epochs)
    assert rows["_ts"].equals(plain["_ts"])
    assert Counter(map(str, rows.to_pylist())) == Counter(map(str, plain.to_pylist()))
    assert report["late"] == before["late"]
    assert report["latency_ms"] == before["latency_ms"]
    assert report["ordering"]["most_held_results"] > 0


def test_in_epochs_tuples_are_joined_in_their_turn() -> None:
    plain, _ = ran("ordering = 'sync'", epochs=Epochs(tuples=100))
    rows, report = ran("", epochs=Epochs(tuples=100))
    assert rows.equals(plain)
    assert report["ordering"] is None


@pytest.mark.parametrize(
    ("options", "says"),
    [
        ("ordering = 'never'", "there is sync, filter, adaptive"),
        ("alpha = 1", "at least 0 and below 1"),
        ("alpha = 1.5, ordering = 'adaptive'", "at least 0 and below 1"),
        ("alpha = 0.2, ordering = 'sync'", "option alpha is for ordering = 'adaptive'"),
        ("ordering = 'filter', join = 'hash'", "is not for join = 'hash'"),
    ],
)
def test_what_does_not_apply_is_refused(options: str, says: str) -> None:
    with pytest.raises((UsageError, QueryError), match=says):
        planned(options)


@pytest.mark.parametrize("option", ["ordering = 'filter'", "ordering = 'adaptive'", "alpha = 0.2"])
@pytest.mark.parametrize(
    ("query", "what"),
    [
        ("SELECT a.v FROM a [ROWS 5], b [5 SEC] WHERE a.k = b.k", "windows of rows"),
        ("SELECT DSTREAM a.v FROM a [5 SEC], b [5 SEC] WHERE a.k = b.k", "DSTREAM"),
    ],
)
def test_windows_of_rows_and_results_held_take_tuples_in_their_turn(query: str, what: str, option: str) -> None:
    with pytest.raises(UsageError, match=f"does not go with {what}"):
        planned(option, query)
    assert "order:" not in explain(planned("", query))


@pytest.mark.parametrize("option", ["ordering = 'sync'", "alpha = 0.2"])
def test_aggregates_and_selections_have_no_ordering(option: str) -> None:
    with pytest.raises(UsageError, match="for joins alone"):
        planned(option, "SELECT SUM(v) FROM a [1 SEC]")
    with pytest.raises(UsageError, match="joins of two streams or more"):
        planned("ordering = 'filter'", "SELECT v FROM a")


def test_explain_says_how_results_are_brought_into_order() -> None:
    assert "order: adaptive (the default)" in explain(planned())
    assert "from alpha = 0.5 on" in explain(planned("alpha = 0.5"))
    assert "saves 33%" in explain(planned("alpha = 0.5"))
    assert "order: filter" in explain(planned("ordering = 'filter'"))
    assert "in epochs" in explain(planned("ordering = 'filter'"))
    assert "order:" not in explain(planned("join = 'hash'"))
