"""The ripple join, adapted to windows: a nested loop whose buffers are cleaned only every 10,000 tuples.

Between two cleanings every tuple that has ever come is looked at, and tested for the period.

References: 002 §4.3, Fig. 7; Haas, Hellerstein: Ripple Joins for Online Aggregation, SIGMOD 1999.
"""

from __future__ import annotations

from slackwater.compiled import in_place
from slackwater.expressions.compile import refine_listed_at
from slackwater.model.batch import TS, Words
from slackwater.operators.join.enumerate import FINE
from slackwater.operators.join.search import Arriving
from slackwater.operators.join.wjoin.buffers import SINCE_CLEANING, Buffers, clean, enter, place, update_vector
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
            made = iterate(refine, plan, b, s, ts, True, False, search, out, n_out)
            if made < 0:
                return i, n_out, made
            counts[i] = made
            if not plan.counted:
                n_out += made
        enter(b, s)
        b.used[SINCE_CLEANING] += 1
        if b.used[SINCE_CLEANING] >= plan.clean_every:
            clean(b)
    return new.words.shape[1], n_out, FINE
