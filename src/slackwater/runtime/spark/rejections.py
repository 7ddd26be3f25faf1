"""A word as soon as most rows of a stream are rejected: a query without results must not be silent about why.

Invariant: one listener a session; every stream of a query is warned of once in it.
"""

from __future__ import annotations

import warnings

from pyspark.errors import PySparkException
from pyspark.sql import SparkSession

from slackwater.observe.rejections import rejection_warning
from slackwater.runtime.spark.progress.reading import Listener
from slackwater.runtime.spark.progress.value import Progress

MARK = "_slackwater_warns"


def watch_rejections(spark: SparkSession) -> None:
    """Have a session warn of streams most of whose rows are rejected."""
    if getattr(spark, MARK, False):
        return
    setattr(spark, MARK, True)
    try:
        spark.streams.addListener(Listener(Warner()))
    except PySparkException:
        # Where no listener can be added, `slackwater.progress` tells the same.
        return


class Warner:
    """Warns of every stream once."""

    def __init__(self) -> None:
        self._warned: set[tuple[str, str]] = set()

    def __call__(self, progress: Progress) -> None:
        for name, stream in progress.streams.items():
            sentence = rejection_warning(name, stream.rows, stream.rejected, stream.example)
            if sentence is not None and (progress.query, name) not in self._warned:
                self._warned.add((progress.query, name))
                warnings.warn(sentence, stacklevel=2)
