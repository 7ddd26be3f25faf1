"""A SparkSession with the settings that stateful Python operators need, and a check of anyone else's session."""

from __future__ import annotations

import os
import shutil
import sys

from pyspark.sql import SparkSession

from slackwater.model.errors import UsageError

ROCKSDB = "org.apache.spark.sql.execution.streaming.state.RocksDBStateStoreProvider"
NEEDED = {
    "spark.sql.streaming.stateStore.providerClass": ROCKSDB,
    "spark.sql.streaming.stateStore.rocksdb.changelogCheckpointing.enabled": "true",
}
WHY = {
    "spark.sql.streaming.stateStore.providerClass": "no other store serves stateful Python operators",
    "spark.sql.streaming.stateStore.rocksdb.changelogCheckpointing.enabled": "without it every micro-batch uploads"
    " snapshots of all state",
}
JAVA = "Java 17 or newer is not found; install it (Debian and Ubuntu: openjdk-17-jre-headless), then try again"


def java_is_there() -> bool:
    """Whether there is a Java to start Spark with; how old it is, Spark itself will say."""
    return shutil.which("java") is not None or "JAVA_HOME" in os.environ


def session(master: str = "local[*]", shards: int = 2, app: str = "slackwater", **settings: str) -> SparkSession:
    """A ready session; `shards` is the number of shuffle partitions, one task a shard."""
    if not java_is_there():
        raise UsageError(JAVA)
    # Workers must be this interpreter: another one would not find this package.
    os.environ.setdefault("PYSPARK_PYTHON", sys.executable)
    builder = SparkSession.builder.master(master).appName(app)
    chosen = NEEDED | {
        "spark.sql.shuffle.partitions": str(shards),
        "spark.sql.session.timeZone": "UTC",
        "spark.ui.enabled": "false",
        "spark.ui.showConsoleProgress": "false",
        "spark.log.level": "ERROR",
        "spark.sql.execution.arrow.maxRecordsPerBatch": "65536",
    }
    for name, value in (chosen | settings).items():
        builder = builder.config(name, value)
    made = builder.getOrCreate()
    made.sparkContext.setLogLevel("ERROR")
    return made


def complaints(spark: SparkSession, shards: int) -> list[str]:
    """What in a session's settings is missing or does harm, each with its remedy."""
    found = []
    for name, value in NEEDED.items():
        actual = spark.conf.get(name, "")
        if actual != value:
            found.append(f"{name} is {actual or 'not set'}; set it to {value}: {WHY[name]}")
    partitions = int(spark.conf.get("spark.sql.shuffle.partitions", "200") or 200)
    if partitions > 4 * shards:
        found.append(
            f"spark.sql.shuffle.partitions is {partitions} for {shards} shards; set it to {shards}: every empty"
            " partition costs a task and a state store"
        )
    if spark.conf.get("spark.python.worker.reuse", "true") == "false":
        found.append(
            "spark.python.worker.reuse is false; set it to true: a new worker reads the whole state of a shard in every"
            " micro-batch"
        )
    return found


def must_have_rocksdb(spark: SparkSession) -> None:
    """Refuse a session on which no stateful Python operator can run."""
    actual = spark.conf.get("spark.sql.streaming.stateStore.providerClass", "")
    if actual != ROCKSDB:
        raise UsageError(
            f"this session keeps state in {actual or 'memory'}; set spark.sql.streaming.stateStore.providerClass to"
            f" {ROCKSDB}, or take a session from slackwater.session()"
        )
