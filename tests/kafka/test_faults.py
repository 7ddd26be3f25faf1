"""What is killed, lags, falls silent or goes away: the topic of results ends as if nothing had."""

from __future__ import annotations

import json
import random
import time
from collections import Counter
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

import slackwater as sw
from slackwater.testing.broker import Broker, free_port
from tests.kafka.conftest import Pairs, Process, Topics
from tests.kafka.job import Job
from tests.kafka.messages import IDLE, START, Message, messages, true_pairs
from tests.kafka.test_short import JOIN

pytestmark = [
    pytest.mark.xdist_group("processes on spark"),
    pytest.mark.long("test_short.py: a micro-batch that Kafka has and Spark does not know to be done runs again"),
]

RECALL = "RECALL 0.95 OVER 20 SECONDS"
KILLS = 5
IDLE_TIMEOUT = 15


def job_of(broker: Broker, connector: str, topics: Topics, query: str, results: str = "pairs", **more: object) -> Job:
    streams = {name: topics.name(name) for name in "ab"}
    return Job(query, broker.servers, connector, streams, topics.name(results), **more)  # type: ignore[arg-type]


def file_run(made: list[Message], checkpoint: Path, topics: Topics, spark: object, folder: Path) -> Pairs:
    """The query over files with the same messages, cut as the log of a checkpoint says that topics were cut."""
    queued: dict[tuple[str, int], list[Message]] = {}
    for one in made:
        queued.setdefault((one.stream, one.partition), []).append(one)
    before: dict[tuple[str, int], int] = {}
    numbers = sorted(int(one.name) for one in (checkpoint / "offsets").glob("[0-9]*") if one.name.isdigit())
    for number in numbers:
        lines = (checkpoint / "offsets" / str(number)).read_text().splitlines()[2:]
        ends = {topic: parts for line in lines if line.startswith('{"t') for topic, parts in json.loads(line).items()}
        for stream in "ab":
            rows: list[Message] = []
            for part, end in sorted(ends[topics.name(stream)].items()):
                place = (stream, int(part))
                rows += queued.get(place, [])[before.get(place, 0) : end]
                before[place] = end
            write_file(folder / stream / f"{number:05d}.parquet", rows, number)
    assert sum(before.values()) == len(made)
    streams = {
        name: spark.readStream.schema("ts timestamp, key string, v long, partition int")  # type: ignore[attr-defined]
        .option("maxFilesPerTrigger", 1)
        .parquet(str(folder / name))
        for name in "ab"
    }
    query = sw.start(
        spark, JOIN.format(RECALL), results=str(folder / "out"), checkpoint=folder / "checkpoint", shards=2,
        trigger="available", flush=True, **streams,
    )  # type: ignore[arg-type, call-overload]  # fmt: skip
    query.wait()  # type: ignore[union-attr]
    rows = pq.read_table(folder / "out")
    return Counter(zip(*(rows.column(name).to_pylist() for name in ("key", "av", "bv")), strict=True))


def write_file(path: Path, rows: list[Message], number: int) -> None:
    import os

    path.parent.mkdir(parents=True, exist_ok=True)
    micros = [int(START.timestamp()) * 1_000_000 + round(one.at * 1000) * 1000 for one in rows]
    columns = {
        "ts": pa.array(micros, pa.timestamp("us", "UTC")),
        "key": pa.array([one.key for one in rows]),
        "v": pa.array([one.v for one in rows], pa.int64()),
        "partition": pa.array([one.partition for one in rows], pa.int32()),
    }
    pq.write_table(pa.table(columns), path)
    os.utime(path, (1_000_000 + number, 1_000_000 + number))


def test_a_job_that_is_killed_five_times_writes_what_one_left_alone_and_one_over_files_write(
    spark: object, broker: Broker, connector: str, topics: Topics, begin: Callable[..., Process], tmp_path: Path
) -> None:
    topics.make("a", "b", "alone", "killed")
    made = messages(120, 50)
    topics.send(made)
    cut = {"maxOffsetsPerTrigger": "500"}
    alone = begin("alone", job_of(broker, connector, topics, JOIN.format(RECALL), "alone", source=cut)).done()
    wanted = topics.pairs("alone")
    assert max(wanted.values()) == 1
    assert wanted.total() == alone["results"]

    job_of(broker, connector, topics, JOIN.format(RECALL), "killed", source=cut).write(tmp_path / "killed")
    moments = random.Random(2026)
    for kill in range(KILLS):
        process = begin("killed")
        # While it starts, and in the middle of micro-batches.
        goal = process.committed() + (0 if kill == 1 else 1 + kill % 3)
        process.until(lambda: process.committed() >= goal)  # noqa: B023
        time.sleep(moments.uniform(0, 1.5))
        assert process.runs, "it was to be killed, not to end"
        process.kill()
    begin("killed").done()
    assert topics.pairs("killed") == wanted

    files = file_run(made, tmp_path / "alone" / "checkpoint", topics, spark, tmp_path / "files")
    assert files == wanted


def recall(found: Pairs, made: list[Message]) -> float:
    truth = true_pairs(made)
    assert not found - truth, "a result was invented or doubled"
    return found.total() / truth.total()


def taken(checkpoint: Path) -> int:
    """Messages that belong to micro-batches which are done."""
    done = [number for number, _, _ in planned(checkpoint) if (checkpoint / "commits" / str(number)).exists()]
    return max((read for number, _, read in planned(checkpoint) if number in done), default=0)


def fed_in_order(process: Process, topics: Topics, made: list[Message], each: float) -> None:
    """Send what arrives in some seconds when all before is read: a query sees a lag only if it does not read ahead."""
    sent, checkpoint = 0, process.folder / "checkpoint"
    while sent < len(made):
        end = made[sent].arrival + each
        part = [one for one in made[sent:] if one.arrival < end]
        topics.send(part)
        sent += len(part)
        process.until(lambda: taken(checkpoint) >= sent)  # noqa: B023


@pytest.mark.parametrize("clock_by", [True, False], ids=["a clock a partition", "one clock"])
def test_a_partition_that_lags_by_thirty_seconds_costs_no_recall_where_it_has_a_clock(
    broker: Broker, connector: str, topics: Topics, begin: Callable[..., Process], clock_by: bool, tmp_path: Path
) -> None:
    topics.make("a", "b", "pairs")
    made = messages(100, 20, lagging=(20.0, 40.0), lag=30.0, idle_from=1e9)
    query = JOIN.format(RECALL) if clock_by else JOIN.format(RECALL).partition(" OPTIONS")[0]
    job = job_of(broker, connector, topics, query, available=False, flush=False)
    process = begin("job", job)
    fed_in_order(process, topics, made, each=5.0)
    process.kill()
    Job(**{**vars(job), "available": True, "flush": True}).write(tmp_path / "job")
    done = begin("job").done()
    found = recall(topics.pairs(), made)
    print(f"clock_by {clock_by}: recall {found:.4f}, {done}")
    if clock_by:
        assert found >= 0.95
    else:
        # What the other would show if it could not fail: the backlog is late where all partitions share a clock.
        assert int(str(done["late"])) > 100


def test_an_idle_partition_holds_results_back_no_longer_than_its_timeout(
    broker: Broker, connector: str, topics: Topics, begin: Callable[..., Process]
) -> None:
    topics.make("a", "b", "pairs")
    waits = JOIN.format("DELAY 1 SECOND").replace(")", f", idle_timeout = {IDLE_TIMEOUT} SECONDS)")
    job = job_of(broker, connector, topics, waits, available=False, flush=False)
    # Nothing is late here: the delay covers all disorder.
    everyone = messages(4, 40, idle_from=1e9, lagging=(1e9, 1e9), disorder=0.05)
    assert {one.partition for one in everyone} == {0, 1, 2, IDLE}
    topics.send(everyone)
    process = begin("job", job)
    process.until(lambda: len(topics.pairs()) > 0)
    # From now on one partition is silent; the others go on for half a minute of event time at once.
    rest = [one for one in messages(34, 40, idle_from=0.0, lagging=(1e9, 1e9), disorder=0.05) if one.arrival >= 4]
    topics.send(rest)
    silent_since = time.monotonic()
    before = len(topics.pairs())
    wanted = true_pairs([*everyone, *rest])
    held = len([pair for pair in wanted if pair[1] > 1000 or pair[2] > 1000])
    assert held > 100

    # What lies two seconds and more before the newest message is due when the silent partition is no longer waited for.
    due = true_pairs([one for one in [*everyone, *rest] if one.at < 30])
    process.until(lambda: not due - topics.pairs())
    waited = time.monotonic() - silent_since
    process.kill()
    assert not topics.pairs() - wanted

    # On a busy machine a micro-batch takes long. So it is counted in them: the first one that begins when the timeout
    # is over, and has read everything, emits all that is due.
    begun = {number: at for number, at, _ in planned(process.folder / "checkpoint")}
    whole = [number for number, _, read in planned(process.folder / "checkpoint") if read == len(everyone) + len(rest)]
    first = next(number for number in whole if begun[number] >= begun[0] + IDLE_TIMEOUT)
    emitted = max(
        int(dict(record.headers)["slackwater-batch"])
        for record in topics.records("pairs")
        if pair_of(json.loads(record.value)) in due
    )
    print(f"{before} pairs before, {due.total()} due, all there after {waited:.1f} s, micro-batch {emitted} of {begun}")
    assert emitted <= first


def pair_of(row: dict[str, Any]) -> tuple[str, int, int]:
    return row["key"], row["av"], row["bv"]


def planned(checkpoint: Path) -> list[tuple[int, float, int]]:
    """Of every micro-batch its number, the second it began in, and the messages read with it and before."""
    found = []
    for entry in (checkpoint / "offsets").glob("[0-9]*"):
        lines = entry.read_text().splitlines()
        ends = [json.loads(line) for line in lines[2:] if line.startswith('{"t')]
        read = sum(end for topics in ends for parts in topics.values() for end in parts.values())
        found.append((int(entry.name), json.loads(lines[1])["batchTimestampMs"] / 1000, read))
    return sorted(found)


def test_a_broker_that_goes_away_and_comes_back_costs_nothing(
    connector: str, begin: Callable[..., Process], tmp_path: Path
) -> None:
    with Broker(tmp_path / "own-broker") as broker:
        topics = Topics(broker.servers, "away")
        topics.make("a", "b", "pairs")
        made = messages(20, 20, lagging=(1e9, 1e9))
        topics.send(made[:400])
        query = JOIN.format("DELAY 6 SECONDS")
        process = begin("job", job_of(broker, connector, topics, query, available=False, flush=False))
        process.until(lambda: len(topics.pairs()) > 0)
        broker.kill()
        time.sleep(15)
        assert process.runs
        broker.start()
        topics.send(made[400:])
        due = true_pairs([one for one in made if one.at < 12])
        process.until(lambda: not due - topics.pairs())
        assert not topics.pairs() - true_pairs(made)
        process.kill()
        topics.close()


def test_without_a_broker_or_a_topic_a_start_says_so_in_one_sentence(
    broker: Broker, connector: str, topics: Topics, begin: Callable[..., Process]
) -> None:
    topics.make("a", "b", "pairs")
    nowhere = f"127.0.0.1:{free_port()}"
    job = job_of(broker, connector, topics, JOIN.format(RECALL))
    begun = time.monotonic()
    said = begin("nowhere", Job(**{**vars(job), "servers": nowhere})).done()
    assert said["kind"] == "UsageError"
    assert str(said["error"]).startswith(f"no Kafka broker answers at {nowhere} (Connection refused)")
    said = begin("no topic", Job(**{**vars(job), "results": "no-such-topic"})).done()
    assert said["kind"] == "UsageError"
    assert "topic 'no-such-topic'" in str(said["error"])
    assert "create it first" in str(said["error"])
    said = begin("no source", Job(**{**vars(job), "topics": {"a": "no-such-source", "b": topics.name("b")}})).done()
    print(said, time.monotonic() - begun)
    assert "no-such-source" in str(said["error"])
