"""The end of a query over what is there now, where Spark does not find it.

Invariant: a query is ended only after a micro-batch in which no source had anything new. What such a query reads was
fixed when it began, so nothing is left then.

A query with an idle timeout asks Spark for the time, and Spark runs one micro-batch after the other to tell it, also
with the trigger for what is there now.
"""

from __future__ import annotations

import threading
import time

from py4j.protocol import Py4JError  # type: ignore[import-untyped]
from pyspark.errors import PySparkException
from pyspark.sql.streaming.query import StreamingQuery

BETWEEN = 0.2
"""Seconds between two looks."""


def end_when_quiet(query: StreamingQuery) -> None:
    """End a query, from a thread of its own, when it has read what there was."""
    threading.Thread(target=_watch, args=(query,), name="slackwater end", daemon=True).start()


def _watch(query: StreamingQuery) -> None:
    try:
        while query.isActive:
            told = query.lastProgress
            if told is not None and all(one.startOffset == one.endOffset for one in told.sources):
                query.stop()
                return
            time.sleep(BETWEEN)
    except (PySparkException, Py4JError):
        # Whoever waits for the query is told what has become of it.
        return
