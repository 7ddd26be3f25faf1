"""Settings of Spark that serve one streaming query of ours, by where its checkpoint is.

Spark writes its own logs under another name and renames them. Its usual way asks Hadoop's newer interface for files,
which starts processes of the system for each file on a disk, and asks an object store twice as often as the older one.
On these two the older one renames in the same way. Where Spark's package for clouds is at hand a file is written to S3
at once, and nothing is renamed.

Invariant: what somebody else has chosen stays as it is, and after a start a session has its settings of before.
"""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Mapping

from py4j.protocol import Py4JError  # type: ignore[import-untyped]
from pyspark.errors import PySparkException
from pyspark.sql import SparkSession
from pyspark.sql.streaming.query import StreamingQuery

from slackwater.runtime.spark.store import OBJECTS, At
from slackwater.runtime.spark.versions import SIMPLE_FILE_MANAGER

FILE_MANAGER = "spark.sql.streaming.checkpointFileManagerClass"
WRITING_AT_ONCE = "org.apache.spark.internal.io.cloud.AbortableStreamBasedCheckpointFileManager"
"""In the package spark-hadoop-cloud."""
PLANNED_ONCE = {"spark.sql.adaptive.streaming.stateless.enabled": "false"}
"""The stages of a query of ours are known beforehand: to plan again behind the first one makes two jobs of one."""
ON_DISK = PLANNED_ONCE | {FILE_MANAGER: SIMPLE_FILE_MANAGER}
INITIALIZING, LONGEST, OFTEN = "Initializing", 30.0, 0.01
"""How Spark's status of a query begins that has not made its sources; seconds to wait for them; and from one look to
the next."""
_one_start = threading.Lock()


def settings_for(spark: SparkSession, checkpoint: At) -> dict[str, str]:
    """What serves a query with this checkpoint best."""
    if isinstance(checkpoint, str):
        return ON_DISK
    if OBJECTS.get(checkpoint.uri.partition("://")[0]) != "s3":
        return PLANNED_ONCE
    return ON_DISK | ({FILE_MANAGER: WRITING_AT_ONCE} if _is_there(spark, WRITING_AT_ONCE) else {})


def started_with(
    spark: SparkSession, settings: Mapping[str, str], start: Callable[[], StreamingQuery]
) -> StreamingQuery:
    """Start a query that has these settings, where nobody has chosen others."""
    with _one_start:
        before = {name: spark.conf.get(name, None) for name in settings}
        ours = {name: value for name, value in settings.items() if before[name] in (None, ON_DISK[name])}
        try:
            for name, value in ours.items():
                spark.conf.set(name, value)
            query = start()
            # Spark makes the sources of a query, which have logs too, in a thread of its own and by the session.
            last = time.monotonic() + LONGEST
            while query.isActive and query.status["message"].startswith(INITIALIZING) and time.monotonic() < last:
                time.sleep(OFTEN)
            return query
        finally:
            for name in ours:
                if (own := before[name]) is None:
                    spark.conf.unset(name)
                else:
                    spark.conf.set(name, own)


def _is_there(spark: SparkSession, name: str) -> bool:
    try:
        spark._jvm.java.lang.Class.forName(name)  # type: ignore[union-attr]
    except (PySparkException, Py4JError, AttributeError):
        return False
    return True
