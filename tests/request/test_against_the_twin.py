"""Steps over random disordered arrivals: whole ones are those of a replay, reduced ones those of nested loops."""

from __future__ import annotations

from collections import Counter
from random import Random
from typing import Any

import pyarrow as pa
from hypothesis import given
from hypothesis import strategies as st

import slackwater as sw
from tests.kit.oracle_steps import Combination, freshest, slow_streams
from tests.request.streams import COLUMNS, Wall, at, rows, seen

SLACK, WINDOWS = 200, {"a": 500, "b": 300, "c": 400}
NAMES = tuple(WINDOWS)
LIVE = "OPTIONS (idle_timeout = 1 DAY, max_ahead = 1 HOUR)"
"""With it moments of arrival count, which vouch for every tuple, as they do in a live query."""
JOIN = (
    "SELECT a.v AS av, b.v AS bv FROM a [500 ms], b [300 ms] WHERE a.k = b.k AND a.v < b.v + 8 WITH DELAY 200 MS "
    + LIVE
)
THREE = """SELECT a.v AS av, b.v AS bv, c.v AS cv FROM a [500 ms], b [300 ms], c [400 ms]
    WHERE a.k = b.k AND b.k = c.k AND a.v < c.v + 5 AND b.v >= 3 WITH DELAY 200 MS
    OPTIONS (idle_timeout = 1 DAY, max_ahead = 1 HOUR)"""
GRAPH = THREE.replace(" [500 ms]", "").replace(" [300 ms]", "").replace(" [400 ms]", "").replace(
    "WITH", "WINDOW (a, b) = 300 MS AND (b, c) = 200 MS WITH"
)  # fmt: skip


def pushes(seed: int, streams: str, each: int, count: int) -> list[tuple[str, list[tuple[int, int, int]]]]:
    """Pushes of `each` rows (ts, k, v) of streams that now and then fall silent; v is the number of the row."""
    chance = Random(seed)
    now, number, made = 1000, 0, []
    silent = dict.fromkeys(streams, 0)
    while len(made) < count:
        name = chance.choice(streams)
        now += chance.choice((0, 10, 30, 60))
        if chance.random() < 0.08:
            silent[name] = now + chance.randint(200, 1200)
        if silent[name] > now:
            continue
        pushed = []
        for _ in range(each):
            number += 1
            late = chance.randint(0, 400) if chance.random() < 0.2 else chance.choice((0, 0, 20, 50))
            pushed.append((now - late, chance.randint(0, 1), number))
        made.append((name, pushed))
    return made


@given(st.integers(0, 2**32))
def test_a_whole_step_is_the_freshest_of_a_replay_of_what_came_so_far(seed: int) -> None:
    made = pushes(seed, "ab", 2, 40)
    live = sw.live(JOIN, {"a": COLUMNS, "b": COLUMNS}, clock=Wall())
    came: dict[str, list[tuple[int, int, int, int]]] = {"a": [], "b": []}
    last = None
    for number, (name, pushed) in enumerate(made):
        live.push(name, rows(*pushed))
        came[name] += [(2 * number + place, *row) for place, row in enumerate(pushed)]
        step = live.next()
        watermark = min(max((ts for _, ts, _, _ in kept), default=-(2**40)) for kept in came.values()) - SLACK
        if number % 8 == 7:
            assert seen(step, "av", "bv") == replayed(came, watermark)
        assert last is None or (step is not None and step.time >= last.time)
        last = step


def replayed(came: dict[str, list[tuple[int, int, int, int]]], watermark: int) -> tuple[int, Counter[Any]] | None:
    """The rows of a replay with the same epochs, at their freshest time before the watermark."""
    tables = {
        name: rows(*(row[1:] for row in kept)).append_column("arrival", pa.array([row[0] for row in kept], pa.int64()))
        for name, kept in came.items()
    }
    answer = sw.replay(JOIN, tables, epochs=sw.Epochs(tuples=2))
    results = [row for row in answer.results.to_pylist() if row["_ts"] < at(watermark)] if watermark > 0 else []
    if not results:
        return None
    newest = max(row["_ts"] for row in results)
    at_newest = Counter((row["av"], row["bv"]) for row in results if row["_ts"] == newest)
    return round(newest.timestamp() * 1000), at_newest


def true_of(rows: Combination) -> bool:
    """The conditions of THREE, as far as their streams are there; those that equalities carry over are."""
    keys = {row["k"] for row in rows.values()}
    a, b, c = (rows.get(name) for name in NAMES)
    return len(keys) == 1 and (a is None or c is None or a["v"] < c["v"] + 5) and (b is None or b["v"] >= 3)


def near(rows: Combination) -> bool:
    """The windows of GRAPH; of a and c alone what follows for them."""
    most = {("a", "b"): 300, ("b", "c"): 200, ("a", "c"): 500}
    return all(abs(rows[i]["ts"] - rows[j]["ts"]) <= m for (i, j), m in most.items() if i in rows and j in rows)


@given(
    st.integers(0, 2**32), st.integers(50, 800), st.booleans(), st.booleans(), st.sampled_from(["10 minutes", "900 ms"])
)
def test_a_reduced_step_is_what_nested_loops_find_without_the_slow_streams(
    seed: int, patience: int, by_pairs: bool, each_tuple: bool, keep: str
) -> None:
    wall = Wall()
    live = sw.live(
        GRAPH if by_pairs else THREE,
        dict.fromkeys(NAMES, COLUMNS),
        clock=wall,
        patience=f"{patience} ms",
        keep=keep,
        epochs=sw.Epochs(each_tuple=each_tuple),
    )
    came: dict[str, list[dict[str, int]]] = {name: [] for name in NAMES}
    spoke = dict.fromkeys(NAMES, 0.0)
    first, last, now = None, None, 0.0
    windows = dict.fromkeys(NAMES, 1 << 40) if by_pairs else WINDOWS
    for name, (row,) in pushes(seed, "abc", 1, 48):
        wall.seconds += 0.05
        now += 50
        live.push(name, rows(row))
        if first is None:
            first, spoke = row[0], dict.fromkeys(NAMES, now)
        if row[0] > max((other["ts"] for other in came[name]), default=-1):
            spoke[name] = now
        came[name].append({"ts": row[0], "k": row[1], "v": row[2]})
        slow = slow_streams(came, spoke, first, patience, now)
        step = live.next(after=last.time if last else None)
        assert step is None or last is None or step.time > last.time
        there = {one: kept for one, kept in came.items() if one not in slow}
        bound = min(max((other["ts"] for other in kept), default=-(2**40)) for kept in there.values()) - SLACK
        truth = freshest(there, windows, lambda c: true_of(c) and (not by_pairs or near(c)), bound)
        if step is not None and step.degraded:
            assert step.missing == tuple(slow)
            assert truth is not None
            found = Counter(tuple(float(c[n]["v"]) if n in c else None for n in NAMES) for c in truth[1])
            assert seen(step, "av", "bv", "cv") == (truth[0], found)
        elif step is None and slow and truth is not None and keep != "900 ms":
            assert last is not None
            assert truth[0] <= seen(last)[0]  # type: ignore[index]
        last = step or last


@given(st.integers(0, 2**32), st.sampled_from(["", "MATCH TIME", "MATCH TIME WITHIN 15 SECONDS"]), st.booleans())
def test_a_reduced_step_of_windows_that_follow_rates_is_that_of_the_query_without_the_stream(
    seed: int, match: str, in_rounds: bool
) -> None:
    sampling = "rounds" if in_rounds else "sliding"
    options = f"WITH NO WAIT OPTIONS (idle_timeout = 1 DAY, max_ahead = 1 HOUR, sampling = '{sampling}')"
    text = (
        f"SELECT a.v AS av, b.v AS bv FROM a [RATE 40 SECONDS], b [RATE 30 SECONDS] {match} WHERE a.k = b.k {options}"
    )
    without = text.replace("bv FROM", "bv, c.v AS cv FROM").replace(f"] {match}", f"], c [RATE 100 SECONDS] {match}")
    live = sw.live(without, dict.fromkeys(NAMES, COLUMNS), clock=Wall(), keep="1 day")
    came: dict[str, list[tuple[int, int, int]]] = {"a": [], "b": []}
    for name, pushed in pushes(seed, "ab", 1, 60):
        # Which of two streams comes first at one time is free, so no two rows have the same.
        row = (pushed[0][0] * 100 + pushed[0][2], *pushed[0][1:])
        live.push(name, rows(row))
        came[name].append((row[0], row[1], row[2]))
    step = live.next(patience={"c": "1 ms"})
    bound = min(max(ts for ts, _, _ in kept) for kept in came.values())
    ordered = sorted((row, name) for name, kept in came.items() for row in kept if row[0] < bound)
    tables = {
        name: rows(*(row for row, one in ordered if one == name)).append_column(
            "arrival", pa.array([place for place, (_, one) in enumerate(ordered) if one == name], pa.int64())
        )
        for name in came
    }
    results = sw.replay(text, tables).results.to_pylist()
    newest = max((row["_ts"] for row in results), default=None)
    truth = Counter((row["av"], row["bv"], None) for row in results if row["_ts"] == newest)
    assert seen(step, "av", "bv", "cv") == (None if newest is None else (round(newest.timestamp() * 1000), truth))
