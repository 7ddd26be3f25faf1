"""NLW-join: every new tuple goes through the whole buffers of the other streams, one inside the other.

Each tuple on the way is tested for removal, then for the period of the tuples bound so far, then for the join
predicate. A buffer is cleaned by those who go through it, so it needs no cleaning of its own.

Invariant: as for every algorithm here, a late tuple enters its buffer and is the last member of no result.

References: 002 §3.1.1, Fig. 5.
"""

from __future__ import annotations

from slackwater.compiled import in_place
from slackwater.expressions.compile import refine_listed_at
from slackwater.model.batch import TS, Words
from slackwater.operators.join.enumerate import FINE
from slackwater.operators.join.search import Arriving
from slackwater.operators.join.wjoin.buffers import Buffers, enter, place, update_vector
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
    return new.words.shape[1], n_out, FINE
