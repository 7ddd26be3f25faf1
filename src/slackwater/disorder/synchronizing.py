"""The loops of a synchronizer: tuples from slack buffers and from nodes below, put into one order.

Invariant: a stream that comes from a node below is in order and promises how far that node has come, so it is never
late here; a raw stream is late here where it comes behind the frontier of this node, whatever the other nodes do.

References: 004 §4.2.6, 003 §V: every instance of a join has a synchronizer of its own (Alg. 3.1), behind slack buffers
that share one K.
"""

from __future__ import annotations

from typing import NamedTuple

from slackwater.compiled import in_place
from slackwater.disorder.epoch_release import let_out_up_to, pass_on
from slackwater.disorder.held import hold
from slackwater.disorder.state import FRONTIER, LARGEST, NOW, T_SYNC, Buffers, Clockwork, Incoming, Room
from slackwater.disorder.tuple_release import synchronize
from slackwater.model.batch import TS, Words
from slackwater.model.time import AFTER_ALL


class Last(NamedTuple):
    """How a stretch ends: a place behind all others, the largest clock, the moment, and whether the input ends too."""

    place: int
    clock: int
    moment: int
    ending: bool


@in_place
def synchronize_each(
    new: Incoming, last: Last, clock: Clockwork, held: Buffers, out: Room, let_out: Words, reached: Words
) -> int:
    """Tuple release: Alg. 3.1 for every tuple that comes, and T-join of Alg. 4.6. Returns how many are let out.

    Written after each one: how many tuples have been let out, and where the frontier stands. When the input is ending,
    all tuples are first brought here, and then let out.
    """
    m = len(clock.clocks)
    n_out = 0
    for i in range(len(new.stream)):
        s, t = new.stream[i], new.words[TS, i]
        clock.scalars[LARGEST], clock.scalars[NOW] = new.clock[i], new.moment[i]
        if s < 0:
            clock.promised[~s] = max(clock.promised[~s], t)
        elif t <= clock.scalars[T_SYNC]:
            n_out = pass_on(clock, new, i, new.delay[i], out, n_out)
            clock.scalars[FRONTIER] = max(clock.scalars[FRONTIER], t)
        else:
            hold(clock, held, m + s, new, i, new.delay[i])
        if not last.ending:
            n_out = synchronize(clock, m, False, held, out, n_out)
        let_out[i], reached[i] = n_out, clock.scalars[FRONTIER]
    if last.ending:
        clock.scalars[LARGEST], clock.scalars[NOW] = last.clock, last.moment
        n_out = synchronize(clock, m, True, held, out, n_out)
    return n_out


@in_place
def hold_for_promises(
    new: Incoming, last: Last, clock: Clockwork, held: Buffers, out: Room, let_out: Words, reached: Words
) -> int:
    """Epoch release: the frontier is the smallest promise, and all that is held up to it is let out, sorted.

    Promises come when an epoch ends. Until then what lies at the frontier is held, so that late tuples of the same
    epoch stand in their windows before it, however the epoch was put together.
    """
    n_out = 0
    for i in range(len(new.stream)):
        s, t = new.stream[i], new.words[TS, i]
        clock.scalars[LARGEST], clock.scalars[NOW] = new.clock[i], new.moment[i]
        frontier = clock.scalars[FRONTIER]
        if s < 0:
            clock.promised[~s] = max(clock.promised[~s], t)
            bound = AFTER_ALL
            for k in range(len(clock.promised)):
                bound = min(bound, clock.promised[k])
            clock.scalars[FRONTIER] = max(frontier, bound)
            n_out = let_out_up_to(clock, clock.scalars[FRONTIER], frontier, held, out, n_out)
        elif t < frontier:
            n_out = pass_on(clock, new, i, new.delay[i], out, n_out)
        else:
            hold(clock, held, 0, new, i, new.delay[i])
        let_out[i], reached[i] = n_out, clock.scalars[FRONTIER]
    if last.ending:
        clock.scalars[LARGEST], clock.scalars[NOW] = last.clock, last.moment
        n_out = let_out_up_to(clock, AFTER_ALL, clock.scalars[FRONTIER], held, out, n_out)
    return n_out
