"""The race of the demo on Spark: a streaming query for each way of waiting, all of them at once.

Invariant: a contender is an ordinary recorded run on Spark. Its micro-batches are cut by event time, so the outcome
depends on the game alone and not on how fast Spark is.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import ExitStack, contextmanager
from typing import Any

import pyarrow as pa

from slackwater.cli.demo_race import Contender, RacePace
from slackwater.cli.runtimes import ANYWHERE
from slackwater.core.time import SECOND
from slackwater.observe.report import Report
from slackwater.operators.pipeline import Epochs
from slackwater.plan.physical import PhysicalPlan
from slackwater.runtime.recorded import RecordedRun
from slackwater.sources.replay import Replay

MICRO_BATCHES = 50
"""Three queries share the cores; more micro-batches would take longer than anyone watches."""
ONE_SHARD = 1
"""A join by distance has no key to be cut by."""
BRIEF = {
    "spark.driver.extraJavaOptions": "-XX:TieredStopAtLevel=1 -XX:+UseSerialGC",
    "spark.sql.codegen.wholeStage": "false",
    "spark.python.daemon.module": "slackwater.runtime.spark.daemon",
}
"""For a session that lives a minute: a JVM that optimizes its own code, and Spark that compiles its plans, would take
more of the cores than they give back; and workers find what they import already there."""


class SparkContender(Contender):
    """One way of waiting on Spark; it runs as fast as Spark does, and notes its progress after every micro-batch."""

    def __init__(self, run: RecordedRun) -> None:
        super().__init__(run)
        self._noted = 0

    def run(self, pace: RacePace) -> Report:
        def tick() -> None:
            if pace.stopped:
                self._run.interrupt()
            if self._run.done > self._noted:
                self._noted = self._run.done
                self._note()

        for _ in self._run.tables(tick):
            pass
        self._note()
        return self._run.report()


def micro_batches(seconds: int) -> Epochs:
    """How a game of so many seconds is cut.

    >>> micro_batches(120).span, micro_batches(5).span
    (2400000, 1000000)
    """
    return Epochs(span=max(SECOND, seconds * SECOND // MICRO_BATCHES))


@contextmanager
def starting_spark() -> Iterator[Future[Any]]:
    """A session that starts in the background."""
    from slackwater.runtime.spark.session import quiet_session

    with ThreadPoolExecutor(1) as starter:
        yield starter.submit(quiet_session, ANYWHERE, ONE_SHARD, **BRIEF)


@contextmanager
def spark_contenders(
    spark: Future[Any], queries: Sequence[tuple[PhysicalPlan, Replay]], streams: Mapping[str, pa.Table], epochs: Epochs
) -> Iterator[list[SparkContender]]:
    """Contenders that are ready to run once Spark has started."""
    from slackwater.runtime.spark.replay.recording import SparkRuntime

    spark.result()
    with ExitStack() as begun:
        runtime = SparkRuntime(epochs, ONE_SHARD, ANYWHERE)
        runs = [begun.enter_context(runtime.begin(*query, streams, "ms")) for query in queries]
        yield [SparkContender(run) for run in runs]
