"""The algorithms of the W-join report, slow and obvious: lists, recursion, and a count of every comparison.

Invariant: shares no code with the kernels. A test for removal and a test of the join predicate are one comparison
each, a test whether a tuple is inside a period is two, and refining a combination is one for every pair of streams.

References: 002 §3.1 (Fig. 2, 3, 5), §3.1.2, §3.2 (Fig. 6), §4.3; §5.1 and §5.2.1 where windows differ.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field

from slackwater.core.schema import NULL_WORD
from slackwater.core.time import Bounds
from slackwater.core.window_graph import Matrix, WindowGraph
from slackwater.expressions.tree import Column, streams_of, walk
from slackwater.published.wjoin.spec import WJoin
from slackwater.published.wjoin.steps import key_of_all
from tests.kit.evaluate import evaluate
from tests.kit.oracle_join import Result
from tests.kit.oracle_release import NEVER, Released, Tuple
from tests.kit.oracle_tree import closed
from tests.kit.words import decode

Bound = dict[int, Tuple]
_64_BITS = 2**64 - 1


def spread(word: int) -> int:
    """The finalizer of splitmix64, in plain integers.

    >>> hex(spread(0))
    '0xe220a8397b1dcdaf'
    """
    z = (word + 0x9E3779B97F4A7C15) & _64_BITS
    z = ((z ^ (z >> 30)) * 0xBF58476D1CE4E5B9) & _64_BITS
    z = ((z ^ (z >> 27)) * 0x94D049BB133111EB) & _64_BITS
    return z ^ (z >> 31)


def _alternatives(spec: WJoin) -> list[tuple[Bounds, Matrix]]:
    graph = spec.graph or WindowGraph.of_windows(spec.windows)
    return list(zip(graph.alternatives, graph.closed, strict=True))


def stated_windows(streams: int, stated: Bounds, closed: Matrix) -> dict[tuple[int, int], int]:
    """How much newer i may be than j: as stated, or where nothing is, by the shortest way.

    >>> from slackwater.core.time import within
    >>> graph = WindowGraph(3, ((*within(0, 1, 1), *within(1, 2, 2), *within(0, 2, 9)),))
    >>> stated_windows(3, graph.alternatives[0], graph.closed[0])[0, 2]
    9
    """
    windows = {(i, j): closed[i][j] for i in range(streams) for j in range(streams) if i != j}
    for i, j in windows:
        said = [bound.most for bound in stated if (bound.newer, bound.older) == (i, j)]
        windows[i, j] = min(said, default=windows[i, j])
    return windows


@dataclass
class SlowWJoin:
    """One of the report's joins; give it runs as the operator gets them."""

    spec: WJoin
    results: list[Result] = field(default_factory=list)
    comparisons: int = 0

    def __post_init__(self) -> None:
        self.streams = self.spec.streams
        self.directions = [stated_windows(self.streams, *both) for both in _alternatives(self.spec)]
        self.legs = [{(bound.newer, bound.older) for bound in stated} for stated, _ in _alternatives(self.spec)]
        widest = {pair: max(windows[pair] for windows in self.directions) for pair in self.directions[0]}
        self.one_window = {size for windows in self.directions for size in windows.values()} == {max(widest.values())}
        self.pairwise = self.spec.approach == "pairwise"
        if self.spec.approach == "gca":
            widest = dict.fromkeys(widest, max(widest.values()))
        self.earlier = [max(widest[i, j] for i in range(self.streams) if i != j) for j in range(self.streams)]
        self.later = [max(widest[j, i] for i in range(self.streams) if i != j) for j in range(self.streams)]
        self.hashed = self.spec.algorithm in ("hash", "xjoin")
        self.buckets = self.spec.buckets if self.hashed else 1
        self.buffers: list[list[list[Tuple]]] = [[[] for _ in range(self.buckets)] for _ in range(self.streams)]
        self.vector = [NEVER] * self.streams
        self.probed = [[NEVER] * self.buckets for _ in range(self.streams)]
        self.hand = self.since_cleaning = 0
        self.agreeing = closed(self.spec)

    def take(self, run: Sequence[Released], watermark: int) -> None:
        """A run, after which nothing in time is older than the watermark."""
        for step in run:
            e, s = step.tuple, step.tuple.stream
            if e.ts < step.met - self.earlier[s]:
                continue
            self.vector[s] = max(self.vector[s], e.ts)
            if not step.late:
                if self.spec.algorithm == "merge":
                    self.mode_1_then_2(e)
                else:
                    self.all_directions(e)
            buffer = self.buffers[s][self.bucket(e)]
            buffer.append(e)
            buffer.sort(key=lambda tuple_: tuple_.ts)
            self.clean_up(e.ts)
        self.vector = [max(latest, watermark) for latest in self.vector]

    def bucket(self, e: Tuple) -> int:
        if not self.hashed:
            return 0
        keys = key_of_all(self.streams, self.spec.equalities)
        assert keys is not None
        return spread(e.words[keys[e.stream]]) % self.buckets

    def all_directions(self, new: Tuple) -> None:
        """Pairwise, a join for every direction; otherwise one."""
        for direction in range(len(self.directions) if self.pairwise else 1):
            self.go_through(new, {new.stream: new}, direction)

    def go_through(self, new: Tuple, bound: Bound, direction: int) -> None:
        """The loop of Fig. 5 over the next stream, for the tuples bound so far."""
        if len(bound) == self.streams:
            if self.refined(bound, direction):
                members = tuple(bound[s].row for s in range(self.streams))
                self.results.append((max(e.ts for e in bound.values()), members))
            return
        waiting = [(new.stream + n) % self.streams for n in range(self.streams)]
        waiting = [s for s in waiting if s not in bound]
        if self.pairwise:
            legs = self.legs[direction]
            j, beside = next((s, b) for s in waiting for b in bound if (s, b) in legs or (b, s) in legs)
            # What is not stated of the two follows from the others.
            windows = self.directions[direction]
            begin, end = bound[beside].ts - windows[beside, j], bound[beside].ts + windows[j, beside]
        else:
            j = waiting[0]
            begin = max(e.ts for e in bound.values()) - self.earlier[j]
            end = min(e.ts for e in bound.values()) + self.later[j]
        bucket = self.bucket(new)
        self.probed[j][bucket] = max(self.probed[j][bucket], new.ts)
        removes = self.spec.algorithm in ("nested_loop", "hash")
        for t in list(self.buffers[j][bucket]):
            if removes and self.is_out(t):
                self.buffers[j][bucket].remove(t)
                continue
            if self.spec.algorithm != "merge":
                self.comparisons += 2
                if not begin <= t.ts <= end:
                    continue
            self.comparisons += 1
            if self.predicate(bound | {j: t}):
                self.go_through(new, bound | {j: t}, direction)

    def refined(self, bound: Bound, direction: int) -> bool:
        """All pairs of the combination, in a direction that allows it; pairwise, in none that has had its turn."""
        if self.one_window and not self.pairwise:
            return True
        for windows in self.directions[:direction] if self.pairwise else self.directions:
            self.comparisons += self.streams * (self.streams - 1) // 2
            if all(bound[i].ts - bound[j].ts <= most for (i, j), most in windows.items()):
                return not self.pairwise
        return self.pairwise

    def is_out(self, t: Tuple) -> bool:
        self.comparisons += 1
        return all(t.ts < latest - self.earlier[t.stream] for s, latest in enumerate(self.vector) if s != t.stream)

    def predicate(self, bound: Bound) -> bool:
        for equality in self.agreeing.equalities:
            if equality.left in bound and equality.right in bound:
                left = bound[equality.left].words[equality.left_row]
                if left != bound[equality.right].words[equality.right_row] or left == NULL_WORD:
                    return False
        place = {(stream, name): row for stream, name, row in self.spec.columns}
        for condition in self.spec.conditions:
            if streams_of(condition) <= set(bound):
                rows: list[dict[str, object]] = [{} for _ in range(self.streams)]
                for node in walk(condition):
                    if isinstance(node, Column):
                        word = bound[node.stream].words[place[node.stream, node.name]]
                        rows[node.stream][node.name] = decode(word, node.kind)
                if evaluate(condition, rows) is not True:
                    return False
        return True

    def mode_1_then_2(self, new: Tuple) -> None:
        """Drop what the sweep has passed; with a tuple left of every other stream, join without asking for windows."""
        for s, buffer in enumerate(buckets[0] for buckets in self.buffers):
            while buffer:
                self.comparisons += 1
                if buffer[0].ts >= new.ts - self.earlier[s]:
                    break
                buffer.pop(0)
        if all(self.buffers[s][0] for s in range(self.streams) if s != new.stream):
            self.all_directions(new)

    def clean_up(self, now: int) -> None:
        if self.spec.algorithm == "hash":
            s, bucket = self.hand % self.streams, self.hand // self.streams
            self.hand = (self.hand + 1) % (self.streams * self.buckets)
            if self.probed[s][bucket] < now - self.earlier[s]:
                self.drop_old(self.buffers[s][bucket])
        elif self.spec.algorithm in ("ripple", "xjoin"):
            self.since_cleaning += 1
            if self.since_cleaning >= self.spec.clean_every:
                self.since_cleaning = 0
                for buckets in self.buffers:
                    for buffer in buckets:
                        self.drop_old(buffer)

    def drop_old(self, buffer: list[Tuple]) -> None:
        while buffer and self.is_out(buffer[0]):
            buffer.pop(0)
