"""Windows that conditions on event times say: the answer is DuckDB's over the same rows, and no more is kept than with
windows in brackets."""

from __future__ import annotations

from typing import Any

import duckdb
import pyarrow as pa
import pytest
from hypothesis import given as drawn
from hypothesis import strategies as st

from slackwater.core.schema import UTC, Field, Kind, Schema
from slackwater.core.window_graph import WindowGraph
from slackwater.language.bind import bind
from slackwater.plan.planner import plan
from slackwater.runtime.local.answer import replay
from tests.effort import tried

MS = 1_000
NAMES = ("a", "b", "c")
TIME = pa.timestamp("us", "UTC")
SCHEMA = Schema(
    (Field("ts", Kind.TIME, UTC), Field("k", Kind.INT, pa.int64()), Field("id", Kind.INT, pa.int64())), "ts"
)
Said = tuple[str, str]
"""A condition as a query has it, and as DuckDB has it over times that are numbers."""


@st.composite
def rows(draw: st.DrawFn) -> list[dict[str, int]]:
    times = draw(st.lists(st.integers(-12, 12), max_size=7))
    return [
        {"ts": 500 * MS * time, "k": draw(st.integers(0, 2)), "id": at, "arrival": at} for at, time in enumerate(times)
    ]


@st.composite
def bounded(draw: st.DrawFn, early: str, late: str) -> list[Said]:
    """Conditions that bound a pair on both sides, in one of the ways people write them."""
    low, high = sorted(draw(st.tuples(st.integers(-6, 6), st.integers(-6, 6))))
    low, high = 500 * low, 500 * high
    e, f = f"{early}.ts", f"{late}.ts"
    sign = draw(st.sampled_from(["<", "<="]))
    ways: list[list[Said]] = [
        [(f"{f} BETWEEN {e} + {_ms(low)} AND {e} + {_ms(high)}", f"{f} - {e} BETWEEN {low * MS} AND {high * MS}")],
        [
            (f"{e} + {_ms(low)} {sign} {f}", f"{e} + {low * MS} {sign} {f}"),
            (f"{f} - {_ms(high)} {sign} {e}", f"{f} - {high * MS} {sign} {e}"),
        ],
        [(f"abs({f} - {e}) {sign} {_ms(abs(high))}", f"abs({f} - {e}) {sign} {abs(high) * MS}")],
        [(f"{e} = {f} + {_ms(low)}", f"{e} = {f} + {low * MS}")],
        [
            (f"{_ms(high)} >= {f} - {e}", f"{high * MS} >= {f} - {e}"),
            (f"{e} - {f} {sign} {_ms(-low)}", f"{e} - {f} {sign} {-low * MS}"),
        ],
        [
            (
                f"date_trunc('second', {e}) = date_trunc('second', {f})",
                f"({e} + 1000000000) // 1000000 = ({f} + 1000000000) // 1000000",
            )
        ],
        [
            (
                f"time_bucket('3 s', {e}) = time_bucket('3 s', {f})",
                f"({e} + 3000000000) // 3000000 = ({f} + 3000000000) // 3000000",
            )
        ],
    ]
    return draw(st.sampled_from(ways))


@st.composite
def queries(draw: st.DrawFn) -> tuple[int, list[Said]]:
    """How many streams, and conditions that connect them: each with one before it."""
    streams = draw(st.integers(2, 3))
    said: list[Said] = []
    for at in range(1, streams):
        pair = draw(st.permutations([NAMES[at], NAMES[draw(st.integers(0, at - 1))]]))
        said += draw(bounded(*pair))
    if draw(st.booleans()):
        said += draw(bounded(*draw(st.permutations(NAMES[:streams]))[:2]))
    said += draw(st.sampled_from([[], [("a.k = b.k", "a.k = b.k")], [("a.ts <= b.ts", "a.ts <= b.ts")]]))
    return streams, draw(st.permutations(said))


def _ms(number: int) -> str:
    return f"INTERVAL '{number}' MILLISECONDS"


def _text(streams: int, said: list[Said], brackets: str, joined: bool) -> str:
    names = [f"{name}{brackets}" for name in NAMES[:streams]]
    conditions = " AND ".join(ours for ours, _ in said)
    ids = ", ".join(f"{name}.id AS {name}" for name in NAMES[:streams])
    if joined:
        return f"SELECT {ids} FROM {' CROSS JOIN '.join(names[:-1])} JOIN {names[-1]} ON {conditions}"
    return f"SELECT {ids} FROM {', '.join(names)} WHERE {conditions}"


def _answer(query: str, inputs: list[list[dict[str, int]]]) -> list[tuple[Any, ...]]:
    tables = {
        name: pa.Table.from_pylist(own, pa.schema([(column, pa.int64()) for column in ("ts", "k", "id", "arrival")]))
        for name, own in zip(NAMES, inputs, strict=False)
    }
    tables = {name: one.set_column(0, "ts", one["ts"].cast(TIME)) for name, one in tables.items()}
    found = replay(f"{query} WITH DELAY 1 HOUR", tables).results
    return sorted(tuple(row[name] for name in tables) for row in found.to_pylist())


def _truth(streams: int, said: list[Said], inputs: list[list[dict[str, int]]], more: str = "true") -> list[Any]:
    base = duckdb.connect()
    for name, own in zip(NAMES, inputs, strict=False):
        base.execute(f"CREATE TABLE {name} (ts BIGINT, k BIGINT, id BIGINT, arrival BIGINT)")
        base.executemany(
            f"INSERT INTO {name} VALUES (?, ?, ?, ?)", [(-1, 0, -1, 0), *(list(row.values()) for row in own)]
        )
        base.execute(f"DELETE FROM {name} WHERE id < 0")
    ids = ", ".join(f"{name}.id" for name in NAMES[:streams])
    conditions = " AND ".join(duck for _, duck in said)
    return sorted(
        base.execute(f"SELECT {ids} FROM {', '.join(NAMES[:streams])} WHERE {conditions} AND {more}").fetchall()
    )


@tried(60, deadline=None)
@drawn(queries(), st.tuples(rows(), rows(), rows()), st.booleans())
def test_the_answer_is_that_of_a_database(query: tuple[int, list[Said]], inputs: Any, joined: bool) -> None:
    streams, said = query
    assert _answer(_text(streams, said, "", joined), list(inputs[:streams])) == _truth(streams, said, list(inputs))


@tried(24, deadline=None)
@drawn(queries(), st.tuples(rows(), rows(), rows()))
def test_with_windows_in_brackets_both_hold(query: tuple[int, list[Said]], inputs: Any) -> None:
    streams, said = query
    newest = f"greatest({', '.join(f'{name}.ts' for name in NAMES[:streams])})"
    near = " AND ".join(f"{name}.ts >= {newest} - {1500 * MS}" for name in NAMES[:streams])
    truth = _truth(streams, said, list(inputs), near)
    assert _answer(_text(streams, said, " [1500 MS]", False), list(inputs[:streams])) == truth


@tried(120, deadline=None)
@drawn(queries())
def test_no_stream_is_kept_longer_than_its_brackets_say(query: tuple[int, list[Said]]) -> None:
    streams, said = query
    made = plan(bind(_text(streams, said, " [1500 MS]", False), dict.fromkeys(NAMES, SCHEMA)).query).operator
    assert max(made.windows) <= 1500 * MS
    if made.graph is not None:
        brackets = WindowGraph.of_windows((1500 * MS,) * streams)
        assert all(one <= other for line, most in zip(made.graph.widest, brackets.widest, strict=True)
                   for one, other in zip(line, most, strict=True))  # fmt: skip


def test_a_click_is_not_kept_where_it_must_follow_its_impression() -> None:
    brackets = "SELECT a.k FROM a [30 SECONDS], b [30 SECONDS] WHERE a.k = b.k"
    schemas = dict.fromkeys(NAMES, SCHEMA)
    assert plan(bind(brackets, schemas).query).operator.windows == (30_000 * MS, 30_000 * MS)
    assert plan(bind(f"{brackets} AND b.ts >= a.ts", schemas).query).operator.windows == (30_000 * MS, 0)


@pytest.mark.parametrize(
    "condition",
    [
        "b.ts BETWEEN a.ts AND a.ts + INTERVAL 30 SECONDS",
        "b.ts >= a.ts AND b.ts <= a.ts + INTERVAL '30' SECOND",
        "a.ts <= b.ts AND a.ts >= b.ts - INTERVAL '30 seconds'",
        "NOT b.ts < a.ts AND b.ts - a.ts <= INTERVAL '0.5 minutes'",
    ],
)
def test_ways_to_write_a_window_are_planned_alike(condition: str) -> None:
    schemas = dict.fromkeys(NAMES, SCHEMA)
    brackets = bind("SELECT a.k FROM a [30 SECONDS], b [0 SECONDS] WHERE a.k = b.k", schemas).query
    assert plan(bind(f"SELECT a.k FROM a JOIN b ON a.k = b.k AND {condition}", schemas).query) == plan(brackets)
