"""Release, slow and obvious: the published pseudo-code line by line, with Python lists and `heapq`.

Invariant: shares no code with the release kernels. What comes out is a sequence of tuples in processing order, each
with the watermark it met; a tuple is late iff its event time lies before that watermark.

References: 003 §III-A (K-slack), Alg. 1; semantics.md (epoch release).
"""

from __future__ import annotations

import heapq
from collections.abc import Sequence
from dataclasses import dataclass

from slackwater.core.batch import Batch

NEVER = -(2**70)
"""Earlier than any event time."""


@dataclass(frozen=True)
class Tuple:
    """One arrival as a value."""

    stream: int
    ts: int
    words: tuple[int, ...]
    passes: bool = True

    @property
    def row(self) -> int:
        """The tuple's identity."""
        return self.words[1]


@dataclass(frozen=True)
class Released:
    """A tuple at the operator's door: the watermark it met, and the largest stream clock at that moment."""

    tuple: Tuple
    met: int
    clock: int

    @property
    def late(self) -> bool:
        return self.tuple.ts < self.met


@dataclass
class SlackRule:
    """How K is chosen: fixed, or (with `follows`) never less than the largest delay seen."""

    slack: int
    follows: bool = False

    def saw(self, delay: int) -> None:
        """A tuple that passes its filter came with this delay."""
        if self.follows:
            self.slack = max(self.slack, delay)


def tuples_of(batch: Batch) -> list[Tuple]:
    """The tuples of a batch, in arrival order.

    >>> tuples_of(Batch.of([(1, 5, 8)]))[0].words
    (5, 0, 8)
    """
    columns = batch.words.T.tolist()
    return [
        Tuple(stream, words[0], tuple(words), passes)
        for stream, words, passes in zip(batch.stream.tolist(), columns, batch.passes.tolist(), strict=True)
    ]


def oracle_tuple_release(
    batch: Batch, streams: int, rule: SlackRule, stages: TupleStages | None = None
) -> list[Released]:
    """K-slack per stream, then the synchronizer of Alg. 1, then T-join of Alg. 2; everything is emitted at the end.

    `stages` are given by who wants to do more than note what is emitted.

    >>> arrivals = Batch.of([(0, t) for t in (1, 4, 3, 5, 7, 8, 6, 9)])
    >>> [r.tuple.ts for r in oracle_tuple_release(arrivals, 1, SlackRule(1))]
    [1, 3, 4, 5, 7, 6, 8, 9]
    """
    stages = TupleStages(streams) if stages is None else stages
    slack_buffers: list[list[tuple[int, int, Tuple]]] = [[] for _ in range(streams)]
    clocks = [NEVER] * streams
    for number, e in enumerate(tuples_of(batch)):
        stages.advance_clock(number)
        updated = e.ts > clocks[e.stream]
        clocks[e.stream] = max(clocks[e.stream], e.ts)
        stages.clock = max(clocks)
        if e.passes:
            rule.saw(clocks[e.stream] - e.ts)
            heapq.heappush(slack_buffers[e.stream], (e.ts, number, e))
        buffer = slack_buffers[e.stream]
        while updated and buffer and buffer[0][0] + rule.slack <= clocks[e.stream]:
            stages.synchronize(heapq.heappop(buffer)[2])
    for buffer in slack_buffers:
        for _, _, e in sorted(buffer, key=lambda entry: entry[:2]):
            stages.synchronize(e, ending=True)
    stages.drain()
    return stages.out


class TupleStages:
    """The synchronizer and T-join."""

    def __init__(self, streams: int) -> None:
        self.t_sync = self.t_join = self.clock = NEVER
        self.sync_buf: list[list[Tuple]] = [[] for _ in range(streams)]
        self.out: list[Released] = []

    def advance_clock(self, number: int) -> None:
        """Arrival `number` is about to come."""

    def synchronize(self, e: Tuple, ending: bool = False) -> None:
        """Alg. 1, lines 4-10. While the input is ending, all streams are first brought here, and nothing is emitted."""
        if e.ts > self.t_sync:
            self.sync_buf[e.stream].append(e)
            while all(self.sync_buf) and not ending:
                self.emit_smallest()
        else:
            self.emit(e)

    def emit_smallest(self) -> None:
        self.t_sync = min(e.ts for mine in self.sync_buf for e in mine)
        for mine in self.sync_buf:
            for e in [e for e in mine if e.ts == self.t_sync]:
                mine.remove(e)
                self.emit(e)

    def drain(self) -> None:
        while any(self.sync_buf):
            self.emit_smallest()

    def emit(self, e: Tuple) -> None:
        self.out.append(Released(e, self.t_join, self.clock))
        self.t_join = max(self.t_join, e.ts)


def oracle_epoch_release(batch: Batch, streams: int, cuts: Sequence[int], rule: SlackRule) -> list[Released]:
    """Epochs end at the positions in `cuts`; what lies behind the last one is taken in, and emitted at the end.

    >>> arrivals = Batch.of([(0, t) for t in (1, 4, 3, 5, 2)])
    >>> [(r.tuple.ts, r.late) for r in oracle_epoch_release(arrivals, 1, [2, 4], SlackRule(0))]
    [(1, False), (4, False), (3, True), (5, False), (2, True)]
    """
    clocks = [NEVER] * streams
    watermark = NEVER
    held: list[Tuple] = []
    out: list[Released] = []
    tuples = tuples_of(batch)
    for begin, end in zip([0, *cuts], [*cuts, len(tuples)], strict=True):
        before = list(clocks)
        for e in tuples[begin:end]:
            clocks[e.stream] = max(clocks[e.stream], e.ts)
            if not e.passes:
                continue
            rule.saw(before[e.stream] - e.ts)
            if e.ts < watermark:
                out.append(Released(e, watermark, max(clocks)))
            else:
                held.append(e)
        if end not in cuts:
            break
        met = watermark
        if NEVER not in clocks:
            watermark = max(watermark, min(clocks) - rule.slack)
        ready = [e for e in held if e.ts <= watermark]
        held = [e for e in held if e.ts > watermark]
        out += [Released(e, met, max(clocks)) for e in sorted(ready, key=lambda e: e.ts)]
    return out + [Released(e, watermark, max(clocks)) for e in sorted(held, key=lambda e: e.ts)]


def cuts_by_count(batch: Batch, tuples: int) -> list[int]:
    """Where epochs of so many tuples end."""
    return list(range(tuples, len(batch) + 1, tuples))


def cuts_by_span(batch: Batch, span: int) -> list[int]:
    """Where epochs end that last until the largest clock has come so far."""
    cuts: list[int] = []
    began = max_ts = None
    for position, ts in enumerate(batch.ts.tolist()):
        began = ts if began is None else began
        max_ts = ts if max_ts is None else max(max_ts, ts)
        if max_ts - began >= span:
            cuts.append(position + 1)
            began = max_ts
    return cuts
