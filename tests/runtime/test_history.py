"""A history before a live query: the same answers as if all of it had been pushed, and no row twice."""

from __future__ import annotations

from datetime import timedelta

import numpy as np
import pyarrow as pa
import pytest

import slackwater as sw
from slackwater.core.errors import UsageError

COUNT = "SELECT COUNT(*) AS n, SUM(v) AS total FROM s [RANGE 10 SECONDS SLIDE 5 SECONDS] WITH DELAY 1 SECOND"
JOIN = "SELECT a.v AS av, b.v AS bv FROM a [RANGE 2 SECONDS], b [RANGE 2 SECONDS] WHERE a.v = b.v WITH NO WAIT"
SCHEMA = pa.schema([("ts", pa.int64()), ("v", pa.int64())])


def rows(*times: int) -> pa.Table:
    return pa.table({"ts": times, "v": [t // 1000 for t in times]}, schema=SCHEMA)


@pytest.mark.parametrize("most", [1, 3, 100])
def test_a_window_on_both_sides_of_the_seam_has_the_rows_of_both(most: int) -> None:
    # Tables are in any order, and the stream repeats what it had just sent.
    past = sw.history({"s": rows(8000, 1000, 4000, 2000, 9000)}, rows=most)
    live = sw.live(COUNT, {"s": SCHEMA}, history=past)
    live.push("s", rows(4000, 9000, 12_000, 11_000))
    live.push("s", rows(17_000))
    step = live.next()
    assert step is not None
    assert step.rows.select(["n", "total"]).to_pylist() == [{"n": 4, "total": 8 + 9 + 12 + 11}]
    answer = live.close()
    assert answer.rejected["s"]["reason"].to_pylist() == ["in_history"] * 2
    assert [answer.report[name] for name in ("tuples", "in_time", "late", "rejected")] == [10, 8, 0, 2]


def test_until_says_where_the_stream_begins_and_ids_say_which_rows_are_known() -> None:
    by_time = sw.history({"s": rows(1000, 4000, 9000)}, until="1970-01-01 00:00:08")
    live = sw.live(COUNT, {"s": SCHEMA}, history=by_time)
    live.push("s", rows(4000, 8000, 9000))
    report = live.close().report
    assert (report["in_time"], report["rejected_reasons"]) == (4, {"in_history": 1})
    by_id = sw.history({"s": rows(1000, 4000, 9000)}, id="v")
    live = sw.live(COUNT.replace("1 SECOND", "9 SECONDS"), {"s": SCHEMA}, history=by_id)
    live.push("s", rows(4000, 8000, 9000, 14_000))
    report = live.close().report
    assert (report["in_time"], report["rejected_reasons"]) == (5, {"in_history": 2})


def test_a_join_goes_on_where_a_history_ends_and_a_stream_without_one_is_waited_for_only_then() -> None:
    past = sw.history({"a": rows(1000, 5000, 6000), "b": None}, until="1970-01-01 00:00:07")
    live = sw.live(JOIN, {"a": SCHEMA, "b": SCHEMA}, history=past)
    live.push("b", pa.table({"ts": [7500], "v": [6]}, schema=SCHEMA))
    live.push("a", rows(8000))
    live.push("b", rows(9000))
    step = live.next()
    assert step is not None
    assert step.rows.drop_columns(["_ts"]).to_pylist() == [{"av": 6, "bv": 6}]


def test_nothing_is_learned_from_how_a_table_is_read_and_a_primed_slack_is_begun_with() -> None:
    learning = COUNT.replace("DELAY 1 SECOND", "ERROR 5%")
    past = rows(*np.arange(0, 600_000, 100).tolist())
    live = sw.live(learning, {"s": SCHEMA}, history=sw.history({"s": past}, prime="3 seconds"))
    progress = live.progress()
    assert progress.slack == timedelta(seconds=3)
    assert progress.quality is not None
    assert (progress.quality.measured, progress.latency, progress.results > 100) == (None, None, True)
    recording = pa.table({"ts": [1000, 6000, 4500, 12_000], "v": [1, 1, 1, 1]}, schema=SCHEMA)
    advice = sw.advise(COUNT, s=recording)
    live = sw.live(learning, {"s": SCHEMA}, history=sw.history({"s": past}, prime=advice))
    assert live.progress().slack == timedelta(microseconds=advice.curve.least(0.95)) > timedelta(0)


def test_what_cannot_be_a_history_is_refused() -> None:
    for history, sentence in (
        ({"c": rows(1)}, "there is no stream c; the query reads a, b"),
        ({"a": rows(1)}, "history says nothing of stream b"),
    ):
        with pytest.raises(UsageError, match=sentence):
            sw.live(JOIN, {"a": SCHEMA, "b": SCHEMA}, history=history)
    for wrong, sentence in (
        ({"until": "noon"}, "until='noon'; it is a time in ISO 8601"),
        ({"prime": "soon"}, "prime='soon'"),
        ({"prime": 5}, "prime=5; it is a duration"),
        ({"rows": 0}, "at least one row"),
    ):
        with pytest.raises(UsageError, match=sentence):
            sw.history({"a": rows(1)}, **wrong)
    with pytest.raises(UsageError, match="leave epochs out"):
        sw.live(COUNT, {"s": SCHEMA}, epochs=sw.Epochs(tuples=5), history={"s": rows(1)})
