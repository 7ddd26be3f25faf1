"""A broker for all tests of this folder, topics on it, and processes that read and write them."""

from __future__ import annotations

import json
import os
import time
from collections import Counter
from collections.abc import Callable, Iterable, Iterator
from pathlib import Path
from typing import Any

import pytest

pytest.importorskip("pyspark", reason="the Spark runtime needs pyspark")
pytest.importorskip("confluent_kafka", reason="the sink needs a client: pip install 'slackwater[kafka]'")
# Another client than that of the sink: what it reads is what others read.
pytest.importorskip("kafka", reason="the tests need a client: pip install kafka-python")

from kafka import KafkaConsumer, KafkaProducer, TopicPartition
from kafka.admin import KafkaAdminClient, NewTopic

from slackwater.testing.broker import Broker, UnavailableError, broker_jars, connector_jars
from tests.kafka.job import Job
from tests.kafka.messages import PARTITIONS, Message
from tests.kit import processes
from tests.kit.processes import ROOT

Pairs = Counter[tuple[str, int, int]]


@pytest.fixture(scope="session")
def connector() -> str:
    try:
        return str(connector_jars())
    except UnavailableError as error:
        pytest.skip(f"no Kafka connector for Spark: {error}")


@pytest.fixture(scope="session")
def broker(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Broker]:
    try:
        broker_jars()
    except UnavailableError as error:
        pytest.skip(f"no Kafka broker: {error}")
    # One that is there and does not start has failed.
    made = Broker(tmp_path_factory.mktemp("broker"))
    made.start()
    yield made
    made.kill()


class Topics:
    """Topics of one test, by short names; without a prefix by the names that they have."""

    def __init__(self, servers: str, prefix: str | None = None) -> None:
        self.servers, self._prefix = servers, prefix
        self._producer = KafkaProducer(bootstrap_servers=servers, acks="all")

    def make(self, *names: str, partitions: int = PARTITIONS) -> None:
        admin = KafkaAdminClient(bootstrap_servers=self.servers)
        admin.create_topics([NewTopic(self.name(name), partitions, 1) for name in names])
        admin.close()

    def name(self, name: str) -> str:
        return name if self._prefix is None else f"{self._prefix}-{name}"

    def send(self, messages: Iterable[Message]) -> None:
        for one in messages:
            self._producer.send(self.name(one.stream), one.value, partition=one.partition)
        self._producer.flush()

    def send_raw(self, topic: str, value: bytes | None, partition: int) -> int:
        """Send bytes as they are; their offset."""
        return int(self._producer.send(self.name(topic), value, b"k", partition=partition).get(30).offset)

    def read(self, name: str) -> list[bytes]:
        """The values of all committed messages that a topic has now."""
        return [record.value for record in self.records(name)]

    def records(self, name: str) -> list[Any]:
        """All committed messages that a topic has now, whole."""
        consumer = KafkaConsumer(
            bootstrap_servers=self.servers, isolation_level="read_committed", auto_offset_reset="earliest"
        )
        topic = self.name(name)
        parts = [TopicPartition(topic, part) for part in sorted(consumer.partitions_for_topic(topic) or ())]
        consumer.assign(parts)
        consumer.seek_to_beginning(*parts)
        ends, found = consumer.end_offsets(parts), []
        deadline = time.monotonic() + 60
        while any(consumer.position(part) < ends[part] for part in parts):
            assert time.monotonic() < deadline, "a topic is not read to its end"
            for records in consumer.poll(timeout_ms=500).values():
                found += records
        consumer.close()
        return found

    def pairs(self, name: str = "pairs") -> Pairs:
        """The results in a topic, each as often as it is there."""
        rows = [json.loads(value) for value in self.read(name)]
        return Counter((row["key"], row["av"], row["bv"]) for row in rows)

    def close(self) -> None:
        self._producer.close()


def job_of(broker: Broker, connector: str, topics: Topics, query: str, results: str = "pairs", **more: object) -> Job:
    """The join of topics a and b into the topic of results."""
    streams = {name: topics.name(name) for name in "ab"}
    return Job(query, broker.servers, connector, streams, topics.name(results), **more)  # type: ignore[arg-type]


@pytest.fixture
def topics(broker: Broker, request: pytest.FixtureRequest) -> Iterator[Topics]:
    made = Topics(broker.servers, f"t{abs(hash(request.node.name)) % 10**8}-{os.getpid()}")
    yield made
    made.close()


class Process(processes.Process):
    """A job that runs, or another command; every process that it has started ends with it."""

    def __init__(self, folder: Path, *command: str, cwd: Path = ROOT) -> None:
        self.folder = folder
        command = processes.python(*(command or ("-m", "tests.kafka.job", str(folder))))
        super().__init__(command, folder / "log", {"JDK_JAVA_OPTIONS": processes.QUICK_JVM}, cwd)

    def committed(self) -> int:
        """Micro-batches that are done."""
        commits = self.folder / "checkpoint" / "commits"
        return len([one for one in commits.glob("[0-9]*") if one.name.isdigit()])

    def done(self, limit: float = processes.LIMIT) -> dict[str, object]:
        """Wait for its end; what it says then."""
        self.ended(limit)
        assert (self.folder / "done.json").exists(), self.said()
        return json.loads((self.folder / "done.json").read_text())


@pytest.fixture
def begin(tmp_path: Path) -> Iterator[Callable[..., Process]]:
    """Start a job in a folder of this name; a job that is left out is that of the folder."""
    started: list[Process] = []

    def start(name: str, job: Job | None = None) -> Process:
        if job is not None:
            job.write(tmp_path / name)
        started.append(Process(tmp_path / name))
        return started[-1]

    yield start
    for process in started:
        process.kill()
