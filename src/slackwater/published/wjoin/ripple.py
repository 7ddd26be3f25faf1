"""The ripple join and XJoin, adapted to windows: loops whose buffers are cleaned only every 10,000 tuples.

Between two cleanings every tuple that has ever come is looked at, and tested for the period. XJoin is the same loop
over buffers that are cut into hash buckets, which the buffers themselves know. What XJoin does with memory that
overflows to disk is left out, as in the report.

References: 002 §4.3, Fig. 7 (ripple join), Fig. 8 (XJoin); Haas, Hellerstein: Ripple Joins for Online Aggregation,
SIGMOD 1999; Urhan, Franklin: XJoin, IEEE Data Engineering Bulletin 23(2), 2000.
"""

from __future__ import annotations

from slackwater.core.batch import Words
from slackwater.core.jit import in_place, inner
from slackwater.disorder.ordered_batch import OrderedTuples
from slackwater.operators.join.loop import PASSES_BY
from slackwater.published.wjoin.buffers import SINCE_CLEANING, Buffers, clean
from slackwater.published.wjoin.processing import Joining, join_one, process
from slackwater.published.wjoin.search import Search
from slackwater.published.wjoin.steps import Steps


@inner
def clean_now_and_then(job: Joining, new: OrderedTuples, i: int, fate: int) -> None:
    """Count a tuple that has entered, and clean all buffers when there have been enough."""
    job.w.used[SINCE_CLEANING] += fate != PASSES_BY
    if job.w.used[SINCE_CLEANING] >= job.plan.clean_every:
        clean(job.w)


@inner
def join_keeping(job: Joining, new: OrderedTuples, i: int) -> int:
    """Join a tuple, and remove nothing."""
    return join_one(True, False, job, new, i)


@in_place
def join_run(
    condition: int, plan: Steps, new: OrderedTuples, begin: int, b: Buffers, search: Search, out: Words, counts: Words
) -> tuple[int, int, int]:
    """Process a run from `begin` on; returns (tuples processed, results written, status)."""
    return process(join_keeping, clean_now_and_then, condition, plan, new, begin, b, search, out, counts)
