"""A word as soon as most rows of a stream are rejected, or the target cannot be met: a query must not be silent about
why its results are not what was asked for.

Invariant: one listener a session; every stream of a query is warned of once in it, and of its target at every change.
Of a set whoever hears its shards warns: to a listener Spark hands the metrics of all queries over one by one, in every
micro-batch.
"""

from __future__ import annotations

import warnings
from datetime import timedelta

from pyspark.errors import PySparkException
from pyspark.sql import SparkSession
from pyspark.sql.streaming.listener import QueryProgressEvent

from slackwater.language.dialect import parse_quality
from slackwater.observe.foreseen import reachable_again
from slackwater.observe.value import QueryProgress
from slackwater.runtime.side_outputs.rejections import rejection_warning
from slackwater.runtime.spark.progress.reading import Listener, parsed

MARK = "_slackwater_warns"


def watch_rejections(spark: SparkSession) -> None:
    """Have a session warn of streams most of whose rows are rejected, and of targets that cannot be met."""
    if getattr(spark, MARK, False):
        return
    setattr(spark, MARK, True)
    try:
        spark.streams.addListener(_OfSingleQueries(Warner()))
    except PySparkException:
        # Where no listener can be added, `slackwater.progress` tells the same.
        return


class _OfSingleQueries(Listener):
    def onQueryProgress(self, event: QueryProgressEvent) -> None:  # noqa: N802
        for key, one in parsed(event.progress).items():
            if not key:
                self._function(one)


class Warner:
    """Warns of every stream once, and of a target when it cannot be met, or can be again; says of which query, where
    there are several."""

    def __init__(self, several: bool = False) -> None:
        self._several = several
        self._warned: set[tuple[str, str]] = set()
        self._unreachable: set[str] = set()

    def __call__(self, progress: QueryProgress) -> None:
        outlook = progress.outlook
        if outlook is not None and outlook.unreachable != (progress.query in self._unreachable):
            if outlook.said is not None:
                self._unreachable.add(progress.query)
                self._warn(progress, outlook.said)
            else:
                self._unreachable.discard(progress.query)
                cap = outlook.cap // timedelta(microseconds=1)
                self._warn(progress, reachable_again(parse_quality(progress.target), cap))
        for name, stream in progress.streams.items():
            sentence = rejection_warning(name, stream.rows or 0, stream.rejected, stream.example)
            if sentence is not None and (progress.query, name) not in self._warned:
                self._warned.add((progress.query, name))
                self._warn(progress, sentence)

    def _warn(self, progress: QueryProgress, sentence: str) -> None:
        warnings.warn(f"query {progress.query}: {sentence}" if self._several else sentence, stacklevel=3)
