"""What all W-joins do with a run: a tuple in time is joined with what has come before it, and every tuple enters.

What an algorithm does of its own stands in two small functions: one that comes before the join and tells whether there
is anything to join, and one that comes after and looks after the buffers.

Invariant: a late tuple enters its buffer and is the last member of no result. A run that is stopped for want of room
goes on with the tuple that had none.

References: 002 §3.1 (Fig. 5), §3.2.
"""

from __future__ import annotations

from collections.abc import Callable

from slackwater.compiled import inner
from slackwater.expressions.compile import refine_listed_at
from slackwater.model.batch import TS, Words
from slackwater.operators.join.probe import FINISHED
from slackwater.operators.join.search import Arriving
from slackwater.operators.join.wjoin.buffers import Buffers, enter, place, update_vector
from slackwater.operators.join.wjoin.search import Search, iterate
from slackwater.operators.join.wjoin.steps import Steps

Before = Callable[[Buffers, int, int], bool]
After = Callable[[Buffers, Steps, int], None]


@inner
def process(
    before: Before, after: After, windowed: bool, removes: bool,
    condition: int, plan: Steps, new: Arriving, begin: int, b: Buffers, search: Search, out: Words, counts: Words,
) -> tuple[int, int, int]:  # fmt: skip
    """Process a run from `begin` on; returns (tuples processed, results written, status)."""
    refine, n_out = refine_listed_at(condition), 0
    for i in range(begin, new.words.shape[1]):
        s, ts = new.stream[i], new.words[TS, i]
        counts[i] = 0
        if ts < new.watermark_at_arrival[i] - b.windows[s]:
            continue
        search.slots[s] = place(b, new.words, i)
        update_vector(b, s, ts)
        if ts >= new.watermark_at_arrival[i] and before(b, s, ts):
            made = 0
            for way in range(plan.steps.shape[0]):
                more = iterate(refine, plan, b, way, s, ts, windowed, removes, search, out, n_out + made)
                if more < 0:
                    return i, n_out, more
                made += more
            counts[i] = made
            if not plan.count_only:
                n_out += made
        enter(b, s)
        after(b, plan, ts)
    return new.words.shape[1], n_out, FINISHED


@inner
def always(b: Buffers, s: int, now: int) -> bool:
    """Nothing is to be done before the join."""
    return True


@inner
def nothing(b: Buffers, plan: Steps, now: int) -> None:
    """Nothing is to be done after the join."""
