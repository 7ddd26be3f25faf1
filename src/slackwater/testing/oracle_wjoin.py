"""The algorithms of the W-join report, slow and obvious: lists, recursion, and a count of every comparison.

Invariant: shares no code with the kernels. A test for removal and a test of the join predicate are one comparison
each, a test whether a tuple is inside a period is two.

References: 002 §3.1 (Fig. 2, 3, 5), §3.1.2, §3.2 (Fig. 6), §4.3.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field

from slackwater.expressions.tree import Column, streams_of, walk
from slackwater.model.schema import NULL_WORD
from slackwater.operators.join.wjoin.spec import WJoin
from slackwater.operators.join.wjoin.steps import key_of_all
from slackwater.testing.evaluate import evaluate
from slackwater.testing.oracle_join import Result
from slackwater.testing.oracle_release import NEVER, Released, Tuple
from slackwater.testing.oracle_tree import closed
from slackwater.testing.words import decode

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


@dataclass
class SlowWJoin:
    """One of the report's joins; give it runs as the operator gets them."""

    spec: WJoin
    results: list[Result] = field(default_factory=list)
    comparisons: int = 0

    def __post_init__(self) -> None:
        self.streams, self.window = self.spec.streams, self.spec.windows[0]
        self.hashed = self.spec.algorithm in ("hash", "xjoin")
        self.buckets = self.spec.buckets if self.hashed else 1
        self.buffers: list[list[list[Tuple]]] = [[[] for _ in range(self.buckets)] for _ in range(self.streams)]
        self.vector = [NEVER] * self.streams
        self.probed = [[NEVER] * self.buckets for _ in range(self.streams)]
        self.hand = self.since_cleaning = 0
        self.agreeing = closed(self.spec)

    def take(self, run: Sequence[Released], frontier: int) -> None:
        """A run, after which nothing in time is older than the frontier."""
        for step in run:
            e, s = step.tuple, step.tuple.stream
            if e.ts < step.met - self.window:
                continue
            self.vector[s] = max(self.vector[s], e.ts)
            if not step.late:
                if self.spec.algorithm == "merge":
                    self.mode_1_then_2(e)
                else:
                    self.go_through(e, {s: e})
            buffer = self.buffers[s][self.bucket(e)]
            buffer.append(e)
            buffer.sort(key=lambda tuple_: tuple_.ts)
            self.clean_up(e.ts)
        self.vector = [max(latest, frontier) for latest in self.vector]

    def bucket(self, e: Tuple) -> int:
        if not self.hashed:
            return 0
        keys = key_of_all(self.streams, self.spec.equalities)
        assert keys is not None
        return spread(e.words[keys[e.stream]]) % self.buckets

    def go_through(self, new: Tuple, bound: Bound) -> None:
        """The loop of Fig. 5 over the next stream, for the tuples bound so far."""
        if len(bound) == self.streams:
            self.results.append((max(e.ts for e in bound.values()), tuple(bound[s].row for s in range(self.streams))))
            return
        j = (new.stream + len(bound)) % self.streams
        begin = max(e.ts for e in bound.values()) - self.window
        end = min(e.ts for e in bound.values()) + self.window
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
                self.go_through(new, bound | {j: t})

    def is_out(self, t: Tuple) -> bool:
        self.comparisons += 1
        return all(t.ts < latest - self.window for s, latest in enumerate(self.vector) if s != t.stream)

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
        for buffer in (buckets[0] for buckets in self.buffers):
            while buffer:
                self.comparisons += 1
                if buffer[0].ts >= new.ts - self.window:
                    break
                buffer.pop(0)
        if all(self.buffers[s][0] for s in range(self.streams) if s != new.stream):
            self.go_through(new, {new.stream: new})

    def clean_up(self, now: int) -> None:
        if self.spec.algorithm == "hash":
            s, bucket = self.hand % self.streams, self.hand // self.streams
            self.hand = (self.hand + 1) % (self.streams * self.buckets)
            if self.probed[s][bucket] < now - self.window:
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
