"""NLW-join: every new tuple goes through the whole buffers of the other streams, one inside the other.

Each tuple on the way is tested for removal, then for the period of the tuples bound so far, then for the join
predicate. A buffer is cleaned by those who go through it, so it needs no cleaning of its own.

Invariant: as for every algorithm here, a late tuple enters its buffer and is the last member of no result.

References: 002 §3.1.1, Fig. 5.
"""

from __future__ import annotations

from slackwater.core.batch import Words
from slackwater.core.jit import in_place
from slackwater.disorder.ordered_batch import OrderedTuples
from slackwater.operators.join.loop import nothing_after
from slackwater.published.wjoin.buffers import Buffers
from slackwater.published.wjoin.processing import join_removing, process
from slackwater.published.wjoin.search import Search
from slackwater.published.wjoin.steps import Steps


@in_place
def join_run(
    condition: int, plan: Steps, new: OrderedTuples, begin: int, b: Buffers, search: Search, out: Words, counts: Words
) -> tuple[int, int, int]:
    """Process a run from `begin` on; returns (tuples processed, results written, status)."""
    return process(join_removing, nothing_after, condition, plan, new, begin, b, search, out, counts)
