"""Workers of Python, from task to task.

Spark has a worker collect garbage after every task, and that looks through every object there is: with all that our
code imports some 150 000, or 70 ms, in each of the tasks of a micro-batch.

Invariant: what a worker has loaded for good is not looked through again. It is set apart at the start of a task, just
after garbage was collected, so nothing is set apart that nobody uses; and only in the first tasks, which load machine
code, so what comes and goes later is collected as ever. No other process is touched.
"""

from __future__ import annotations

import gc

from pyspark import TaskContext

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
