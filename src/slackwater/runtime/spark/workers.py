"""Workers of Python, from task to task: what Spark tells each task, and what a worker has loaded for good.

Spark has a worker collect garbage after every task, and that looks through every object there is: with all that our
code imports some 150 000, or 70 ms, in each of the tasks of a micro-batch.

Invariant: what a worker has loaded for good is not looked through again. It is set apart at the start of a task, just
after garbage was collected, so nothing is set apart that nobody uses; and only in the first tasks, which load machine
code, so what comes and goes later is collected as ever. No other process is touched.
"""

from __future__ import annotations

import gc
from hashlib import sha256

from pyspark import TaskContext

QUERY, MICRO_BATCH = "sql.streaming.queryId", "streaming.sql.batchId"
"""The properties by which Spark tells a task its streaming query, and its micro-batch."""
RUN = "spark.jobGroup.id"
"""That by which it tells one start of a query from the next."""
FIRST_TASKS = 8
_tasks = 0


def settle() -> None:
    """Call this at the start of a task; outside of one it does nothing.

    >>> before = gc.get_freeze_count()
    >>> settle()
    >>> gc.get_freeze_count() <= before
    True
    """
    global _tasks
    if _tasks < FIRST_TASKS and TaskContext.get() is not None:
        _tasks += 1
        gc.freeze()


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
