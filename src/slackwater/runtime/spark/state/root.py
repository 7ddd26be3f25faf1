"""Where the state of queries is kept, as far as it is known before a task runs.

A query that we start has its folder in its checkpoint. A DataFrame that somebody else starts does not know its
checkpoint, but Spark tells every task which streaming query it belongs to, and that stays the same over restarts.
"""

from __future__ import annotations

import os
import socket
from dataclasses import dataclass, replace
from hashlib import sha256

from pyspark import TaskContext

from slackwater.core.errors import SlackwaterError, writing
from slackwater.runtime.spark.state.layouts import ABOVE
from slackwater.runtime.spark.store import At, inside

QUERY, MICRO_BATCH = "sql.streaming.queryId", "streaming.sql.batchId"
"""The properties by which Spark tells a task its streaming query, and its micro-batch."""
RUN = "spark.jobGroup.id"
"""That by which it tells one start of a query from the next."""


@dataclass(frozen=True)
class StateRoot:
    """A folder, or one in it for each streaming query."""

    folder: At
    within: str | None = None
    """None: the folder itself; else this name in the folder of the streaming query that runs."""
    made: bool = True
    """Whether this machine makes the folder, so that a worker which lacks it does not share it."""

    def above(self) -> StateRoot:
        """That of a second stage."""
        if self.within is not None:
            return replace(self, within=f"{self.within}/{ABOVE}")
        return replace(self, folder=inside(self.folder, ABOVE))

    def make(self) -> None:
        """Make the folder, where it is one of this machine."""
        if self.made and isinstance(self.folder, str):
            with writing(self.folder):
                os.makedirs(self.folder, exist_ok=True)

    def of_task(self) -> At:
        """The folder of the streaming query that this task belongs to."""
        if self.made and isinstance(self.folder, str) and not os.path.isdir(self.folder):
            raise SlackwaterError(
                f"{self.folder} is not there on {socket.gethostname()}, where a worker of this query runs; name a"
                " folder that all machines share"
            )
        if self.within is None:
            return self.folder
        query = task_property(QUERY)
        if query is None:
            raise SlackwaterError("Spark does not say which streaming query this is; start it with slackwater.start")
        return inside(self.folder, f"{query}/{self.within}")


def secret_of_task() -> int:
    """What the hash of texts begins with: made of the name of the streaming query that this task belongs to, which
    Spark has drawn at random and keeps in the checkpoint; 0 where all input is here."""
    query = task_property(QUERY)
    return 0 if query is None else int.from_bytes(sha256(query.encode()).digest()[:8], "little", signed=True)


def micro_batch() -> int:
    """The number of the micro-batch that this task belongs to."""
    return int(task_property(MICRO_BATCH) or 0)


def run_of_task() -> str:
    """The running query this task belongs to; a restart of the same query is another run."""
    query, run = (task_property(name) for name in (QUERY, RUN))
    return f"{query}/{run}" if query and run else ""


def task_property(name: str) -> str | None:
    """What Spark tells a task; None outside of one."""
    context = TaskContext.get()
    return None if context is None else context.getLocalProperty(name)


def task_number() -> int | None:
    """Which of the tasks that run at the same time this is; None outside of one."""
    context = TaskContext.get()
    return None if context is None else int(context.partitionId())
