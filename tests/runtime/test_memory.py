"""What a run tells of the memory its windows take: in what it observes, in its report, and in print."""

from __future__ import annotations

import io
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
from rich.console import Console

import slackwater as sw
from slackwater.cli.run import show
from slackwater.core.errors import UsageError
from slackwater.core.memory import Memory, Resident
from slackwater.observe import report as memory_use
from slackwater.observe.report import MemoryUse
from slackwater.operators.pipeline import Epochs
from slackwater.plan.explain import explain
from slackwater.plan.planner import plan
from slackwater.runtime.local.run import LocalRun
from slackwater.sources.binding import bind_to_tables
from slackwater.sources.replay import replay

CHAIN = """SELECT j.k AS k FROM (SELECT a.k AS k FROM a [100 MS], b [100 MS] WHERE a.k = b.k) j [100 MS], c [100 MS]
WHERE j.k = c.k WITH NO WAIT OPTIONS (size_by = 'size')"""


def stream(first: int, *ts: int, size: object = 100, name: str = "size") -> pa.Table:
    """A stream of one key, whose rows arrive by turns with those of two others."""
    n = len(ts)
    return pa.table({"ts": ts, "arrival": [first + 3 * i for i in range(n)], "k": [1] * n, name: [size] * n})


THREE = {
    "a": stream(0, 10, 40, 70, size=1000),
    "b": stream(1, 20, 50, 80, size=200),
    "c": stream(2, 30, 60, 90, size=30),
}


def run_of(query: str, tables: dict[str, pa.Table], **how: Any) -> LocalRun:
    physical = plan(bind_to_tables(query, tables, "ts").query)
    return LocalRun(physical, replay(physical, tables, "ms"), Epochs(each_tuple=True), **how)


def before_the_end(query: str, tables: dict[str, pa.Table]) -> Memory:
    """What stands in the windows when all has come, and the input has not ended."""
    run = run_of(query, tables)
    (batch,) = run.replay.batches(1000)
    run._kernel.absorb(batch)
    for _ in run._kernel.advance():
        pass
    seen = run.observe().memory
    assert seen is not None
    return seen


def test_an_event_read_under_two_aliases_is_one_event() -> None:
    query = "SELECT p.k FROM a p [100 MS], a q [30 MS] WHERE p.k = q.k WITH NO WAIT"
    tables = {"a": stream(0, 10, 40, 70)}
    seen = before_the_end(query + " OPTIONS (size_by = 'size')", tables)
    assert seen.windows == {"p": Resident(3, 3, 300), "q": Resident(2, 2, 200)}
    assert seen.query == seen.nodes["p ⨝ q"] == Resident(5, 3, 300)
    assert seen.streams == {"a": Resident(3, 3, 300)}
    # Time, identity and key: three words are kept of an event that does not say its size.
    assert before_the_end(query, tables).query == Resident(5, 3, 3 * 3 * 8)


def test_a_chain_counts_members_of_combinations_once() -> None:
    """The last tuples of b and c still wait for their turn; j holds every pair of the others of a and b."""
    seen = before_the_end(CHAIN, THREE)
    assert seen.windows == {
        "j.a": Resident(3, 3, 3000),
        "j.b": Resident(2, 2, 400),
        "j": Resident(6, 5, 3400),
        "c": Resident(2, 2, 60),
    }
    assert seen.nodes == {"j": Resident(5, 5, 3400), "j ⨝ c": Resident(8, 7, 3460)}
    assert seen.query == Resident(13, 7, 3460)


def test_without_sizes_a_combination_weighs_the_words_it_takes() -> None:
    seen = before_the_end(CHAIN.replace("OPTIONS (size_by = 'size')", ""), THREE)
    assert seen.windows["j"] == Resident(6, 6, 6 * 3 * 8)
    assert seen.query.events == seen.query.tuples


def test_results_that_wait_to_leave_are_told_by_themselves() -> None:
    query = "SELECT DSTREAM a.k FROM a [100 MS], b [100 MS] WHERE a.k = b.k WITH NO WAIT"
    seen = before_the_end(query, {name: THREE[name] for name in "ab"})
    assert seen.windows["held results of a ⨝ b"] == Resident(6, 6, 6 * 3 * 8)


def test_the_report_has_memory_now_on_average_and_at_most() -> None:
    tables = {"s": stream(0, *range(0, 1000, 10), size=7), "t": stream(1, *range(0, 1000, 10), size=1)}
    run = run_of(
        "SELECT s.k FROM s [100 MS], t [0 MS] WHERE s.k = t.k WITH NO WAIT OPTIONS (size_by = 'size')", tables, batch=50
    )
    for _ in run.emissions():
        pass
    report = run.report()
    # After 50, 100, 150 and 200 arrivals a last tuple of t is still waited for; s holds what came within 100 ms.
    one = {"tuples": 12, "events": 12, "bytes": 78}
    s, t, nothing = ({"tuples": n, "events": n, "bytes": size} for n, size in ((11, 77), (1, 1), (0, 0)))
    looked = {"query": one, "streams": {"s": s, "t": t}, "nodes": {"s ⨝ t": one}, "windows": {"s": s, "t": t}}
    ended = {
        "query": nothing,
        "streams": {"s": nothing, "t": nothing},
        "nodes": {"s ⨝ t": nothing},
        "windows": {"s": nothing, "t": nothing},
    }
    assert report.as_json()["memory"] == {"samples": 4, "now": ended, "average": looked, "peak": looked}
    console = Console(file=io.StringIO(), width=200)
    show(report, Path("out"), console)
    printed = console.file.getvalue()  # type: ignore[attr-defined]
    assert "memory    12 events, 78 B in windows on average, at most 12 events, 78 B; now 0 events, 0 B" in printed


def test_a_run_looks_seldom_where_windows_are_large(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(memory_use, "FEW", 0)
    tables = {"s": stream(0, *range(2000)), "t": stream(1, *range(2000))}
    query = "SELECT s.k FROM s [1 HOUR], t [1 HOUR] WHERE s.k <> t.k WITH NO WAIT"
    run = run_of(query, tables, batch=100)
    for _ in run.emissions():
        pass
    assert run.report().as_json()["memory"]["samples"] == 3


def test_the_average_is_over_event_time_and_the_peak_of_every_number_its_own() -> None:
    use = MemoryUse()
    use.begin(0)
    use.note(Memory(Resident(10, 10, 10), windows={"a": Resident(9, 9, 9)}), clock=30, arrivals=5)
    use.note(Memory(Resident(2, 2, 99), windows={"a": Resident(1, 1, 1)}), clock=40, arrivals=6)
    reported = use.as_json(Memory(Resident(1, 1, 1)))
    assert reported["average"]["query"] == {"tuples": 8, "events": 8, "bytes": 32}
    assert reported["average"]["windows"]["a"] == {"tuples": 7, "events": 7, "bytes": 7}
    assert reported["peak"]["query"] == {"tuples": 10, "events": 10, "bytes": 99}
    assert (reported["now"]["query"]["events"], reported["samples"]) == (1, 2)


def test_a_run_that_was_over_at_once_still_has_a_report() -> None:
    nothing = {name: THREE[name].slice(0, 0) for name in "ab"}
    answer = sw.replay("SELECT a.k FROM a [1 s], b [1 s] WHERE a.k = b.k", nothing)
    assert (answer.report["memory"]["samples"], answer.report["memory"]["now"]["query"]["events"]) == (0, 0)


@pytest.mark.parametrize(
    ("table", "sentence"),
    [
        (stream(0, 10, name="mass"), "option size_by = 'size': there is no column of that name in p, q"),
        (
            stream(0, 10, size="big"),
            "option size_by = 'size': in p it is text; name a column with the bytes of an event",
        ),
    ],
)
def test_a_size_must_be_there_and_be_a_number(table: pa.Table, sentence: str) -> None:
    query = "SELECT p.k FROM a p [1 s], a q [1 s] WHERE p.k = q.k OPTIONS (size_by = 'size')"
    with pytest.raises(UsageError, match=sentence):
        sw.replay(query, {"a": table})


def test_streams_without_the_column_are_weighed_by_words_and_explain_says_so() -> None:
    tables = {"a": THREE["a"], "b": stream(1, 20, 50, 80, name="mass")}
    query = "SELECT a.k FROM a [1 s], b [1 s] WHERE a.k = b.k WITH NO WAIT OPTIONS (size_by = 'size')"
    seen = before_the_end(query, tables)
    assert seen.windows["a"] == Resident(3, 3, 3000)
    assert seen.windows["b"].bytes == 3 * 8 * seen.windows["b"].events
    reported = explain(plan(bind_to_tables(query, tables, "ts").query))
    assert "memory is counted by size, the bytes of an event; of b by the words kept" in reported


def test_results_are_the_same_whether_sizes_are_told_or_not() -> None:
    plain = CHAIN.replace("OPTIONS (size_by = 'size')", "")
    assert sw.replay(CHAIN, THREE).results.equals(sw.replay(plain, THREE).results)
    selected = "SELECT k, n FROM (SELECT k, COUNT(*) AS n FROM a [50 MS] GROUP BY k) x WITH NO WAIT"
    sized = sw.replay(f"{selected} OPTIONS (size_by = 'size')", THREE)
    assert sized.results.equals(sw.replay(selected, THREE).results)
