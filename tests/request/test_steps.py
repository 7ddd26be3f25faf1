"""A program asks a running query for its next time step."""

from __future__ import annotations

import json
import threading
import time
from datetime import timedelta
from itertools import pairwise
from typing import Any

import pyarrow as pa
import pytest

import slackwater as sw
from slackwater.core.errors import DataError, QueryError, SlackwaterError, UsageError
from tests.kit.oracle_steps import freshest
from tests.request.streams import BOTH, COLUMNS, JOIN, Wall, at, fed, rows, seen


def test_a_step_has_all_rows_of_the_freshest_time_of_which_no_more_can_come() -> None:
    live = fed(f"{JOIN} WITH NO WAIT", ("radar", rows((1000,), (2000,), (3000,))), ("metar", rows((1500,), (2000,))))
    # Another row at 2000 may come, and one at 1500 may not.
    assert seen(live.next(), "rv", "mv") == (1500, {(1.0, 1.5): 1})
    live.push("metar", rows((2000,), (2500,)))
    assert seen(live.next(), "rv", "mv") == (2000, {(1.0, 2.0): 2, (2.0, 2.0): 2, (2.0, 1.5): 1})


def test_a_step_is_newer_than_what_it_is_asked_to_be_after() -> None:
    live = fed(f"{JOIN} WITH NO WAIT", ("radar", rows((1000,), (9000,))), ("metar", rows((1500,), (8000,))))
    step = live.next()
    assert step is not None
    assert live.next(after=step.time) is None
    assert live.next(after=at(1499)) is step
    assert live.next() is step


@pytest.mark.parametrize(
    "asked", [{"after": "1970-01-01"}, {"after": 5}, {"timeout": "5 s"}, {"timeout": float("nan")}]
)
def test_who_asks_with_something_else_than_times_is_told(asked: dict[str, Any]) -> None:
    with pytest.raises(UsageError, match=f"{next(iter(asked))}: .* is no "):
        fed(f"{JOIN} WITH NO WAIT").next(**asked)


def test_slack_is_waited_for() -> None:
    live = fed(f"{JOIN} WITH DELAY 1 SECOND", ("radar", rows((1000,), (2600,))), ("metar", rows((1500,), (2500,))))
    assert live.next() is None
    live.push("metar", rows((2600,)))
    assert seen(live.next(), "mv") == (1500, {(1.5,): 1})


def test_a_poisoned_row_is_in_no_step_and_frees_nothing() -> None:
    live = fed(f"{JOIN} WITH NO WAIT OPTIONS (max_ahead = 1 MINUTE)", patience="3 seconds")
    live.push("metar", rows((1000,)))
    live.push("radar", rows((1000,), (2000,), (900_000,)))
    assert live.next() is None
    for second in range(3, 1000, 30):
        live.push("radar", rows((1000 * second,)))
    step = live.next()
    assert step is not None
    assert step.time == at(963_000)
    assert live.take_side_outputs().select(["stream", "reason"]).to_pylist() == [{"stream": "r", "reason": "ahead"}]


def test_late_and_rejected_rows_are_counted_and_can_be_had() -> None:
    live = fed(f"{JOIN} WITH NO WAIT", ("radar", rows((1000,), (5000,))), ("metar", rows((4000,))))
    live.push("radar", pa.table([[None, 2000], [1, 1], [0.0, 7.0]], schema=COLUMNS))
    pending = live.take_side_outputs()
    assert pending.column("reason").to_pylist() == ["null_time", "late"]
    assert '"v": 7.0' in pending.column("row")[1].as_py()
    assert live.take_side_outputs().num_rows == 0
    live.push("metar", rows((3000,)))
    answer = live.close()
    assert answer.late["m"].num_rows == 1
    report = answer.report
    assert (report["late"], report["rejected_reasons"], report["held"]) == (2, {"null_time": 1}, 0)
    assert report["tuples"] == report["in_time"] + report["late"] + report["rejected"] == 6


def test_with_an_idle_timeout_silence_lets_whole_steps_out() -> None:
    wall = Wall()
    live = sw.live(f"{JOIN} WITH NO WAIT OPTIONS (idle_timeout = 10 SECONDS)", BOTH, clock=wall)
    live.push("metar", rows((1000,)))
    live.push("radar", rows((1000,), (2000,), (2500,)))
    assert live.next() is None
    wall.seconds += 5
    live.push("radar", rows((2600,)))
    wall.seconds += 6
    assert seen(live.next(), "rv", "mv") == (2500, {(2.5, 1.0): 1})


def test_a_closed_query_gives_its_last_step_and_takes_nothing_more() -> None:
    live = fed(f"{JOIN} WITH DELAY 1 HOUR", ("radar", rows((1000,), (2000,))), ("metar", rows((1500,))))
    with live:
        assert live.next() is None
    assert seen(live.next(timeout=None), "rv", "mv") == (2000, {(2.0, 1.5): 1})
    assert live.next(after=at(2000), timeout=None) is None
    with pytest.raises(UsageError, match="stream radar: the query is closed"):
        live.push("radar", rows((3000,)))
    assert live.close().results.num_rows == 1
    assert live.steps == {"given": 1, "degraded": 0, "rows_passed_over": 1}


def test_what_cannot_be_meant_is_refused() -> None:
    live = fed(f"{JOIN} WITH NO WAIT")
    with pytest.raises(UsageError, match="the query reads no stream 'rada'; it reads radar, metar"):
        live.push("rada", rows((1,)))
    with pytest.raises(DataError, match="stream radar: the rows pushed have no column 'v'"):
        live.push("radar", rows((1,)).drop_columns(["v"]))
    with pytest.raises(DataError, match="column 'v' of the rows pushed holds int64; the query was opened with double"):
        live.push("radar", pa.table({"ts": [1], "k": [1], "v": [1]}))
    with pytest.raises(UsageError, match="patience: there is no stream 'goes'"):
        live.next(patience={"goes": "1 s"})
    with pytest.raises(UsageError, match="patience: 'soon' is not a duration"):
        live.next(patience="soon")
    with pytest.raises(UsageError, match="keep: 'much' is not a duration"):
        fed(f"{JOIN} WITH NO WAIT", keep="much")
    with pytest.raises(QueryError, match="EXPLAIN runs nothing"):
        fed(f"EXPLAIN {JOIN}")
    # Nothing of that has changed the query.
    live.push("radar", rows((1000,), (3000,)))
    live.push("metar", rows((1000,), (3000,)))
    assert seen(live.next(), "rv", "mv") == (1000, {(1.0, 1.0): 1})


def test_a_query_that_has_failed_says_so_to_everybody(monkeypatch: pytest.MonkeyPatch) -> None:
    live = fed(f"{JOIN} WITH NO WAIT", ("radar", rows((1000,))))

    def fail(end: bool = False) -> None:
        raise ZeroDivisionError("division by zero")

    monkeypatch.setattr(live._kernel, "advance", fail)
    with pytest.raises(ZeroDivisionError):
        live.push("metar", rows((1000,)))
    for ask in (live.next, live.close, lambda: live.push("radar", rows((2000,)))):
        with pytest.raises(SlackwaterError, match="the query has failed: division by zero"):
            ask()


def test_who_asks_is_woken_by_what_arrives() -> None:
    live = fed(f"{JOIN} WITH NO WAIT", ("radar", rows((1000,), (3000,))))
    later = threading.Timer(0.1, lambda: live.push("metar", rows((1000,), (3000,))))
    later.start()
    assert seen(live.next(timeout=30), "rv") == (1000, {(1.0,): 1})
    begun = time.monotonic()
    assert live.next(after=at(1000), timeout=0.1) is None
    assert 0.1 <= time.monotonic() - begun < 10
    later.join()


def test_several_threads_push_while_one_asks() -> None:
    """Whatever the interleaving: a slack that covers all of it makes every step the truth."""
    live = fed(f"{JOIN} WITH DELAY 5 SECONDS")
    times = list(range(0, 40_000, 250))
    streams = {name: [{"ts": ms + shift, "k": ms % 3} for ms in times] for name, shift in (("radar", 0), ("metar", 70))}
    together = threading.Barrier(4)

    def push(name: str, mine: int) -> None:
        for place in range(mine, len(times), 2):
            live.push(name, rows((streams[name][place]["ts"], streams[name][place]["k"])))
            together.wait()

    threads = [threading.Thread(target=push, args=(name, mine)) for name in streams for mine in range(2)]
    given: list[sw.Step] = []
    for thread in threads:
        thread.start()
    while any(thread.is_alive() for thread in threads):
        step = live.next(after=given[-1].time if given else None, timeout=0.01)
        given += [step] if step else []
    assert live.close().report["late"] == 0
    last = live.next(after=given[-1].time)
    assert last is not None
    given.append(last)
    assert all(one.time < other.time for one, other in pairwise(given))
    for step in given[:: len(given) // 8 + 1]:
        before = 1 + (step.time - at(0)) // timedelta(milliseconds=1)
        found = freshest(streams, dict.fromkeys(streams, 2000), lambda c: c["radar"]["k"] == c["metar"]["k"], before)
        assert found is not None
        pairs = {(c["radar"]["ts"] / 1000, c["metar"]["ts"] / 1000): 1 for c in found[1]}
        assert seen(step, "rv", "mv") == (found[0], pairs)
    assert len(given) > 8


def test_rows_beyond_any_calendar_go_to_the_side_output_and_stop_nothing() -> None:
    """Microseconds taken for milliseconds: a year that no calendar has, and which the guard does not believe."""
    beyond = 1_700_000_000_000_000
    live = fed(
        f"{JOIN} WITH NO WAIT", ("radar", rows((1000,), (beyond, 7), (2000,))), ("metar", rows((1500,), (2500,)))
    )
    assert seen(live.next(), "rv") == (1500, {(1.0,): 1})
    rejected = live.close().rejected["r"]
    assert rejected.column("reason").to_pylist() == ["ahead"]
    assert json.loads(rejected.column("row")[0].as_py()) == {"ts": 1000 * beyond, "k": 7, "v": beyond / 1000}


def test_late_rows_keep_their_texts_until_they_are_taken(monkeypatch: pytest.MonkeyPatch) -> None:
    columns = pa.schema([("ts", pa.int64()), ("k", pa.string())])
    live = sw.live("SELECT k, COUNT(*) AS n FROM s [1 s] GROUP BY k WITH NO WAIT", {"s": columns}, clock=Wall())
    monkeypatch.setattr(type(live._codebook), "due", True)
    live.push("s", pa.table([[1000, 5000], ["first", "second"]], schema=columns))
    live.push("s", pa.table([[2000], ["so late"]], schema=columns))
    for second in range(6, 9):
        live.push("s", pa.table([[1000 * second], [f"text of {second}"]], schema=columns))
    (row,) = live.take_side_outputs().column("row").to_pylist()
    assert json.loads(row)["k"] == "so late"


def test_of_the_rows_that_nobody_asks_for_the_newest_are_kept_and_the_others_counted(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    live = fed(f"{JOIN} WITH NO WAIT", ("radar", rows((50_000,))), ("metar", rows((50_000,))))
    monkeypatch.setattr(live._side_output, "_most", 3)
    for second in range(1, 6):
        live.push("radar", rows((1000 * second,)))
    assert live.report()["side_output_dropped"] == 2
    kept = [json.loads(row)["v"] for row in live.take_side_outputs().column("row").to_pylist()]
    assert kept == [3.0, 4.0, 5.0]
    # What comes at once is kept whole.
    live.push("radar", rows(*((1000 * second,) for second in range(1, 6))))
    assert live.take_side_outputs().num_rows == 5
    assert live.report()["late"] == 10
