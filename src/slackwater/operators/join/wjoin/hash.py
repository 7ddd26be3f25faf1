"""HW-join: as the nested loop, over the one bucket that has the key of the new tuple.

A bucket is cleaned by those who probe it. Those that are rarely probed would keep old tuples for ever; so with every
tuple a hand moves on by one bucket of one stream, and where no tuple has probed it for a whole window its old tuples
are removed. Buckets that are often probed are left alone.

This is the report's hash join, kept as a baseline. The engine in `operators/join/enumerate.py` is another: it has a
chain for every key, never meets another key's tuples, cuts chains off at the old end and counts by factors.

References: 002 §3.1.2.
"""

from __future__ import annotations

from slackwater.compiled import in_place, inner
from slackwater.expressions.compile import refine_listed_at
from slackwater.model.batch import TS, Words
from slackwater.operators.join.enumerate import FINE
from slackwater.operators.join.search import Arriving
from slackwater.operators.join.wjoin.buffers import HAND, Buffers, enter, place, remove_old, update_vector
from slackwater.operators.join.wjoin.search import Search, iterate
from slackwater.operators.join.wjoin.steps import Steps


@in_place
def join_run(
    condition: int,
    plan: Steps,
    new: Arriving,
    begin: int,
    b: Buffers,
    search: Search,
    out: Words,
    counts: Words,
) -> tuple[int, int, int]:
    """Process a run from `begin` on; returns (tuples processed, results written, status)."""
    refine, n_out = refine_listed_at(condition), 0
    for i in range(begin, new.words.shape[1]):
        s, ts = new.stream[i], new.words[TS, i]
        counts[i] = 0
        if ts < new.cutoff[i] - plan.window:
            continue
        search.slots[s] = place(b, new.words, i)
        update_vector(b, s, ts, plan.window)
        if ts >= new.cutoff[i]:
            made = iterate(refine, plan, b, s, ts, True, True, search, out, n_out)
            if made < 0:
                return i, n_out, made
            counts[i] = made
            if not plan.counted:
                n_out += made
        enter(b, s)
        update_next_bucket(b, ts, plan.window)
    return new.words.shape[1], n_out, FINE


@inner
def update_next_bucket(b: Buffers, now: int, window: int) -> None:
    """Move the hand on by one bucket, and clean that if it is rarely probed."""
    streams, buckets = b.oldest.shape
    s, bucket = b.used[HAND] % streams, b.used[HAND] // streams
    b.used[HAND] = (b.used[HAND] + 1) % (streams * buckets)
    if b.probed[s, bucket] < now - window:
        remove_old(b, s, bucket, b.reach[s])
