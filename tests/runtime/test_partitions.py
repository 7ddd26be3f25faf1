"""Streams whose partitions have clocks of their own (`clock_by`), whatever the columns that name them."""

from __future__ import annotations

import json
from time import process_time

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

import slackwater as sw
from slackwater.core.errors import UsageError
from slackwater.core.schema import Kind
from slackwater.expressions.textual import text_function
from slackwater.expressions.tree import Call, Literal
from slackwater.observe.imbalance import ShardLoad
from slackwater.observe.views import ProgressHistory
from slackwater.runtime.spark.api import _waiting
from slackwater.runtime.spark.exchange.writer import lines_of
from slackwater.sources.codebook import Codebook
from tests.runtime.streams import Runtime
from tests.runtime.texts import COLUMNS, Sharded

SOURCES = ("web", "app", "kiosk")
START = 1_700_000_000_000
COUNTED = "SELECT key, COUNT(*) AS n FROM s [RANGE 1 SECOND] GROUP BY key WITH NO WAIT OPTIONS (clock_by = '{}')"


def three_paces() -> pa.Table:
    """Three sources, each with a key of its own, so no shard but one has tuples of it; one is half a minute behind."""
    rows = [
        (i, START + 10 * i - 30_000 * (source == "kiosk"), source, n, 7 * n)
        for i, (source, n) in enumerate((source, n) for _ in range(300) for n, source in enumerate(SOURCES))
    ]
    return pa.table(dict(zip(("arrival", "ts", "source", "number", "key"), zip(*rows, strict=True), strict=True)))


def four_corners() -> pa.Table:
    """Two hosts with two channels each, of which one combination is half a minute behind; a host may be unknown."""
    corners = [("a", 1), ("a", 2), (None, 1), (None, 2)]
    rows = [
        (i, START + 10 * i - 30_000 * (corner == (None, 2)), *corner, 7 * n)
        for i, (n, corner) in enumerate((n, corner) for _ in range(200) for n, corner in enumerate(corners))
    ]
    return pa.table(dict(zip(("arrival", "ts", "host", "channel", "key"), zip(*rows, strict=True), strict=True)))


def test_a_text_column_names_partitions_wherever_their_tuples_are(runtime: Runtime) -> None:
    for column in ("source", "number"):
        ran = runtime.run(COUNTED.format(column), {"s": three_paces()}, "50")
        assert ran.report["late"] == 0, "the source that lags behind is waited for"
        assert sum(ran.results.column("n").to_pylist()) == 900


def test_several_columns_name_a_partition_by_their_combination(runtime: Runtime) -> None:
    late = {
        columns: runtime.run(COUNTED.format(columns), {"s": four_corners()}, "50").report["late"]
        for columns in ("host", "channel", "host, channel")
    }
    assert late["host, channel"] == 0
    assert min(late["host"], late["channel"]) > 100, "neither column tells the one that lags from its neighbours"


def test_tuples_that_are_filtered_move_the_clock_of_their_partition(runtime: Runtime) -> None:
    text = COUNTED.format("host,channel").replace(" GROUP BY", " WHERE channel = 1 GROUP BY")
    ran = runtime.run(text, {"s": four_corners()}, "50")
    assert (ran.report["late"], ran.report["filtered"]) == (0, 400)


def test_a_partition_is_named_by_its_columns_and_values() -> None:
    rows = [(t, name, n) for t in range(0, 60_000, 100) for name in ("a", "b", None) for n in (1, 2)]
    wrong = {("b", 2): 1_800_000, (None, 1): -400 * 86_400_000}
    table = pa.table(
        {
            "arrival": range(len(rows)),
            "ts": [START + t + wrong.get((name, n), 0) for t, name, n in rows],
            "host": [name for _, name, _ in rows],
            "port": [n for _, _, n in rows],
        }
    )
    query = "SELECT COUNT(*) AS n FROM s [RANGE 10 SECONDS] WITH NO WAIT OPTIONS (clock_by = 'host, port')"
    answer = sw.replay(query, {"s": table}, epochs=sw.Epochs(span=1_000_000))
    assert [one["part"] for one in answer.report["wrong_clocks"]] == ["host=b, port=2", "host=NULL, port=1"]


@pytest.mark.parametrize(
    ("columns", "names"),
    [
        ("name, v", {"name=a, v=1", "name=b, v=1", "name=NULL, v=NULL"}),
        ("name", {"a", "b", "NULL"}),
        ("v", {"1", "NULL"}),
    ],
)
def test_a_shard_names_partitions_of_which_it_has_no_tuple(columns: str, names: set[str]) -> None:
    query = f"SELECT note, COUNT(*) AS n FROM a [1 s] WHERE v > 5 GROUP BY note OPTIONS (clock_by = '{columns}')"
    hosted = Sharded(query)
    rows = pa.table([[1, 2, 3], ["a", None, "b"], [None] * 3, [1, None, 1]], schema=COLUMNS)
    shard, _ = hosted.epoch(hosted.restarted(), {"a": rows})
    assert set(shard.progress(ShardLoad()).streams["a"].partitions) == names
    again, _ = hosted.epoch(hosted.restarted(), {"a": rows.slice(0, 1)})
    assert set(again.progress(ShardLoad()).streams["a"].partitions) == names, "a restart forgets none"


def test_what_partitions_cost_where_they_are_packed_grows_with_their_number_and_no_faster() -> None:
    (packing,) = Sharded("SELECT COUNT(*) AS n FROM a [1 s] OPTIONS (clock_by = 'v')").packings

    def seconds_of(count: int) -> float:
        columns = [np.arange(2 * count) // 10, [None] * 2 * count, [None] * 2 * count, np.arange(2 * count) % count]
        table, costs = pa.table(columns, schema=COLUMNS), []
        for _ in range(3):
            begun = process_time()
            (line,) = lines_of(packing, table, False, Codebook())
            costs.append(process_time() - begun)
        assert len(json.loads(line.header or "")["reported"]) == count
        return min(costs)

    seconds_of(100)
    # By their square it would be 64 times as much.
    assert seconds_of(24_000) < 30 * seconds_of(3_000)


@given(some=st.lists(st.tuples(*[st.none() | st.text('a,"=\\NUL ', max_size=6)] * 2), min_size=2, max_size=2))
def test_other_values_give_a_partition_another_name(some: list[tuple[str | None, str | None]]) -> None:
    named = text_function(Call("partition", (Literal("x", Kind.TEXT),), Kind.TEXT))
    one, other = (named("host", a, "channel", b) for a, b in some)
    assert (one == other) == (some[0] == some[1])


def test_a_stream_goes_by_those_of_the_columns_that_it_has() -> None:
    a, b = four_corners(), three_paces()
    b = b.append_column("host", b["source"]).set_column(0, "arrival", pa.array(np.arange(b.num_rows)))
    query = "SELECT a.key FROM a [1 SECOND], b [1 SECOND] WHERE a.key = b.key WITH NO WAIT OPTIONS (clock_by = '{}')"
    streams = {"a": a, "b": b}
    late = sw.replay(query.format("host, channel"), streams, epochs=sw.Epochs(tuples=50)).report["late"]
    assert late == 0
    with pytest.raises(UsageError, match="option clock_by = 'host, chanel': there is no column 'chanel' in a, b"):
        sw.replay(query.format("host, chanel"), streams)


def test_python_names_several_columns_by_a_list() -> None:
    written = _waiting(None, {"clock_by": ["host", "channel"], "idle_timeout": "1 second"})
    assert written == "WITH COMPLETE OPTIONS (clock_by = 'host, channel', idle_timeout = '1 second')"


def lagging(minutes: int, behind: int = 30) -> pa.Table:
    """Four partitions, of which one stops following after a minute, and is so many minutes behind at the end."""
    rows = [(s, name) for s in range(0, 60 * minutes, 5) for name in ("p0", "p1", "p2", "p3")]
    times = [START + 1000 * (min(s, 60 + s // behind) if name == "p3" else s) for s, name in rows]
    return pa.table({"arrival": range(len(rows)), "ts": times, "p": [name for _, name in rows]})


def test_a_partition_that_is_far_behind_is_told_with_since_when_and_what_helps() -> None:
    query = "SELECT COUNT(*) AS n FROM s [RANGE 10 SECONDS] WITH NO WAIT OPTIONS (clock_by = 'p')"
    table = lagging(30)
    live = sw.live(query, {"s": table.schema})
    told = []
    for begin in range(0, table.num_rows, 100):
        live.push("s", table.slice(begin, 100))
        told.append(live.progress())
    assert not told[0].lagging, "a minute is not far"
    (one,) = told[-1].lagging
    assert (one.stream, one.part, one.waited_for, told[-1].wrong_clocks) == ("s", "p3", True, ())
    assert -29 * 60_000_000 < one.ahead < -26 * 60_000_000
    assert START + 60_000 < one.since // 1000 < START + 360_000, "it is known since it began"
    assert one.remedy.startswith("results wait for it; OPTIONS (idle_timeout = '1 min')")
    text = str(ProgressHistory((told[-1],)))
    assert "part p3 of stream s has a clock" in text
    assert "behind most others, since" in text
    isolated = sw.live(query.replace("'p')", "'p', max_behind = 10 MINUTES)"), {"s": table})
    progress = isolated.progress()
    assert not progress.lagging
    assert [(one.part, one.remedy[:14]) for one in progress.wrong_clocks] == [("p3", "it is isolated")]
