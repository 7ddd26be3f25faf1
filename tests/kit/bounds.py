"""How many tuples a pipeline may hold: the bound of law 5, counted on the trace itself.

Invariant: the bound grows with slack, skew, windows and epoch only, never with the length of the trace:

- disorder stage: tuples after the watermark (slack and skew);
- join: tuples at or after `watermark - window` when an epoch begins, and those of the epoch. Space is doubled when it
  is used up and expired tuples are dropped only then, so up to four times as many may stand in a window, and never
  fewer than the room it began with;
- a window that counts n tuples: n, the tuples at or after the watermark when an epoch begins, and room as above; where
  n follows the rate, it is at most what a sample of so many tuples within one instant would ask for;
- outer, semi and anti join: that of the join that makes the pairs;
- tree of joins: the same for every node, where what a node reads from below is at most all combinations of tuples near
  enough to each other;
- union: nothing;
- other operators of one stream: as their oracle says;
- aggregate: tuples after `watermark - range - slide` (a partial each at most, and a value each where values are kept);
  where a window counts tuples, as many as it has and slides by, and those at or after the watermark;
  landmark windows: a partial for each group, and tuples at or after the watermark;
- aggregate that corrects: the same as if the watermark were as far behind, and a row for each window of a partial, up
  to twice as many;
- DSTREAM and RSTREAM: also the results in force, at most all combinations of tuples near enough to each other, or the
  rows of two windows.
"""

from __future__ import annotations

import math
from bisect import bisect_left, bisect_right, insort
from functools import partial
from typing import Any

from slackwater.core.batch import Batch
from slackwater.operators.aggregate.changing import Changing
from slackwater.operators.aggregate.count_windows import LandmarkAggregate, RowAggregate
from slackwater.operators.aggregate.operator import WindowAggregate
from slackwater.operators.join.absence import OuterJoin
from slackwater.operators.join.operator import WindowJoin
from slackwater.operators.join.rate_windows import RateWindows
from slackwater.operators.join.tree import JoinTree
from slackwater.operators.relation_to_stream import RelationToStream
from slackwater.operators.union import StreamUnion
from tests.kit.oracles import ORACLES

FIRST_CAPACITY = 256
GROWTH = 4


class Bound:
    """Follows a trace, and says after each epoch what may be retained and held."""

    def __init__(self, spec: WindowAggregate | WindowJoin | JoinTree | StreamUnion | RelationToStream) -> None:
        self._spec: Any = spec.made_by if isinstance(spec, RelationToStream | OuterJoin) else spec
        self._out = isinstance(spec, RelationToStream)
        self._ts: list[list[int]] = [[] for _ in range(spec.streams)]
        self._peak = [0] * spec.streams
        self._combined = [0] * spec.streams
        self._groups: set[tuple[int, ...]] = set()

    def after(self, epoch: Batch, watermark_before: int) -> int:
        """What the operator may retain after this epoch, results in force included where they are held."""
        kept = self._kept_after(epoch, watermark_before)
        spec = self._spec
        if not self._out or isinstance(spec, StreamUnion):
            return kept
        if isinstance(spec, WindowAggregate):
            return kept + 2 * self._since(0, watermark_before - spec.range - 2 * spec.grid.slide)
        return kept + self._combinations(spec, spec.streams, watermark_before)

    def _kept_after(self, epoch: Batch, watermark_before: int) -> int:
        for stream, ts in zip(epoch.stream.tolist(), epoch.ts.tolist(), strict=True):
            insort(self._ts[stream], ts)
        spec = self._spec
        if isinstance(spec, StreamUnion):
            return 0
        if isinstance(spec, Changing):
            made_by, behind = spec.made_by, watermark_before - spec.reaches
            values = 2 if any(aggregate.holistic for aggregate in made_by.aggregates) else 1
            windows = made_by.range // made_by.grid.slide + 1
            since = self._since(0, behind - made_by.range - made_by.grid.slide - 1)
            return (2 * values + 2 * windows) * since + FIRST_CAPACITY
        if type(spec) in ORACLES:
            return ORACLES[type(spec)].state_bound(spec, partial(self._since, 0), watermark_before)
        if isinstance(spec, WindowAggregate):
            slide = spec.slide or spec.range
            holistic = any(aggregate.holistic for aggregate in spec.aggregates)
            if isinstance(spec, LandmarkAggregate):
                self._groups.update(map(tuple, epoch.words[list(spec.keys)].T.tolist()))
                return len(self._groups) + self._since(0, watermark_before)
            if isinstance(spec, RowAggregate):
                return (2 if holistic else 1) * (spec.range + slide + self._since(0, watermark_before))
            return (2 if holistic else 1) * self._since(0, watermark_before - spec.range - slide)
        policy = getattr(spec, "policy", None)
        last = getattr(policy, "last", (0,) * spec.streams)
        if isinstance(policy, RateWindows):
            last = tuple(max(last[i], self._most_asked(policy, i)) for i in range(spec.streams))
        for stream, window in enumerate(spec.windows):
            kept = watermark_before if last[stream] else watermark_before - window
            self._peak[stream] = max(self._peak[stream], last[stream] + self._since(stream, kept))
        raw = sum(max(FIRST_CAPACITY, GROWTH * peak) for peak in self._peak)
        if not isinstance(spec, JoinTree):
            return raw
        for n in range(2, spec.streams):
            self._combined[n] = max(self._combined[n], self._combinations(spec, n, watermark_before))
        return raw + sum(max(FIRST_CAPACITY, GROWTH * combined) for combined in self._combined[2:])

    def _most_asked(self, windows: RateWindows, stream: int) -> int:
        """The most tuples of a stream that one sample may hold, as if they were all of one instant."""
        sample = max(windows.intervals)
        most = max((self._between(stream, ts, ts + sample) for ts in self._ts[stream]), default=0)
        return most * windows.intervals[stream]

    def _combinations(self, spec: JoinTree | WindowJoin, n: int, watermark: int) -> int:
        """At most so many combinations of the first n streams are at or after the horizon of their window."""
        horizon = watermark - max(spec.windows[:n])
        total = 0
        for newest in range(n):
            for ts in self._ts[newest][bisect_left(self._ts[newest], horizon) :]:
                others = [self._between(i, ts - spec.windows[i], ts) for i in range(n) if i != newest]
                total += math.prod(others)
        return total

    def held(self, watermark: int) -> int:
        """What slack buffers and synchronizer may hold once the watermark stands there."""
        return sum(self._since(stream, watermark) for stream in range(len(self._ts)))

    def _between(self, stream: int, oldest: int, newest: int) -> int:
        return bisect_right(self._ts[stream], newest) - bisect_left(self._ts[stream], oldest)

    def _since(self, stream: int, ts: int) -> int:
        return len(self._ts[stream]) - bisect_left(self._ts[stream], ts)
