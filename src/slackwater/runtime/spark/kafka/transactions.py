"""Micro-batches as transactions of Kafka: each is written once, whatever is killed when.

Invariant: the rows of micro-batch N and the note that N is written become visible in one transaction, or neither does.
The note is the committed offset of a consumer group that nobody reads with: N + 1. Whoever starts the same query again
has the same transactional id. So the broker ends what a killed process left open before it tells the note, and a
process that was taken for dead can write no more. Micro-batch N comes again with the rows that it had, so one that is
noted is passed over.
"""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Mapping, Sequence
from typing import Any

from slackwater.core.errors import SlackwaterError, UsageError
from slackwater.runtime.spark.kafka.brokers import check_brokers

INSTALL = "the sink of Kafka needs a client: pip install 'slackwater[kafka]'"
BATCH, RUN = "slackwater-batch", "slackwater-run"
"""Headers of a message: the number of its micro-batch, and whose it is."""
PATIENCE = 60.0
"""Seconds that a broker may be away."""
AT_START = 10.0
ANSWER = 15.0
"""Seconds that a broker has for one answer; only for a commit, which waits for all messages, it has more."""
GRACE = 5.0
"""Seconds after its timeout in which a call of the client must have come back."""
PAUSE = 0.5
"""Seconds before everything begins anew."""
TRIES = 3
"""How often a transaction is made that the broker wants to be given up."""
AWAY = (
    "_TRANSPORT", "_ALL_BROKERS_DOWN", "_TIMED_OUT", "_TIMED_OUT_QUEUE", "_MSG_TIMED_OUT", "_WAIT_COORD",
    "COORDINATOR_LOAD_IN_PROGRESS", "COORDINATOR_NOT_AVAILABLE", "NOT_COORDINATOR", "BROKER_NOT_AVAILABLE",
    "REQUEST_TIMED_OUT", "NETWORK_EXCEPTION", "UNSTABLE_OFFSET_COMMIT", "CONCURRENT_TRANSACTIONS",
)  # fmt: skip
"""What the client says of a broker that is away, or has just come back."""
QUIET = {"log_level": 2}
"""The client tells every lost connection on standard error; we tell what comes of it."""


def client() -> Any:
    """The module of the client, which is loaded only where a sink of Kafka is used."""
    try:
        import confluent_kafka
        import confluent_kafka.admin
    except ImportError:
        raise UsageError(INSTALL) from None
    return confluent_kafka


def check_topic(servers: str, topic: str, options: Mapping[str, Any], what: str) -> None:
    """Refuse a topic that cannot be written to: no broker, or no such topic."""
    kafka = client()
    check_brokers(servers)
    try:
        admin = administrator(servers, options)
        found = admin.list_topics(topic, timeout=AT_START).topics[topic].error
        # A broker that makes topics when they are asked for needs a moment.
        deadline = time.monotonic() + AT_START
        while found is not None and found.retriable() and time.monotonic() < deadline:
            time.sleep(0.2)
            found = admin.list_topics(topic, timeout=AT_START).topics[topic].error
    except kafka.KafkaException as error:
        raise UsageError(
            f"{what}: no Kafka broker answers at {servers} ({error.args[0].str()}); is it running, and is this its"
            " address?"
        ) from None
    if found is not None:
        raise UsageError(f"{what}: topic '{topic}' at {servers}: {found.str()}; create it first")


def administrator(servers: str, options: Mapping[str, Any]) -> Any:
    """A client that asks about topics, and creates them."""
    return client().admin.AdminClient({"bootstrap.servers": servers} | QUIET | client_options(options))


def client_options(options: Mapping[str, Any]) -> dict[str, Any]:
    """Options by the names that the client has; Spark's begin with `kafka.`"""
    return {name.removeprefix("kafka."): value for name, value in options.items()}


class NoAnswerError(Exception):
    """A call of the client that does not come back."""


class Transactions:
    """The writer of one output of one query.

    Whatever goes wrong while a broker is away, everything begins anew with other clients, as after a restart: the
    broker ends what the old ones left open, takes no more from them, and tells what is written. A client may also hang
    for good where a broker went away and came back: it does not look at the timeout of a note
    (https://github.com/confluentinc/librdkafka/issues/5456). So its calls are made in a thread, and one that does not
    come back is left where it is.
    """

    def __init__(self, servers: str, topic: str, run: str, options: Mapping[str, Any]) -> None:
        self._kafka, self._topic, self._run = client(), topic, run
        self._name = run.replace(" ", "-")
        self._common = {"bootstrap.servers": servers} | QUIET | client_options(options)
        self._reader = {
            "group.id": self._name, "isolation.level": "read_committed", "enable.auto.commit": False,
            "auto.offset.reset": "earliest",
        } | _without(self._common, "transaction", "linger", "compression", "acks")  # fmt: skip
        self._note = self._kafka.TopicPartition(topic, 0)
        self._unwritten: int | None = None
        """A micro-batch that we have begun to write, and whose commit was not asked for yet."""
        self._open()

    def _open(self) -> None:
        """Make clients that know nothing yet."""
        self._producer = self._kafka.Producer({"transactional.id": self._name, "linger.ms": 5} | self._common)
        self._consumer = self._kafka.Consumer(self._reader)
        self._written: int | None = None

    def write(self, keys: Sequence[bytes | None], values: Sequence[bytes | None], number: int) -> None:
        """Write the messages of a micro-batch, unless that has been done; one without a value is a tombstone."""
        deadline, left = time.monotonic() + PATIENCE, TRIES
        while True:
            begun = time.monotonic()
            try:
                return self._write(keys, values, number)
            except NoAnswerError as error:
                why = str(error)
            except self._kafka.KafkaException as error:
                failure = error.args[0]
                if not self._is_away(failure):
                    left -= 1
                    if not failure.txn_requires_abort() or not left:
                        raise self._as_ours(failure, number) from None
                why = failure.str()
            if begun > deadline:
                raise self._not_written(number, why)
            time.sleep(PAUSE)
            self._open()

    def _write(self, keys: Sequence[bytes | None], values: Sequence[bytes | None], number: int) -> None:
        producer = self._producer
        if self._written is None:
            came_back(lambda: producer.init_transactions(ANSWER), ANSWER)
            self._written = self._last_written(number)
        if number <= self._written:
            return
        self._unwritten = number
        producer.begin_transaction()
        self._send(keys, values, number)
        note = self._kafka.TopicPartition(self._topic, 0, number + 1)
        group = self._consumer.consumer_group_metadata()
        came_back(lambda: producer.send_offsets_to_transaction([note], group, ANSWER), ANSWER)
        self._unwritten = None
        came_back(lambda: producer.commit_transaction(PATIENCE), PATIENCE)
        self._written = number

    def _send(self, keys: Sequence[bytes | None], values: Sequence[bytes | None], number: int) -> None:
        headers = [(BATCH, str(number).encode()), (RUN, self._run.encode())]
        for key, value in zip(keys, values, strict=True):
            while True:
                try:
                    self._producer.produce(self._topic, value, key, headers=headers)
                    break
                except BufferError:
                    # What was produced before is on its way.
                    self._producer.poll(0.05)

    def _last_written(self, number: int) -> int:
        """The last micro-batch that is written, at least as far as `number` can tell; -1 if none is."""
        try:
            noted = self._consumer.committed([self._note], timeout=ANSWER)[0]
        except self._kafka.KafkaException:
            # A broker that was killed right after a commit may come back with a note that is neither there nor not,
            # until the next commit. Then we know it ourselves.
            if number == self._unwritten:
                return number - 1
            raise
        if noted.error is not None:
            raise self._kafka.KafkaException(noted.error)
        if noted.offset >= 0:
            return int(noted.offset) - 1
        # Of a new checkpoint there is nothing yet. Else the broker has forgotten the note, after a week by default, or
        # the query had another sink before: the messages themselves know.
        return -1 if number == 0 else self._last_in_topic()

    def _last_in_topic(self) -> int:
        """The last micro-batch that has messages of ours in the topic; reads all of it."""
        reader, last = self._kafka.Consumer(self._reader | {"enable.partition.eof": True}), -1
        try:
            partitions = reader.list_topics(self._topic, timeout=PATIENCE).topics[self._topic].partitions
            reader.assign([self._kafka.TopicPartition(self._topic, one, 0) for one in partitions])
            open_partitions = set(partitions)
            while open_partitions:
                for message in reader.consume(10_000, 1.0):
                    if message.error() is None:
                        headers = dict(message.headers() or ())
                        if headers.get(RUN) == self._run.encode():
                            last = max(last, int(headers[BATCH]))
                    elif message.error().code() == self._kafka.KafkaError._PARTITION_EOF:
                        open_partitions.discard(message.partition())
                    else:
                        raise self._kafka.KafkaException(message.error())
        finally:
            reader.close()
        return last

    def _is_away(self, error: Any) -> bool:
        return error.retriable() or error.code() in {getattr(self._kafka.KafkaError, name, None) for name in AWAY}

    def _as_ours(self, error: Any, number: int) -> SlackwaterError:
        if error.code() in (self._kafka.KafkaError._FENCED, self._kafka.KafkaError.PRODUCER_FENCED):
            return SlackwaterError(
                f"another process writes micro-batches of this checkpoint to topic '{self._topic}'; let one of them run"
            )
        return self._not_written(number, error.str())

    def _not_written(self, number: int, why: str) -> SlackwaterError:
        return SlackwaterError(
            f"topic '{self._topic}': micro-batch {number} could not be written ({why}); a start from the same"
            " checkpoint goes on with it, and writes it once"
        )


def came_back(call: Callable[[], None], timeout: float) -> None:
    """Make a call of the client that has this timeout; `NoAnswerError` where it does not come back all the same."""
    failures: list[Exception] = []

    def make() -> None:
        try:
            call()
        except Exception as error:
            failures.append(error)

    # A thread that never ends must not keep the process.
    thread = threading.Thread(target=make, daemon=True)
    thread.start()
    thread.join(timeout + GRACE)
    if thread.is_alive():
        raise NoAnswerError("the broker does not answer")
    if failures:
        raise failures[0]


def _without(options: Mapping[str, Any], *beginnings: str) -> dict[str, Any]:
    """Options that a consumer knows."""
    return {name: value for name, value in options.items() if not name.startswith(beginnings)}
