"""A topic as a sink: every row is one message, and every message is there once for who reads committed ones.

Invariant: a micro-batch is one transaction (`transactions.py`), which the driver writes, so no part of it is ever seen.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from typing import Any

from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as fn
from pyspark.sql.types import BinaryType, StructField

from slackwater.core.errors import UsageError
from slackwater.runtime.spark.kafka.transactions import Transactions, check_topic, client
from slackwater.runtime.spark.outputs import Writer
from slackwater.runtime.spark.versions import as_table


@dataclass(frozen=True)
class KafkaSink(Writer):
    """A topic with what becomes key and value of a message; `kafka_sink` makes one."""

    servers: str
    topic: str
    key: str | None = None
    value: str | None = None
    options: dict[str, Any] = field(default_factory=dict)
    run: str = ""
    """Whose micro-batches these are."""
    _opened: list[Transactions] = field(default_factory=list, compare=False, repr=False)

    def check(self, columns: Sequence[str], what: str) -> None:
        if not self.topic:
            raise UsageError(f"{what}: name the topic, as in slackwater.kafka_sink('127.0.0.1:9092', 'pairs')")
        client()
        check_topic(self.servers, self.topic, self.options, what)

    # Messages of several runs may share a topic: each has the name of its run in a header.
    def of_run(self, run: str, what: str) -> KafkaSink:
        return replace(self, run=f"slackwater {run} {what}", _opened=[])

    def write(self, frame: DataFrame, number: int) -> None:
        everything = fn.to_json(
            fn.struct(*(fn.col(f"`{name}`") for name in frame.columns)), {"ignoreNullFields": "false"}
        )
        value = everything if self.value is None else fn.expr(self.value)
        key = fn.lit(None) if self.key is None else fn.expr(self.key)
        given = frame.select(key.alias("key"), value.alias("value"))
        rows = as_table(given.select(*(_as_bytes(given.schema[name]) for name in given.columns)))
        if not self._opened:
            self._opened.append(Transactions(self.servers, self.topic, self.run, self.options))
        self._opened[0].write(rows.column("key").to_pylist(), rows.column("value").to_pylist(), number)


def _as_bytes(column: StructField) -> Column:
    """A column as a message holds it: bytes as they are, all else as text."""
    found = fn.col(column.name)
    return found if isinstance(column.dataType, BinaryType) else found.cast("string").cast("binary").alias(column.name)


def kafka_sink(
    servers: str, topic: str, /, *, key: str | None = None, value: str | None = None, **options: object
) -> KafkaSink:
    """A topic that gets every row once: results, late rows or rejected rows of a query that `sw.start` starts.

        sw.start(spark, text, ..., results=sw.kafka_sink("127.0.0.1:9092", "pairs", key="ad"), checkpoint="checkpoint")

    A message is the row as JSON, unless `value` says otherwise; `key` and `value` are columns or expressions of Spark.
    A micro-batch is one transaction: consumers with `isolation.level=read_committed` see each of its rows once,
    whatever has been killed. `options` are those of the Kafka client, as in `**{"security.protocol": "SSL"}`.

    It needs `pip install 'slackwater[kafka]'`.

    >>> kafka_sink("127.0.0.1:9092", "pairs", key="ad").topic
    'pairs'
    """
    return KafkaSink(servers, topic, key, value, dict(options))
