"""HW-join: as the nested loop, over the one bucket that has the key of the new tuple.

A bucket is cleaned by those who probe it. Those that are rarely probed would keep old tuples for ever; so with every
tuple a hand moves on by one bucket of one stream, and where no tuple has probed it for a whole window its old tuples
are removed. Buckets that are often probed are left alone.

This is the report's hash join, kept as a baseline. The engine in `operators/join/probe.py` is another: it has a
chain for every key, never meets another key's tuples, cuts chains off at the old end and counts by factors.

References: 002 §3.1.2.
"""

from __future__ import annotations

from slackwater.core.batch import TS, Words
from slackwater.core.jit import in_place, inner
from slackwater.disorder.ordered_batch import OrderedTuples
from slackwater.operators.join.loop import PASSES_BY
from slackwater.published.wjoin.buffers import HAND, Buffers, remove_old
from slackwater.published.wjoin.processing import Joining, join_removing, process
from slackwater.published.wjoin.search import Search
from slackwater.published.wjoin.steps import Steps


@inner
def update_next_bucket(job: Joining, new: OrderedTuples, i: int, fate: int) -> None:
    """Behind a tuple that has entered: move the hand on by one bucket, and clean that if it is rarely probed."""
    if fate == PASSES_BY:
        return
    b, now = job.w, new.words[TS, i]
    streams, buckets = b.oldest.shape
    s, bucket = b.used[HAND] % streams, b.used[HAND] // streams
    b.used[HAND] = (b.used[HAND] + 1) % (streams * buckets)
    if b.probed[s, bucket] < now - b.windows[s]:
        remove_old(b, s, bucket, b.reach[s])


@in_place
def join_run(
    condition: int, plan: Steps, new: OrderedTuples, begin: int, b: Buffers, search: Search, out: Words, counts: Words
) -> tuple[int, int, int]:
    """Process a run from `begin` on; returns (tuples processed, results written, status)."""
    return process(join_removing, update_next_bucket, condition, plan, new, begin, b, search, out, counts)
