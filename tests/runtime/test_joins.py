"""Joins: windows, keys, conditions, order."""

from __future__ import annotations

import math
from itertools import pairwise

import pyarrow as pa
import pytest

from slackwater.core.schema import Kind
from slackwater.expressions.functions import register
from tests.runtime.streams import Runtime, arrived, at

INT, FLOAT, TEXT, BOOL = pa.int64(), pa.float64(), pa.string(), pa.bool_()
EPOCHS = ("1", "3", "1000", "1 s")
ON_KEY = "SELECT a.k AS ak, b.k AS bk, a.v AS av, b.v AS bv FROM a [5 SEC], b [2 SEC] WHERE a.k = b.k WITH "


@pytest.mark.parametrize("epoch", EPOCHS)
def test_both_ends_of_a_join_window_belong_to_it(runtime: Runtime, epoch: str) -> None:
    """a is kept for 5 s and b for 2 s, so a may be 5 s older than b, and b 2 s older than a."""
    streams = arrived(
        {"k": INT, "v": INT},
        ("a", 0, 1, 10), ("b", 5000, 1, 20), ("b", 5001, 1, 21), ("a", 7000, 1, 11), ("a", 7001, 1, 12),
    )  # fmt: skip
    ran = runtime.run(ON_KEY + "DELAY 10 SECONDS", streams, epoch)
    assert sorted(ran.rows("_ts", "av", "bv")) == [
        (at(5000), 10, 20), (at(7000), 11, 20), (at(7000), 11, 21), (at(7001), 12, 21),
    ]  # fmt: skip
    assert runtime.verify(ON_KEY + "DELAY 10 SECONDS", streams, epoch).missing == 0


@pytest.mark.parametrize("epoch", EPOCHS)
def test_results_leave_in_the_order_of_their_latest_tuple(runtime: Runtime, epoch: str) -> None:
    times = [900, 100, 500, 3000, 200, 2600, 2500, 4000, 3900, 100]
    rows = [("ab"[i % 2], t, 0, i) for i, t in enumerate(times)]
    streams = arrived({"k": INT, "v": INT}, *rows)
    ran = runtime.run(ON_KEY + "DELAY 1 MINUTE", streams, epoch)
    left, right = ([t for i, t in enumerate(times) if i % 2 == side] for side in (0, 1))
    true = sorted(max(x, y) for x in left for y in right if x - 2000 <= y <= x + 5000)
    assert [t for (t,) in ran.rows("_ts")] == [at(t) for t in true]
    assert ran.report["late"] == 0


def test_a_late_tuple_triggers_nothing_but_is_met_by_later_ones(runtime: Runtime) -> None:
    streams = arrived(
        {"k": INT, "v": INT},
        ("a", 1000, 1, 1), ("b", 1000, 1, 1), ("a", 4000, 9, 2), ("b", 4000, 9, 2),
        ("a", 3000, 1, 3), ("b", 3500, 9, 4), ("a", 4500, 9, 5), ("b", 4600, 1, 6),
        ("a", 5000, 9, 7), ("b", 5000, 9, 8),
    )  # fmt: skip
    ran = runtime.run(ON_KEY + "NO WAIT", streams, "2")
    assert ran.late["a"].select(["stream", "delay", "ts", "v"]).to_pylist() == [
        {"stream": "a", "delay": 1000.0, "ts": 3000, "v": 3}
    ]
    assert ran.late["b"].column("delay").to_pylist() == [500.0]
    assert ran.late["a"].column("watermark").to_pylist() == [at(4000)]
    pairs = {(av, bv) for av, bv in ran.rows("av", "bv")}
    assert (3, 6) in pairs, "a tuple in time meets the late one in its window"
    assert (3, 1) not in pairs, "the late tuple itself triggers nothing"
    assert (2, 4) not in pairs
    verdict = runtime.verify(ON_KEY + "NO WAIT", streams, "2")
    assert verdict.sound
    assert verdict.missing_late > 0


@pytest.mark.parametrize("epoch", EPOCHS)
def test_null_and_nan_keys_never_join(runtime: Runtime, epoch: str) -> None:
    for kind, values in ((INT, [None, 1]), (FLOAT, [None, math.nan, 1.0]), (TEXT, [None, "x"]), (BOOL, [None, True])):
        rows = [(stream, i, value, i) for i, value in enumerate(values) for stream in "ab"]
        ran = runtime.run(ON_KEY + "COMPLETE", arrived({"k": kind, "v": INT}, *rows), epoch)
        assert ran.rows("ak", "bk") == [(values[-1], values[-1])]
        assert ran.report["in_time"] == len(rows)


def test_zero_has_one_key_whatever_its_sign(runtime: Runtime) -> None:
    streams = arrived({"k": FLOAT, "v": INT}, ("a", 0, 0.0, 1), ("b", 0, -0.0, 2), ("a", 1, -0.0, 3))
    ran = runtime.run(ON_KEY + "COMPLETE", streams)
    assert sorted(ran.rows("av", "bv")) == [(1, 2), (3, 2)]
    assert math.copysign(1, ran.rows("bk")[0][0]) == -1, "the value itself is not changed"


def test_an_integer_joins_the_float_it_equals(runtime: Runtime) -> None:
    streams = arrived({"k": INT, "v": INT}, ("a", 0, 2, 1), ("a", 0, -3, 2))
    streams |= {"b": pa.table({"arrival": [2, 3], "ts": [0, 0], "k": [2.0, 2.5], "v": [1, 2]})}
    assert runtime.run(ON_KEY + "COMPLETE", streams).rows("ak", "bk", "bv") == [(2, 2.0, 1)]
    assert runtime.verify(ON_KEY + "COMPLETE", streams).missing == 0


def test_text_keys_join_across_encodings_and_leave_as_text(runtime: Runtime) -> None:
    streams = {
        "a": pa.table({"arrival": [0, 1], "ts": [0, 1], "k": pa.array(["é", ""]).dictionary_encode(), "v": [1, 2]}),
        "b": pa.table(
            {"arrival": [2, 3], "ts": [0, 1], "k": pa.array(["", "é"], pa.large_string()), "v": [1, 2]}
        ),
    }  # fmt: skip
    ran = runtime.run(ON_KEY + "COMPLETE", streams)
    assert sorted(ran.rows("ak", "av", "bv")) == [("", 2, 1), ("é", 1, 2)]
    assert ran.results.schema.field("ak").type == pa.string()


@pytest.mark.parametrize("ways", [1, 2, 3, 4])
def test_a_join_takes_one_to_many_streams(runtime: Runtime, ways: int) -> None:
    names = "abcd"[:ways]
    rows = [(name, 100 * i + 7 * at_stream, i % 2, i) for i in range(6) for at_stream, name in enumerate(names)]
    streams = arrived({"k": INT, "v": INT}, *rows)
    froms = ", ".join(f"{name} [250 MS]" for name in names)
    keys = " AND ".join(f"{x}.k = {y}.k" for x, y in pairwise(names))
    values = ", ".join(f"{name}.v AS {name}v" for name in names)
    query = f"SELECT {values} FROM {froms} {'WHERE ' + keys if keys else ''} WITH DELAY 1 SECOND"
    verdict = runtime.verify(query, streams, "2")
    assert (verdict.missing, verdict.spurious, verdict.out_of_order) == (0, 0, 0)
    ran = runtime.run(query, streams, "2")
    assert ran.report["results"] == verdict.true_results > 0
    counted = runtime.run(query, streams, "2", count_only=True)
    assert counted.report["results"] == ran.report["results"]
    assert sum(n for (n,) in counted.rows("count")) == ran.report["results"]


@pytest.mark.parametrize(
    ("condition", "pairs"),
    [
        ("dist(a.x, a.y, b.x, b.y) <= 5", [("p", "q"), ("p", "p"), ("r", "q"), ("r", "p")]),
        ("dist(a.x, a.y, b.x, b.y) < 1", [("p", "p"), ("r", "q")]),
        ("a.x < b.x AND a.name <> b.name", [("p", "q"), ("r", "q")]),
        ("a.x + b.x > 3 OR b.x IS NULL", [("r", "q"), ("p", "p"), ("r", "p")]),
        ("CASE WHEN a.name = 'p' THEN b.x ELSE a.x END > 2", [("p", "q"), ("r", "q"), ("r", "p"), ("r", "p")]),
        ("a.name IN ('p', 'nobody') AND abs(a.x - b.x) >= sqrt(9)", [("p", "q")]),
    ],
    ids=lambda value: value if isinstance(value, str) else "",
)
def test_conditions_of_every_sort_decide(runtime: Runtime, condition: str, pairs: list[tuple[str, str]]) -> None:
    columns = {"x": FLOAT, "y": FLOAT, "name": TEXT}
    points = [
        ("a", 0.0, 0.0, "p"),
        ("b", 3.0, 4.0, "q"),
        ("b", 0.5, 0.5, "p"),
        ("a", 2.5, 4.0, "r"),
        ("b", None, 1.0, "p"),
    ]
    streams = arrived(columns, *((stream, 10 * i, x, y, name) for i, (stream, x, y, name) in enumerate(points)))
    query = f"SELECT a.name AS one, b.name AS other FROM a [1 MIN], b [1 MIN] WHERE {condition}"
    assert sorted(runtime.run(query, streams, "1000").rows("one", "other")) == sorted(pairs)
    assert runtime.verify(query, streams, "1000").missing == 0


@pytest.mark.end_to_end
def test_a_registered_function_decides_and_computes(runtime: Runtime) -> None:
    def near_on_a_ring(x: float, y: float) -> float:
        gap = abs(x - y) % 360.0
        return min(gap, 360.0 - gap)

    register("ring", near_on_a_ring, (Kind.FLOAT, Kind.FLOAT), Kind.FLOAT)
    streams = arrived({"k": FLOAT}, ("a", 0, 350.0), ("b", 1, 10.0), ("b", 2, 200.0))
    query = "SELECT ring(a.k, b.k) AS gap FROM a [5 SEC], b [5 SEC] WHERE ring(a.k, b.k) < 30"
    assert runtime.run(query, streams).rows("gap") == [(20.0,)]
    assert runtime.verify(query, streams).missing == 0


def test_a_pushed_down_filter_drops_tuples_but_not_their_clocks(runtime: Runtime) -> None:
    streams = arrived(
        {"k": INT, "v": INT}, ("a", 0, 1, 1), ("b", 0, 1, 1), ("a", 9000, 1, -1), ("b", 9000, 1, 1), ("a", 100, 1, 1)
    )
    query = ON_KEY.replace("WHERE", "WHERE a.v > 0 AND") + "NO WAIT"
    ran = runtime.run(query, streams, "2")
    assert (ran.report["filtered"], ran.report["late"]) == (1, 1)
    assert ran.late["a"].column("delay").to_pylist() == [8900.0]
    assert ran.report["tuples"] == sum(ran.report[part] for part in ("in_time", "late", "filtered", "rejected"))


def test_duplicates_and_equal_timestamps_are_all_kept(runtime: Runtime) -> None:
    streams = arrived({"k": INT, "v": INT}, *[("ab"[i % 2], 7, 1, 1) for i in range(6)])
    for epoch in runtime.offered(*EPOCHS):
        ran = runtime.run(ON_KEY + "COMPLETE", streams, epoch)
        assert ran.rows("av", "bv", "_ts") == [(1, 1, at(7))] * 9


def test_a_join_with_itself_pairs_a_tuple_with_itself_too(runtime: Runtime) -> None:
    streams = {"s": pa.table({"ts": [0, 1000, 9000], "k": [1, 1, 1]})}
    query = "SELECT l.ts AS lt, r.ts AS rt FROM s AS l [2 SEC], s AS r [2 SEC] WHERE l.k = r.k"
    assert len(runtime.run(query, streams).rows("lt", "rt")) == 5
    assert runtime.verify(query, streams).missing == 0


def test_columns_that_look_like_ours_are_read_as_theirs(runtime: Runtime) -> None:
    streams = {"s": pa.table({"ts": [5, 6], "_row": [70, 80]})}
    assert runtime.run("SELECT _row + 1 AS v FROM s WHERE _row > 75", streams).rows("v") == [(81,)]


@pytest.mark.end_to_end
def test_types_come_out_as_they_went_in(runtime: Runtime) -> None:
    values = {
        "i8": pa.array([-1, None], pa.int8()),
        "u64": pa.array([2**63 - 1, 0], pa.uint64()),
        "f32": pa.array([1.5, None], pa.float32()),
        "flag": pa.array([True, None], BOOL),
        "text": pa.array(["x", None], TEXT),
        "when": pa.array([1, None], pa.timestamp("ms")),
        "day": pa.array([1, None], pa.date32()),
    }
    ran = runtime.run("SELECT * FROM s", {"s": pa.table({"ts": [1, 2], **values})})
    for name in ("i8", "u64", "f32", "flag", "text", "day"):
        assert ran.results.column(name).combine_chunks().equals(values[name]), name
    # A time without a zone stays without one.
    assert ran.results.column("when").to_pylist() == [at(1).replace(tzinfo=None), None]


def test_a_select_list_of_constants_gives_a_row_each(runtime: Runtime) -> None:
    streams = arrived({"k": INT}, ("a", 0, 1), ("b", 1, 1), ("b", 2, 1))
    query = "SELECT 1 AS one, 'x' AS letter FROM a [5 SEC], b [5 SEC]"
    assert runtime.run(query, streams).rows("one", "letter", "_ts") == [(1, "x", at(1)), (1, "x", at(2))]
    assert runtime.run(query + " WHERE a.k > 1", streams).rows("one", "letter") == []


def test_a_selected_expression_without_a_value_is_null_and_not_nan(runtime: Runtime) -> None:
    streams = arrived({"v": FLOAT}, ("s", 0, 4.0), ("s", 1, -4.0), ("s", 2, None), ("s", 3, math.nan))
    ran = runtime.run("SELECT sqrt(v) AS root, v / 0 AS lost FROM s WITH COMPLETE", streams)
    assert ran.rows("root", "lost") == [(2.0, None), (None, None), (None, None), (None, None)]
