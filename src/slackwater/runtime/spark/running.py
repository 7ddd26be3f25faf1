"""A started query: its progress, its end, and what may be changed while it runs.

Invariant: a change takes effect at a micro-batch, for all shards at once, and stays in force over restarts. What may
not be changed is refused before anything starts, in one sentence.
"""

from __future__ import annotations

import atexit
import os
import secrets
import shutil
import tempfile
import threading
from collections.abc import Callable
from contextlib import suppress
from types import TracebackType
from typing import Any, Protocol, Self

from pyspark.sql import DataFrame, SparkSession
from pyspark.sql.streaming.query import StreamingQuery

from slackwater.core.errors import UsageError
from slackwater.core.quality import Quality, clause
from slackwater.core.time import MILLISECOND, parse_duration
from slackwater.observe.views import History
from slackwater.plan.physical import PhysicalPlan
from slackwater.runtime.follow import Source
from slackwater.runtime.spark.control import CONTROL, ControlLog, combined
from slackwater.runtime.spark.ending import end_when_quiet
from slackwater.runtime.spark.failures import JvmEndedError, as_ours, one_sentence
from slackwater.runtime.spark.fence import Fence
from slackwater.runtime.spark.locations import location_of
from slackwater.runtime.spark.progress.reading import polled, progress
from slackwater.runtime.spark.session import default_shards, fitting
from slackwater.runtime.spark.store import At, store_at
from slackwater.runtime.targets import FAMILIES, settable

AVAILABLE = "available"
STATE = "slackwater-state"
"""The folder of the state of shards there."""
KEY_GROUPS, FEW_KEY_GROUPS, MOST_KEY_GROUPS = 16, 4, 256
"""Key groups where none are asked for; where the query learns from what it emits; and the most there can be."""
Each = Callable[[DataFrame, int], None]


def begin(
    spark: SparkSession,
    plan: PhysicalPlan,
    emitted: Callable[[ControlLog, int, int, At | None], DataFrame],
    each: Callable[[str], Each],
    refuse: Callable[[], None],
    *,
    shards: int | None,
    key_groups: int | None,
    checkpoint: str | os.PathLike[str] | None,
    trigger: str | None,
    flush: bool,
    name: str | None,
) -> RunningQuery:
    """Start a query: `emitted` gives its rows for numbers of shards and key groups, `each` what takes those of a
    micro-batch, of a checkpoint with this name. `refuse` is asked first where the checkpoint is new.

    Without a number of shards it has as many as it had before, or as there are cores.
    """
    when = trigger_of(trigger)
    if flush and trigger != AVAILABLE:
        raise UsageError("flush=True ends a query, so it goes with trigger='available'")
    folder = checkpoint_folder(spark, checkpoint, name)
    fence = fence_of(spark, folder)
    with fence.held():
        with one_sentence():
            control = ControlLog(spark, f"{folder}/{CONTROL}")
        count = shards or control.shards or default_shards(spark)
        groups = key_groups_of(plan, key_groups, control, count)
        with one_sentence(), fitting(spark, count):
            if control.is_new:
                refuse()
            frame = emitted(control, count, groups, state_folder(spark, folder))
            take = fence.guarding(each(control.run))

    def started() -> StreamingQuery:
        writer = frame.writeStream.foreachBatch(take).trigger(**when).option("checkpointLocation", folder)
        if name is not None:
            writer = writer.queryName(name)
        with one_sentence(), fitting(spark, count):
            query = fence.started(writer)
        if trigger == AVAILABLE and plan.options.idle_timeout is not None:
            end_when_quiet(query)
        return query

    return RunningQuery(started, control, plan, flush, trigger == AVAILABLE)


def fence_of(spark: SparkSession, checkpoint: str) -> Fence:
    """What keeps other drivers from a checkpoint; nothing does where only Spark can reach its folder."""
    state = state_folder(spark, checkpoint)
    return Fence(None if state is None else store_at(state))


def key_groups_of(plan: PhysicalPlan, asked: int | None, control: ControlLog, shards: int) -> int:
    """How many key groups the state of a query is kept in: as many as before, as asked for, or the usual number."""
    if control.groups is not None:
        return control.groups
    if asked is not None and not 1 <= asked <= MOST_KEY_GROUPS:
        raise UsageError(f"key_groups={asked}; it is a number from 1 to {MOST_KEY_GROUPS}")
    # Each key group learns from its own tuples what late ones cost; one with few of them learns little. Where a join is
    # cut by rows, each has copies of what others have: 16 do three times the work of one, 4 half as much again. By
    # place it is two thirds more, and a fifth.
    few = type(plan.quality) in FAMILIES or bool(plan.partitioning.rates)
    usual = FEW_KEY_GROUPS if few else KEY_GROUPS
    return asked or max(usual, shards)


class EndOfInput(Protocol):
    """A log of messages, as far as the end of the input is said there."""

    @property
    def ending(self) -> bool:
        """Whether the end of the input was said."""

    def say_end(self) -> None:
        """Say that the input has ended."""

    def say_done(self) -> None:
        """Say that everything which was held is emitted."""


class Running:
    """What has been started as one streaming query of Spark. A `with` block stops it at its end."""

    def __init__(
        self, started: Callable[[], StreamingQuery], control: EndOfInput, flush: bool, available: bool
    ) -> None:
        self._started, self._control = started, control
        self._available = available
        self._stopped = threading.Event()
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
        try:
            with one_sentence():
                return self._query.isActive or (self._flushing is not None and self._flushing.is_alive())
        except JvmEndedError:
            return False

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
        self._stopped.set()
        with suppress(JvmEndedError), one_sentence():
            self._query.stop()
        if self._flushing is not None:
            self._flushing.join()

    def _flush(self) -> None:
        """When all that was there is processed, say that the input has ended, and run once more to hear it."""
        try:
            self._ended(None)
            if self._stopped.is_set():
                return
            if not self._control.ending:
                self._control.say_end()
            self._query = self._started()
            if self._stopped.is_set():
                self._query.stop()
            self._ended(None)
            if not self._stopped.is_set():
                self._control.say_done()
        except Exception as error:
            # Whoever waits is told.
            self._failure = error

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        self.stop()

    def __repr__(self) -> str:
        return f"<{type(self).__name__} {self._query.name or self._query.id}, {self._state()}>"

    def _state(self) -> str:
        """`running`, `ended`, or that it has failed and why."""
        if self.is_active:
            return "running"
        try:
            with one_sentence():
                failure = self._query.exception()
        except JvmEndedError as ended:
            return f"failed: {ended}"
        return "ended" if failure is None else f"failed: {as_ours(str(failure))}"


class RunningQuery(Running):
    """A streaming query; `slackwater.start` makes one. A `with` block stops it at its end."""

    def __init__(
        self,
        started: Callable[[], StreamingQuery],
        control: ControlLog,
        plan: PhysicalPlan,
        flush: bool,
        available: bool,
    ) -> None:
        self._log, self._plan = control, plan
        super().__init__(started, control, flush, available)

    def progress(self) -> History:
        """How it does: the latest micro-batch and the recent ones."""
        return progress(self._query)

    def set_target(self, target: Quality | str, at_most: str | None = None) -> None:
        """Ask for another quality from the next micro-batch on, such as `slackwater.recall(0.99)`; `at_most` bounds the
        slack that is chosen for it.

        Of what the target does not state (period, confidence, cap) nothing changes. It stays in force over restarts,
        until it is set again or the query is started with another target in its text.
        """
        if self._available:
            raise UsageError("a query over what is there now cannot be told anything; start it again with the target")
        say_target(self._log, self._plan, target, at_most)

    def _source(self) -> Source:
        """How it is followed."""
        name = self._query.name or str(self._query.id)
        set_target = None if self._available else lambda _, target: self.set_target(target)
        return polled(self, {name: self._plan}, set_target)

    def _repr_html_(self) -> str:
        return self.progress()._repr_html_()


def say_target(control: ControlLog, plan: PhysicalPlan, target: Quality | str, at_most: str | None = None) -> None:
    """Tell a running query that another target than that of its text counts from now on."""
    stated = clause(plan.quality)
    quality = settable(plan, target, at_most, combined(control.messages, stated)[0])
    with one_sentence():
        control.say_target(clause(quality), stated)


def trigger_of(trigger: str | None) -> dict[str, Any]:
    """When micro-batches begin, as Spark is told."""
    if trigger == AVAILABLE:
        return {"availableNow": True}
    if trigger is None:
        return {"processingTime": "0 seconds"}
    try:
        return {"processingTime": f"{parse_duration(trigger) // MILLISECOND} milliseconds"}
    except (ValueError, TypeError) as error:
        raise UsageError(f"trigger={trigger!r}: {error}, or write 'available'") from None


def state_folder(spark: SparkSession, checkpoint: str) -> At | None:
    """Where the state of shards is kept as files of a checkpoint; None where only Spark can reach its folder."""
    return location_of(spark, f"{checkpoint}/{STATE}")


def checkpoint_folder(spark: SparkSession, checkpoint: str | os.PathLike[str] | None, name: str | None = None) -> str:
    """Where a query keeps its state: as told, else as the session's settings say, else in a temporary folder."""
    if checkpoint is not None:
        return os.fspath(checkpoint).rstrip("/")
    setting = spark.conf.get("spark.sql.streaming.checkpointLocation", None)
    if setting:
        return f"{setting.rstrip('/')}/{name or secrets.token_hex(8)}"
    if not (spark.conf.get("spark.master", None) or "local").startswith("local"):
        raise UsageError("name a folder that all machines share with checkpoint=...")
    folder = tempfile.mkdtemp(prefix="slackwater-")
    # Not before the process ends: a query goes on when its handle is forgotten.
    atexit.register(shutil.rmtree, folder, ignore_errors=True)
    return folder
