"""The process that Spark forks its Python workers from, with everything they need imported before the first fork.

Invariant: it is Spark's own daemon but for the imports, which say nothing and start no thread. A worker that is forked
from it imports nothing again, so a query with several of them waits for the imports once, and they share the memory.

Named to Spark as `spark.python.daemon.module`; sessions that `slackwater.session` makes have it.
"""

from __future__ import annotations

import gc
from typing import Any

from numba.core import registry
from pyspark.daemon import manager

import slackwater.runtime.spark.exchange.packing
import slackwater.runtime.spark.state.host  # noqa: F401

_target: Any = registry.cpu_target

if __name__ == "__main__":
    # Else every worker does this before it compiles or loads its first function.
    _target.typing_context.refresh()
    _target.target_context.refresh()
    # Set apart, so that collecting garbage in a worker looks at nothing of it.
    gc.collect()
    gc.freeze()
    manager()
