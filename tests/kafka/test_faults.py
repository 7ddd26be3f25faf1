"""What is killed or goes away: the topic of results ends as if nothing had. Partitions are in `test_partitions.py`."""

from __future__ import annotations

import json
import random
import socket
import time
from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

import slackwater as sw
from slackwater.testing.broker import Broker, free_port
from tests.kafka.conftest import Pairs, Process, Topics, job_of
from tests.kafka.job import Job
from tests.kafka.messages import START, Message, messages, true_pairs
from tests.kafka.test_short import JOIN

pytestmark = [
    pytest.mark.xdist_group("processes on spark"),
    pytest.mark.long("test_short.py: a micro-batch that Kafka has and Spark does not know to be done runs again"),
]

RECALL = "RECALL 0.95 OVER 20 SECONDS"
KILLS = 5


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
        # A single node that is killed within milliseconds of a commit forgets it: docs/kafka.md.
        time.sleep(1)
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
    said = begin("nowhere", Job(**{**vars(job), "servers": nowhere})).done()
    assert said["kind"] == "UsageError"
    assert str(said["error"]).startswith(f"no Kafka broker answers at {nowhere} (Connection refused)")
    said = begin("no topic", Job(**{**vars(job), "results": "no-such-topic"})).done()
    assert said["kind"] == "UsageError"
    assert "topic 'no-such-topic'" in str(said["error"])
    assert "create it first" in str(said["error"])
    said = begin("no source", Job(**{**vars(job), "topics": {"a": "no-such-source", "b": topics.name("b")}})).done()
    assert said["kind"] == "UsageError"
    assert said["error"] == f"topic 'no-such-source' does not exist at {broker.servers}; create it first"
    with silent_server() as address:
        said = begin("no Kafka", Job(**{**vars(job), "servers": address})).done()
    assert said["kind"] == "UsageError"
    assert "does not answer as a Kafka broker" in str(said["error"])


@contextmanager
def silent_server() -> Iterator[str]:
    """Something on loopback that takes connections and never says a word."""
    with socket.create_server(("127.0.0.1", 0)) as made:
        yield f"127.0.0.1:{made.getsockname()[1]}"
