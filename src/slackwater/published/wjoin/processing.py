"""What all W-joins do with a run: a tuple in time is joined with what has come before it, and every tuple enters.

What an algorithm does of its own stands in two small functions: one that joins a tuple, and one that comes after and
looks after the buffers.

Invariant: a late tuple enters its buffer and is the last member of no result. A run that is stopped for want of room
goes on with the tuple that had none.

References: 002 §3.1 (Fig. 5), §3.2.
"""

from __future__ import annotations

from typing import NamedTuple

from slackwater.core.batch import TS, Words
from slackwater.core.jit import inner
from slackwater.disorder.ordered_batch import OrderedTuples
from slackwater.expressions.compile import refine_listed_at
from slackwater.operators.join.loop import ENTERS, PASSES_BY, PROBES, After, Probe, place_probe_insert
from slackwater.published.wjoin.buffers import Buffers, enter, place, update_vector
from slackwater.published.wjoin.search import Refine, Search, iterate
from slackwater.published.wjoin.steps import Steps


class Joining(NamedTuple):
    """What the loop works on."""

    refine: Refine
    plan: Steps
    w: Buffers
    search: Search
    out: Words
    counts: Words


@inner
def process(
    probe: Probe, after: After,
    condition: int, plan: Steps, new: OrderedTuples, begin: int, b: Buffers, search: Search, out: Words, counts: Words,
) -> tuple[int, int, int]:  # fmt: skip
    """Process a run from `begin` on; returns (tuples processed, results written, status)."""
    job = Joining(refine_listed_at(condition), plan, b, search, out, counts)
    search.written[0] = 0
    done, status = place_probe_insert(place, enter, admit, probe, after, job, new, begin)
    return done, search.written[0], status


@inner
def admit(job: Joining, new: OrderedTuples, i: int) -> int:
    """A tuple in time is joined; a late one enters while it can still be joined."""
    s, ts = new.stream[i], new.words[TS, i]
    job.counts[i] = 0
    if ts < new.watermark_at_arrival[i] - job.w.windows[s]:
        return PASSES_BY
    update_vector(job.w, s, ts)
    return PROBES if ts >= new.watermark_at_arrival[i] else ENTERS


@inner
def join_one(windowed: bool, removes: bool, job: Joining, new: OrderedTuples, i: int) -> int:
    """Write the results of tuple i behind those of the others, in all ways that are put together.

    `windowed`: partners are tested for the period. `removes`: those out of reach are removed on the way.
    """
    made = 0
    for way in range(job.plan.steps.shape[0]):
        more = iterate(
            job.refine, job.plan, job.w, way, new.stream[i], new.words[TS, i], windowed, removes, job.search,
            job.out, job.search.written[0] + made,
        )  # fmt: skip
        if more < 0:
            return more
        made += more
    job.counts[i] = made
    if not job.plan.count_only:
        job.search.written[0] += made
    return made


@inner
def join_removing(job: Joining, new: OrderedTuples, i: int) -> int:
    """Join a tuple, and remove what is out of reach on the way."""
    return join_one(True, True, job, new, i)
