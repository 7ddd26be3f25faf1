"""Streaming DataFrames watched for a while: their rows as tables, in the order in which micro-batches brought them.

Invariant: what is watched is started and stopped here, writes nowhere, and has a checkpoint of its own that goes with
it. Rows of one micro-batch come in the order of its partitions; micro-batches of several streams in the order in which
they end.
"""

from __future__ import annotations

import tempfile
import threading
import time
from collections.abc import Mapping
from typing import Any

import numpy as np
import pyarrow as pa
from pyspark.sql import DataFrame

from slackwater.core.batch import Words
from slackwater.core.errors import DataError, UsageError
from slackwater.core.time import SECOND
from slackwater.runtime.spark.query import empty_table
from slackwater.runtime.spark.versions import as_table

OFTEN = 0.2
"""Seconds between two looks at whether a stream has failed."""
START = 60.0
"""Seconds that the first rows may take; what is watched counts from them."""


def watched(streams: Mapping[str, Any], micros: int | None) -> tuple[dict[str, pa.Table], dict[str, Words]]:
    """The rows of DataFrames, and the place of each in the order of arrival."""
    for name, frame in streams.items():
        if not hasattr(frame, "sparkSession"):
            raise UsageError(f"{name} is a {type(frame).__name__}, and others are DataFrames of Spark; give one sort")
    live = [name for name, frame in streams.items() if frame.isStreaming]
    if live and micros is None:
        raise UsageError(f'{live[0]} is a streaming DataFrame: say how long to watch it, as in watch="1 minute"')
    if len(live) not in (0, len(streams)):
        raise UsageError(f"{live[0]} is a streaming DataFrame, and others are not; give one sort")
    if not live:
        return {name: as_table(frame) for name, frame in streams.items()}, {}
    rows = Rows(streams)
    with tempfile.TemporaryDirectory(prefix="slackwater-watch-", ignore_cleanup_errors=True) as folder:
        queries = [
            frame.writeStream.foreachBatch(rows.taking(name)).option("checkpointLocation", f"{folder}/{number}").start()
            for number, (name, frame) in enumerate(streams.items())
        ]
        try:
            last, begun = time.monotonic() + START, None
            while time.monotonic() < last and all(query.isActive for query in queries):
                time.sleep(OFTEN)
                if begun is None and rows.count:
                    begun = time.monotonic()
                    last = begun + (micros or 0) / SECOND
            failed = [(name, query.exception()) for name, query in zip(streams, queries, strict=True)]
        finally:
            for query in queries:
                query.stop()
    for name, error in failed:
        if error is not None:
            raise DataError(f"stream {name} failed while it was watched: {str(error).splitlines()[0]}")
    if not rows.count:
        raise DataError(f"no row came in {START:g} s; watch streams that bring some")
    return rows.tables()


class Rows:
    """What has come so far."""

    def __init__(self, streams: Mapping[str, DataFrame]) -> None:
        self._streams = dict(streams)
        self._parts: dict[str, list[pa.Table]] = {name: [] for name in streams}
        self._ranks: dict[str, list[Words]] = {name: [] for name in streams}
        self._one_at_a_time = threading.Lock()
        self.count = 0

    def taking(self, name: str) -> Any:
        """What takes the micro-batches of one stream."""

        def take(frame: DataFrame, _: int) -> None:
            table = as_table(frame)
            with self._one_at_a_time:
                self._parts[name].append(table)
                self._ranks[name].append(np.arange(self.count, self.count + table.num_rows))
                self.count += table.num_rows

        return take

    def tables(self) -> tuple[dict[str, pa.Table], dict[str, Words]]:
        """All rows by stream, and their ranks in the order of arrival."""
        with self._one_at_a_time:
            tables = {
                name: pa.concat_tables(parts) if parts else empty_table(self._streams[name])
                for name, parts in self._parts.items()
            }
            nothing = np.zeros(0, np.int64)
            return tables, {name: np.concatenate([nothing, *parts]) for name, parts in self._ranks.items()}
