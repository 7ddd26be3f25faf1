"""The process that Spark forks its Python workers from, with everything they need imported before the first fork.

Invariant: it is Spark's own daemon but for the imports, which say nothing and start no thread. A worker that is forked
from it imports nothing again, so a query with several of them waits for the imports once.

Named to Spark as `spark.python.daemon.module`.
"""

from __future__ import annotations

from pyspark.daemon import manager

import slackwater.runtime.spark.query_set.folders
import slackwater.runtime.spark.query_set.host
import slackwater.runtime.spark.query_set.packing
import slackwater.runtime.spark.state.shard_task  # noqa: F401

if __name__ == "__main__":
    manager()
