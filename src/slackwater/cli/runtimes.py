"""Which runtime a command line asks for, and with what.

Invariant: commands begin a run, take its tables and ask for its report; none of them knows where it runs.
"""

from __future__ import annotations

import os
from collections.abc import Iterator, Mapping
from contextlib import AbstractContextManager, contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Protocol

import pyarrow as pa

from slackwater.cli.prepare import duration_of, epochs_of
from slackwater.core.errors import UsageError
from slackwater.operators.pipeline import Epochs
from slackwater.plan.physical import PhysicalPlan
from slackwater.runtime.local.run import LocalRun
from slackwater.runtime.recorded import RecordedRun
from slackwater.sources.replay import Replay

LOCAL, SPARK = "local", "spark"
DEFAULT_EPOCH = {LOCAL: "1", SPARK: "50000"}
"""On Spark a micro-batch costs half a second whatever it holds, so it should hold much."""
ANYWHERE = "local[*]"
AVAILABLE = "available"
MOST_SHARDS = 100_000


class Runtime(Protocol):
    """Where a plan is run over recorded streams."""

    def begin(
        self, plan: PhysicalPlan, replay: Replay, sources: Mapping[str, pa.Table], time_unit: str
    ) -> AbstractContextManager[RecordedRun]:
        """A run, ready to give its tables; what it needs is put away at the end."""


@dataclass(frozen=True)
class Local:
    """In this process."""

    epochs: Epochs

    @contextmanager
    def begin(
        self, plan: PhysicalPlan, replay: Replay, sources: Mapping[str, pa.Table], time_unit: str
    ) -> Iterator[RecordedRun]:
        yield LocalRun(plan, replay, self.epochs)


def runtime_of(
    name: str,
    epoch: str | None = None,
    shards: int | None = None,
    master: str | None = None,
    checkpoint: Path | None = None,
    trigger: str | None = None,
) -> Runtime:
    """The runtime that options ask for; None leaves a choice to the runtime.

    >>> runtime_of("local", "1000")
    Local(epochs=Epochs(each_tuple=False, tuples=1000, span=0))
    """
    if name not in DEFAULT_EPOCH:
        raise UsageError(f"--runtime {name}: it is {LOCAL} or {SPARK}")
    epochs = epochs_of(epoch or DEFAULT_EPOCH[name])
    if name == LOCAL:
        given = {"shards": shards, "master": master, "checkpoint": checkpoint, "trigger": trigger}
        for option, value in given.items():
            if value is not None:
                raise UsageError(f"--{option} is an option of --runtime {SPARK}")
        return Local(epochs)
    if epochs.each_tuple:
        raise UsageError(
            f"--epoch {epoch}: Spark works in micro-batches and has no tuple release; say how many tuples a micro-batch"
            f" takes (--epoch {DEFAULT_EPOCH[SPARK]}) or how much event time (--epoch '1 s')"
        )
    if shards is not None and not 1 <= shards <= MOST_SHARDS:
        raise UsageError(f"--shards {shards}: there are from 1 to {MOST_SHARDS:,}")
    from slackwater.runtime.spark.replay.recording import SparkRuntime

    return SparkRuntime(epochs, shards or os.cpu_count() or 1, master or ANYWHERE, checkpoint, _trigger(trigger))


def _trigger(text: str | None) -> str:
    """`available`, or a duration in the words of Spark."""
    if text is None or text == AVAILABLE:
        return AVAILABLE
    return f"{duration_of('trigger', text)} microseconds"
