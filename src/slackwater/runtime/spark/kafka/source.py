"""A topic as a stream: the columns of its messages, and where each message came from.

Invariant: a message that does not fit the schema is not dropped and not guessed at. It becomes a rejected row with the
reason `unparsable`, which tells its topic, partition and offset, and how it begins.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import cast

from pyspark.sql import Column, DataFrame, SparkSession
from pyspark.sql import functions as fn
from pyspark.sql.types import StringType, StructType

from slackwater.core.errors import UsageError
from slackwater.runtime.spark.exchange.writer import UNPARSED
from slackwater.runtime.spark.failures import one_sentence
from slackwater.runtime.spark.kafka.brokers import check_brokers, check_connector, check_topics

FORMATS = {"json": fn.from_json, "csv": fn.from_csv}
PLACE = ("partition", "offset")
"""Columns that say where a message came from."""
CORRUPT = "_slackwater_corrupt"
SHOWN = 200
"""Characters of a message that a rejected row tells; its offset leads to the rest."""


def kafka(
    spark: SparkSession,
    servers: str,
    topic: str | Sequence[str],
    /,
    *,
    schema: str | StructType,
    format: str = "json",
    **options: object,
) -> DataFrame:
    """A stream of the messages of a topic, or of several, with the columns of `schema`, and `partition` and `offset`.

        clicks = sw.kafka(spark, "127.0.0.1:9092", "clicks", schema="ts timestamp, user string, ad string")

    Messages are JSON, or CSV with `format="csv"`; one that does not fit is a rejected row (`unparsable`). `options` are
    those of Spark's Kafka source, such as `startingOffsets="earliest"` or `maxOffsetsPerTrigger=10_000`, and those of
    the Kafka client, as in `**{"kafka.security.protocol": "SSL"}`. The topic must exist.
    """
    if format not in FORMATS:
        raise UsageError(
            f"format={format!r}; it is one of {', '.join(FORMATS)}. Others are parsed with Spark's functions"
        )
    with one_sentence():
        columns = cast("StructType", StructType.fromDDL(schema)) if isinstance(schema, str) else schema
    taken = [name for name in columns.names if name.lower() in PLACE]
    if taken:
        raise UsageError(
            f"the messages have a field '{taken[0]}', and so has Kafka; read the topic with spark.readStream and name"
            " one of them otherwise"
        )
    topics = [one.strip() for one in (topic.split(",") if isinstance(topic, str) else topic)]
    if not topics or not all(topics):
        raise UsageError("name the topic, as in sw.kafka(spark, '127.0.0.1:9092', 'clicks', schema=...)")
    check_connector(spark)
    # Over Connect it is the server that reads.
    if hasattr(spark, "_jvm"):
        check_brokers(servers)
        check_topics(spark, servers, topics, options)
    given = {"kafka.bootstrap.servers": servers, "subscribe": ",".join(topics)} | {
        name: str(value) for name, value in options.items()
    }
    with one_sentence():
        raw = spark.readStream.format("kafka").options(**given).load()
        return _parsed(raw, columns, format)


def _parsed(raw: DataFrame, columns: StructType, format: str) -> DataFrame:
    """The columns of messages; a message that does not fit has a mark of its own, and else nothing."""
    text = fn.make_valid_utf8(fn.col("value").cast("string"))
    wanted = StructType([*columns.fields]).add(CORRUPT, StringType())
    options = {"mode": "PERMISSIVE", "columnNameOfCorruptRecord": CORRUPT}
    # A schema as text would lose nothing, but `from_csv` takes it only so.
    parsed = FORMATS[format](text, wanted if format == "json" else wanted.toDDL(), options)  # type: ignore[arg-type]
    whole = raw.select(parsed.alias("message"), text.alias("text"), "topic", *PLACE)
    unparsed = fn.col("message").isNull() | fn.col("text").isNull() | fn.col("message").getField(CORRUPT).isNotNull()
    sample = fn.to_json(
        fn.struct("topic", *PLACE, fn.substring("text", 1, SHOWN).alias("message")), {"ignoreNullFields": "false"}
    )
    fields: list[Column] = [fn.col("message").getField(name).alias(name) for name in columns.names]
    return whole.select(*fields, *PLACE, fn.when(unparsed, sample).alias(UNPARSED))
