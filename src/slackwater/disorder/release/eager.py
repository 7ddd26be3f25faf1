"""A synchronizer that may pass tuples on before their turn: they are joined when they leave their slack, and their
results wait in their place.

It yields *events*, a run in which each tuple has a kind. ENTERS: join it now, its turn is still to come. LEAVES: its
turn has come, and it has been joined before. BOTH: its turn has come, and it is joined now. All tuples are BOTH while
nothing is joined early, and late ones always, because they have no turn.

Invariant: a tuple is joined once, and has its turn once, in that order; the turns are those of a `Synchronizer`. A
tuple whose turn is still to come is newer than all that had theirs, so it cannot be late any more.

References: 000 §5 (the Filter-Order approach), §6 (the Adaptive approach).
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from slackwater.core.batch import TS, Words
from slackwater.core.jit import in_place, inner
from slackwater.core.state import StateUpdate
from slackwater.disorder.ordered_batch import OrderedBatch, OrderedTuples
from slackwater.disorder.release import state as st
from slackwater.disorder.release.epoch import pass_on
from slackwater.disorder.release.release import ReleaseSpec
from slackwater.disorder.release.slack_heap import hold
from slackwater.disorder.release.synchronizer import Inflow, NodeSynchronizer, Synchronized, promised_watermark
from slackwater.disorder.release.synchronizing import Last
from slackwater.disorder.release.tuple import synchronize
from slackwater.disorder.release.watermarks import is_watermark, stream_of

BOTH, ENTERS, LEAVES = range(3)
NEW = 2
"""Stands where a tuple is marked as joined or not: it has come just now."""


@dataclass(frozen=True)
class Events(OrderedBatch):
    """A run in which a tuple may stand twice: when it is joined, and when its turn has come."""

    kind: Words | None = None
    """None: BOTH everywhere."""

    @property
    def reached(self) -> Words:
        """The watermark after each event."""
        late_or_early = self.late if self.kind is None else self.late | (self.kind == ENTERS)
        return np.where(late_or_early, self.watermark_at_arrival, self.ts)

    @property
    def turn(self) -> Words:
        """Which of the events are turns of tuples."""
        return np.arange(len(self)) if self.kind is None else np.flatnonzero(self.kind != ENTERS)

    @classmethod
    def of(cls, run: OrderedBatch, kind: Words | None = None) -> Events:
        """The tuples of a run as events."""
        return cls(run.tuples, run.watermark, run.max_ts, run.now, run.ended, kind)

    def turns(self) -> tuple[OrderedBatch, slice | Words]:
        """The tuples whose turn has come, without those that only enter; and their places."""
        sequence = self.turn
        return self.take(sequence), sequence

    def take(self, index: Words) -> OrderedBatch:
        """The tuples at these events, as a run."""
        return OrderedBatch(self.tuples.take(index), self.watermark, self.max_ts, self.now, self.ended)


JOINED = "joined"


class EagerSynchronizer(NodeSynchronizer):
    """Brings the inputs of one node into event-time order, and says what to join until then. For tuple release only.

    Held tuples are marked: whether they have been joined.
    """

    def __init__(self, spec: ReleaseSpec) -> None:
        super().__init__(spec, marks=(JOINED,))
        self.early = False
        """Whether tuples are joined before their turn; set between two calls."""
        self._all_joined = False
        """Whether it is known that all that is held has been."""

    def take(self, came: Inflow) -> Synchronized:
        """The events of what has come; where the input is ending, of everything."""
        state, count = self.state, len(came)
        state.reserve(count)
        clock, held, joined = state.clock, state.buffers, state.marked[JOINED]
        out = st.output_buffer(2 * (self.held + count), self.spec.rows)
        kind = np.zeros(len(out.stream), np.int64)
        emit, reached = np.empty((2, count), np.int64)
        new = came.tuples.contiguous()
        before = int(clock.scalars[st.WATERMARK])
        caught_up = 0
        if self.early and not self._all_joined:
            caught_up = probe_waiting(clock, held, joined, out, kind)
        self._all_joined = self.early
        n = synchronize_eagerly(
            new, came.last, self.early, clock, held, joined, out, kind, caught_up, emit, reached
        )  # fmt: skip
        state.ended = state.ended or came.last.ending
        first = came.sequence[0] if count else came.last.sequence
        each = np.diff(emit, prepend=caught_up)
        sequence = np.concatenate([np.full(caught_up, first), np.repeat(came.sequence, each)])
        sequence = np.append(sequence, np.full(n - len(sequence), came.last.sequence))
        moved = np.flatnonzero(np.diff(reached, prepend=before))
        kinds = kind[:n] if kind[:n].any() else None
        events = Events.of(state.run(out, n, came.last.ending), kinds)
        return Synchronized(events, sequence, promised_watermark(came, moved, reached))

    @property
    def ahead(self) -> int:
        """Tuples that have been joined and have their turn still to come."""
        return int(np.count_nonzero(self.state.marked[JOINED]))

    def entered(self) -> tuple[Words, Words]:
        """Stream and words of the tuples that have been joined and have their turn still to come."""
        slot = np.flatnonzero(self.state.marked[JOINED])
        return self.state.buffers.stream[slot], self.state.buffers.pool[:, slot]

    def restore(self, entries: list[StateUpdate]) -> None:
        super().restore(entries)
        self._all_joined = False

    def hold_again(self, saved: dict[str, Words]) -> None:
        """Hold these tuples, and nothing else; those that do not say otherwise have not been joined."""
        super().hold_again(saved)
        self._all_joined = False


@in_place
def synchronize_eagerly(
    new: OrderedTuples, last: Last, early: bool, clock: st.Clockwork, held: st.Buffers, joined: Words,
    out: OrderedTuples,
    kind: Words, n_out: int, emit: Words, reached: Words,
) -> int:  # fmt: skip
    """As `synchronize_each`; a tuple that must wait enters at once where `early`. Returns how many events there are.

    Tuples that waited for the new one have their turn first, then the new one is joined: their results exist already
    and need not wait for its work.
    """
    m = len(clock.clocks)
    for i in range(len(new.stream)):
        s, t = new.stream[i], new.words[TS, i]
        clock.scalars[st.MAX_TS], clock.scalars[st.NOW] = new.clock[i], new.emit_time[i]
        slot = -1
        if is_watermark(s):
            source = stream_of(s)
            clock.promised_watermark[source] = max(clock.promised_watermark[source], t)
        elif t <= clock.scalars[st.T_SYNC]:
            kind[n_out] = BOTH
            n_out = pass_on(clock, new, i, new.delay[i], out, n_out)
            clock.scalars[st.WATERMARK] = max(clock.scalars[st.WATERMARK], t)
        else:
            hold(clock, held, m + s, new, i, new.delay[i])
            slot = held.free[clock.scalars[st.FREE]]
            joined[slot] = NEW
        if not last.ending:
            n_out = turns(clock, m, False, held, joined, out, kind, n_out)
        if slot >= 0 and joined[slot] == NEW:
            joined[slot] = 1 if early else 0
            if early:
                kind[n_out] = ENTERS
                n_out = pass_on(clock, new, i, new.delay[i], out, n_out)
        emit[i], reached[i] = n_out, clock.scalars[st.WATERMARK]
    if last.ending:
        clock.scalars[st.MAX_TS], clock.scalars[st.NOW] = last.clock, last.emit_time
        n_out = turns(clock, m, True, held, joined, out, kind, n_out)
    return n_out


@inner
def turns(
    clock: st.Clockwork,
    m: int,
    drain: bool,
    held: st.Buffers,
    joined: Words,
    out: OrderedTuples,
    kind: Words,
    n_out: int,
) -> int:
    """Alg. 3.1 emits tuples; the slots they leave free, in this order, show which of them have been joined."""
    free, first = clock.scalars[st.FREE], n_out
    n_out = synchronize(clock, m, drain, held, out, n_out)
    for k in range(n_out - first):
        slot = held.free[free + k]
        kind[first + k] = LEAVES if joined[slot] == 1 else BOTH
        joined[slot] = 0
    return n_out


@in_place
def probe_waiting(clock: st.Clockwork, held: st.Buffers, joined: Words, out: OrderedTuples, kind: Words) -> int:
    """Everything held that has not been joined enters; returns how many events there are."""
    n_out = 0
    for h in range(len(held.sizes)):
        for at in range(held.sizes[h]):
            slot = held.slot[h, at]
            if joined[slot] == 0:
                joined[slot] = 1
                for r in range(held.pool.shape[0]):
                    out.words[r, n_out] = held.pool[r, slot]
                out.stream[n_out], out.delay[n_out] = held.stream[slot], held.delay[slot]
                out.watermark_at_arrival[n_out], out.clock[n_out] = (
                    clock.scalars[st.WATERMARK],
                    clock.scalars[st.MAX_TS],
                )
                out.emit_time[n_out] = clock.scalars[st.NOW]
                kind[n_out] = ENTERS
                n_out += 1
    return n_out
