"""A history is read first, in the order of event time, and then the streams, with the same state."""

from __future__ import annotations

import json
import time
from collections import Counter
from collections.abc import Iterator, Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from pyspark.sql import SparkSession

import slackwater as sw
from slackwater.core.batch import Batch
from slackwater.core.errors import UsageError
from slackwater.core.time import MILLISECOND
from slackwater.core.values import total
from slackwater.disorder.clock_guard import Guarded
from slackwater.observe.value import QueryProgress
from slackwater.operators.pipeline import Epochs
from slackwater.runtime.history import Cut, History, cut_of
from slackwater.runtime.kernels import query_for
from slackwater.runtime.side_outputs.collectors import REJECTED
from slackwater.runtime.spark.control import END, PIECE, Message
from slackwater.runtime.spark.exchange.packing import packing_rows
from slackwater.runtime.spark.history.overlap import Overlap
from slackwater.runtime.spark.members import columns_read
from slackwater.runtime.spark.output_schema import METRICS, ROWS
from slackwater.sources.codebook import Codebook
from tests.effort import more
from tests.spark.conftest import write_stream
from tests.spark.in_process import cut_for, hosted_alone, micro_batch, packer_for, planned, played_member, said

FIRST = 1_700_000_000_000
MIDDLE = FIRST + 3000
JOIN = "SELECT a.key, a.v AS av, b.v AS bv FROM a [RANGE 200 MS], b [RANGE 200 MS] WHERE a.key = b.key"
QUERIES = {
    "join": JOIN,
    "left join": "SELECT a.key, a.v AS av, b.v AS bv FROM a LEFT JOIN b ON a.key = b.key AND a.v = b.v"
    " AND b.ts BETWEEN a.ts AND a.ts + INTERVAL 200 MILLISECONDS",
    "sums": "SELECT key, SUM(v) AS total, COUNT(*) AS n FROM a [RANGE 1000 MS SLIDE 200 MS] GROUP BY key",
    "sessions": "SELECT key, COUNT(*) AS n FROM a [SESSION 40 MS] GROUP BY key",
    "first of each": "SELECT DISTINCT key, v % 50 AS w FROM a [RANGE 1500 MS]",
    "in two steps": f"SELECT COUNT(*) AS n FROM ({JOIN}) j [RANGE 1000 MS SLIDE 200 MS]",
    "near": "SELECT a.v AS av, b.v AS bv FROM a [RANGE 100 MS], b [RANGE 100 MS] WHERE abs(a.v - b.v) < 3",
}


def recorded(seed: int, n: int = 1500) -> pa.Table:
    """A row every 4 ms, a fifth of them up to 0.3 s late, with ids."""
    rng = np.random.default_rng(seed)
    delay = np.where(rng.random(n) < 0.2, rng.integers(0, 300, n), 0)
    keys = [f"k{key}" for key in rng.integers(0, 9, n)]
    ids = [f"{seed}-{row}" for row in range(n)]
    ts, arrival = FIRST + 4 * np.arange(n) - delay, 2 * np.arange(n) + seed % 2
    return pa.table({"ts": ts, "key": keys, "v": rng.integers(0, 400, n), "id": ids, "arrival": arrival})


def before(table: pa.Table, moment: int) -> pa.Table:
    """The rows of a table that is filled by event time."""
    return table.filter(pa.array(table["ts"].to_numpy() < moment)).sort_by("ts")


class Played:
    """A query in shards, with no worker that goes on from one micro-batch to the next."""

    def __init__(self, text: str, tables: Mapping[str, pa.Table], folder: Path) -> None:
        self.member = played_member(planned(text, tables), 2)
        self.sources = list(dict.fromkeys(one.stream.source for one in self.member.plan.inputs))
        self._hosted, self._folder, self._number = hosted_alone(self.member), str(folder), 0
        self.rows: Counter[str] = Counter()
        self.rejected = 0
        self.progress: dict[tuple[int, bool], QueryProgress] = {}

    def run(self, tables: Mapping[str, pa.Table], *messages: Message, overlaps: Mapping[str, Overlap] = {}) -> None:
        lines: list[pa.RecordBatch] = [said(one) for one in messages]
        for source in self.sources:
            own = tables[source].select(columns_read([self.member], source, "ts", tables[source].column_names))
            overlap = overlaps.get(source)
            if overlap is not None and overlap.id is not None:
                own = own.append_column(overlap.id, tables[source].column(overlap.id))
            packer = replace(packer_for([self.member], source), overlap=overlap)
            lines += packing_rows(packer)(own.combine_chunks().to_batches())
        for line in micro_batch(self._hosted, cut_for(2), lines, self._folder, self._number):
            if line["kind"] == METRICS:
                told = QueryProgress.of_json(json.loads(line["note"]))
                self.progress[told.shards[0].place] = told
            elif line["kind"] in (ROWS, REJECTED):
                table = pa.ipc.open_stream(line["block"]).read_all()
                self.rows.update(map(str, table.to_pylist()) if line["kind"] == ROWS else ())
                self.rejected += table.num_rows if line["kind"] == REJECTED else 0
        self._number += 1

    @property
    def known(self) -> QueryProgress:
        found = total(self.progress.values())
        assert found is not None
        return found


def cut_by_hand(sources: list[str], pieces: int = 3) -> Cut:
    edges = [(FIRST + (MIDDLE - FIRST) * k // pieces) * MILLISECOND for k in range(1, pieces)]
    past = History(dict.fromkeys(sources, ""), until=MIDDLE * MILLISECOND)
    return cut_of(past, dict.fromkeys(sources, (MIDDLE - 1) * MILLISECOND), edges)


def backfilled(text: str, tables: Mapping[str, pa.Table], folder: Path, slack: int = 0) -> Played:
    """What is before the middle as a history in three pieces, then the stream from before the middle on."""
    played = Played(text, tables, folder)
    cut = cut_by_hand(played.sources)
    overlaps = {one: Overlap("ts", "ms", MIDDLE * MILLISECOND) for one in played.sources}
    for piece in range(cut.pieces):
        begin, end = ((FIRST - 999_999, *cut.edges, MIDDLE * MILLISECOND)[piece + k] for k in (0, 1))
        own = {
            name: table.filter(pa.array((table["ts"].to_numpy() * MILLISECOND >= begin)
                                        & (table["ts"].to_numpy() * MILLISECOND < end))).sort_by("ts")
            for name, table in tables.items()
        }  # fmt: skip
        played.run(own, Message(PIECE, piece=piece, reached=cut.reached(piece), slack=slack))
    for begin in range(500, 1500, 250):
        played.run({name: table.slice(begin, 250) for name, table in tables.items()}, overlaps=overlaps)
    return played


@pytest.mark.parametrize("name", QUERIES)
def test_a_history_and_then_the_stream_give_what_all_rows_give(name: str, tmp_path: Path) -> None:
    tables, text = {"a": recorded(1), "b": recorded(2)}, f"{QUERIES[name]} WITH DELAY 1 SECOND"
    played = backfilled(text, tables, tmp_path)
    played.run({name: table.slice(0, 0) for name, table in tables.items()}, Message(END))
    read = {one: tables[one] for one in played.sources}
    whole = sw.replay(text, read, epochs=sw.Epochs(tuples=500))
    assert played.rows == Counter(map(str, whole.results.to_pylist()))
    again = sum(table.slice(500).num_rows - table.slice(500).filter(
        pa.array(table.slice(500)["ts"].to_numpy() >= MIDDLE)).num_rows for table in read.values())  # fmt: skip
    assert played.known.rejected == {"in_history": again}
    assert played.rejected == again > 100
    seen = played.known.observed
    assert played.known.history == sum(before(table, MIDDLE).num_rows for table in read.values())
    assert seen.in_time + seen.late == sum(table.num_rows for table in read.values())


@pytest.mark.parametrize("name", ["join", "in two steps", "sums"])
def test_a_history_teaches_nothing_of_delays_and_counts_for_no_target(name: str, tmp_path: Path) -> None:
    tables = {"a": recorded(1), "b": recorded(2)}
    target = "ERROR 5%" if name == "sums" else "RECALL 0.95 OVER 1 SECOND"
    played = Played(f"{QUERIES[name]} WITH {target}", tables, tmp_path)
    past = {one: before(table, MIDDLE) for one, table in tables.items()}
    played.run(past, Message(PIECE, piece=0, reached=dict.fromkeys(tables, MIDDLE * MILLISECOND), slack=70_000))
    assert played.known.observed.slack == 70_000
    of_history = sum(played.rows.values())
    assert of_history > 4
    assert played.known.latency is None, "how a table is read says nothing of waiting"
    for begin in range(750, 1500, 125):
        own = {one: table.slice(begin, 125) for one, table in tables.items()}
        played.run({one: table.filter(pa.array(table["ts"].to_numpy() >= MIDDLE)) for one, table in own.items()})
    seen = played.known.observed.quality
    assert seen is not None
    if name == "join":
        assert seen.good == sum(played.rows.values()) - of_history > 100
        assert played.known.observed.slack > 70_000, "what it learns are the delays of the stream"


def test_a_silent_epoch_between_two_pieces_of_a_history_does_not_end_it() -> None:
    table = recorded(1)
    waiting = "WITH RECALL 0.9 OVER 1 SECOND OPTIONS (idle_timeout = 1 SECOND)"
    physical = planned(f"{QUERIES['join']} {waiting}", {"a": table, "b": table})
    kernel = query_for(physical, Epochs(), Codebook())
    nothing, clocks = Batch.of([], physical.operator.rows), [MIDDLE * MILLISECOND] * 2
    for now in (10_000_000, 20_000_000):
        assert not list(kernel.remember(nothing, clocks, 2_000_000, now))
        assert not list(kernel.on_processing_time(now + 5_000_000))
        assert not list(kernel.take(Guarded(nothing, nothing)))
    assert kernel.release.remembers
    assert kernel.release.slack == 2_000_000
    first = Batch.of([(0, MIDDLE * MILLISECOND)], physical.operator.rows)
    list(kernel.take(Guarded(first, nothing)))
    assert not kernel.release.remembers


def test_ids_tell_rows_that_come_a_second_time_whatever_else_came_at_their_time(tmp_path: Path) -> None:
    table = recorded(1)
    known, folder = before(table, MIDDLE).slice(0, 700), tmp_path / "pieces"
    edges = (int(known["ts"][300].as_py()) * MILLISECOND, int(known["ts"][500].as_py()) * MILLISECOND)
    piece = np.searchsorted(edges, known["ts"].to_numpy() * MILLISECOND, "right")
    for number in range(3):
        (folder / f"slackwater_piece={number}").mkdir(parents=True)
        own = known.filter(pa.array(piece == number))
        pq.write_table(own, folder / f"slackwater_piece={number}" / "part-0.parquet")
    last = int(known["ts"].to_numpy().max()) * MILLISECOND
    overlap = Overlap("ts", "ms", last + 1, "id", pa.field("id", pa.string()), str(folder), edges)
    found = table.filter(pa.array(overlap.among(table)))
    assert sorted(found["id"].to_pylist()) == sorted(known["id"].to_pylist())
    played = Played("SELECT key, v FROM a WITH NO WAIT", {"a": table}, tmp_path / "state")
    played.run({"a": table}, overlaps={"a": overlap})
    assert (played.known.rejected, played.rejected) == ({"in_history": 700}, 700)


# On Spark.

on_spark = pytest.mark.xdist_group("spark")


def written(folder: Path) -> Iterator[str]:
    for row in pq.read_table(folder).to_pylist():
        yield str({name: value for name, value in row.items() if name != "batch"})


def expected(text: str, tables: Mapping[str, pa.Table]) -> Counter[str]:
    return Counter(map(str, sw.replay(text, dict(tables), epochs=sw.Epochs(tuples=500)).results.to_pylist()))


@on_spark
@pytest.mark.parametrize("by_id", [True, *more("by time, in process, above", False)])
def test_on_spark_a_query_that_is_stopped_in_its_history_goes_on_there_and_then_with_the_streams(
    spark: SparkSession, tmp_path: Path, by_id: bool
) -> None:
    tables, text = {"a": recorded(1), "b": recorded(2)}, f"{QUERIES['join']} WITH DELAY 1 SECOND"
    streams = {
        name: write_stream(spark, tmp_path / name, [table.slice(at, 250) for at in range(250, 1500, 250)])
        for name, table in tables.items()
    }
    past = {name: spark.createDataFrame(before(table, MIDDLE).to_pandas()) for name, table in tables.items()}
    told = sw.history(past, id="id", rows=200) if by_id else sw.history(past, until="2023-11-14 22:13:23", rows=200)
    places: dict[str, Any] = {"results": str(tmp_path / "out"), "checkpoint": str(tmp_path / "checkpoint")}
    first = sw.start(spark, text, history=told, rejected=str(tmp_path / "rejected"), **places, **streams)
    deadline = time.monotonic() + 120
    while not list((tmp_path / "out").glob("batch=*")) and time.monotonic() < deadline:
        time.sleep(0.05)
    first.stop()
    control = [json.loads(line) for file in (tmp_path / "checkpoint" / "slackwater-control").glob("*.txt")
               for line in file.read_text().splitlines()]  # fmt: skip
    assert not any(one["kind"] == "live" for one in control), "the history was over before it was stopped"
    again = sw.start(
        spark, text, rejected=str(tmp_path / "rejected"), trigger="available", flush=True, **places, **streams
    )
    assert again.wait(300)
    assert Counter(written(tmp_path / "out")) == expected(text, tables)
    reasons = Counter(pq.read_table(tmp_path / "rejected")["reason"].to_pylist())
    assert reasons == {
        "in_history": sum(int((table["ts"].to_numpy()[250:] < MIDDLE).sum()) for table in tables.values())
    }


@on_spark
@pytest.mark.long("that of one query, above; a query of a set with a history is hosted like one")
def test_on_spark_each_query_of_a_set_reads_the_history(spark: SparkSession, tmp_path: Path) -> None:
    tables = {"a": recorded(1), "b": recorded(2)}
    texts = {name: f"{QUERIES[name]} WITH DELAY 1 SECOND" for name in ("join", "sums")}
    streams = {name: write_stream(spark, tmp_path / name, [table.slice(250, 1250)]) for name, table in tables.items()}
    past = {name: spark.createDataFrame(before(table, MIDDLE).to_pandas()) for name, table in tables.items()}
    running = sw.queries(spark, streams=streams, queries=texts).start(
        str(tmp_path / "checkpoint"), sinks={name: str(tmp_path / "out" / name) for name in texts}, history=past,
        trigger="available", flush=True,
    )  # fmt: skip
    assert running.wait(300)
    for name, text in texts.items():
        assert Counter(written(tmp_path / "out" / name)) == expected(
            text, {source: table for source, table in tables.items() if f" {source} [" in text}
        )


@on_spark
def test_what_a_history_lacks_is_said(spark: SparkSession, tmp_path: Path) -> None:
    table = recorded(1, 20)
    stream = write_stream(spark, tmp_path / "a", [table])
    frame = spark.createDataFrame(table.to_pandas())
    for history, sentence in (
        ({"c": frame}, "there is no stream c"),
        ({"a": stream}, "give a batch DataFrame"),
        ({"a": frame.drop("v")}, "history of stream a has no column 'v'"),
        ({"a": frame.withColumn("v", frame.v.cast("string"))}, "column 'v' is string, and int64 in the stream"),
        (sw.history({"a": frame}, id="number"), "stream a has no column 'number'"),
    ):
        with pytest.raises(UsageError, match=sentence):
            sw.start(
                spark, "SELECT v FROM a", a=stream, history=history, results=str(tmp_path / "o"),
                checkpoint=tmp_path / "c",
            )  # fmt: skip
