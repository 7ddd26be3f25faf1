"""MW-join: buffers hold one window and no more, so the nested loop over them asks for no period.

The report's Mode 1 sweeps the time axis: it drops tuples until one of every stream is left that lie within a window.
Mode 2 then admits new tuples up to the end of that window, and joins each with all that is buffered. Behind our
release both are one step a tuple. Event times of tuples in time never go down, so with a new tuple at T everything
before T - w has seen its last window and is dropped (Mode 1); what is left of every stream lies in [T - w, T], and
any two of these are within a window of each other (Mode 2). A stream that has nothing left there has no starting
tuple: nothing is joined, and the sweep goes on. A late tuple lies before T and enters in its place, so the buffers
stay sorted and the argument holds for it too.

Where windows differ, w is that of each stream: what is left may be too far apart for some pair, and is refined (LCA).

Invariant: when a tuple at T is joined, every buffer holds exactly the tuples in [T - w, T] that have come.

References: 002 §3.2, Fig. 6; §5.1.
"""

from __future__ import annotations

from slackwater.core.batch import TS, Words
from slackwater.core.jit import in_place, inner
from slackwater.disorder.ordered_batch import OrderedTuples
from slackwater.operators.join.loop import nothing_after
from slackwater.published.wjoin.buffers import Buffers, remove_old
from slackwater.published.wjoin.processing import Joining, join_one, process
from slackwater.published.wjoin.search import Search
from slackwater.published.wjoin.steps import Steps


@inner
def locate_starting_tuples(b: Buffers, s: int, now: int) -> bool:
    """Mode 1: drop what no window can reach; tells whether every stream but s has something left."""
    everywhere = True
    for j in range(len(b.latest)):
        remove_old(b, j, 0, now - b.windows[j])
        if j != s and b.held[j] == 0:
            everywhere = False
    return everywhere


@inner
def join_if_located(job: Joining, new: OrderedTuples, i: int) -> int:
    """Mode 2, where Mode 1 has found something in every stream."""
    if locate_starting_tuples(job.w, new.stream[i], new.words[TS, i]):
        return join_one(False, False, job, new, i)
    return 0


@in_place
def join_run(
    condition: int, plan: Steps, new: OrderedTuples, begin: int, b: Buffers, search: Search, out: Words, counts: Words
) -> tuple[int, int, int]:
    """Process a run from `begin` on; returns (tuples processed, results written, status)."""
    return process(join_if_located, nothing_after, condition, plan, new, begin, b, search, out, counts)
