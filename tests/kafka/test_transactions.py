"""The writer of transactions, against a client in memory that fails where it is told to."""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator
from types import SimpleNamespace
from typing import Any

import pytest

from slackwater.core.errors import SlackwaterError
from slackwater.runtime.spark.kafka import transactions
from slackwater.runtime.spark.kafka.transactions import RUN, Transactions

NAME = "slackwater 0123 results"


class Failure:
    """An error of the client."""

    def __init__(self, retriable: bool = False, abort: bool = False, code: int = 1) -> None:
        self._retriable, self._abort, self._code = retriable, abort, code

    def retriable(self) -> bool:
        return self._retriable

    def txn_requires_abort(self) -> bool:
        return self._abort

    def code(self) -> int:
        return self._code

    def str(self) -> str:
        return "a failure"


class KafkaException(Exception):  # noqa: N818
    pass


class KafkaError:
    _FENCED, PRODUCER_FENCED, _PARTITION_EOF, _TRANSPORT = -144, 90, -191, -195


class TopicPartition:
    error = None

    def __init__(self, topic: str, partition: int, offset: int = -1001) -> None:
        self.topic, self.partition, self.offset = topic, partition, offset


class Server:
    """What a broker keeps, and the failures that are still to come, by the step they come in."""

    def __init__(self) -> None:
        self.committed: list[tuple[bytes, dict[str, bytes]]] = []
        self.open: list[tuple[bytes, dict[str, bytes]]] = []
        self.note, self.open_note = -1001, -1001
        self.failures: dict[str, list[Failure | threading.Event]] = {}

    def step(self, name: str) -> None:
        failure = self.failures[name].pop(0) if self.failures.get(name) else None
        if isinstance(failure, threading.Event):
            failure.wait()
        elif failure is not None:
            raise KafkaException(failure)

    @property
    def values(self) -> list[bytes]:
        return [value for value, _ in self.committed]


class Producer:
    def __init__(self, server: Server) -> None:
        self._server = server

    def init_transactions(self, timeout: float) -> None:
        self._server.open = []

    def begin_transaction(self) -> None:
        assert not self._server.open
        self._server.open_note = self._server.note

    def produce(self, topic: str, value: bytes, key: bytes | None, headers: list[tuple[str, bytes]]) -> None:
        self._server.step("produce")
        self._server.open.append((value, dict(headers)))

    def send_offsets_to_transaction(self, offsets: list[TopicPartition], group: object, timeout: float) -> None:
        self._server.step("note")
        self._server.open_note = offsets[0].offset

    def commit_transaction(self, timeout: float) -> None:
        self._server.step("commit")
        self._server.committed += self._server.open
        self._server.open, self._server.note = [], self._server.open_note
        self._server.step("committed")

    def abort_transaction(self, timeout: float) -> None:
        self._server.open = []


class Message:
    def __init__(self, headers: dict[str, bytes] | None) -> None:
        self._headers = headers

    def error(self) -> Failure | None:
        return Failure(code=KafkaError._PARTITION_EOF) if self._headers is None else None

    def headers(self) -> list[tuple[str, bytes]]:
        return list((self._headers or {}).items())

    def partition(self) -> int:
        return 0


class Consumer:
    def __init__(self, server: Server) -> None:
        self._server = server

    def committed(self, parts: list[TopicPartition], timeout: float) -> list[TopicPartition]:
        self._server.step("read note")
        return [TopicPartition("pairs", 0, self._server.note)]

    def consumer_group_metadata(self) -> object:
        return None

    def list_topics(self, topic: str, timeout: float) -> Any:
        return SimpleNamespace(topics={topic: SimpleNamespace(partitions={0: None})})

    def assign(self, parts: list[TopicPartition]) -> None:
        pass

    def consume(self, count: int, timeout: float) -> list[Message]:
        return [*(Message(headers) for _, headers in self._server.committed), Message(None)]

    def close(self) -> None:
        pass


@pytest.fixture
def server() -> Server:
    return Server()


@pytest.fixture
def started(server: Server, monkeypatch: pytest.MonkeyPatch) -> Callable[[], Transactions]:
    """A process that writes, as it is after a start."""
    fake = SimpleNamespace(
        KafkaException=KafkaException, KafkaError=KafkaError, TopicPartition=TopicPartition,
        Producer=lambda options: Producer(server), Consumer=lambda options: Consumer(server),
    )  # fmt: skip
    monkeypatch.setattr(transactions, "client", lambda: fake)
    return lambda: Transactions("127.0.0.1:9092", "pairs", NAME, {})


def write(writer: Transactions, number: int, *values: bytes) -> None:
    writer.write([None] * len(values), values, number)


def test_a_micro_batch_that_is_noted_is_passed_over_after_a_restart(server: Server, started: Any) -> None:
    first = started()
    write(first, 0, b"a")
    write(first, 1, b"b", b"c")
    second = started()
    write(second, 1, b"b", b"c")
    write(second, 2, b"d")
    assert server.values == [b"a", b"b", b"c", b"d"]


def test_what_a_killed_process_left_open_is_written_once(server: Server, started: Any) -> None:
    write(started(), 0, b"a")
    server.open = [(b"b", {})]
    write(started(), 1, b"b")
    assert server.values == [b"a", b"b"]


def test_a_transaction_that_must_be_given_up_is_made_again(server: Server, started: Any) -> None:
    server.failures = {"note": [Failure(abort=True)], "commit": [Failure(retriable=True), Failure(abort=True)]}
    write(started(), 0, b"a", b"b")
    assert server.values == [b"a", b"b"]


def test_without_its_note_a_restart_finds_in_the_topic_what_is_written(server: Server, started: Any) -> None:
    write(started(), 3, b"a")
    server.committed.append((b"x", {RUN: b"slackwater other results", "slackwater-batch": b"99"}))
    server.committed.append((b"y", {}))
    server.note = -1001
    second = started()
    write(second, 3, b"a")
    write(second, 4, b"b")
    assert server.values == [b"a", b"x", b"y", b"b"]


def test_an_empty_micro_batch_is_noted_too(server: Server, started: Any) -> None:
    write(started(), 0)
    assert (server.values, server.note) == ([], 1)


def test_where_the_note_cannot_be_read_a_writer_knows_what_it_has_not_written(server: Server, started: Any) -> None:
    first = started()
    write(first, 0, b"a")
    away = Failure(code=KafkaError._TRANSPORT)
    server.failures = {"note": [away], "read note": [away] * 9}
    write(first, 1, b"b")
    assert server.values == [b"a", b"b"]


def test_what_another_process_wrote_while_a_broker_was_away_is_not_written_again(server: Server, started: Any) -> None:
    first = started()
    write(first, 0, b"a")
    write(started(), 1, b"b")
    server.failures = {"note": [Failure(code=KafkaError._TRANSPORT)]}
    write(first, 1, b"b")
    assert server.values == [b"a", b"b"]


def test_two_processes_on_one_checkpoint_are_told_so(server: Server, started: Any) -> None:
    server.failures = {"produce": [Failure(code=KafkaError._FENCED)]}
    with pytest.raises(SlackwaterError, match="another process writes micro-batches of this checkpoint"):
        write(started(), 0, b"a")


def test_a_failure_says_that_a_start_goes_on(server: Server, started: Any) -> None:
    server.failures = {"commit": [Failure(abort=True)] * transactions.TRIES}
    with pytest.raises(SlackwaterError, match=r"micro-batch 0 could not be written .* goes on with it"):
        write(started(), 0, b"a")
    server.failures = {}
    write(started(), 0, b"a")
    assert server.values == [b"a"]


@pytest.fixture
def never(monkeypatch: pytest.MonkeyPatch) -> Iterator[threading.Event]:
    """A call of the client that does not come back, whatever its timeout says."""
    for name in ("ANSWER", "GRACE", "PAUSE"):
        monkeypatch.setattr(transactions, name, 0.1)
    monkeypatch.setattr(transactions, "PATIENCE", 1.0)
    made = threading.Event()
    yield made
    made.set()


@pytest.mark.parametrize("step", ["note", "commit"])
def test_a_call_that_never_comes_back_is_given_up_and_made_again_by_a_new_client(
    step: str, server: Server, started: Any, never: threading.Event
) -> None:
    server.failures = {step: [never]}
    writer = started()
    write(writer, 0, b"a", b"b")
    write(writer, 1, b"c")
    assert server.values == [b"a", b"b", b"c"]


def test_a_commit_that_was_done_though_it_never_came_back_is_not_made_again(
    server: Server, started: Any, never: threading.Event
) -> None:
    server.failures = {"committed": [never]}
    write(started(), 0, b"a")
    assert server.values == [b"a"]


def test_calls_that_never_come_back_end_in_one_sentence(server: Server, started: Any, never: threading.Event) -> None:
    server.failures = {"note": [never] * 99}
    with pytest.raises(SlackwaterError, match=r"micro-batch 0 could not be written .*not answer.* goes on with it"):
        write(started(), 0, b"a")
    server.failures = {}
    write(started(), 0, b"a")
    assert server.values == [b"a"]
