"""The ripple join, adapted to windows: a nested loop whose buffers are cleaned only every 10,000 tuples.

Between two cleanings every tuple that has ever come is looked at, and tested for the period.

References: 002 §4.3, Fig. 7; Haas, Hellerstein: Ripple Joins for Online Aggregation, SIGMOD 1999.
"""

from __future__ import annotations

from slackwater.compiled import in_place, inner
from slackwater.model.batch import Words
from slackwater.operators.join.search import Arriving
from slackwater.operators.join.wjoin.buffers import SINCE_CLEANING, Buffers, clean
from slackwater.operators.join.wjoin.processing import always, process
from slackwater.operators.join.wjoin.search import Search
from slackwater.operators.join.wjoin.steps import Steps


@inner
def clean_now_and_then(b: Buffers, plan: Steps, now: int) -> None:
    """Count the tuple, and clean all buffers when there have been enough."""
    b.used[SINCE_CLEANING] += 1
    if b.used[SINCE_CLEANING] >= plan.clean_every:
        clean(b)


@in_place
def join_run(
    condition: int, plan: Steps, new: Arriving, begin: int, b: Buffers, search: Search, out: Words, counts: Words
) -> tuple[int, int, int]:
    """Process a run from `begin` on; returns (tuples processed, results written, status)."""
    return process(always, clean_now_and_then, True, False, condition, plan, new, begin, b, search, out, counts)
