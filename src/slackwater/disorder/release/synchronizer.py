"""A synchronizer: behind the slack buffers, in front of one node.

A release that synchronizes its streams itself is faster than two stages. A strategy that needs tuples as they leave
their slack needs the synchronizer as a stage of its own: `separate` takes it out of a release, `unite` puts it back.

Invariant: what it is given leaves in exactly one run; tuples in time leave in event-time order. It asks no controller:
K is applied in front of it, once for all nodes of a query. When the way of releasing changes, every held tuple is in
exactly one place, before and after; T-sync and the watermark move with it. For tuple release only: there heaps 0 to m-1
are slack buffers, and m to 2m-1 the synchronizer's.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Sequence
from dataclasses import dataclass, replace

import numpy as np

from slackwater.core.batch import Words
from slackwater.core.state import StateUpdate
from slackwater.core.time import BEFORE_ALL
from slackwater.disorder.ordered_batch import OrderedBatch, OrderedTuples, together
from slackwater.disorder.release import state as st
from slackwater.disorder.release.release import Release, ReleaseSpec
from slackwater.disorder.release.stage_state import StageState
from slackwater.disorder.release.synchronizing import Last, hold_for_watermarks, synchronize_each
from slackwater.disorder.release.watermarks import are_watermarks, as_streams, watermarks_of

ALONG = [st.T_SYNC, st.WATERMARK, st.SEQUENCE, st.MAX_TS, st.NOW]


@dataclass(frozen=True)
class Inflow:
    """What reaches a node from slack buffers and from nodes below, in order of arrival. What watermark the tuples meet
    is for the node to say.

    Some are watermark events (`watermarks`): their stream will bring nothing older than this event time.
    """

    tuples: OrderedTuples
    sequence: Words
    """The number of each for the whole query."""
    last: Last

    def __len__(self) -> int:
        return len(self.sequence)

    def as_input(self, number: int) -> Inflow:
        """The same, which comes from one node below, as input `number` of the node above."""
        return replace(self, tuples=self.tuples._replace(stream=as_streams(self.tuples.stream, number)))

    def with_rows(self, rows: int) -> Inflow:
        """The same with as many rows."""
        return replace(self, tuples=self.tuples._replace(words=with_rows(self.tuples.words, rows)))


@dataclass(frozen=True)
class Synchronized:
    """A run, and what the node above needs to know about it."""

    run: OrderedBatch
    sequence: Words
    """The sequence number of the arrival that caused each tuple of the run."""
    progress: Inflow
    """Watermarks of the node's own output: where the watermark moved to, or in epochs stayed."""


class NodeSynchronizer(ABC):
    """In front of a node: holds its inputs until they may be processed."""

    def __init__(self, spec: ReleaseSpec, marks: Sequence[str] = ()) -> None:
        self.spec = spec
        self.state = StageState(spec.streams, spec.rows, spec.heaps, spec.ends_with_calls, marks=marks)

    @abstractmethod
    def take(self, came: Inflow) -> Synchronized:
        """Emit what may be processed now; everything, where the input is ending."""

    @property
    def held(self) -> int:
        """Tuples that are held here."""
        return self.state.waiting

    def held_of(self, streams: Words) -> int:
        """Tuples of these inputs that are held."""
        return self.state.waiting_of(streams)

    def held_tuples(self, streams: Words) -> tuple[Words, Words]:
        """Those tuples themselves: their inputs, and their words."""
        return self.state.tuples_of(streams)

    def held_times(self) -> Words:
        """The event times of what is held, in no order."""
        return self.state.times()

    @property
    def watermark(self) -> int:
        return self.state.watermark

    def snapshot_delta(self) -> list[StateUpdate]:
        """What to persist since the last call."""
        return self.state.snapshot_delta({})

    def restore(self, entries: list[StateUpdate]) -> None:
        """Take over persisted state."""
        self.state.restore(entries)

    def hold_again(self, saved: dict[str, Words]) -> None:
        """Hold these tuples, and nothing else."""
        self.state.fill(saved)


class Synchronizer(NodeSynchronizer):
    """Brings the inputs of one node into event-time order.

    >>> node = Synchronizer(ReleaseSpec(streams=2, rows=2, discipline="tuple"))
    >>> stream, ts = np.append([0, 1, 0], watermarks_of(np.array([1]))), np.array([3, 1, 4, 9])
    >>> none = np.zeros(4, np.int64)
    >>> tuples = OrderedTuples(np.stack([ts, none]), stream, none, ts, none, none)
    >>> synchronized = node.take(Inflow(tuples, np.arange(4), Last(4, 9, 0, False)))
    >>> synchronized.run.ts.tolist(), synchronized.sequence.tolist(), synchronized.progress.tuples.words.tolist()
    ([1, 3, 4], [1, 3, 3], [[1, 4]])
    """

    def take(self, came: Inflow) -> Synchronized:
        state, count = self.state, len(came)
        state.reserve(count)
        out = st.output_buffer(self.held + count, self.spec.rows)
        drain, reached = np.empty((2, count), np.int64)
        loop = synchronize_each if self.spec.discipline == "tuple" else hold_for_watermarks
        before = int(state.clock.scalars[st.WATERMARK])
        n = loop(came.tuples.contiguous(), came.last, state.clock, state.buffers, out, drain, reached)
        state.ended = state.ended or came.last.ending
        each = np.diff(drain, prepend=0)
        sequence = np.append(np.repeat(came.sequence, each), np.full(n - int(each.sum()), came.last.sequence))
        tells = np.diff(reached, prepend=before) != 0
        if self.spec.discipline == "epoch":
            # Also if nothing has moved: tuples at the watermark are held until an event says that the epoch ends.
            tells |= are_watermarks(came.tuples.stream)
        moved = np.flatnonzero(tells)
        return Synchronized(state.run(out, n, came.last.ending), sequence, promised_watermark(came, moved, reached))


def merged(first: Inflow, second: Inflow) -> Inflow:
    """Both by their places; what the first has at a place comes before what the second has there."""
    rows = max(one.tuples.words.shape[0] for one in (first, second))
    tuples = together([one.with_rows(rows).tuples for one in (first, second)])
    sequence = np.concatenate([first.sequence, second.sequence])
    order = np.argsort(sequence, kind="stable")
    return Inflow(tuples.take(order), sequence[order], second.last)


def promised_watermark(came: Inflow, moved: Words, reached: Words) -> Inflow:
    """The watermark as events, at these places."""
    nothing, tuples = np.zeros(len(moved), np.int64), came.tuples
    events = OrderedTuples(
        reached[np.newaxis, moved], watermarks_of(nothing), nothing, tuples.clock[moved], tuples.emit_time[moved],
        nothing,
    )  # fmt: skip
    return Inflow(events, came.sequence[moved], came.last)


def with_rows(words: Words, rows: int) -> Words:
    """The same tuples with as many rows; what is new is 0."""
    missing = rows - words.shape[0]
    return words if missing == 0 else np.vstack([words, np.zeros((missing, words.shape[1]), np.int64)])


def separate(release: Release, synchronizer: NodeSynchronizer) -> None:
    """From now on the release only applies slack, and the synchronizer goes on with its state."""
    held = release.state.columns()
    behind = held["heap"] >= release.spec.streams
    synchronizer.hold_again({name: column[behind] for name, column in held.items()})
    release.state.fill({name: column[~behind] for name, column in held.items()})
    clock = synchronizer.state.clock
    clock.scalars[ALONG] = release.state.clock.scalars[ALONG]
    clock.promised_watermark[:] = BEFORE_ALL
    release.spec = replace(release.spec, external_sync=True)


def unite(release: Release, synchronizer: NodeSynchronizer) -> None:
    """From now on the release synchronizes its streams itself."""
    held, waiting = release.state.columns(), synchronizer.state.columns()
    release.state.fill({name: np.concatenate([held[name], waiting[name]]) for name in held})
    synchronizer.hold_again({name: column[:0] for name, column in waiting.items()})
    clock = release.state.clock
    clock.scalars[ALONG] = np.maximum(synchronizer.state.clock.scalars[ALONG], clock.scalars[ALONG])
    # Only an idle stream has sent a watermark, and the release knows for itself which ones are idle.
    clock.promised_watermark[:] = BEFORE_ALL
    release.spec = replace(release.spec, external_sync=False)
