"""Impressions and clicks from Kafka to Kafka: which ads were clicked within 30 seconds, with 95 % of all pairs.

It makes topics of its own on the broker that you name, and fills two of them with messages: some are out of order, some
are broken. It joins them, and reads the pairs from the third topic, each once. In the middle the query is stopped and
started again.

    pip install 'slackwater[kafka]'
    python examples/kafka.py 127.0.0.1:9092

`--connector` is a version of Spark's Kafka connector, or a folder with its jars, where that of your Spark cannot be
fetched from Maven.
"""

from __future__ import annotations

import argparse
import json
import random
import secrets
import sys
import tempfile
from collections import Counter
from collections.abc import Iterable
from datetime import UTC, datetime, timedelta
from pathlib import Path

from confluent_kafka import Consumer, KafkaError, KafkaException, Producer, TopicPartition
from confluent_kafka.admin import AdminClient, NewTopic

import slackwater as sw

QUERY = """
    SELECT i.ad, i.user, i.ts AS shown, c.ts AS clicked
    FROM impressions i [RANGE 30 SECONDS], clicks c [RANGE 30 SECONDS]
    WHERE i.user = c.user AND i.ad = c.ad AND c.ts >= i.ts
    WITH RECALL 0.95 OVER 1 MINUTE
    OPTIONS (clock_by = 'partition')
"""
SCHEMA = "ts timestamp, user string, ad string"
NOON = datetime(2026, 11, 1, 12, tzinfo=UTC)
PARTITIONS = 4
BROKEN = (b"no JSON", b'{"ts": "yesterday", "user": "user-1", "ad": "ad-1"}')


def make(servers: str, topics: Iterable[str]) -> None:
    """Make these topics, and wait until they are there."""
    admin = AdminClient({"bootstrap.servers": servers, "log_level": 2})
    made = admin.create_topics([NewTopic(topic, PARTITIONS, 1) for topic in topics], request_timeout=10)
    for one in made.values():
        one.result()


def fill(servers: str, topics: dict[str, str], begin: int, end: int, rng: random.Random) -> None:
    """Send what happens from one second to another, most of it a second or two late."""
    rows = []
    for _ in range(20 * (end - begin)):
        second = begin + (end - begin) * rng.random()
        who = {"user": f"user-{rng.randrange(400)}", "ad": f"ad-{rng.randrange(40)}"}
        rows.append((second + rng.expovariate(1 / 1.5), "impressions", second, who))
        if rng.random() < 0.4:
            clicked = second + 25 * rng.random()
            rows.append((clicked + rng.expovariate(1 / 1.5), "clicks", clicked, who))
    producer = Producer({"bootstrap.servers": servers})
    for _, stream, second, who in sorted(rows, key=lambda row: row[0]):
        message = {"ts": (NOON + timedelta(seconds=round(second, 3))).isoformat()} | who
        producer.produce(topics[stream], json.dumps(message).encode(), partition=rng.randrange(PARTITIONS))
    for value in BROKEN:
        producer.produce(topics["clicks"], value, partition=0)
    producer.flush()


def committed(servers: str, topic: str) -> list[dict[str, str]]:
    """The committed messages of a topic."""
    settings = {"bootstrap.servers": servers, "group.id": topic, "isolation.level": "read_committed"}
    consumer = Consumer(settings | {"enable.partition.eof": True})
    partitions = set(consumer.list_topics(topic, timeout=10).topics[topic].partitions)
    consumer.assign([TopicPartition(topic, one, 0) for one in partitions])
    found = []
    while partitions:
        for message in consumer.consume(1000, 1.0):
            if message.error() is None:
                found.append(json.loads(message.value()))
            elif message.error().code() == KafkaError._PARTITION_EOF:
                partitions.discard(message.partition())
    consumer.close()
    return found


def main(arguments: list[str]) -> int:
    """Run the story; returns 0."""
    parser = argparse.ArgumentParser(description="Impressions and clicks from Kafka to Kafka.")
    parser.add_argument("servers", help="brokers, as in 127.0.0.1:9092")
    parser.add_argument("--connector", help="a version of Spark's Kafka connector, or a folder with its jars")
    given = parser.parse_args(arguments)
    name = f"slackwater-{secrets.token_hex(4)}"
    topics = {short: f"{name}-{short}" for short in ("impressions", "clicks", "pairs", "rejected")}
    try:
        make(given.servers, topics.values())
    except KafkaException as error:
        parser.error(f"no topics could be made at {given.servers}: {error.args[0].str()}; does a broker run there?")
    spark = sw.session(shards=2, kafka=given.connector or True)
    streams = {
        stream: sw.kafka(spark, given.servers, topics[stream], schema=SCHEMA, startingOffsets="earliest")
        for stream in ("impressions", "clicks")
    }
    rng = random.Random(7)  # noqa: S311
    folder = Path(tempfile.mkdtemp(prefix="kafka-"))
    sinks = {
        "results": sw.kafka_sink(given.servers, topics["pairs"], key="ad"),
        "rejected": sw.kafka_sink(given.servers, topics["rejected"]),
        "late": str(folder / "late"),
        "checkpoint": str(folder / "checkpoint"),
    }

    print("the first minute, then stop:")
    fill(given.servers, topics, 0, 60, rng)
    sw.start(spark, QUERY, trigger="available", **streams, **sinks).wait()
    print("another minute, from the offsets in the checkpoint, and everything that is held:")
    fill(given.servers, topics, 60, 120, rng)
    last = sw.start(spark, QUERY, trigger="available", flush=True, **streams, **sinks)
    last.wait()
    done = last.progress()
    print(done)

    pairs, rejected = committed(given.servers, topics["pairs"]), committed(given.servers, topics["rejected"])
    print(f"\n{len(pairs):,} pairs in topic {topics['pairs']}, the first: {pairs[0]}")
    print(f"{len(rejected):,} rejected messages, one of them: {rejected[0]['reason']} {rejected[0]['row']}")
    assert len(pairs) == done.results
    assert max(Counter(map(str, pairs)).values()) == 1
    assert len(rejected) == 2 * len(BROKEN) == sum(done.rejected.values())
    spark.stop()
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
