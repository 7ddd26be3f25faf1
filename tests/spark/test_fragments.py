"""A query without a common key runs in two fragments, and gives what it gives in one shard."""

from __future__ import annotations

import json
from dataclasses import replace
from itertools import chain, product
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from pyspark.sql import SparkSession

import slackwater as sw
from slackwater.cli.prepare import Prepared
from slackwater.cli.verify import verify_query
from slackwater.core.quality import clause
from slackwater.core.time import MILLISECOND, SECOND
from slackwater.core.values import total
from slackwater.observe.value import QueryProgress
from slackwater.runtime.side_outputs.collectors import LATE
from slackwater.runtime.spark.control import END, PAUSE, RESUME, TARGET, Message
from slackwater.runtime.spark.exchange.packing import registered
from slackwater.runtime.spark.members import KeyGroups, Member, member
from slackwater.runtime.spark.output_schema import METRICS, ROWS
from slackwater.runtime.spark.state.fragments import stages_of
from slackwater.runtime.spark.state.host import Hosted
from slackwater.sources.binding import bind_to_tables
from tests.effort import more
from tests.spark.conftest import write_stream
from tests.spark.in_process import (
    InProcess,
    cut_for,
    hosted_alone,
    micro_batch,
    one_worker,
    packed,
    planned,
    played_member,
    said,
    stage,
)

SUM = "SELECT SUM(v) AS total, COUNT(*) AS n, MIN(x) AS least FROM a [RANGE 500 MS SLIDE 100 MS]"


def stated(query: str, waiting: str) -> str:
    """An aggregate of a stream runs in two steps where that is asked for."""
    rows = " OPTIONS (shards_by = 'rows')" if query.startswith("SELECT SUM(v)") else ""
    return f"{query} WITH {waiting}{rows}"


COUNT_ABOVE = """SELECT COUNT(*) AS n, SUM(j.v) AS total FROM
    (SELECT a.key, a.v FROM a [RANGE 50 MS], b [RANGE 50 MS] WHERE a.key = b.key) j [RANGE 500 MS SLIDE 100 MS]"""
OTHER_KEY = """SELECT j.x, COUNT(*) AS n FROM
    (SELECT a.v, b.x FROM a [RANGE 50 MS], b [RANGE 50 MS] WHERE a.key = b.key) j [RANGE 500 MS SLIDE 100 MS]
    GROUP BY j.x"""
NEAR = """SELECT COUNT(*) AS n FROM
    (SELECT a.v FROM a [RANGE 50 MS], b [RANGE 50 MS] WHERE abs(a.x - b.x) < 3) j [RANGE 500 MS SLIDE 100 MS]"""
UNEQUAL = """SELECT COUNT(*) AS n FROM
    (SELECT a.v FROM a [RANGE 50 MS], b [RANGE 50 MS] WHERE a.x * b.x < 9) j [RANGE 500 MS SLIDE 100 MS]"""
SUM_OF_SUMS = """SELECT SUM(j.total) AS total, MAX(j.name) AS name FROM
    (SELECT key, SUM(v) AS total, MIN(name) AS name FROM a [RANGE 100 MS] GROUP BY key) j [RANGE 500 MS SLIDE 100 MS]"""
JOINED = """SELECT p.n, q.n AS m, p.name FROM
    (SELECT name, COUNT(*) AS n FROM a [RANGE 100 MS] GROUP BY name) p [RANGE 300 MS],
    (SELECT x, COUNT(*) AS n FROM b [RANGE 100 MS] GROUP BY x) q [RANGE 300 MS] WHERE p.n = q.n"""
WITH_A_STREAM = """SELECT p.n, c.v, c.name FROM
    (SELECT key, COUNT(*) AS n FROM a [RANGE 100 MS] GROUP BY key) p [RANGE 200 MS], c [RANGE 200 MS]
    WHERE p.n = c.key"""
FIRST = """SELECT key, name, SUM(v) AS total FROM a [RANGE 200 MS SLIDE 100 MS] GROUP BY key, name
    ORDER BY COUNT(*) DESC, name LIMIT 3"""
SESSIONS = """SELECT COUNT(*) AS n, SUM(DISTINCT d.key) AS total FROM
    (SELECT DISTINCT key, name FROM a [RANGE 60 MS]) d [SESSION 3 MS AT MOST 80 MS]"""
ANTI_ABOVE = """SELECT a.v, a.x, b.v AS bv FROM a [RANGE 50 MS] LEFT JOIN b [RANGE 30 MS] ON a.key = b.key
    LEFT ANTI JOIN c [RANGE 40 MS] ON c.x = b.x"""
QUERIES = {
    "first": FIRST,
    "sessions of different rows": SESSIONS,
    "sum": SUM,
    "count above": COUNT_ABOVE,
    "other key": OTHER_KEY,
    "near": NEAR,
    "unequal": UNEQUAL,
    "sum of sums": SUM_OF_SUMS,
    "joined": JOINED,
    "with a stream": WITH_A_STREAM,
    "an anti join above": ANTI_ABOVE,
}
WAITING = ["DELAY 200 MS", "COMPLETE"]
ALIKE = ("other key", "near", "unequal", "with a stream")
"""Their fragments are those of others: of a count above, of a join of aggregates."""
each_kind = pytest.mark.parametrize(
    "name", [*(name for name in QUERIES if name not in ALIKE), *more("queries of the same fragments", *ALIKE)]
)
EPOCHS, LENGTH = 10, 150


class Played(NamedTuple):
    """What a query gave in each micro-batch."""

    rows: list[list[str]]
    late: list[list[str]]
    progress: list[QueryProgress]


def streams(seed: int, names: str = "abc") -> dict[str, pa.Table]:
    """A tuple every 2 ms, a fifth of them up to 0.6 s late; some keys and names are null."""
    rng = np.random.default_rng(seed)
    n = EPOCHS * LENGTH
    made = {}
    for name in names:
        delay = np.where(rng.random(n) < 0.2, rng.integers(0, 600, n), 0)
        null = rng.random((2, n)) < 0.05
        made[name] = pa.table({
            "ts": 1_700_000_000_000 + 2 * np.arange(n) - delay,
            "key": pa.array(rng.integers(0, 12, n), mask=null[0]),
            "x": rng.integers(0, 40, n),
            "v": rng.integers(0, 1000, n),
            "name": pa.array([f"n{i}" for i in rng.integers(0, 5, n)], mask=null[1]),
        })  # fmt: skip
    return made


def read_by(one: Member, tables: dict[str, pa.Table]) -> dict[str, pa.Table]:
    read = {packing.plan.stream.source for packing in one.packings}
    return {name: table for name, table in tables.items() if name in read}


def pieces_of(tables: dict[str, pa.Table], length: int = LENGTH) -> list[dict[str, pa.Table]]:
    count = -(-EPOCHS * LENGTH // length)
    return [{name: table.slice(n * length, length) for name, table in tables.items()} for n in range(count)]


def play(
    query: str,
    shards: int,
    folder: Path,
    pieces: list[dict[str, pa.Table]] | None = None,
    messages: dict[int, list[Message]] | None = None,
) -> Played:
    """A query over these pieces, one micro-batch each; after the last one the input ends."""
    tables = streams(7)
    one = played_member(planned(query, tables), shards)
    hosted, played = hosted_alone(one), Played([], [], [])
    folder.mkdir()
    pieces = pieces_of(tables) if pieces is None else pieces
    for number, piece in enumerate([*pieces, {}]):
        given = (messages or {}).get(number, []) if number < len(pieces) else [Message(END)]
        lines = packed([one], read_by(one, piece)) + [
            said(replace(message, query=one.name, generation=0)) for message in given
        ]
        note(played, list(micro_batch(hosted, cut_for(shards), lines, str(folder), number)))
    return played


def note(played: Played, lines: list[dict[str, Any]]) -> None:
    for kind, kept in ((ROWS, played.rows), (LATE, played.late)):
        blocks = [line["block"] for line in lines if line["kind"] == kind]
        rows = [row for block in blocks for row in pa.ipc.open_stream(block).read_all().to_pylist()]
        # A late tuple has the number that its shard has given it.
        kept.append(sorted(str({name: value for name, value in row.items() if name != "identity"}) for row in rows))
    shards = [QueryProgress.of_json(json.loads(line["note"])) for line in lines if line["kind"] == METRICS]
    made = total(shards)
    if made is not None:
        played.progress.append(without_shards(made))


def without_shards(progress: QueryProgress) -> QueryProgress:
    """What does not hang on how many shards there are."""
    samples = {name: replace(one, samples=()) for name, one in progress.streams.items()}
    # Every shard counts the tuples that bring it clocks, and has copies where it is cut by rows or by place.
    observed = replace(progress.observed, state_rows=0, memory=None, tuples=0)
    # Quantiles are those of the shard where they are largest.
    waiting = replace(progress.waiting, p50=None, p95=None, p99=None)
    return replace(progress, shards=(), streams=samples, observed=observed, waiting=waiting)


@pytest.mark.parametrize(
    ("name", "waiting"),
    [
        *((name, "NO WAIT") for name in QUERIES),
        *product(("sum", "count above"), WAITING),
        *more(
            "the query without waiting, and these ways to wait with two others",
            *product([name for name in QUERIES if name not in ("sum", "count above")], WAITING),
        ),
    ],
)
def test_four_shards_in_two_fragments_give_what_one_shard_gives(name: str, waiting: str, tmp_path: Path) -> None:
    asked = stated(QUERIES[name], waiting)
    alone = play(asked, 1, tmp_path / "one")
    four = play(asked, 4, tmp_path / "four")
    assert four.rows == alone.rows
    assert four.late == alone.late
    assert sum(map(len, alone.rows)) > 20
    assert waiting != "NO WAIT" or sum(map(len, alone.late)) > 20
    assert four.progress == alone.progress


BOUNDED = "SELECT SUM(v) AS total, COUNT(key) AS n, AVG(v) AS mean FROM a [RANGE 500 MS SLIDE 100 MS]"
ERROR = f"{BOUNDED} WITH ERROR 5% CONFIDENCE 90% OPTIONS (shards_by = 'rows')"
STATED = "ERROR 0.05 CONFIDENCE 0.9"
EXTREMES = "SELECT SUM(v) AS total, MIN(x) AS least, MAX(v) AS most FROM a [RANGE 100 MS SLIDE 20 MS]"


PAIRS = (
    "(SELECT a.key, a.v, b.x FROM a [RANGE 50 MS], b [RANGE 50 MS] WHERE a.key = b.key) j [RANGE 300 MS SLIDE 100 MS]"
)
ABOVE = {
    "rows": f"{COUNT_ABOVE} WITH RECALL 0.8 OVER 1 SECOND",
    "rows of pairs that are near": f"{NEAR} WITH RECALL 0.8 OVER 1 SECOND",
    "rows of pairs by any condition": f"{UNEQUAL} WITH RECALL 0.8 OVER 1 SECOND",
    "sums": f"SELECT COUNT(*) AS n, AVG(v) AS mean FROM {PAIRS} WITH ERROR 10% CONFIDENCE 70%",
    "extremes": f"SELECT x % 3 AS of, MAX(v) AS most FROM {PAIRS} GROUP BY x % 3 WITH ERROR 5% CONFIDENCE 70%",
    "extremes of a stream": f"{EXTREMES} WITH ERROR 5% CONFIDENCE 70% OPTIONS (shards_by = 'rows')",
    "sums of sums": """SELECT SUM(total) AS total, SUM(n) AS n FROM
        (SELECT key, SUM(v) AS total, COUNT(*) AS n FROM a [RANGE 100 MS] GROUP BY key) j [RANGE 300 MS]
        WITH ERROR 10% CONFIDENCE 70%""",
}


@pytest.mark.parametrize("asked", ABOVE.values(), ids=ABOVE)
def test_a_target_is_judged_above_as_one_shard_judges_it(asked: str, tmp_path: Path) -> None:
    alone, four = (play(asked, shards, tmp_path / str(shards)) for shards in (1, 4))
    assert planned(asked, streams(7)).partitioning.above is not None
    assert [one.observed.slack for one in four.progress] == [one.observed.slack for one in alone.progress]
    assert four.rows == alone.rows
    assert four.late == alone.late
    assert four.progress == alone.progress
    last = four.progress[-1].observed.quality
    assert last is not None
    assert last.bad > 0
    assert len({one.observed.slack for one in four.progress}) > 1


@pytest.mark.parametrize("messages", [{}, {3: [Message(PAUSE)], 5: [Message(RESUME)]}], ids=["runs", "rests"])
@pytest.mark.parametrize("kept", [False, True], ids=["new workers", "one worker"])
def test_a_bound_on_the_error_of_a_sum_is_judged_as_one_shard_judges_it(
    kept: bool, messages: dict[int, list[Message]], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    if kept:
        one_worker(monkeypatch)
    alone = play(ERROR, 1, tmp_path / "one", messages=messages)
    four = play(ERROR, 4, tmp_path / "four", messages=messages)
    assert four.rows == alone.rows
    assert four.late == alone.late
    assert four.progress == alone.progress
    last = four.progress[-1].observed.quality
    assert last is not None
    assert last.good + last.bad > 15
    assert len({one.observed.slack for one in four.progress}) > 1


@pytest.mark.parametrize("above", [False, True], ids=["a stream", "a join"])
def test_a_bound_that_is_changed_while_the_query_runs_is_heard_above_and_below(above: bool, tmp_path: Path) -> None:
    asked = f"{COUNT_ABOVE} WITH ERROR 5% CONFIDENCE 90%" if above else ERROR
    plan = planned(asked, streams(7))
    assert clause(plan.quality) == STATED
    changes = {
        n: [Message(TARGET, n, text=STATED, target=one)]
        for n, one in ((4, "ERROR 0.5 CONFIDENCE 0.9"), (7, "DELAY 50 MS"))
    }
    alone = play(asked, 1, tmp_path / "one", messages=changes)
    four = play(asked, 4, tmp_path / "four", messages=changes)
    assert [one.target for one in four.progress] == [one.target for one in alone.progress]
    assert [one.observed.slack for one in four.progress] == [one.observed.slack for one in alone.progress]
    assert four.rows == alone.rows
    assert four.late == alone.late


@pytest.mark.parametrize("targets", [("DELAY 100 MS", "ERROR 5%"), ("ERROR 5%", "ERROR 1% CONFIDENCE 80%")])
def test_a_checkpoint_goes_on_with_another_target_in_the_text(targets: tuple[str, str], tmp_path: Path) -> None:
    tables, found = streams(7), []
    for shards in (1, 4):
        played, folder = Played([], [], []), tmp_path / str(shards)
        folder.mkdir()
        for number, piece in enumerate(pieces_of(tables)):
            one = played_member(planned(stated(BOUNDED, targets[number > 4]), tables), shards)
            lines = micro_batch(
                hosted_alone(one), cut_for(shards), packed([one], read_by(one, piece)), str(folder), number
            )
            note(played, list(lines))
        found.append(played)
    alone, four = found
    assert four.rows == alone.rows
    assert four.late == alone.late
    assert four.progress == alone.progress


@each_kind
def test_it_does_not_matter_who_runs_the_shards_or_how_the_input_is_cut_into_micro_batches(
    name: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    tables, asked = streams(7), stated(QUERIES[name], "DELAY 700 MS")
    new_workers = play(asked, 3, tmp_path / "new")
    small = play(asked, 5, tmp_path / "small", pieces_of(tables, 90))
    one_worker(monkeypatch)
    kept = play(asked, 3, tmp_path / "kept")
    assert kept.rows == new_workers.rows
    # Nothing is late, so the cuts decide when a result leaves, and not which ones there are.
    assert sorted(chain(*small.rows)) == sorted(chain(*kept.rows))
    assert not any(kept.late)


@pytest.mark.parametrize(
    "query",
    [SUM, OTHER_KEY, WITH_A_STREAM, ERROR, *(ABOVE[one] for one in ("rows", "sums", "extremes of a stream"))],
    ids=["sum", "other key", "with a stream", "error", "recall above", "error above", "extremes"],
)
def test_a_checkpoint_goes_on_with_another_number_of_tasks(query: str, tmp_path: Path) -> None:
    tables, asked = streams(7), query if " WITH " in query else stated(query, "DELAY 100 MS")
    whole, folder = Played([], [], []), tmp_path / "state"
    folder.mkdir()
    for number, piece in enumerate(pieces_of(tables)):
        cut = KeyGroups(5, 2 if number < 4 else 3)
        one = member("of tasks", 0, planned(asked, tables), cut, "ms", groups=4)
        lines = packed([one], read_by(one, piece))
        note(whole, list(micro_batch(hosted_alone(one), cut, lines, str(folder), number)))
    alone = play(asked, 1, tmp_path / "one")
    assert whole.rows == alone.rows[:-1]
    assert whole.late == alone.late[:-1]


def test_a_micro_batch_that_runs_again_gives_the_same(tmp_path: Path) -> None:
    tables, asked = streams(7), f"{OTHER_KEY} WITH DELAY 100 MS"
    one = played_member(planned(asked, tables), 4)
    folder = tmp_path / "state"
    folder.mkdir()
    for number, piece in enumerate(pieces_of(tables)):
        tries = [Played([], [], []) for _ in range(2)]
        for each in tries:
            note(each, list(micro_batch(hosted_alone(one), cut_for(4), packed([one], piece), str(folder), number)))
        assert tries[0] == tries[1]


def test_both_fragments_rest_and_go_on_together(tmp_path: Path) -> None:
    messages = {4: [Message(PAUSE)], 7: [Message(RESUME)]}
    asked = f"{OTHER_KEY} WITH DELAY 100 MS"
    alone = play(asked, 1, tmp_path / "one", messages=messages)
    four = play(asked, 4, tmp_path / "four", messages=messages)
    assert four.rows == alone.rows
    assert four.late == alone.late
    assert four.progress == alone.progress
    assert [one.paused for one in four.progress] == [4 <= n < 7 for n in range(11)]


@each_kind
def test_streams_without_tuples_and_one_that_is_silent_give_what_they_give_in_one_shard(
    name: str, tmp_path: Path
) -> None:
    query = QUERIES[name]
    pieces = [{"a": one["a"]} if n < 3 else {} if n == 4 else one for n, one in enumerate(pieces_of(streams(7)))]
    alone = play(stated(query, "DELAY 100 MS"), 1, tmp_path / "one", pieces)
    four = play(stated(query, "DELAY 100 MS"), 4, tmp_path / "four", pieces)
    assert four.rows == alone.rows
    assert four.late == alone.late
    assert four.progress == alone.progress


def test_a_query_that_fails_above_fails_alone_and_passes_on_what_others_give(tmp_path: Path) -> None:
    tables = streams(7)
    bad = """SELECT SUM(j.n) AS total FROM
        (SELECT key, SUM(v) * 1000000000000000 AS n FROM a [RANGE 100 MS] GROUP BY key) j
        [RANGE 500 MS SLIDE 100 MS] WITH DELAY 100 MS"""
    texts = {
        "bad": bad,
        "other": f"{OTHER_KEY} WITH DELAY 100 MS",
        "plain": "SELECT key, SUM(v) AS s FROM a [RANGE 100 MS] GROUP BY key",
    }
    cut = KeyGroups(4, 2)
    members = [member(name, 0, planned(text, tables), cut, "ms") for name, text in texts.items()]
    hosted = Hosted(tuple(members), True, registered())
    (tmp_path / "set").mkdir()
    found: dict[str, Played] = {name: Played([], [], []) for name in texts}
    for number, piece in enumerate(pieces_of(tables)):
        lines = list(micro_batch(hosted, cut, packed(members, piece, apart=True), str(tmp_path / "set"), number))
        for one in members:
            note(found[one.name], [line for line in lines if line["query"] == one.key])
    assert "overflow" in str(found["bad"].progress[-1].failure)
    for name in ("other", "plain"):
        alone = play(texts[name], 1, tmp_path / name)
        assert found[name].rows == alone.rows[:-1]
        assert found[name].late == alone.late[:-1]


@pytest.mark.xdist_group("spark")
def test_on_spark_a_query_in_two_fragments_is_stopped_and_goes_on_with_another_number_of_tasks(
    spark: SparkSession, tmp_path: Path
) -> None:
    tables = streams(7, "ab")
    asked, last = f"{NEAR} WITH DELAY 700 MS", EPOCHS - 1
    for begin, end, shards in ((0, 4, 2), (4, EPOCHS, 3)):
        frames = {}
        for name in tables:
            pieces = [piece[name] for piece in pieces_of(tables)[begin:end]]
            frames[name] = write_stream(spark, tmp_path / name, pieces)
        running = sw.start(
            spark, asked, shards=shards, trigger="available", flush=end > last, time_unit="ms",
            results=str(tmp_path / "rows"), checkpoint=str(tmp_path / "checkpoint"), **frames,
        )  # fmt: skip
        running.wait()
    rows = pq.read_table(tmp_path / "rows").column("n").to_pylist()
    alone = play(asked, 1, tmp_path / "one")
    # Each has its count last.
    assert sorted(rows) == sorted(int(row.rpartition(" ")[2].rstrip("}")) for row in chain(*alone.rows))
    assert len(rows) > 20
    latest = running.progress().latest
    assert latest is not None
    counts = {name: getattr(latest.observed, name) for name in ("in_time", "late", "held", "results")}
    assert counts == {name: getattr(alone.progress[-1].observed, name) for name in counts}


@pytest.mark.parametrize("reads_files", [False, True], ids=["rows", "partials of files"])
@pytest.mark.parametrize(
    "asked",
    [stated(one, "DELAY 200 MS") for one in (SUM, SUM_OF_SUMS, COUNT_ABOVE)] + [ERROR],
    ids=["sum", "sum of sums", "count above", "error"],
)
def test_what_four_shards_give_is_right_but_for_late_tuples(asked: str, reads_files: bool, tmp_path: Path) -> None:
    tables = {
        name: table.append_column("arrival", pa.array(2 * np.arange(table.num_rows) + place))
        for place, (name, table) in enumerate(streams(7, "ab").items())
        if f"FROM {name} " in asked or f", {name} " in asked
    }
    prepared = Prepared(bind_to_tables(asked, tables, "ts"), tables, None, "ms")
    reports = []
    for shards in (1, 4):
        runtime = InProcess(sw.Epochs(span=300 * MILLISECOND), shards, tmp_path / f"{shards}", reads_files)
        verified = verify_query(prepared, runtime, False, None, SECOND, SECOND // 5, quiet=True)
        verdict = verified.verdict
        assert (verdict.missing_unexplained, verdict.spurious, verdict.out_of_order) == (0, 0, 0)
        reports.append(verified.report.as_json())
    alone, four = reports
    same = ("in_time", "late", "held", "results", "latency_ms", "slack_ms", "latency_by_cause_ms", "measured_quality")
    assert {name: four.get(name) for name in same} == {name: alone.get(name) for name in same}
    assert four["late"] > 50


def test_rows_that_an_aggregate_adds_up_are_handed_on_as_partials_where_these_are_few(tmp_path: Path) -> None:
    tables = streams(7, "ab")
    one = played_member(planned(f"{NEAR} WITH DELAY 100 MS", tables), 4)
    lower, _ = stages_of(hosted_alone(one))
    sizes = {"block": 0, "partials": 0}
    for number, piece in enumerate(pieces_of(tables)):
        for batch in stage(lower, cut_for(4), packed([one], piece), str(tmp_path), number):
            for line in batch.to_pylist():
                if line["readers"] == json.dumps([(one.key, 0)]):
                    sizes = {name: size + len(line[name] or b"") for name, size in sizes.items()}
    assert sizes["block"] < sizes["partials"] < 100_000
