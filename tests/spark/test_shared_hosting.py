"""Queries that are hosted by one kernel give what each gives alone, and hold each tuple once."""

from __future__ import annotations

from collections import defaultdict
from dataclasses import replace
from typing import Any

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

pytest.importorskip("pyspark", reason="the Spark runtime needs pyspark")

from benchmarks.spark_queries import asked
from slackwater.core.batch import TS
from slackwater.core.quality import clause
from slackwater.core.time import MILLISECOND
from slackwater.operators.query_set.member import PAUSED
from slackwater.runtime.side_outputs.collectors import LATE, REJECTED
from slackwater.runtime.spark.control import PAUSE, RESUME, TARGET, Message
from slackwater.runtime.spark.exchange.packing import packer_of, packing_rows
from slackwater.runtime.spark.exchange.writer import END
from slackwater.runtime.spark.members import KeyGroups, Terms, groups_of, member, terms_of
from slackwater.runtime.spark.output_schema import ROWS
from slackwater.runtime.spark.state import host
from slackwater.runtime.spark.state.cached import CachedShards
from slackwater.runtime.spark.state.inbox import Inbox
from slackwater.runtime.spark.state.shared_shard import SharedShard
from slackwater.sources.codebook import Codebook
from slackwater.sources.encode import GOOD
from slackwater.sources.ingest import ingest
from tests.effort import tried
from tests.spark.in_process import UNIT, lines_of_task, one_worker, packer_for, planned
from tests.spark.set_in_process import PlayedAlone, PlayedSet, alone_of
from tests.spark.test_query_sets import cut, fed, stream, told

JOIN = "SELECT a.key, a.v AS av, b.v AS bv FROM a [RANGE {0} MS], b [RANGE {0} MS] WHERE a.key = b.key{1} WITH {2}"
SUM = "SELECT key, SUM(v) AS total, COUNT(*) AS n FROM a [RANGE {0} MS SLIDE 50 MS]{1} GROUP BY key WITH {2}"
SELF = "SELECT x.v AS xv, y.v AS yv FROM a [RANGE 20 MS] x, a [RANGE 20 MS] y WHERE x.key = y.key{1} WITH {2}"
ROW = "SELECT key, v * 2 AS w FROM b{1} WITH {2}"
QUERIES = {
    "soon": JOIN.format(50, "", "DELAY 20 MS"),
    "patient": JOIN.format(30, " AND a.v > 0.3", "DELAY 150 MS"),
    "whole": JOIN.format(50, " AND b.v < 0.7", "COMPLETE"),
    "recall": JOIN.format(50, " AND a.v > 0.3", "RECALL 0.9 OVER 1 SECOND"),
    "at once": JOIN.format(50, "", "NO WAIT"),
    "sums": SUM.format(100, "", "DELAY 30 MS"),
    "loud sums": SUM.format(200, " WHERE v > 0.5", "DELAY 300 MS"),
    "sums within": SUM.format(100, " WHERE v > 0.2", "ERROR 5%"),
    "self": SELF.format(0, " AND x.v > 0.6", "DELAY 50 MS"),
    "self later": SELF.format(0, " AND y.v > 0.6", "DELAY 90 MS"),
    "rows": ROW.format(0, " WHERE v > 0.5", "DELAY 10 MS"),
    "more rows": ROW.format(0, " WHERE v > 0.1", "DELAY 100 MS"),
}
TERMS = ("", " OPTIONS (max_ahead = '300 ms')", " OPTIONS (max_ahead = '300 ms', clock_by = 'key')")
SHARDS = 7
"""Of all groups together."""
NEW, ONE, SEVERAL = "every worker is new", "one worker keeps its shards", "workers take turns"


class InTurns:
    """Workers that each keep their shards, and of which any is given a task."""

    def __init__(self, seed: int) -> None:
        self._rng, self._workers = np.random.default_rng(seed), [CachedShards(), CachedShards(), CachedShards()]
        self._now = self._workers[0]

    def take(self, *which: Any) -> Any:
        self._now = self._workers[int(self._rng.integers(len(self._workers)))]
        return self._now.take(*which)

    def keep(self, *what: Any) -> None:
        self._now.keep(*what)

    def forget_all(self) -> None:
        for one in self._workers:
            one.forget_all()


def staffed(workers: str, monkeypatch: pytest.MonkeyPatch, seed: int = 0) -> None:
    """Who runs the tasks from now on."""
    if workers != NEW:
        one_worker(monkeypatch)
    if workers == SEVERAL:
        monkeypatch.setattr(host, "CACHED", InTurns(seed))


@pytest.fixture(params=[NEW, ONE, SEVERAL])
def workers(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> None:
    staffed(request.param, monkeypatch)


def jumping(rng: np.random.Generator, count: int) -> pa.Table:
    """A stream in which some tuples are far ahead of the others."""
    table = stream(rng, count)
    ts = table.column("ts").fill_null(0).to_numpy()
    ahead = np.where((rng.random(count) < 0.02) & (ts > 0), rng.integers(200, 2000, count), 0)
    return table.set_column(0, "ts", pa.array(ts + ahead, mask=ts == 0))


def played_with(texts: dict[str, str], tables: dict[str, pa.Table], shards: int) -> PlayedSet:
    return PlayedSet({name: planned(text, tables) for name, text in texts.items()}, shards)


@tried(6)
@given(
    st.integers(0, 2**32 - 1), st.sampled_from([1, 2, 3]), st.sampled_from(TERMS), st.sampled_from([NEW, ONE, SEVERAL])
)
def test_every_query_gives_what_it_gives_alone(seed: int, shards: int, terms: str, workers: str) -> None:
    rng = np.random.default_rng(seed)
    with pytest.MonkeyPatch.context() as patch:
        staffed(workers, patch, seed)
        tables = {name: jumping(rng, 500) for name in "ab"}
        pieces = {name: cut(rng, table, 5) for name, table in tables.items()}
        played = played_with({name: f"{text}{terms}" for name, text in QUERIES.items()}, tables, shards)
        assert [len(group.members) for group in groups_of(played.members)] == [5, 3, 2, 2]
        alone = alone_of(played)
        for number in range(5):
            fed(played, list(alone.values()), {name: mine[number] for name, mine in pieces.items()})
    for key, one in alone.items():
        assert one.seen.counts["results"] > 0
        assert played.seen[key].same_as(one.seen), key
    assert any(one.seen.rows[LATE] for one in alone.values())
    assert any(one.seen.rows[REJECTED] for one in alone.values())


@pytest.mark.parametrize("workers", [NEW, ONE])
def test_the_end_of_the_input_lets_everything_out_for_every_query(
    workers: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    staffed(workers, monkeypatch)
    rng = np.random.default_rng(3)
    tables = {name: jumping(rng, 300) for name in "ab"}
    texts = {name: QUERIES[name] for name in ("soon", "patient", "sums", "loud sums")}
    played = played_with(texts, tables, 2)
    alone = alone_of(played)
    fed(played, list(alone.values()), {name: table.slice(0, 200) for name, table in tables.items()})
    ended = {name: table.append_column("_slackwater_end", pa.array([False] * 300)) for name, table in tables.items()}
    last = {name: pa.concat_tables([table.slice(200), _end(table)]) for name, table in ended.items()}
    fed(played, list(alone.values()), last)
    fed(played, list(alone.values()), {name: table.slice(0, 5) for name, table in tables.items()})
    for key, one in alone.items():
        assert one.seen.counts["held"] == 0
        assert sum(row[1] == "after_end" for row in one.seen.rows[REJECTED]) > 0
        assert played.seen[key].same_as(one.seen), key


def _end(table: pa.Table) -> pa.Table:
    nothing = {name: [None] for name in table.column_names} | {"_slackwater_end": [True]}
    return pa.table(nothing, schema=table.schema)


@pytest.mark.usefixtures("workers")
def test_queries_come_go_and_rest_without_a_trace_in_the_others() -> None:
    rng = np.random.default_rng(5)
    tables = {name: jumping(rng, 900) for name in "ab"}
    parts = {name: cut(rng, table, 6) for name, table in tables.items()}
    batches = [{name: mine[number] for name, mine in parts.items()} for number in range(6)]
    texts = {name: QUERIES[name] for name in ("soon", "patient", "recall", "sums", "loud sums", "sums within")}
    played = played_with(texts, tables, 2)
    soon, patient, _, sums, loud, _ = played.members
    alone = alone_of(played)
    stay = [one for key, one in alone.items() if key not in (patient.key, loud.key)]
    going = [*stay, alone[patient.key], alone[loud.key]]
    fed(played, going, batches[0])
    fed(played, stay, batches[1], told(PAUSE, 7, patient), told(PAUSE, 8, loud))
    for one in (patient, loud):
        alone[one.key].rest(batches[1])
    played.restart()
    # Who comes later is the query alone whose filter drops what came before.
    plans = [planned(QUERIES[name], tables) for name in ("whole", "at once")]
    later = [played.add(name, plan, 20 + at) for at, (name, plan) in enumerate(zip("wt", plans, strict=True))]
    assert [len(group.members) for group in groups_of(played.members)] == [5, 3]
    for one in later:
        alone[one.key] = PlayedAlone(one, played.cut)
        for batch in batches[:2]:
            alone[one.key].drop(batch)
    come = [alone[one.key] for one in later]
    fed(played, [*stay, *come], batches[2])
    for one in (patient, loud):
        alone[one.key].rest(batches[2])
    fed(played, [*going, *come], batches[3], told(RESUME, 9, patient), told(RESUME, 10, loud))
    played.members.remove(soon)
    played.members.remove(sums)
    played.restart()
    gone = alone.pop(soon.key), alone.pop(sums.key)
    left = [one for one in [*going, *come] if one not in gone]
    for batch in batches[4:]:
        fed(played, left, batch)
    for key, one in alone.items():
        assert one.seen.counts["results"] > 0
        assert played.seen[key].same_as(one.seen), key
    groups = {one.key for one in groups_of(played.members)}
    assert played.keys_with_state() == {one.key for one in played.members} | groups


@pytest.mark.usefixtures("workers")
def test_a_target_is_of_one_query_and_stays() -> None:
    rng = np.random.default_rng(6)
    tables = {name: stream(rng, 500) for name in "ab"}
    parts = {name: cut(rng, table, 5) for name, table in tables.items()}
    batches = [{name: mine[number] for name, mine in parts.items()} for number in range(5)]
    names = ("soon", "patient", "sums", "loud sums")
    played = played_with({name: QUERIES[name] for name in names}, tables, 2)
    apart = PlayedSet({name: planned(QUERIES[name], tables) for name in names}, 2, shares=False)
    soon, _, sums, _ = played.members
    for number, batch in enumerate(batches):
        said = []
        if number == 2:
            said = [told(TARGET, 5, one, target="DELAY 200 MS", text=clause(one.plan.quality)) for one in (soon, sums)]
        for one in (played, apart):
            one.batch(batch, *said)
        if number == 3:
            played.restart()
    assert played.seen[soon.key].slack == played.seen[sums.key].slack == {200_000}
    for one in played.members:
        assert played.seen[one.key].same_as(apart.seen[one.key]), one.name


LARGE = 2**62


@pytest.mark.usefixtures("workers")
@pytest.mark.parametrize(
    ("fails", "goes_on", "reason"),
    [
        ("SELECT k, w FROM s WHERE n * 4 > 3 WITH NO WAIT", "SELECT k, w FROM s WHERE n > 0 WITH DELAY 1 S", "integer"),
        (
            "SELECT k, SUM(n) AS total FROM s [RANGE 1 S] GROUP BY k WITH NO WAIT",
            "SELECT k, SUM(n) AS total FROM s [RANGE 1 S] WHERE n < 1000 GROUP BY k WITH NO WAIT",
            "integer overflow in SUM",
        ),
        (
            "SELECT x.n * y.n AS p FROM s [RANGE 1 S] x, s [RANGE 1 S] y WHERE x.k = y.k WITH NO WAIT",
            "SELECT x.n - y.n AS p FROM s [RANGE 1 S] x, s [RANGE 1 S] y WHERE x.k = y.k WITH DELAY 1 S",
            "integer overflow",
        ),
    ],
    ids=["in a filter", "in panes", "in a result"],
)
def test_a_query_that_fails_stops_alone_with_its_reason(fails: str, goes_on: str, reason: str) -> None:
    values = [1, 2, LARGE, 4, 5, 6]
    tables = [
        pa.table({"ts": [1000 * i, 1000 * i + 1], "n": [n, n], "k": ["x", "x"], "w": [0.5, 1.5]})
        for i, n in enumerate(values, 1)
    ]
    played = played_with({"fails": fails, "goes on": goes_on}, {"s": tables[0]}, 2)
    assert len(groups_of(played.members)) == 1
    failing, other = played.members
    alone = PlayedAlone(other, played.cut)
    for table in tables:
        fed(played, [alone], {"s": table})
    assert alone.seen.counts["results"] > 0
    assert played.seen[other.key].same_as(alone.seen)
    (failed,) = [one for one in played.seen[failing.key].reported.values() if one.failure]
    assert reason in failed.failure
    whole = PlayedSet({"fails": failing.plan}, 2, shares=False)
    for table in tables:
        whole.batch({"s": table})
    assert played.seen[failing.key].rows[ROWS] == whole.seen["fails.1"].rows[ROWS]


def shards_of(played: PlayedSet) -> list[SharedShard]:
    """What a worker keeps of groups."""
    kept = [place.shard for cached in host.CACHED._cached.values() for place in cached.places.values()]
    return [one for one in kept if isinstance(one, SharedShard)]


def held_and_needed(played: PlayedSet, came: dict[str, pa.Table]) -> tuple[int, int]:
    """The tuples that shards hold; and the least that anybody can hold: each tuple once that has come, and is not due
    yet for some query that wants it and must be given it in order."""
    needed: set[tuple[str, int]] = set()
    for shard in shards_of(played):
        for key, record in shard.records.items():
            watermark = shard.kernel.observe(key).watermark
            for one in record.plan.inputs if record.plan.operator.needs_order else ():
                words = ingest(one, came[one.stream.source], Codebook(), UNIT)
                waits = words.passes & (words.reasons == GOOD) & (words.words[TS] > watermark)
                needed |= {(one.stream.source, row) for row in np.flatnonzero(waits).tolist()}
    return sum(shard.held for shard in shards_of(played)), len(needed)


JOINS = {name: QUERIES[name] for name in ("soon", "patient", "whole", "recall", "at once")}
MANY = {name: one.text for name, one in asked(20).items()}


@pytest.mark.parametrize("texts", [JOINS, MANY], ids=["joins", "those of the benchmark"])
def test_a_set_holds_no_more_than_the_least_that_anybody_can_hold(
    texts: dict[str, str], monkeypatch: pytest.MonkeyPatch
) -> None:
    one_worker(monkeypatch)
    rng, count = np.random.default_rng(1), 4000
    tables = {name: stream(rng, count, timeless=0) for name in "ab"}
    if len(texts) == 20:
        tables = {name: dense(rng, count) for name in "ab"}
    played = played_with(texts, tables, 2)
    together, apart = [], 0
    for begin in range(0, count, 500):
        played.batch({name: table.slice(begin, 500) for name, table in tables.items()})
        came = {name: table.slice(0, begin + 500) for name, table in tables.items()}
        together.append(held_and_needed(played, came))
        apart += sum(one.counts["held"] for one in played.seen.values())
    held, needed = (sum(column) for column in zip(*together, strict=True))
    assert 0 < held <= 1.05 * needed
    assert max(one / least for one, least in together if least) <= 1.05
    assert apart > 1.5 * held, "what the same queries hold where each has its own"


def dense(rng: np.random.Generator, count: int) -> pa.Table:
    """As in the benchmark of many queries, with fewer rows a second."""
    ts = 1_700_000_000_000 + np.arange(count) - np.where(rng.random(count) < 0.1, rng.integers(0, 1000, count), 0)
    return pa.table(
        {"ts": ts, "key": rng.integers(0, 100, count), "g": rng.integers(0, 20, count), "v": rng.random(count)}
    )


def test_a_worker_that_has_caught_up_writes_what_one_writes_that_kept_its_shard(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """Else the pages of one attempt would not go with those of another: what one of them drops the other has dropped,
    and what one has written the other has."""
    written: dict[str, list[tuple[set[tuple[str, str]], set[tuple[str, str]]]]] = {}
    tables = {name: jumping(np.random.default_rng(2), 800) for name in "ab"}
    for workers in (ONE, SEVERAL, NEW):
        with pytest.MonkeyPatch.context() as patch:
            staffed(workers, patch)
            played = played_with({name: QUERIES[name] for name in QUERIES}, tables, 2)
            mine: list[tuple[set[tuple[str, str]], set[tuple[str, str]]]] = []
            there: dict[str, set[tuple[str, str]]] = defaultdict(set)
            before = SharedShard.snapshot_delta

            def noted(shard: SharedShard, before: Any = before, mine: Any = mine, there: Any = there) -> Any:
                entries = list(before(shard))
                shared = [one for _, one in entries if one.namespace.startswith(("kernel/domain/", "kernel/source/"))]
                dropped = {(one.namespace, one.key) for one in shared if one.value is None}
                # Shards come in the same order in every micro-batch.
                at = f"{shard.group.key} {len(mine) % SHARDS}"
                there[at] = (there[at] | {(one.namespace, one.key) for one in shared}) - dropped
                mine.append((dropped, set(there[at])))
                return iter(entries)

            patch.setattr(SharedShard, "snapshot_delta", noted)
            for begin in range(0, 800, 100):
                played.batch({name: table.slice(begin, 100) for name, table in tables.items()})
            written[workers] = mine
    assert any(dropped for dropped, _ in written[ONE])
    assert written[ONE] == written[SEVERAL] == written[NEW]


def test_tuples_of_a_group_are_packed_once(monkeypatch: pytest.MonkeyPatch) -> None:
    tables = {name: stream(np.random.default_rng(0), 400, timeless=0) for name in "ab"}
    few, many = (
        played_with({str(n): JOIN.format(50, f" AND a.v > 0.{n}", f"DELAY {n} MS") for n in range(1, count)}, tables, 2)
        for count in (3, 10)
    )
    sizes = []
    for played in (few, many):
        (lines,) = packing_rows(packer_for(played.members, "a"))(tables["a"].combine_chunks().to_batches())
        sizes.append(sum(len(one) for one in lines.column("block").to_pylist() if one is not None))
    assert sizes[1] == sizes[0], "one word of filters, whatever their number"


def test_queries_are_hosted_together_by_what_they_read_and_how_it_is_cut() -> None:
    table = pa.table({"ts": [1], "key": ["x"], "g": [1], "v": [0.5]})
    tables = {"a": table, "b": table}

    def terms(text: str) -> str | None:
        return terms_of(planned(text, tables))

    soon = terms(QUERIES["soon"])
    assert soon is not None
    assert soon == terms(QUERIES["whole"]) == terms(QUERIES["recall"])
    by_g = JOIN.replace("a.key = b.key", "a.g = b.g").format(50, "", "NO WAIT")
    turned = QUERIES["soon"].replace("FROM a [RANGE 50 MS], b", "FROM b [RANGE 50 MS], a")
    # An integer that no word can hold rejects its row for who reads it, and then the row moves no clock.
    reads_g = QUERIES["soon"].replace("a.v AS av", "a.g AS ag")
    assert len({soon, terms(by_g), terms(turned), terms(reads_g), terms(f"{QUERIES['soon']}{TERMS[1]}")}) == 5
    by_rows = "SELECT a.v AS av, b.v AS bv FROM a [RANGE 50 MS], b [RANGE 50 MS] WHERE a.v < b.v WITH NO WAIT"
    assert terms(by_rows) is None
    sums, loud = (planned(QUERIES[name], tables) for name in ("sums", "loud sums"))
    assert [Terms().shared(sums, of) for of in ([sums], [sums, loud])] == [False, True]
    assert Terms().shared(planned(QUERIES["soon"], tables), [])


def test_a_group_goes_on_with_another_number_of_tasks() -> None:
    rng = np.random.default_rng(4)
    tables = {name: jumping(rng, 500) for name in "ab"}
    played = played_with({name: QUERIES[name] for name in ("soon", "patient", "sums", "loud sums")}, tables, 4)
    alone = alone_of(played)
    for number in range(5):
        if number in (2, 4):
            played.run_with(tasks=1 if number == 2 else 3)
        fed(played, list(alone.values()), {name: table.slice(100 * number, 100) for name, table in tables.items()})
    for key, one in alone.items():
        assert one.seen.counts["results"] > 0
        assert played.seen[key].same_as(one.seen), key


@pytest.mark.usefixtures("workers")
def test_a_silent_stream_is_noticed_for_all_queries_of_a_group() -> None:
    option = " OPTIONS (idle_timeout = '5 s')"
    tables = {name: pa.table({"ts": [1000, 1010], "key": ["x", "x"], "v": [1.0, 2.0]}) for name in "ab"}
    texts = {name: f"{QUERIES[name]}{option}" for name in ("soon", "at once")}
    plans = {name: planned(text, tables) for name, text in texts.items()}
    played = PlayedSet(plans, 2, live=True)
    (group,) = groups_of(played.members)
    assert group.timed
    alone = alone_of(played)
    later = pa.table({"ts": [1020], "key": ["x"], "v": [3.0]})
    second = 1000 * MILLISECOND
    for moment, arrives in ((100, tables), (101, {"a": later}), (103, {}), (107, {}), (108, {"b": later})):
        played.batch(arrives, now=moment * second)
        for one in alone.values():
            one.batch(arrives, now=moment * second)
        for key, one in alone.items():
            assert played.seen[key].same_as(one.seen), (moment, key)
    assert all(one.seen.counts["results"] > 0 for one in alone.values())


def test_what_waits_for_a_verdict_passes_by_who_rests(monkeypatch: pytest.MonkeyPatch) -> None:
    one_worker(monkeypatch)
    texts = {name: f"{QUERIES[name]}{TERMS[1]}" for name in ("rows", "more rows")}

    def arrive(*ts: int) -> dict[str, pa.Table]:
        return {"b": pa.table({"ts": ts, "key": ["x"] * len(ts), "v": [0.9] * len(ts)})}

    played = played_with(texts, arrive(1), 1)
    rows, more = played.members
    played.batch(arrive(*range(1000, 1100), 2500))
    (shard,) = shards_of(played)
    assert shard.guard.pending == 1
    played.batch(arrive(1100, 1101, 1102), Message(PAUSE, 9, rows.name, rows.generation))
    (shard,) = shards_of(played)
    assert shard.kernel.status(rows.key).status == PAUSED
    passed = [played.seen[one.key].reported[one.shards[0]].passed_by for one in (rows, more)]
    assert passed == [4, 0]


@pytest.mark.parametrize("tasks", [1, 2])
def test_rows_of_a_source_are_handed_on_as_they_were_read(tasks: int) -> None:
    tables = {name: stream(np.random.default_rng(0), 50) for name in "ab"}
    one = member("soon", 0, planned(QUERIES["soon"], tables), KeyGroups(2, tasks), UNIT)
    packer = packer_of([(one.key, one.packings)], "b", UNIT, False, False, tapped=True)
    ended = pa.concat_tables([_marked(tables["b"]), _end(_marked(tables["b"]))])
    lines = packing_rows(packer)(ended.combine_chunks().to_batches())
    mine = [lines_of_task(batch, 0, tasks) for batch in lines]
    inbox = Inbox([one], mine)
    ((source, block),) = inbox.tapped
    assert source == "b"
    assert pa.ipc.open_stream(block).read_all().equals(tables["b"].combine_chunks())


def _marked(table: pa.Table) -> pa.Table:
    return table.append_column(END, pa.array([False] * table.num_rows))


def test_what_a_query_of_a_group_is_alone_is_the_same_query() -> None:
    """The twin that these tests go by shares nothing."""
    tables = {name: stream(np.random.default_rng(0), 50) for name in "ab"}
    (one,) = played_with({"soon": QUERIES["soon"]}, tables, 2).members
    assert groups_of([one])
    assert not groups_of([replace(one, shares="")])
