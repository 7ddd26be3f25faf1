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
    from slackwater.expressions.functions import register
    from slackwater.model.schema import Kind
    from slackwater.operators.pipeline import Epochs
    from slackwater.runtime.local.answer import Answer, replay
    from slackwater.runtime.local.live import LiveQuery, open
    from slackwater.runtime.spark.api import aggregate, complete, delay, join, no_wait, recall, relative_error, sql
    from slackwater.runtime.spark.live import start
    from slackwater.runtime.spark.session import session
    from slackwater.runtime.steps.step import Step

__version__ = "0.1.0"
__all__ = [
    "Answer",
    "Epochs",
    "Kind",
    "LiveQuery",
    "Step",
    "aggregate",
    "complete",
    "delay",
    "join",
    "no_wait",
    "open",
    "recall",
    "register",
    "relative_error",
    "replay",
    "session",
    "sql",
    "start",
]

_HOMES = {
    "Answer": "slackwater.runtime.local.answer",
    "Epochs": "slackwater.operators.pipeline",
    "Kind": "slackwater.model.schema",
    "LiveQuery": "slackwater.runtime.local.live",
    "Step": "slackwater.runtime.steps.step",
    "open": "slackwater.runtime.local.live",
    "start": "slackwater.runtime.spark.live",
    "register": "slackwater.expressions.functions",
    "replay": "slackwater.runtime.local.answer",
    "session": "slackwater.runtime.spark.session",
    **dict.fromkeys(
        ("aggregate", "complete", "delay", "join", "no_wait", "recall", "relative_error", "sql"),
        "slackwater.runtime.spark.api",
    ),
}


def __getattr__(name: str) -> Any:
    """Load a public name on first use, so that `import slackwater` costs nothing."""
    if name not in _HOMES:
        raise AttributeError(f"module 'slackwater' has no attribute '{name}'")
    from importlib import import_module

    return getattr(import_module(_HOMES[name]), name)
