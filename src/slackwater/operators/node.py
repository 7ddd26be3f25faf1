"""A node: a synchronizer and the operator behind it, fed by raw inputs and by nodes below.

Invariant: what an operator makes is in order, and its node tells by watermarks how far it has come; so the node above
never finds a tuple from below late, but for corrections: these come as they are made, and are late above where its
watermark has passed them. A raw tuple meets its fate, in time or late, at the one node it is an input of.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import replace

import numpy as np

from slackwater.core.batch import TS, Words
from slackwater.core.state import StateUpdate, by_part, under
from slackwater.disorder.ordered_batch import OrderedBatch, OrderedTuples, together
from slackwater.disorder.release.release import ReleaseSpec
from slackwater.disorder.release.synchronizer import (
    Inflow,
    NodeSynchronizer,
    Synchronized,
    Synchronizer,
    merged,
)
from slackwater.disorder.release.synchronizing import Last
from slackwater.disorder.release.watermarks import as_streams, streams_of
from slackwater.operators.contract import Operator
from slackwater.operators.inputs import BELOW
from slackwater.operators.output import Output, joined
from slackwater.operators.projection import ProjectionMaker
from slackwater.operators.stages import Tells


class Node:
    """`inputs` are the raw streams that this node reads, BELOW in the place of one where it reads from a node.

    Without an outlet, what goes up has its event time in row TS, nothing in row ROW, and the operator's columns from
    FIRST_COLUMN on.
    """

    def __init__(
        self,
        operator: Operator,
        inputs: tuple[int, ...],
        rows: int,
        raw: ReleaseSpec,
        outlet: ProjectionMaker | None = None,
    ) -> None:
        """`raw` says how tuples of raw streams are released in front of all nodes."""
        self.operator, self._outlet = operator, outlet
        spec = replace(raw, streams=len(inputs), rows=rows, external_sync=False, partition_slots=())
        self.synchronizer: NodeSynchronizer = self._synchronizer_of(spec)
        self._inputs, self._rows, self._raw_rows = np.array(inputs, np.int64), rows, raw.rows

    def _synchronizer_of(self, spec: ReleaseSpec) -> NodeSynchronizer:
        """What holds the inputs of this node."""
        return Synchronizer(spec)

    def admit(self, run: OrderedBatch, begin: int, end: int, below: Iterable[Inflow]) -> Synchronized:
        """Take a piece of a run whose streams are apart, and what nodes below have made of the same piece, each as the
        input it is to this node."""
        stream = run.stream[begin:end]
        mine = np.isin(streams_of(stream), self._inputs)
        index = begin + np.flatnonzero(mine)
        last = Last(end, run.max_ts, run.now, run.ended and end == len(run))
        tuples = run.tuples.take(index)
        came = Inflow(tuples._replace(stream=self._numbered(tuples.stream)), index, last)
        for made in below:
            came = merged(made, came)
        return self.synchronizer.take(came.with_rows(self._rows))

    def _numbered(self, stream: Words) -> Words:
        """Raw streams, and watermarks of them, as inputs of this node."""
        number = np.argsort(self._inputs)
        known = np.searchsorted(self._inputs[number], streams_of(stream))
        return as_streams(stream, number[known])

    def raw_part(self, run: OrderedBatch) -> OrderedBatch:
        """The raw tuples among those of a run of this node, with their own stream numbers and rows."""
        raw = self._inputs[run.stream]
        mine = np.flatnonzero(raw != BELOW)
        tuples = run.tuples._replace(words=run.words[: self._raw_rows], stream=raw).take(mine)
        return replace(run, tuples=tuples)

    def made_of(self, synchronized: Synchronized) -> Inflow:
        """Have the operator process a run; what it makes, and how far it has come, for a node above."""
        run = synchronized.run
        made = list(self.operator.process(run, True))
        if not made:
            return synchronized.progress
        parts = [[one for one in made if one.amends == amends] for amends in (False, True)]
        made_here = [self._results(synchronized, joined(part)) for part in parts if part]
        results = made_here[0] if len(made_here) == 1 else merged(*made_here)
        return merged(results, synchronized.progress)

    def _results(self, synchronized: Synchronized, output: Output) -> Inflow:
        """Results of a run as tuples for the node above."""
        run = synchronized.run
        sequence, clock, emit_time = emit_position(synchronized, output)
        delay = np.append(run.delay, 0)[output.by]
        # A window ends before its end; so a row of it belongs to the window above in which all of it lies. The end of a
        # session is a part of it.
        ts = output.ts - 1 if output.at_watermark and not output.inclusive else output.ts
        if self._outlet is None:
            words, kept = np.vstack([ts, np.zeros(len(ts), np.int64), *output.columns]), np.arange(len(ts))
        else:
            words, kept = self._outlet.take(ts, list(output.columns))
        number = np.zeros(words.shape[1], np.int64)
        tuples = OrderedTuples(words, number, number, clock[kept], emit_time[kept], delay[kept])
        return Inflow(tuples, sequence[kept], synchronized.progress.last)

    @property
    def inputs(self) -> tuple[int, ...]:
        return tuple(self._inputs.tolist())

    def held(self, tells: Tells | None = None) -> int:
        """Raw tuples that wait here; those alone that somebody tells of."""
        raw = np.flatnonzero(self._inputs != BELOW)
        if tells is None:
            return self.synchronizer.held_of(raw)
        streams, words = self.synchronizer.held_tuples(raw)
        return int(np.count_nonzero(tells(self._inputs[streams], words[: self._raw_rows])))

    def snapshot_delta(self) -> Iterator[StateUpdate]:
        """What to persist since the last call."""
        yield from (replace(entry, namespace="release") for entry in self.synchronizer.snapshot_delta())
        yield from under("operator", self.operator.snapshot_delta())

    def restore(self, entries: list[StateUpdate]) -> None:
        """Take over persisted state."""
        parts = by_part(entries)
        self.synchronizer.restore(parts["release"])
        self.operator.restore(parts["operator"])


def emit_position(synchronized: Synchronized, output: Output) -> tuple[Words, Words, Words]:
    """Of every result of a run: the place of the tuple that caused it, the largest clock, the time of emission."""
    run, progress = synchronized.run, synchronized.progress
    last, known = progress.last, progress.tuples
    told = ((progress.sequence, last.sequence), (known.clock, last.clock), (known.emit_time, last.emit_time))
    by_watermark = [np.append(moved, at_the_end) for moved, at_the_end in told]
    if output.at_watermark:
        at = np.searchsorted(known.words[TS], output.ts, "right" if output.inclusive else "left")
        sequence, clock, emit_time = (each[at] for each in by_watermark)
        return sequence, clock, emit_time
    told = ((synchronized.sequence, last.sequence), (run.clock, run.max_ts), (run.emit_time, run.now))
    sequence, clock, emit_time = (np.append(each, at_the_end)[output.by] for each, at_the_end in told)
    if output.by_at_latest:
        at = np.searchsorted(known.words[TS], output.ts, "right")
        passed = by_watermark[0][at] < sequence
        sequence, clock, emit_time = (
            np.where(passed, each[at], own)
            for each, own in zip(by_watermark, (sequence, clock, emit_time), strict=True)
        )
    return sequence, clock, emit_time


def as_one_run(runs: list[OrderedBatch]) -> OrderedBatch:
    """The tuples of several runs as one; where time stands is told by the last."""
    return replace(runs[-1], tuples=together([run.tuples for run in runs]))
