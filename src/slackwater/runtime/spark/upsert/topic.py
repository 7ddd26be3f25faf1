"""A compacted topic as a table that is kept up to date.

Invariant: the last message with a key is its row, and one without a value says that there is none any more. A
micro-batch is one transaction of Kafka, as for any other topic that we write (`kafka/transactions.py`).
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import pyarrow as pa
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as fn

from slackwater.core.errors import UsageError
from slackwater.runtime.spark.kafka.brokers import check_brokers
from slackwater.runtime.spark.kafka.transactions import AT_START, Transactions, administrator, client
from slackwater.runtime.spark.types import column
from slackwater.runtime.spark.upsert.changes import CHANGE, DELETE, JSON, VERSION, newest_rows
from slackwater.runtime.spark.versions import as_table

POLICY, COMPACT = "cleanup.policy", "compact"
KEY, VALUE = "_key", "_value"


@dataclass(frozen=True)
class CompactedTopic:
    """A topic; it is created, compacted, where there is none."""

    name: str
    servers: str = ""
    client: Mapping[str, Any] = field(default_factory=dict, repr=False)
    """Options of the client."""

    def check(self, what: str) -> None:
        """Refuse a broker that does not answer, and a topic that forgets rows."""
        if not self.servers:
            raise UsageError(
                f"{what}: name the brokers, as in upsert('kafka', {self.name!r}, servers='127.0.0.1:9092')"
            )
        kafka = client()
        check_brokers(self.servers)
        try:
            policy = self._policy()
        except kafka.KafkaException as error:
            raise UsageError(f"{what}: topic '{self.name}' at {self.servers}: {error.args[0].str()}") from None
        if policy is not None and COMPACT not in policy:
            raise UsageError(
                f"{what}: topic '{self.name}' at {self.servers} forgets old messages ({POLICY}={policy}), so it is no"
                f" table; set its {POLICY} to {COMPACT}, or name another topic"
            )

    def _policy(self) -> str | None:
        """What becomes of old messages; None where there is no topic yet, or nobody may know."""
        kafka = client()
        admin = administrator(self.servers, self.client)
        # A broker that is asked for one topic by its name may create it.
        if self.name not in admin.list_topics(timeout=AT_START).topics:
            return None
        resource = kafka.admin.ConfigResource(kafka.admin.ResourceType.TOPIC, self.name)
        try:
            found = admin.describe_configs([resource], request_timeout=AT_START)[resource].result(AT_START)
        except kafka.KafkaException as error:
            if error.args[0].code() == kafka.KafkaError.TOPIC_AUTHORIZATION_FAILED:
                return None
            raise
        return str(found[POLICY].value)

    def create(self) -> None:
        """Create the topic where there is none, with as many partitions and replicas as the broker gives."""
        kafka = client()
        admin = administrator(self.servers, self.client)
        made = kafka.admin.NewTopic(self.name, num_partitions=-1, replication_factor=-1, config={POLICY: COMPACT})
        try:
            if self.name not in admin.list_topics(timeout=AT_START).topics:
                admin.create_topics([made], request_timeout=AT_START)[self.name].result(AT_START)
        except kafka.KafkaException as error:
            if error.args[0].code() != kafka.KafkaError.TOPIC_ALREADY_EXISTS:
                raise UsageError(
                    f"topic '{self.name}' at {self.servers}: {error.args[0].str()}; create it first"
                ) from None

    def has_rows_of_another_run(self, spark: SparkSession) -> bool:
        """Not known without reading all of it: each message has the name of its run in a header."""
        return False

    def opened(self, run: str) -> TopicWriter:
        return TopicWriter(self, run)


class TopicWriter:
    """A topic as one output of one query writes it."""

    def __init__(self, topic: CompactedTopic, run: str) -> None:
        self._topic, self._run = topic, run
        self._opened: Transactions | None = None

    def apply(self, changes: DataFrame, keys: Sequence[str], number: int, versioned: bool) -> None:
        self.write(as_table(messages(changes, keys)), number)

    def write(self, rows: pa.Table, number: int) -> None:
        """Write messages that are here, unless that has been done."""
        if self._opened is None:
            self._topic.create()
            self._opened = Transactions(self._topic.servers, self._topic.name, self._run, self._topic.client)
        last = newest_rows(rows, [KEY])
        gone = [change == DELETE for change in last.column(CHANGE).to_pylist()]
        values = last.column(VALUE).to_pylist()
        self._opened.write(
            last.column(KEY).to_pylist(),
            [None if one else value for one, value in zip(gone, values, strict=True)],
            number,
        )


def messages(changes: DataFrame, keys: Sequence[str]) -> DataFrame:
    """Change rows with what becomes key and value of a message."""

    def as_json(names: Sequence[str]) -> Any:
        return fn.to_json(fn.struct(*map(column, names)), JSON).cast("binary")

    values = [name for name in changes.columns if name != CHANGE]
    return changes.select(as_json(keys).alias(KEY), as_json(values).alias(VALUE), CHANGE, VERSION)
