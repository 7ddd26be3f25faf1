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
from slackwater.disorder.ordered_batch import OrderedBatch
from slackwater.disorder.release import state as st
from slackwater.disorder.release.release import Release, ReleaseSpec
from slackwater.disorder.release.stage_state import StageState
from slackwater.disorder.release.synchronizing import Last, hold_for_watermarks, synchronize_each
from slackwater.disorder.release.watermarks import are_watermarks, as_streams, watermarks_of

ALONG = [st.T_SYNC, st.WATERMARK, st.SEQUENCE, st.MAX_TS, st.NOW]


@dataclass(frozen=True)
class Inflow:
    """What reaches a node, in order of arrival; `sequence` numbers it for the whole query.

    Some are watermark events (`watermarks`).
    """

    stream: Words
    words: Words
    delay: Words
    clock: Words
    emit_time: Words
    sequence: Words
    last: Last

    def as_input(self, number: int) -> Inflow:
        """The same, which comes from one node below, as input `number` of the node above."""
        return replace(self, stream=as_streams(self.stream, number))

    def take(self, index: Words) -> Inflow:
        """Those at these positions, in this order."""
        return Inflow(
            self.stream[index], self.words[:, index], self.delay[index], self.clock[index], self.emit_time[index],
            self.sequence[index], self.last,
        )  # fmt: skip


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
    >>> came = Inflow(stream, np.stack([ts, none]), none, ts, none, np.arange(4), Last(4, 9, 0, False))
    >>> synchronized = node.take(came)
    >>> synchronized.run.ts.tolist(), synchronized.sequence.tolist(), synchronized.progress.words.tolist()
    ([1, 3, 4], [1, 3, 3], [[1, 4]])
    """

    def take(self, came: Inflow) -> Synchronized:
        state, count = self.state, len(came.stream)
        state.reserve(count)
        out = st.output_buffer(self.held + count, self.spec.rows)
        drain, reached = np.empty((2, count), np.int64)
        new = st.Incoming(came.stream, np.ascontiguousarray(came.words), came.delay, came.clock, came.emit_time)
        loop = synchronize_each if self.spec.discipline == "tuple" else hold_for_watermarks
        before = int(state.clock.scalars[st.WATERMARK])
        n = loop(new, came.last, state.clock, state.buffers, out, drain, reached)
        state.ended = state.ended or came.last.ending
        each = np.diff(drain, prepend=0)
        sequence = np.append(np.repeat(came.sequence, each), np.full(n - int(each.sum()), came.last.sequence))
        tells = np.diff(reached, prepend=before) != 0
        if self.spec.discipline == "epoch":
            # Also if nothing has moved: tuples at the watermark are held until an event says that the epoch ends.
            tells |= are_watermarks(came.stream)
        moved = np.flatnonzero(tells)
        return Synchronized(state.run(out, n, came.last.ending), sequence, promised_watermark(came, moved, reached))


def merged(first: Inflow, second: Inflow) -> Inflow:
    """Both by their places; what the first has at a place comes before what the second has there."""
    stream = np.concatenate([first.stream, second.stream])
    rows = max(first.words.shape[0], second.words.shape[0])
    both = Inflow(
        stream,
        np.concatenate([with_rows(first.words, rows), with_rows(second.words, rows)], axis=1),
        np.concatenate([first.delay, second.delay]),
        np.concatenate([first.clock, second.clock]),
        np.concatenate([first.emit_time, second.emit_time]),
        np.concatenate([first.sequence, second.sequence]),
        second.last,
    )
    return both.take(np.argsort(both.sequence, kind="stable"))


def promised_watermark(came: Inflow, moved: Words, reached: Words) -> Inflow:
    """The watermark as events, at these places."""
    nothing = np.zeros(len(moved), np.int64)
    return Inflow(
        watermarks_of(nothing), reached[np.newaxis, moved], nothing, came.clock[moved], came.emit_time[moved],
        came.sequence[moved], came.last,
    )  # fmt: skip


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
