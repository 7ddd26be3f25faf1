"""Texts are let go of when no state holds them, never before, and nothing of it is seen in an answer."""

from __future__ import annotations

import re
from collections.abc import Sequence
from random import Random

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

import slackwater as sw
from slackwater.core.errors import DataError, QueryError
from slackwater.observe.imbalance import ShardLoad
from slackwater.sources import codebook
from slackwater.sources.codebook import Codebook
from tests.effort import more, tried
from tests.runtime.streams import Runtime
from tests.runtime.texts import COLUMNS, Sharded, clashing, in_turns, locally, pieces

QUERIES = {
    "join": "SELECT a.name, a.note, b.note AS other, 'said' AS x FROM a [2 s], b [1 s] WHERE a.name = b.name",
    "join of three": "SELECT a.note, b.note AS n, c.note AS m FROM a [1 s], b [1 s], c [1 s]"
    " WHERE a.name = b.name AND b.name = c.name AND a.note <> 'often 2'",
    "tree": "SELECT a.note, b.note AS n, c.note AS m FROM a [1 s], b [1 s], c [1 s]"
    " WHERE a.name = b.name AND b.name = c.name OPTIONS (shape = 'binary')",
    "hash join": "SELECT a.note, b.note AS n FROM a [2 s], b [1 s] WHERE a.name = b.name OPTIONS (join = 'hash')",
    "rows": "SELECT a.note, b.note AS n FROM a [ROWS 9], b [ROWS 5] WHERE a.v = b.v",
    "rates": "SELECT a.note, b.note AS n FROM a [RATE 2 SECONDS], b [RATE 1 SECOND] MATCH TIME WHERE a.v = b.v",
    "leaving": "SELECT DSTREAM a.note, b.note AS n FROM a [2 s], b [1 s] WHERE a.name = b.name WITH DELAY 300 ms",
    "in force": "SELECT RSTREAM EVERY 700 ms a.note, b.note AS n FROM a [2 s], b [1 s] WHERE a.name = b.name",
    "recall": "SELECT a.name, a.note, b.note AS n FROM a [1 s], b [1 s] WHERE a.name = b.name WITH RECALL 0.9 OVER 5 s",
    "no wait": "SELECT a.name, a.note, b.note AS n FROM a [1 s], b [1 s] WHERE a.name = b.name WITH NO WAIT",
    "selection": "SELECT CASE WHEN v > 2 THEN 'large' ELSE note END AS n, name FROM a WHERE name <> 'often 2'",
    "groups": "SELECT name, note, COUNT(*) AS n, COUNT(DISTINCT note) AS d, MIN(note) AS least, MAX(note) AS most"
    " FROM a [RANGE 2 s SLIDE 500 ms] GROUP BY name, note",
    "extremes": "SELECT v, MIN(name) AS least, MAX(note) AS most FROM a [RANGE 3 s SLIDE 1 s] GROUP BY v WITH NO WAIT",
    "leaving groups": "SELECT DSTREAM name, MAX(note) AS most FROM a [RANGE 2 s SLIDE 1 s] GROUP BY name",
    "rows of groups": "SELECT name, MIN(note) AS least, MAX(note) AS most FROM a [ROWS 30 SLIDE 7] GROUP BY name",
    "landmarks": "SELECT name, MIN(note) AS least, MAX(note) AS most FROM a"
    " [START WHEN v = 1 END WHEN name = 'often 2'] GROUP BY name",
    "since a landmark": "SELECT v, MIN(note) AS least, MAX(name) AS most FROM a"
    " [START WHEN v = 1 SLIDE 2 s] GROUP BY v",
    "aggregate of a join": "SELECT note, MIN(n) AS least, COUNT(*) AS many FROM"
    " (SELECT a.note, b.note AS n FROM a [1 s], b [1 s] WHERE a.name = b.name) j [RANGE 3 s SLIDE 1 s] GROUP BY note",
    "join of an aggregate": "SELECT b.note, m.most, m.name FROM b [2 s],"
    " (SELECT name, MAX(note) AS most FROM a [RANGE 1 s] GROUP BY name) m [2 s] WHERE b.name = m.name",
    "union": "SELECT name, MIN(note) AS least FROM"
    " (SELECT name, note FROM a UNION ALL SELECT note, name FROM b) u [2 s] GROUP BY name",
    "parts": "SELECT name, COUNT(*) AS n, MAX(note) AS most FROM a [2 s] GROUP BY name OPTIONS (clock_by = 'name')",
}


@pytest.fixture
def swept(monkeypatch: pytest.MonkeyPatch) -> None:
    """Every codebook is swept whenever it is asked, and its state is written anew often."""
    monkeypatch.setattr(Codebook, "due", property(lambda _: True))
    monkeypatch.setattr(codebook, "FEW", 3)
    monkeypatch.setattr(codebook, "MOST_CHUNKS", 2)


@pytest.mark.parametrize("query", QUERIES.values(), ids=QUERIES)
@tried(3)
@given(seed=st.integers(0, 10**6))
def test_no_text_is_let_go_of_that_an_answer_needs(query: str, seed: int) -> None:
    parts = pieces(seed, 8)
    whole = locally(query, parts, sweeping=False)
    assert whole
    assert locally(query, parts, sweeping=True) == whole


@pytest.mark.parametrize("query", ["join", "tree", "rates", "groups", "rows of groups", "aggregate of a join"])
def test_nor_in_tuple_release(query: str) -> None:
    parts = pieces(1, 8)
    assert locally(QUERIES[query], parts, True, each_tuple=True) == locally(QUERIES[query], parts, False, True)


@pytest.mark.parametrize("query", QUERIES.values(), ids=QUERIES)
@pytest.mark.parametrize("seed", [1, *more("another seed, here", 2)])
def test_shards_that_take_turns_and_are_restarted_know_all_texts_they_need(
    query: str, seed: int, request: pytest.FixtureRequest
) -> None:
    parts, chance = pieces(seed, 10), Random(seed)
    turns = [chance.choice([0, 0, 1, 1, 2]) for _ in range(11)]
    whole = in_turns(query, parts, lambda _: 0)
    assert whole
    request.getfixturevalue("swept")
    assert in_turns(query, parts, turns.__getitem__) == whole


def test_a_codebook_in_state_is_what_one_in_memory_is(swept: None) -> None:
    hosted = Sharded(QUERIES["groups"])
    kept = hosted.restarted()
    for piece in pieces(3, 30):
        kept = hosted.epoch(kept, piece)
        again, _ = hosted.restarted()
        assert len(again.codebook) == len(kept[0].codebook) < 60
        assert sum(namespace == "texts" for namespace, _ in hosted.state) <= 3


@pytest.mark.parametrize("secret", [0, 5, -(2**63)])
def test_two_texts_of_one_code_have_two_where_the_secret_is_another(secret: int) -> None:
    one, other = clashing(secret)
    assert one != other
    book = Codebook(secret)
    book.encode(pa.array([one, "two"]))
    with pytest.raises(DataError, match=f"the texts '{re.escape(other)}' and '{one}' have the same hash; rename one"):
        book.encode(pa.array(["two", other]))
    elsewhere = Codebook(secret + 1)
    assert len(set(elsewhere.encode(pa.array([one, other])).tolist())) == 2


def of_one_code(names: Sequence[str | None], begin: int = 0) -> pa.Table:
    """A row a second with these names."""
    count = len(names)
    columns = [1000 * np.arange(begin, begin + count), names, [None] * count, np.arange(count)]
    return pa.table(columns, schema=COLUMNS)


COUNTED = "SELECT name, COUNT(*) AS n FROM a [RANGE 100 s] GROUP BY name WITH NO WAIT"


def test_a_row_whose_text_has_the_code_of_another_is_rejected_and_the_query_goes_on(runtime: Runtime) -> None:
    one, other = clashing()
    table = of_one_code([one, other, "x", None, other, one, "x"]).append_column("arrival", pa.array(np.arange(7)))
    ran = runtime.run(COUNTED, {"a": table}, "100")
    counts = dict(ran.rows("name", "n"))
    # A query on Spark has a secret of its own, so they are two there.
    assert counts == {one: 2, "x": 2, None: 1} | ({other: 2} if len(counts) == 4 else {})
    assert ran.report["rejected"] == 7 - sum(counts.values())
    if ran.report["rejected"]:
        rejected = ran.rejected["a"]
        assert rejected["reason"].to_pylist() == ["same_hash"] * 2


def test_of_two_texts_of_one_code_a_shard_keeps_the_one_that_it_has() -> None:
    one, other = clashing()
    hosted = Sharded("SELECT a.name, b.name AS n FROM a [10 s], b [10 s] WHERE a.name = b.name WITH NO WAIT")
    hosted.epoch(hosted.restarted(), {"a": of_one_code([one]), "b": of_one_code([])})
    shard, _ = hosted.epoch(hosted.restarted(), {"a": of_one_code([]), "b": of_one_code([other, "x"], 1)})
    assert shard.progress(ShardLoad()).streams["b"].rejected == {"same_hash": 1}
    ((kind, rows),) = shard.record.tables()
    assert (kind, rows["reason"].to_pylist()) == ("rejected", ["same_hash"])
    assert one not in str(rows.to_pylist()), "what is told of it is not the other text"
    hosted.epoch(hosted.restarted(), {"a": of_one_code([]), "b": of_one_code([one], 3)})
    hosted.epoch(hosted.restarted(), None)
    assert {row[:2] for row in hosted.found} == {(one, one)}


def test_error_is_not_measured_of_texts() -> None:
    with pytest.raises(QueryError, match="ERROR measures numbers"):
        Sharded("SELECT MIN(name) AS least FROM a [1 s] WITH ERROR 1% CONFIDENCE 95%")


MANY = "SELECT name, COUNT(*) AS n, MAX(note) AS most FROM a [RANGE 1 s] GROUP BY name WITH DELAY 200 MS"
EACH = 10_000


def of_users(epoch: int) -> pa.Table:
    """Half a second of a stream in which no text comes twice."""
    number = pa.array(np.arange(epoch * EACH, (epoch + 1) * EACH)).cast(pa.string())
    ts = 500 * epoch + np.arange(EACH) * 500 // EACH
    names = (pa.compute.binary_join_element_wise(word, number, " ") for word in ("user", "note"))
    return pa.table([ts, *names, np.zeros(EACH, np.int64)], schema=COLUMNS)


def test_a_running_query_keeps_the_texts_of_its_windows_however_many_have_come() -> None:
    live = sw.live(MANY, {"a": COLUMNS})
    most = []
    for epoch in range(40):
        live.push("a", of_users(epoch))
        most.append(len(live._codebook))
    step = live.next()
    assert step is not None
    assert step.rows.num_rows == 2 * EACH
    assert step.rows.column("most").to_pylist() == [
        name.replace("user", "note") for name in step.rows.column("name").to_pylist()
    ]
    assert max(most) <= 280_000, "of 800,000, those of a few windows"
    assert live.report()["rows_at_hand"] == 0, "no row is kept for steps without a stream: there are none"


def test_a_shard_and_its_state_keep_the_texts_of_its_windows_over_restarts() -> None:
    hosted = Sharded(MANY)
    kept, sizes = hosted.restarted(), []
    for epoch in range(40):
        if epoch % 5 == 4:
            kept = hosted.restarted()
        kept = hosted.epoch(kept, {"a": of_users(epoch)})
        sizes.append(hosted.size)
        assert len(kept[0].codebook) <= 280_000
    assert max(sizes[20:]) <= 1.1 * max(sizes[:20])
    assert len(hosted.found) == 38 * EACH
