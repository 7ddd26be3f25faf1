"""Starting Spark without its chatter: what the JVM writes to standard error goes to a file of its own.

Invariant: only the JVM is silenced. This process writes where it always did, and where Spark does not start, what it
said last is part of the error.
"""

from __future__ import annotations

import tempfile
from typing import IO

from pyspark.sql import SparkSession

from slackwater.model.errors import SlackwaterError, UsageError
from slackwater.runtime.spark.failures import one_sentence
from slackwater.runtime.spark.session import session


def quiet_session(master: str, shards: int, **settings: str) -> SparkSession:
    """A ready session whose JVM says nothing on this terminal; a session that is there already stays as it is."""
    with tempfile.TemporaryFile() as log:
        try:
            with one_sentence():
                spark = session(master, shards, quiet=True, log=log, **({"spark.ui.enabled": "false"} | settings))
        except UsageError:
            raise
        except SlackwaterError as error:
            raise UsageError(f"Spark does not start with --master {master}. {_cause(log) or error}") from None
    spark.conf.set("spark.sql.shuffle.partitions", str(shards))
    return spark


def _cause(log: IO[bytes]) -> str:
    """What the JVM complained of, if it did."""
    log.seek(0)
    lines = [line.decode(errors="replace").strip() for line in log.readlines()]
    errors = [line for line in lines if line.startswith(("Error", "Exception", "Unrecognized", "Caused by:"))]
    return f"It says: {errors[-1]}" if errors else ""
