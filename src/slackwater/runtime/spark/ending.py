"""The end of a query over what is there now, where Spark does not find it.

Invariant: a query is ended only after a micro-batch of its own in which no source had anything new. What such a query
reads was fixed when it began, so nothing is left then.

A query with an idle timeout asks Spark for the time, and Spark runs one micro-batch after the other to tell it, also
with the trigger for what is there now.
"""

from __future__ import annotations

import threading
import time
from collections.abc import Sequence

from py4j.protocol import Py4JError  # type: ignore[import-untyped]
from pyspark.errors import PySparkException
from pyspark.sql.streaming.listener import StreamingQueryProgress
from pyspark.sql.streaming.query import StreamingQuery

BETWEEN = 0.2
"""Seconds between two looks."""


def end_when_quiet(query: StreamingQuery) -> None:
    """End a query, from a thread of its own, when it has read what there was."""
    threading.Thread(target=_watch, args=(query,), name="slackwater end", daemon=True).start()


def is_quiet(told: Sequence[StreamingQueryProgress]) -> bool:
    """Whether a micro-batch of this start has run for which no source had anything new.

    Spark also tells of triggers that ran none, such as one before the first micro-batch. And the first one may be the
    last of an earlier start, which was ended in the middle of it: that knows nothing of what has come since.
    """
    ran = [one for one in told if "addBatch" in one.durationMs]
    return len(ran) > 1 and all(one.startOffset == one.endOffset for one in ran[-1].sources)


def _watch(query: StreamingQuery) -> None:
    try:
        while query.isActive:
            if is_quiet(query.recentProgress):
                query.stop()
                return
            time.sleep(BETWEEN)
    except (PySparkException, Py4JError):
        # Whoever waits for the query is told what has become of it.
        return
