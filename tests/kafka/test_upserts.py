"""A compacted topic as a table that is kept up to date, with a real broker and another client that reads it."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

import slackwater as sw
from slackwater.core.errors import UsageError
from slackwater.runtime.spark.upsert.topic import CompactedTopic
from slackwater.testing.broker import Broker
from tests.kafka.conftest import Topics
from tests.kit.change_rows import micro_batches, table_of
from tests.kit.processes import Process, python
from tests.spark.test_upserts import killed_again_and_again
from tests.spark.upserts_job import MORE, RUN, as_messages

pytestmark = pytest.mark.xdist_group("processes on spark")


def table(topics: Topics, name: str) -> dict[tuple[Any, ...], tuple[Any, ...]]:
    """What a reader has who keeps the last value of every key."""
    rows: dict[bytes, bytes] = {}
    for record in topics.records(name):
        rows.pop(record.key, None)
        if record.value is not None:
            rows[record.key] = record.value
    return {tuple(json.loads(key)): tuple(json.loads(value)) for key, value in rows.items()}


def wanted(batches: list[Any]) -> dict[tuple[Any, ...], tuple[Any, ...]]:
    return {(str(key[0]), key[1]): row for key, row in table_of(batches).items()}


def test_a_topic_is_created_compacted_and_is_the_answer_though_micro_batches_are_repeated(
    broker: Broker, topics: Topics
) -> None:
    batches, name = micro_batches(6), topics.name("totals")
    topic = CompactedTopic(name, broker.servers)
    topic.check("results")
    for number, batch in enumerate(batches):
        topic.opened(RUN).write(as_messages(batch), number)
        sent = len(topics.records("totals"))
        if number % 2:
            topic.opened(RUN).write(as_messages(batch), number)
            assert len(topics.records("totals")) == sent
    assert table(topics, "totals") == wanted(batches)
    assert any(record.value is None for record in topics.records("totals"))
    topic.check("results")
    topics.make("forgets")
    with pytest.raises(
        UsageError, match=r"results: topic '.*forgets' .* forgets old messages \(cleanup.policy=delete\)"
    ):
        sw.upsert("kafka", topics.name("forgets"), key="k", servers=broker.servers).check(["k"], "results")


@pytest.fixture
def job(tmp_path: Path) -> Iterator[Callable[[str, str], Process]]:
    started: list[Process] = []

    def begin(name: str, servers: str) -> Process:
        (tmp_path / "job").mkdir(exist_ok=True)
        size = map(str, MORE)
        command = python("-m", "tests.spark.upserts_job", str(tmp_path / "job"), "kafka", f"{name}@{servers}", *size)
        started.append(Process(command, tmp_path / "log"))
        return started[-1]

    yield begin
    for process in started:
        process.kill()


@pytest.mark.long("the same with micro-batches that are repeated; kills with PostgreSQL")
def test_a_job_that_is_killed_again_and_again_leaves_the_answer_in_a_topic(
    broker: Broker, topics: Topics, job: Callable[[str, str], Process], tmp_path: Path
) -> None:
    name = topics.name("killed")
    killed_again_and_again(lambda: job(name, broker.servers), tmp_path / "job", 10, MORE[0])
    batches = micro_batches(*MORE)
    assert table(topics, "killed") == wanted(batches)
    # Every micro-batch has a message for each of its keys, once.
    keys = sum(len({(row["window_end"], row["country"]) for row in batch.to_pylist()}) for batch in batches)
    assert len(topics.records("killed")) == keys
