"""slackwater: say how good the answer must be, not how long to wait.

>>> import pyarrow as pa
>>> import slackwater as sw
>>> a = pa.table({"ts": [1000, 3000, 2000], "arrival": [0, 2, 4], "key": [7, 7, 8], "v": [1.0, 2.0, 3.0]})
>>> b = pa.table({"ts": [1500, 2500], "arrival": [1, 3], "key": [7, 8], "v": [10.0, 20.0]})
>>> answer = sw.replay('''
...     SELECT a.key, a.v AS av, b.v AS bv
...     FROM a [RANGE 1 SECOND], b [RANGE 1 SECOND]
...     WHERE a.key = b.key
...     WITH DELAY 2 SECONDS''', {"a": a, "b": b})
>>> answer.results.drop_columns(["_ts"]).to_pylist()
[{'key': 7, 'av': 1.0, 'bv': 10.0}, {'key': 8, 'av': 3.0, 'bv': 20.0}]
"""

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from slackwater.advice.answer import Advice
    from slackwater.advice.over import advise
    from slackwater.core.schema import Kind
    from slackwater.expressions.functions import register
    from slackwater.language.query_file import query_file
    from slackwater.observe.value import QueryProgress
    from slackwater.operators.pipeline import Epochs
    from slackwater.page.server import Page
    from slackwater.runtime.explaining import explain
    from slackwater.runtime.follow import log_events
    from slackwater.runtime.history import History, history
    from slackwater.runtime.live_view import LiveView, live_view
    from slackwater.runtime.local.answer import Answer, replay
    from slackwater.runtime.local.live import LiveQuery, live
    from slackwater.runtime.request.step import Step
    from slackwater.runtime.spark.api import aggregate, changes, join, sql
    from slackwater.runtime.spark.batches import MicroBatch, SetBatch
    from slackwater.runtime.spark.kafka.sink import kafka_sink
    from slackwater.runtime.spark.kafka.source import kafka
    from slackwater.runtime.spark.progress import Listener, progress
    from slackwater.runtime.spark.queries import Outputs, Queries, queries
    from slackwater.runtime.spark.running import RunningQueries, RunningQuery
    from slackwater.runtime.spark.session import session
    from slackwater.runtime.spark.sinks import sink
    from slackwater.runtime.spark.start import start
    from slackwater.runtime.spark.upsert.api import upsert
    from slackwater.runtime.targets import complete, delay, no_wait, recall, relative_error
    from slackwater.runtime.watch import MetricsServer, metrics, watch
    from slackwater.sources.lookups import lookup

__version__ = "0.1.0"

_HOMES = {
    "slackwater.advice.answer": ("Advice",),
    "slackwater.advice.over": ("advise",),
    "slackwater.expressions.functions": ("register",),
    "slackwater.core.schema": ("Kind",),
    "slackwater.language.query_file": ("query_file",),
    "slackwater.operators.pipeline": ("Epochs",),
    "slackwater.runtime.explaining": ("explain",),
    "slackwater.runtime.history": ("History", "history"),
    "slackwater.runtime.local.answer": ("Answer", "replay"),
    "slackwater.runtime.local.live": ("LiveQuery", "live"),
    "slackwater.runtime.live_view": ("LiveView", "live_view"),
    "slackwater.runtime.follow": ("log_events",),
    "slackwater.runtime.spark.api": ("aggregate", "changes", "join", "sql"),
    "slackwater.runtime.spark.batches": ("MicroBatch", "SetBatch"),
    "slackwater.runtime.spark.kafka.sink": ("kafka_sink",),
    "slackwater.runtime.spark.kafka.source": ("kafka",),
    "slackwater.runtime.spark.progress": ("Listener", "progress"),
    "slackwater.observe.value": ("QueryProgress",),
    "slackwater.runtime.spark.queries": ("Outputs", "Queries", "queries"),
    "slackwater.runtime.spark.running": ("RunningQueries", "RunningQuery"),
    "slackwater.runtime.spark.session": ("session",),
    "slackwater.runtime.spark.sinks": ("sink",),
    "slackwater.runtime.spark.start": ("start",),
    "slackwater.runtime.spark.upsert.api": ("upsert",),
    "slackwater.runtime.request.step": ("Step",),
    "slackwater.page.server": ("Page",),
    "slackwater.runtime.watch": ("MetricsServer", "metrics", "watch"),
    "slackwater.sources.lookups": ("lookup",),
    "slackwater.runtime.targets": ("complete", "delay", "no_wait", "recall", "relative_error"),
}
_HOME_OF = {name: module for module, names in _HOMES.items() for name in names}

__all__ = [
    "Advice",
    "Answer",
    "Epochs",
    "History",
    "Kind",
    "Listener",
    "LiveQuery",
    "LiveView",
    "MetricsServer",
    "MicroBatch",
    "Outputs",
    "Page",
    "Queries",
    "QueryProgress",
    "RunningQueries",
    "RunningQuery",
    "SetBatch",
    "Step",
    "advise",
    "aggregate",
    "changes",
    "complete",
    "delay",
    "explain",
    "history",
    "join",
    "kafka",
    "kafka_sink",
    "live",
    "live_view",
    "log_events",
    "lookup",
    "metrics",
    "no_wait",
    "progress",
    "queries",
    "query_file",
    "recall",
    "register",
    "relative_error",
    "replay",
    "session",
    "sink",
    "sql",
    "start",
    "upsert",
    "watch",
]


def __getattr__(name: str) -> Any:
    """Load a public name on first use, so that `import slackwater` costs nothing."""
    if name not in _HOME_OF:
        raise AttributeError(f"module 'slackwater' has no attribute '{name}'; it has {', '.join(__all__)}")
    from importlib import import_module

    return getattr(import_module(_HOME_OF[name]), name)


def __dir__() -> list[str]:
    return [*__all__, "__version__"]
