"""Calls that cannot be meant are refused in one sentence, never with what some library makes of them."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pyarrow as pa
import pytest

import slackwater as sw
from slackwater.core.errors import SlackwaterError

TABLE = pa.table({"ts": [1, 2, 3], "v": [1, 2, 3]})
QUERY = "SELECT v FROM s"
JOIN = "SELECT a.v AS av FROM a [5 s], b [5 s]"
TWICE = pa.Table.from_arrays([pa.array([1])] * 3, names=["ts", "v", "v"])


def live() -> sw.LiveQuery:
    return sw.live(QUERY, {"s": TABLE.schema})


def joined(**options: Any) -> sw.LiveQuery:
    return sw.live(JOIN, {"a": TABLE.schema, "b": TABLE.schema}, **options)


@pytest.mark.parametrize(
    ("call", "message"),
    [
        (lambda: sw.replay(None, {"s": TABLE}), "a query is a text, not a NoneType"),  # type: ignore[arg-type]
        (lambda: sw.replay(b"SELECT", {"s": TABLE}), "a query is a text, not a bytes"),  # type: ignore[arg-type]
        (lambda: sw.replay(f"EXPLAIN {QUERY}", {"s": TABLE}), "EXPLAIN runs nothing"),
        (lambda: sw.replay(QUERY, None), "streams are given by name"),  # type: ignore[arg-type]
        (lambda: sw.replay(QUERY, {"s": TABLE}, time_unit=["ms"]), "it is one of s, ms, us, ns"),  # type: ignore[arg-type]
        (lambda: sw.replay(QUERY, {"s": TABLE}, epochs=3), "epochs: a int is none"),  # type: ignore[arg-type]
        (lambda: sw.replay(QUERY, {"s": TABLE}, epochs=sw.Epochs(tuples=2.5)), "a whole number"),  # type: ignore[arg-type]
        (lambda: sw.replay(QUERY, {"s": "a" * 5000 + ".csv"}), "cannot be read: File name too long"),
        (lambda: sw.replay(QUERY, {"s": "s3://bucket/s.parquet"}), "only files of this machine are read"),
        (lambda: sw.replay("SELECT SUM(v) AS x FROM s [9 DAYS SLIDE 1 us]", {"s": TABLE}), "make SLIDE longer"),
        (lambda: sw.sql(None, QUERY, give="aside"), "it is one of results, outputs, late, rejected"),  # type: ignore[call-overload]
        (lambda: sw.live(QUERY, None), "streams are given by name"),  # type: ignore[arg-type]
        (lambda: sw.live(QUERY, {"s": 3}), "stream s: a int cannot be read as rows"),
        (lambda: joined(patience=3), "patience: 3 is no duration"),
        (lambda: joined(keep=3), "keep: '3' is not a duration"),
        (lambda: joined(epochs="1 s"), "epochs: a str is none"),
        (lambda: live().push("s", None), "stream s: a NoneType cannot be read as rows"),
        (lambda: live().push("s", [{"ts": [1], "v": 1}]), "column 'ts' of the rows pushed holds list<"),
        (lambda: live().push("s", TWICE), "the rows pushed have two columns called 'v'"),
        (lambda: live().push("s", [{"ts": 1, "v": "x"}]), "column 'v' of the rows pushed holds string"),
    ],
)
def test_a_call_that_cannot_be_meant_is_refused(call: Callable[[], object], message: str) -> None:
    with pytest.raises(SlackwaterError) as refused:
        call()
    assert message in str(refused.value)
    assert len(str(refused.value).splitlines()[0]) < 400


def test_a_stream_that_the_query_does_not_read_needs_no_event_times() -> None:
    read, unread = pa.table({"ts": [1, 2], "v": [3, 4]}), pa.table({"name": ["a"]})
    answer = sw.replay("SELECT v FROM s WITH NO WAIT", {"s": read, "u": unread})
    assert answer.results["v"].to_pylist() == [3, 4]
    with sw.live("SELECT v FROM s WITH NO WAIT", {"s": read.schema, "u": unread.schema}) as query:
        assert query is not None
