"""Steps without a slow stream: when they are given, what is in them, and when steps are whole again."""

from __future__ import annotations

import pyarrow as pa
import pytest

import slackwater as sw
from slackwater.core.time import MILLISECOND
from tests.request.streams import BOTH, COLUMNS, JOIN, Wall, at, fed, rows, seen


def test_a_stream_far_behind_is_done_without_until_it_catches_up() -> None:
    live = fed(f"{JOIN} WITH NO WAIT", patience="3 seconds")
    for second in range(1, 5):
        live.push("radar", rows((1000 * second,)))
        live.push("metar", rows((1000 * second,)))
    assert seen(live.next(), "mv") is not None
    live.push("radar", rows((5000,), (6000,), (7000,)))
    step = live.next()
    assert step is not None
    assert not step.degraded
    live.push("radar", rows((7500, 1, 7), (7500, 2, 8), (8000,)))
    step = live.next(after=step.time)
    assert step is not None
    assert step.degraded
    assert step.missing == ("metar",)
    assert seen(step, "rv", "mv") == (7500, {(7.0, None): 1, (8.0, None): 1})
    assert step.rows.schema == live.close().results.schema


def test_steps_are_whole_again_when_the_stream_returns_and_never_go_back() -> None:
    live = fed(f"{JOIN} WITH NO WAIT", ("metar", rows((1000,))), patience="3 seconds")
    live.push("radar", rows(*((ms,) for ms in range(1000, 9000, 500))))
    degraded = live.next()
    assert seen(degraded, "mv") == (8000, {(None,): 1})
    # It is back, but what is whole is older than what was given.
    live.push("metar", rows((6500,), (6600,)))
    assert live.next(after=at(8000)) is None
    assert live.next() is degraded
    live.push("metar", rows((8100,), (8300,)))
    step = live.next(after=at(8000))
    assert step is not None
    assert (step.time, step.degraded, step.missing) == (at(8100), False, ())
    assert live.steps["given"] == 2
    assert live.steps["degraded"] == 1


def test_a_whole_step_comes_in_place_of_a_reduced_one_of_the_same_time() -> None:
    live = fed(f"{JOIN} WITH NO WAIT", ("metar", rows((500,))), patience="3 seconds")
    live.push("radar", rows((500,), (4000,), (5000,)))
    step = live.next()
    assert step is not None
    assert (step.time, step.degraded) == (at(4000), True)
    live.push("metar", rows((3500,), (4500,)))
    step = live.next()
    assert step is not None
    assert (step.time, step.degraded) == (at(4000), False)


def test_a_silent_stream_is_done_without_by_the_clock_on_the_wall() -> None:
    wall = Wall()
    live = sw.live(f"{JOIN} WITH NO WAIT", BOTH, clock=wall, patience="1 minute")
    live.push("metar", rows((1000,)))
    wall.seconds += 30
    live.push("radar", rows((1000,), (2000,), (3000,)))
    assert live.next() is None
    # Only now the first tuple is believed, so silence begins here.
    wall.seconds += 61
    step = live.next()
    assert step is not None
    assert (step.time, step.missing) == (at(2000), ("metar",))


def test_a_stream_that_never_spoke_is_done_without() -> None:
    live = fed(f"{JOIN} WITH NO WAIT", ("radar", rows((1000,), (3000,))), patience="3 seconds")
    assert live.next() is None
    live.push("radar", rows((4001,)))
    step = live.next()
    assert step is not None
    assert (step.time, step.missing) == (at(3000), ("metar",))


def test_without_patience_a_slow_stream_is_waited_for() -> None:
    live = fed(f"{JOIN} WITH NO WAIT", ("metar", rows((1000,))), ("radar", rows((1000,), (500_000,))))
    assert live.next() is None
    step = live.next(patience="1 minute")
    assert step is not None
    assert step.missing == ("metar",)


def test_every_stream_may_have_a_patience_of_its_own() -> None:
    live = fed(f"{JOIN} WITH NO WAIT", ("metar", rows((1000,))), ("radar", rows((1000,), (50_000,), (60_000,))))
    assert live.next(patience={"radar": "1 second"}) is None
    assert live.next(patience={"metar": "1 hour", "radar": "1 second"}) is None
    assert live.next(patience={"metar": "1 second"}) is not None


def test_two_of_three_streams_may_be_slow() -> None:
    text = """SELECT a.v AS av, b.v AS bv, c.v AS cv, a.k AS ak, c.k AS ck FROM a [2 s], b [2 s], c [2 s]
        WHERE a.k = b.k AND b.k = c.k AND b.v < 9 WITH NO WAIT"""
    live = sw.live(text, dict.fromkeys("abc", COLUMNS), clock=Wall(), patience="3 seconds")
    live.push("a", rows((1000, 1), (1000, 2), (9500, 1), (9500, 2), (9600,)))
    live.push("c", rows((1000, 1), (9000, 2), (9600,)))
    step = live.next()
    assert step is not None
    assert step.missing == ("b",)
    # What the query says by way of b still holds: a.k = c.k.
    assert seen(step, "av", "bv", "cv", "ak") == (9500, {(9.5, None, 9.0, 2): 1})
    live.push("a", rows((20_000,), (20_001,)))
    step = live.next()
    assert step is not None
    assert step.missing == ("b", "c")
    # The keys are equal in every result, so that of c is known.
    assert seen(step, "av", "bv", "cv", "ck") == (20_000, {(20.0, None, None, 1): 1})


def test_a_stream_inside_a_sub_query_can_be_slow() -> None:
    text = """SELECT ma.k, ma.mv, ma.av, c.v AS cv
        FROM (SELECT m.k, m.v AS mv, a.v AS av FROM m [2 s], a [2 s] WHERE m.k = a.k) ma [2 s], c [2 s]
        WHERE ma.k = c.k AND ma.mv < 100 WITH NO WAIT"""
    live = sw.live(text, dict.fromkeys("mac", COLUMNS), clock=Wall(), patience="3 seconds")
    live.push("m", rows((1000,)))
    live.push("a", rows((8000, 1), (8000, 2), (9000,)))
    live.push("c", rows((8500, 2), (9000,)))
    step = live.next()
    assert step is not None
    assert step.missing == ("m",)
    assert seen(step, "k", "mv", "av", "cv") == (8500, {(2, None, 8.0, 8.5): 1})


@pytest.mark.parametrize(
    "text",
    [
        "SELECT m.v AS mv FROM radar r [2 s], metar m [2 s] WITH NO WAIT",
        "SELECT 1 AS rv, m.v + r.v AS mv FROM radar r [2 s], metar m [2 s] WHERE r.v < m.v WITH NO WAIT",
        f"{JOIN} WITH RECALL 0.9 OVER 10 SECONDS OPTIONS (shape = 'binary')",
        f"{JOIN} WITH COMPLETE OPTIONS (join = 'hash', clock_by = 'k')",
    ],
)
def test_how_streams_are_joined_and_what_is_selected_do_not_matter(text: str) -> None:
    live = fed(text, ("metar", rows((1000,))), ("radar", rows((1000,), (8000,), (9000,))), patience="3 seconds")
    assert seen(live.next(), "mv") == (8000, {(None,): 1})


@pytest.mark.parametrize("count", [2, 3, 4])
def test_steps_of_joins_whose_windows_follow_rates(count: int) -> None:
    """A row a second; while the last stream is gone, the others are matched with what is nearest in time as before."""
    names = "abcd"[:count]
    items = ", ".join(f"{name}.v AS {name}v" for name in names)
    windows = ", ".join(f"{name} [RATE 5 SECONDS]" for name in names)
    text = f"SELECT {items} FROM {windows} MATCH TIME WHERE {' AND '.join(f'a.k = {n}.k' for n in names[1:])}"
    live = sw.live(f"{text} WITH NO WAIT", dict.fromkeys(names, COLUMNS), clock=Wall(), patience="10 seconds")
    whole = degraded = 0
    last = None
    for second in range(1, 90):
        for place, name in enumerate(names):
            if name != names[-1] or not 30 <= second < 60:
                live.push(name, rows((1000 * second + 100 * place, 1, second)))
        step = live.next(after=last)
        if step is None:
            continue
        last = step.time
        row = step.rows.to_pylist()[-1]
        if step.degraded:
            degraded += 1
            assert step.missing == (names[-1],)
            assert row.pop(f"{names[-1]}v") is None
        whole += not step.degraded
        # At first, and after the gap, the rates say that members may lie further apart.
        if 20 < second < 60 or second > 75:
            times = {row[f"{n}v"] for n in names if f"{n}v" in row}
            assert len(times) == 1, (second, row)
    assert degraded >= 18
    assert whole >= 30


def test_a_query_that_cannot_do_without_a_stream_waits_for_it() -> None:
    text = "SELECT SUM(r.v) AS total FROM radar r [2 s], metar m [2 s] WHERE r.k = m.k WITH NO WAIT"
    live = fed(text, ("metar", rows((1000,))), ("radar", rows((1000,), (60_000,))), patience="1 second")
    assert live.next() is None
    live.push("metar", rows((60_000,)))
    assert seen(live.next(), "total") == (2000, {(1.0,): 1})


def test_rows_beyond_what_is_kept_give_no_step() -> None:
    live = fed(f"{JOIN} WITH NO WAIT", ("metar", rows((1000,))), patience="1 second", keep="5 seconds")
    for second in range(2, 60):
        live.push("radar", rows((1000 * second, second)))
        assert live.report()["rows_at_hand"] <= 8
    assert seen(live.next(), "rv") == (58_000, {(58.0,): 1})


@pytest.mark.parametrize("window", ["RATE 5 MINUTES", "RANGE 15 MINUTES"])
def test_a_stream_that_dropped_is_done_without_however_long_windows_are(window: str) -> None:
    text = f"SELECT r.v AS rv, m.v AS mv FROM radar r [{window}], metar m [{window}] WHERE r.k = m.k WITH NO WAIT"
    three = f"SELECT j.rv AS rv, j.mv AS mv FROM ({text[:-13]}) j [{window}], acars c [{window}] WITH NO WAIT"
    live = sw.live(three, {**BOTH, "acars": COLUMNS}, clock=Wall(), patience="1 minute")
    live.push("acars", rows((0,)))
    for minute in range(90):
        for name in BOTH:
            live.push(name, rows((60_000 * minute, minute)))
    step = live.next()
    assert step is not None
    assert (step.missing, step.time) == (("acars",), at(60_000 * 88))


def test_who_keeps_less_than_a_step_without_a_stream_needs_is_told() -> None:
    with pytest.warns(UserWarning, match="keep = '2 seconds': members of a result may be 2 s older than it"):
        fed(f"{JOIN} WITH NO WAIT", keep="2 seconds")


def test_a_step_found_far_back_has_all_its_rows() -> None:
    """The last second is looked through first, and must not answer for what reaches beyond it."""
    text = "SELECT a.v AS av, b.v AS bv FROM a [500 ms], b [500 ms], c [500 ms] WHERE a.k = b.k WITH NO WAIT"
    live = sw.live(text, dict.fromkeys("abc", COLUMNS), clock=Wall(), patience="600 ms")
    live.push("c", rows((600,)))
    live.push("a", rows((600, 1), (1000, 1), (1400, 2), (1700, 2)))
    live.push("b", rows((1000, 1), (1400, 3), (1700, 3)))
    step = live.next()
    assert seen(step, "av", "bv") == (1000, {(0.6, 1.0): 1, (1.0, 1.0): 1})


def test_a_window_of_rows_is_kept_whole_or_gives_no_step() -> None:
    text = """SELECT a.v AS av, b.v AS bv FROM a [ROWS 3], b [1 s], c [1 s]
        WHERE a.v < b.v AND a.k = 1 WITH NO WAIT"""
    live = sw.live(text, dict.fromkeys("abc", COLUMNS), clock=Wall(), patience="1 second", keep="2 seconds")
    live.push("c", rows((1000,)))
    for second in range(1, 12):
        live.push("a", rows((1000 * second, second % 4 and 1)))
    live.push("a", rows((30_000,)))
    for second in range(12, 30, 3):
        live.push("b", rows((1000 * second,)))
    # Of a, those at 9, 10 and 11 s are the last three with k = 1, and long past what is kept of the others.
    assert seen(live.next(patience={"c": "1 s"}), "av", "bv") == (
        24_000,
        {(9.0, 24.0): 1, (10.0, 24.0): 1, (11.0, 24.0): 1},
    )


def test_a_stream_read_twice_arrives_at_both_and_is_missed_as_one() -> None:
    columns = pa.schema([("ts", pa.timestamp("ms")), ("who", pa.string()), ("x", pa.int32())])
    text = """SELECT p.who AS pw, q.who AS qw, p.x + q.x AS total, r.k AS rk
        FROM pos p [2 s], pos q [2 s], radar r [2 s] WHERE p.x < q.x AND p.who <> q.who AND r.k >= 1 WITH NO WAIT"""
    live = sw.live(text, {"pos": columns, "radar": COLUMNS}, clock=Wall(), patience="3 seconds")
    live.push("radar", rows((1000,), (2100,)))
    live.push("pos", pa.table([[1000, 1000, 2100], ["ann", "bob", "bob"], [1, 2, 5]], schema=columns))
    assert seen(live.next(), "pw", "qw", "total", "rk") == (1000, {("ann", "bob", 3, 1): 1})
    live.push("pos", pa.table([[9000, 9000, 9100], ["cat", "dan", "eve"], [4, 6, 8]], schema=columns).to_batches()[0])
    step = live.next()
    assert step is not None
    assert step.missing == ("radar",)
    assert seen(step, "pw", "qw", "total", "rk") == (9000, {("cat", "dan", 10, None): 1})
    live.push("radar", rows((20_000,), (21_000,)))
    step = live.next()
    assert step is not None
    assert step.missing == ("pos",)
    assert seen(step, "pw", "qw", "total", "rk") == (20_000, {(None, None, None, 1): 1})


def test_no_step_is_made_without_a_stream_that_looks_back_to_what_is_not_known() -> None:
    """After a restart on Spark nothing is known of the rows before."""
    for known_from, made in ((2000, True), (3000, False)):
        live = fed(f"{JOIN} WITH NO WAIT", ("radar", rows((1000,), (3000,), (4001,))), patience="3 seconds")
        live._recent.not_before(known_from * MILLISECOND)
        assert (live.next() is not None) == made
