"""Queries of a set give what each of them gives alone, over the same micro-batches."""

from __future__ import annotations

from dataclasses import replace
from itertools import pairwise

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

pytest.importorskip("pyspark", reason="the Spark runtime needs pyspark")

from slackwater.core.errors import UsageError
from slackwater.core.quality import clause
from slackwater.operators.pipeline import Epochs
from slackwater.plan.query_set import QuerySetPlan
from slackwater.runtime.kernels import QuerySetKernel
from slackwater.runtime.side_outputs.collectors import LATE, REJECTED
from slackwater.runtime.spark.control import (
    ADD,
    BEGIN,
    CHANGE,
    DROP,
    FAIL,
    PAUSE,
    RESUME,
    TARGET,
    Message,
    Stated,
    changes_of_start,
    in_force,
)
from slackwater.runtime.spark.members import Member, groups_of
from slackwater.runtime.spark.output_schema import ROWS
from slackwater.sources.shared_reading import SharedReading
from tests.effort import tried
from tests.spark.in_process import UNIT, one_worker, planned
from tests.spark.set_in_process import PlayedAlone, PlayedSet, alone_of

QUERIES = {
    "pairs": "SELECT a.key, a.v AS av, b.v AS bv FROM a [RANGE 50 MS], b [RANGE 50 MS] WHERE a.key = b.key"
    " WITH DELAY 60 MS",
    "loud pairs": "SELECT a.key, a.v AS av FROM a [RANGE 50 MS], b [RANGE 50 MS] WHERE a.key = b.key AND a.v > 0.5"
    " WITH RECALL 0.9 OVER 1 SECOND",
    "self": "SELECT x.v AS xv, y.v AS yv FROM a [RANGE 20 MS] x, a [RANGE 20 MS] y WHERE x.key = y.key WITH NO WAIT",
    "by key": "SELECT key, SUM(v) AS total, COUNT(*) AS n FROM a [RANGE 100 MS SLIDE 50 MS] GROUP BY key"
    " WITH DELAY 30 MS",
    "by key, patient": "SELECT key, SUM(v) AS total, COUNT(*) AS n FROM a [RANGE 100 MS SLIDE 50 MS] GROUP BY key"
    " WITH DELAY 300 MS",
    "all/of it": "SELECT COUNT(*) AS n, MAX(v) AS most FROM b [RANGE 100 MS] WITH ERROR 5%",
    "by group": "SELECT g, AVG(v) AS mean FROM b [RANGE 80 MS] WHERE v < 0.8 GROUP BY g WITH COMPLETE",
    "by partition": "SELECT key, COUNT(*) AS n FROM a [RANGE 100 MS] WHERE v < 0.7 GROUP BY key WITH DELAY 20 MS"
    " OPTIONS (clock_by = 'key, g')",
    "rows": "SELECT key, v FROM a WHERE v > 0.9 WITH DELAY 10 MS",
}


def stream(rng: np.random.Generator, count: int, timeless: float = 0.01) -> pa.Table:
    """About one tuple a millisecond, some late, some without a time."""
    ts = 1_700_000_000_000 + np.arange(count) - np.where(rng.random(count) < 0.2, rng.integers(0, 200, count), 0)
    times = pa.array(ts, mask=rng.random(count) < timeless)
    keys = [f"k{key}" for key in rng.integers(0, 5, count)]
    return pa.table({"ts": times, "key": keys, "g": rng.integers(0, 3, count), "v": rng.random(count)})


def cut(rng: np.random.Generator, table: pa.Table, batches: int) -> list[pa.Table]:
    """A stream as micro-batches, some of them empty."""
    at = [0, *sorted(rng.integers(0, table.num_rows, batches - 1).tolist()), table.num_rows]
    return [table.slice(begin, end - begin) for begin, end in pairwise(at)]


@tried(6)
@given(st.integers(0, 2**32 - 1), st.sampled_from([1, 2, 4]), st.integers(2, 4))
def test_every_query_gives_what_it_gives_alone(seed: int, shards: int, batches: int) -> None:
    rng = np.random.default_rng(seed)
    tables = {name: stream(rng, 600) for name in "ab"}
    pieces = {name: cut(rng, table, batches) for name, table in tables.items()}
    played = PlayedSet({name: planned(text, tables) for name, text in QUERIES.items()}, shards)
    alone = alone_of(played)
    for number in range(batches):
        now = {name: mine[number] for name, mine in pieces.items()}
        played.batch(now)
        for one in alone.values():
            one.batch(now)
    for key, one in alone.items():
        assert one.seen.counts["results"] > 0
        assert played.seen[key].same_as(one.seen), key
    assert any(one.seen.rows[LATE] for one in alone.values())
    assert any(one.seen.rows[REJECTED] for one in alone.values())
    assert all(sum(one.seen.rows[ROWS].values()) == one.seen.counts["results"] for one in alone.values())


def fed(played: PlayedSet, alone: list[PlayedAlone], tables: dict[str, pa.Table], *messages: Message) -> None:
    """One micro-batch for the set, and for each of these queries by itself."""
    played.batch(tables, *messages)
    for one in alone:
        one.batch(tables)


def told(kind: str, number: int, one: Member, **fields: object) -> Message:
    """A message about a query."""
    return Message(kind, number, one.name, one.generation, **fields)  # type: ignore[arg-type]


@pytest.fixture(params=["every worker is new", "one worker keeps its shards"])
def workers(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> None:
    """Whether shards are read anew in every micro-batch."""
    if request.param.startswith("one"):
        one_worker(monkeypatch)


@pytest.mark.usefixtures("workers")
@pytest.mark.parametrize("name", ["pairs", "by key"])
def test_counts_add_up_to_all_rows_while_a_query_rests(name: str) -> None:
    rng = np.random.default_rng(9)
    tables = {one: stream(rng, 600, timeless=0.1) for one in "ab" if f" {one} [" in QUERIES[name]}
    parts = {one: cut(rng, table, 4) for one, table in tables.items()}
    played = PlayedSet({name: planned(QUERIES[name], tables)}, 2)
    (one,) = played.members
    for number in range(4):
        messages = {1: [told(PAUSE, 5, one)], 3: [told(RESUME, 6, one)]}.get(number, [])
        played.batch({source: mine[number] for source, mine in parts.items()}, *messages)
    seen = played.seen[one.key]
    taken = sum(count for what, count in seen.counts.items() if what != "results")
    assert sum(shard.passed_by for shard in seen.reported.values()) > 0
    assert taken + sum(shard.passed_by for shard in seen.reported.values()) == 600 * len(tables)
    assert sum(one.rows or 0 for shard in seen.reported.values() for one in shard.streams.values()) == 600 * len(tables)
    assert seen.rows[REJECTED].total() == seen.counts["rejected"]


@pytest.mark.usefixtures("workers")
def test_queries_come_go_and_rest_without_a_trace_in_the_others() -> None:
    rng = np.random.default_rng(5)
    tables = {name: stream(rng, 600) for name in "ab"}
    parts = {name: cut(rng, table, 6) for name, table in tables.items()}
    batches = [{name: mine[number] for name, mine in parts.items()} for number in range(6)]
    plans = {name: planned(QUERIES[name], tables) for name in ("pairs", "by key", "all/of it")}
    played = PlayedSet(plans, 2)
    pairs, by_key, over_all = played.members
    alone = alone_of(played)
    fed(played, list(alone.values()), batches[0])
    # Paused, the query sees nothing of two micro-batches but what time it is.
    going = [alone[one.key] for one in (by_key, over_all)]
    fed(played, going, batches[1], told(PAUSE, 5, pairs))
    alone[pairs.key].rest(batches[1])
    played.restart()
    later = played.add("rows", planned(QUERIES["rows"], tables), 6)
    alone[later.key] = PlayedAlone(later, played.cut)
    fed(played, [*going, alone[later.key]], batches[2])
    alone[pairs.key].rest(batches[2])
    fed(played, list(alone.values()), batches[3], told(RESUME, 7, pairs))
    # Dropped, and added again under its name: it begins anew.
    played.members.remove(by_key)
    played.restart()
    again = played.add("by key", plans["by key"], 8)
    alone[again.key] = PlayedAlone(again, played.cut)
    for batch in batches[4:]:
        fed(played, [one for key, one in alone.items() if key != by_key.key], batch)
    for key, one in alone.items():
        assert one.seen.counts["results"] > 0
        assert played.seen[key].same_as(one.seen), key
    groups = {one.key for one in groups_of(played.members)}
    assert played.keys_with_state() == {one.key for one in played.members} | groups


@pytest.mark.usefixtures("workers")
def test_a_micro_batch_that_was_cut_off_runs_again_with_the_set_of_the_new_start() -> None:
    rng = np.random.default_rng(8)
    tables = {name: stream(rng, 450) for name in "ab"}
    parts = {name: cut(rng, table, 4) for name, table in tables.items()}
    batches = [{name: mine[number] for name, mine in parts.items()} for number in range(4)]
    played = PlayedSet({name: planned(QUERIES[name], tables) for name in ("pairs", "all/of it")}, 2)
    alone = alone_of(played)
    fed(played, list(alone.values()), batches[0])
    played.try_batch(batches[1])
    played.try_batch(batches[1])
    played.restart()
    later = played.add("by key", planned(QUERIES["by key"], tables), 7)
    alone[later.key] = PlayedAlone(later, played.cut)
    for batch in batches[1:]:
        fed(played, list(alone.values()), batch)
    for key, one in alone.items():
        assert one.seen.counts["results"] > 0
        assert played.seen[key].same_as(one.seen), key


@pytest.mark.usefixtures("workers")
def test_a_target_is_of_one_query_and_stays() -> None:
    rng = np.random.default_rng(6)
    tables = {name: stream(rng, 400) for name in "ab"}
    parts = {name: cut(rng, table, 4) for name, table in tables.items()}
    batches = [{name: mine[number] for name, mine in parts.items()} for number in range(4)]
    played = PlayedSet({name: planned(QUERIES[name], tables) for name in ("pairs", "by key")}, 2)
    pairs, by_key = played.members
    alone = PlayedAlone(by_key, played.cut)
    fed(played, [alone], batches[0])
    fed(played, [alone], batches[1], told(TARGET, 5, pairs, target="DELAY 200 MS", text=clause(pairs.plan.quality)))
    fed(played, [alone], batches[2])
    played.restart()
    fed(played, [alone], batches[3], told(TARGET, 6, by_key, target="DELAY 200 MS", text="another text"))
    assert played.seen[pairs.key].slack == {200_000}
    assert played.seen[by_key.key].same_as(alone.seen)


@pytest.mark.usefixtures("workers")
@pytest.mark.parametrize(
    ("text", "reason", "good"),
    [
        ("SELECT n FROM s WHERE n * 4 > 3 WITH NO WAIT", "integer overflow in", 2),
        # A sum is made when its window is passed, by the tuples after it.
        ("SELECT SUM(n) AS total FROM s [RANGE 1 S] WITH NO WAIT", "integer overflow in SUM", 3),
    ],
    ids=["in a filter", "in the operator"],
)
def test_a_query_that_fails_stops_alone_with_its_reason(text: str, reason: str, good: int) -> None:
    large = 2**62
    tables = [pa.table({"ts": [1000 * i, 1000 * i + 1], "n": [n, n]}) for i, n in enumerate([1, 2, large, 4, 5], 1)]
    other = "SELECT MAX(n) AS most FROM s [RANGE 1 S] WITH NO WAIT"
    played = PlayedSet({"fails": planned(text, {"s": tables[0]}), "goes on": planned(other, {"s": tables[0]})}, 2)
    fails, goes_on = played.members
    alone = PlayedAlone(goes_on, played.cut)
    for table in tables:
        fed(played, [alone], {"s": table})
    assert played.seen[goes_on.key].same_as(alone.seen)
    assert alone.seen.counts["results"] == 4
    (failed,) = [one for one in played.seen[fails.key].reported.values() if one.failure]
    assert reason in failed.failure
    whole = PlayedAlone(fails, played.cut)
    for table in tables[:good]:
        whole.batch({"s": table})
    assert played.seen[fails.key].rows[ROWS] == whole.seen.rows[ROWS]


@pytest.mark.usefixtures("workers")
def test_a_silent_stream_is_noticed_while_other_queries_hear_theirs() -> None:
    """Moments come to all queries at once, so each asks the clock itself who of its streams is silent."""
    text = (
        "SELECT a.v AS av, b.v AS bv FROM a [RANGE 50 MS], b [RANGE 50 MS] WITH NO WAIT OPTIONS (idle_timeout = '5 s')"
    )
    tables = {name: pa.table({"ts": [1000, 1010], "v": [1.0, 2.0]}) for name in "abc"}
    later = pa.table({"ts": [1020], "v": [3.0]})
    plans = {"waits": planned(text, tables), "other": planned("SELECT v FROM c WITH NO WAIT", tables)}
    played = PlayedSet(plans, 1, live=True)
    waits, other = played.members
    assert (waits.timed, other.timed) == (True, False)
    alone = PlayedAlone(waits, played.cut)
    seen = played.seen[waits.key]

    def feed(now: dict[str, pa.Table], second: int) -> None:
        played.batch(now, now=1_000_000 * second)
        alone.batch(now, now=1_000_000 * second)

    feed(tables, 100)
    before = seen.counts["results"]
    feed({"a": later}, 101)
    feed({"c": later}, 103)
    assert seen.counts["results"] == before
    feed({"c": later}, 107)
    assert seen.counts["results"] > before
    assert seen.same_as(alone.seen)


def test_inputs_that_are_alike_are_packed_once() -> None:
    tables = {name: stream(np.random.default_rng(0), 50) for name in "ab"}
    text = QUERIES["by key"]
    plans = {name: planned(text.replace("30 MS", f"{delay} MS"), tables) for delay, name in enumerate("xyz", 1)}
    alike, other = PlayedSet(plans, 4), PlayedSet({"x": plans["x"]}, 4)
    for played in (alike, other):
        for one in played.members:
            assert len(one.shards) == 4
    # Queries differ in which of their shards counts rows, so lines are shared by those that agree on it.
    first = {one.shards for one in alike.members}
    alike.batch(tables)
    other.batch(tables)
    assert alike.packed_lines == len(first) * other.packed_lines


def stating(**texts: str) -> dict[str, Stated]:
    """Queries as a start states them, all with the same state."""
    return {name: Stated(text, "{}") for name, text in texts.items()}


def test_the_last_word_counts_over_restarts() -> None:
    stated = stating(a="A", b="B")
    log = [Message(BEGIN), *numbered(changes_of_start([], stated), 1)]
    assert changes_of_start(log, stated) == []
    log += numbered([Message(DROP, query="b", generation=2), Message(ADD, query="c", text="C", structure="{}")], 3)
    assert list(in_force(log)) == ["a", "c"]
    assert changes_of_start(log, stated) == [], "dropped stays dropped, added stays"
    assert [one.kind for one in changes_of_start(log, stating(a="A", b="B2"))] == [ADD]
    assert [one.kind for one in changes_of_start(log, stating(b="B"))] == [DROP]
    left_out = log + numbered(changes_of_start(log, stating(b="B")), 5)
    assert [(one.kind, one.query) for one in changes_of_start(left_out, stated)] == [(ADD, "a")]
    changed = changes_of_start(log, stating(a="A2", b="B"))
    assert [(one.kind, one.text) for one in changed] == [(CHANGE, "A2")]
    with pytest.raises(UsageError, match="query a: this checkpoint belongs to another query: its windows differ"):
        changes_of_start(log, stated | {"a": Stated("A", '{"windows": "2"}')})
    failed = log + numbered([Message(FAIL, query="a", generation=1, reason="why", batch=3)], 5)
    assert [one.kind for one in changes_of_start(failed, stating(a="A2", b="B"))] == [DROP, ADD]
    assert changes_of_start(failed, stated) == []


def test_a_target_that_was_set_counts_while_the_text_states_the_same_one() -> None:
    log = [
        Message(ADD, 1, "a", 1, "A"),
        Message(TARGET, 2, "a", 1, target="NO WAIT", text="COMPLETE"),
    ]
    known = in_force(log)["a"]
    assert (known.target_now("COMPLETE"), known.target_now("DELAY 1 S")) == ("NO WAIT", "DELAY 1 S")


def numbered(messages: list[Message], first: int) -> list[Message]:
    """Messages as a log has them."""
    return [
        replace(one, number=number, generation=number if one.kind == ADD else one.generation)
        for number, one in enumerate(messages, first)
    ]


@pytest.mark.parametrize("name", ["pairs", "by key"])
def test_a_query_rests_as_in_the_local_runtime(name: str) -> None:
    rng = np.random.default_rng(8)
    tables = {
        one: stream(rng, 900).append_column("arrival", pa.array(2 * np.arange(900) + number))
        for number, one in enumerate("ab")
        if f" {one} [" in QUERIES[name]
    }
    plans = {name: planned(QUERIES[name], tables)}
    reading, local_plan = SharedReading(tables, UNIT), QuerySetPlan.of(plans)
    reading.read(local_plan)
    kernel = QuerySetKernel(local_plan, Epochs(), reading.codebook)
    ((key, domain),) = local_plan.domains.items()
    arrivals = reading.replay(domain)
    played = PlayedSet(plans, 2)
    changes = {2: (PAUSE, kernel.pause), 4: (RESUME, kernel.resume)}
    results = 0
    for step in range(len(arrivals) // 150):
        messages = []
        if step in changes:
            kind, change = changes[step]
            messages, _ = [told(kind, step, played.members[0])], change(name)
        begin = arrivals.done
        kernel.absorb(key, *arrivals.next(domain, 150))
        results += sum(len(emission.ts) for _, emission in kernel.advance())
        taken = arrivals.arrivals.some(slice(begin, arrivals.done))
        rows = {source: taken.row[taken.stream == s] for s, source in enumerate(domain.sources)}
        played.batch({source: tables[source].take(pa.array(mine)) for source, mine in rows.items()}, *messages)
        seen, ours = kernel.observe(name), played.seen[played.members[0].key]
        if step not in (2, 3):
            assert [list(one.observed.clocks) for one in ours.reported.values()] == 2 * [list(seen.clocks)]
            assert {one.observed.watermark for one in ours.reported.values()} == {seen.watermark}
        assert ours.rows[ROWS].total() == results
        counts = ours.counts
        assert (counts["results"], counts["in_time"], counts["late"]) == (seen.results, seen.in_time, seen.late)
        assert sum(one.passed_by for one in ours.reported.values()) == kernel.status(name).paused
    assert seen.late > 0
    assert kernel.status(name).paused == 300
