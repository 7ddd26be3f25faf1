"""The loop that every join has: a tuple is placed, probes the windows of the other streams, and enters its own.

What a join does of its own stands in small compiled functions. `place` and `insert` are those of its windows; `admit`
says what is to become of a tuple, `probe` makes its results, and `after` sees to what is due behind every tuple. They
all work on the `job`, a named tuple of whatever the join needs, with its windows as `w` and its search as `search`.

Invariant: a tuple probes when everything before it has entered and before it enters itself, so it never meets itself.
One that stops the loop has not entered: with room for its results, the loop may begin with it again.

References: 003 Alg. 2; 002 §3.1 (Fig. 5).
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from slackwater.core.batch import Words
from slackwater.core.jit import inner
from slackwater.disorder.ordered_batch import OrderedTuples

FINISHED = 0
OVERFLOW = -1
"""An integer of a condition does not fit into 64 bits."""
TOO_MANY = -2
"""One tuple's number of results does not fit into 64 bits."""
BUFFER_FULL = -3
"""One tuple's results do not fit behind those that wait to be taken."""
PAUSED = -4
"""So much has been done that the order of probes is due to be chosen anew."""

PASSES_BY, ENTERS, PROBES = range(3)
"""What becomes of a tuple: nothing; it enters its window; it probes those of the others, then enters its own."""

Place = Callable[[Any, int, Words, int], int]
Insert = Callable[[Any, int], None]
Admit = Callable[[Any, OrderedTuples, int], int]
Probe = Callable[[Any, OrderedTuples, int], int]
After = Callable[[Any, OrderedTuples, int, int], None]


@inner
def place_probe_insert(
    place: Place, insert: Insert, admit: Admit, probe: Probe, after: After, job: Any, new: OrderedTuples, begin: int
) -> tuple[int, int]:
    """Process a run from `begin` on; returns (tuples processed, status). The first negative answer stops it."""
    for i in range(begin, new.words.shape[1]):
        fate = admit(job, new, i)
        if fate < 0:
            return i, fate
        if fate != PASSES_BY:
            s = new.stream[i]
            job.search.slots[s] = place(job.w, s, new.words, i)
            if fate == PROBES:
                status = probe(job, new, i)
                if status < 0:
                    return i, status
            insert(job.w, s)
        after(job, new, i, fate)
    return new.words.shape[1], FINISHED


@inner
def nothing_after(job: Any, new: OrderedTuples, i: int, fate: int) -> None:
    """Nothing is due behind a tuple."""
