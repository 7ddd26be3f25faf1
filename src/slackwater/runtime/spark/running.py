"""A started query: its progress, its end, and what may be changed while it runs.

Invariant: a change takes effect at a micro-batch, for all shards at once, and stays in force over restarts. What may
not be changed is refused before anything starts, in one sentence.
"""

from __future__ import annotations

import tempfile
import threading
from collections.abc import Callable
from types import TracebackType
from typing import Any, Self

from pyspark.sql import DataFrame, SparkSession
from pyspark.sql.streaming.query import StreamingQuery

from slackwater.language.clauses import parse_quality
from slackwater.model.errors import SlackwaterError, UsageError
from slackwater.model.quality import Quality, Recall, RelativeError, clause
from slackwater.model.time import parse_duration
from slackwater.runtime.spark.control import Control, ControlLog
from slackwater.runtime.spark.failures import as_ours, one_sentence
from slackwater.runtime.spark.progress.history import History
from slackwater.runtime.spark.progress.reading import progress
from slackwater.runtime.spark.session import fitting

AVAILABLE = "available"
CONTROL = "slackwater-control"
"""The folder of control messages inside of the checkpoint."""
FAMILIES = {Recall: "RECALL", RelativeError: "ERROR"}
Each = Callable[[DataFrame, int], None]


def begin(
    spark: SparkSession,
    emitted: Callable[[ControlLog], DataFrame],
    each: Each,
    stated: Quality,
    *,
    shards: int,
    checkpoint: str | None,
    trigger: str | None,
    flush: bool,
    name: str | None,
) -> RunningQuery:
    """Start a query whose emitted rows go to `each`; `stated` is the target of its text."""
    if flush and trigger != AVAILABLE:
        raise UsageError("flush=True ends a query, so it goes with trigger='available'")
    with one_sentence(), fitting(spark, shards):
        control = ControlLog(spark, control_folder(spark, checkpoint))
        frame = emitted(control)

    def started() -> StreamingQuery:
        writer = frame.writeStream.foreachBatch(each).trigger(**_trigger(trigger))
        writer = writer.option("checkpointLocation", checkpoint or _temporary(control))
        if name is not None:
            writer = writer.queryName(name)
        with one_sentence(), fitting(spark, shards):
            return writer.start()

    return RunningQuery(started, control, stated, flush)


class RunningQuery:
    """A streaming query; `slackwater.start` makes one. A `with` block stops it at its end."""

    def __init__(
        self, started: Callable[[], StreamingQuery], control: ControlLog, stated: Quality, flush: bool
    ) -> None:
        self._started, self._control, self._stated = started, control, stated
        self._query = started()
        self._flushing: threading.Thread | None = None
        self._failure: BaseException | None = None
        if flush:
            self._flushing = threading.Thread(target=self._flush, name="slackwater flush", daemon=True)
            self._flushing.start()

    @property
    def query(self) -> StreamingQuery:
        """Spark's own handle."""
        return self._query

    @property
    def is_active(self) -> bool:
        """Whether it still runs."""
        return self._query.isActive or (self._flushing is not None and self._flushing.is_alive())

    def progress(self) -> History:
        """How it does: the latest micro-batch and the recent ones."""
        return progress(self._query)

    def set_target(self, target: Quality | str) -> None:
        """Ask for another quality from the next micro-batch on, such as `slackwater.recall(0.99)`.

        It stays in force over restarts, until it is set again or the query is started with another target in its text.
        """
        say_target(self._control, self._stated, target)

    def wait(self, timeout: int | None = None) -> bool:
        """Wait until it has ended, so many seconds at most; whether it has. A failure is raised as one sentence."""
        if self._flushing is not None:
            self._flushing.join(timeout)
            if self._flushing.is_alive():
                return False
            if self._failure is not None:
                raise self._failure
            return True
        return self._ended(timeout)

    def _ended(self, timeout: int | None) -> bool:
        with one_sentence():
            if timeout is None:
                self._query.awaitTermination()
                return True
            return bool(self._query.awaitTermination(timeout))

    def process_all_available(self) -> None:
        """Wait until everything that has arrived by now is processed; for tests and notebooks."""
        with one_sentence():
            self._query.processAllAvailable()

    def stop(self) -> None:
        """Stop it where it is; a start from the same checkpoint goes on from there."""
        with one_sentence():
            self._query.stop()

    def _flush(self) -> None:
        """When all that was there is processed, say that the input has ended, and run once more to hear it."""
        try:
            self._ended(None)
            self._control.say(Control(end=True))
            self._query = self._started()
            self._ended(None)
        except SlackwaterError as error:
            self._failure = error

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        self.stop()

    def _repr_html_(self) -> str:
        return self.progress()._repr_html_()

    def __repr__(self) -> str:
        failure = None if self._query.isActive else self._query.exception()
        state = "running" if self.is_active else "failed: " + str(as_ours(str(failure))) if failure else "ended"
        return f"<RunningQuery {self._query.name or self._query.id}, {state}>"


def say_target(control: ControlLog, stated: Quality, target: Quality | str) -> None:
    """Tell a running query that was started with one target that another one counts from now on."""
    quality = parse_quality(target) if isinstance(target, str) else target
    family = FAMILIES.get(type(quality))
    if family is not None and type(quality) is not type(stated):
        raise UsageError(
            f"the query was started WITH {stated} and has not learned what {family} needs; stop it, and start it again"
            f" WITH {quality} on the same checkpoint"
        )
    with one_sentence():
        control.say(Control(target=clause(quality)))


def _trigger(trigger: str | None) -> dict[str, Any]:
    if trigger == AVAILABLE:
        return {"availableNow": True}
    if trigger is None:
        return {"processingTime": "0 seconds"}
    return {"processingTime": f"{parse_duration(trigger) // 1000} milliseconds"}


def control_folder(spark: SparkSession, checkpoint: str | None) -> str:
    """Where the control messages of a query with this checkpoint are; in a temporary folder where it has none."""
    if checkpoint is not None:
        return f"{checkpoint.rstrip('/')}/{CONTROL}"
    if not (spark.conf.get("spark.master", None) or "local").startswith("local"):
        raise UsageError("name a folder that all machines share with checkpoint=...")
    return f"{tempfile.mkdtemp(prefix='slackwater-')}/{CONTROL}"


def _temporary(control: ControlLog) -> str:
    return control.folder.removesuffix(f"/{CONTROL}")
