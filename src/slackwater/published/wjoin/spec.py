"""A join by one of the report's algorithms: its spec, and the operator that hosts it.

Invariant: what it answers is what the window join answers. The algorithms, and the approaches to windows that differ
from pair to pair, differ in the work they do, which is counted.

References: 002 §3, §4.3 and §5.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, fields
from typing import Any, NamedTuple

import numpy as np

from slackwater.core.batch import Words
from slackwater.core.errors import UsageError
from slackwater.core.window_graph import WindowGraph
from slackwater.disorder.ordered_batch import OrderedBatch
from slackwater.expressions.tree import streams_of
from slackwater.operators.contract import PLAIN, BuildContext, WithoutKey
from slackwater.operators.join.loop import BUFFER_FULL, OVERFLOW
from slackwater.operators.join.operator import ENOUGH, JoinOperator, WindowJoin
from slackwater.operators.output import Output
from slackwater.published.wjoin import hash as hashed
from slackwater.published.wjoin import merge, nested_loop, ripple
from slackwater.published.wjoin.approaches import APPROACHES, GCA, LCA, PAIRWISE, Filter, filter_of
from slackwater.published.wjoin.buffers import NO_KEY, BufferStore, slots_of
from slackwater.published.wjoin.explain import explain_wjoin
from slackwater.published.wjoin.search import search_space
from slackwater.published.wjoin.steps import key_of_all, plan_steps


class Algorithm(NamedTuple):
    """How runs are joined, whether buffers are hashed, and whether old tuples are removed as soon as they are met."""

    join_run: Callable[..., tuple[int, int, int]]
    hashed: bool
    removes: bool


ALGORITHMS = {
    "nested_loop": Algorithm(nested_loop.join_run, hashed=False, removes=True),
    "hash": Algorithm(hashed.join_run, hashed=True, removes=True),
    "merge": Algorithm(merge.join_run, hashed=False, removes=True),
    "ripple": Algorithm(ripple.join_run, hashed=False, removes=False),
    "xjoin": Algorithm(ripple.join_run, hashed=True, removes=False),
}
OFFERED = ("hash", "nested_loop", "merge")
"""What a query may ask for; the others are there to be measured against."""


@dataclass(frozen=True)
class WJoin(WindowJoin):
    """Spec of a join by an algorithm of the report."""

    algorithm: str = "nested_loop"
    approach: str = LCA
    """To windows that differ from pair to pair; with one window for all streams it changes nothing."""
    buckets: int = 4096
    """Of the hash algorithms, for each stream; a power of two."""
    clean_every: int = 10_000
    """Tuples between two cleanings of ripple join and XJoin."""

    @property
    def filters(self) -> Filter:
        """By which windows partners are looked for, and what is refined."""
        return filter_of(_graph(self), self.approach)

    @property
    def algorithm_asked_for(self) -> str:
        return self.algorithm

    @property
    def without_key(self) -> WithoutKey:
        return WithoutKey.NOT

    @property
    def state_identity(self) -> object:
        return self

    def explain(self, aliases: Sequence[str]) -> list[str]:
        """By which windows it filters, where they differ from pair to pair."""
        return explain_wjoin(self.algorithm, self.approach, self.filters, aliases)

    def build(self, context: BuildContext = PLAIN) -> WJoinOperator:
        return WJoinOperator(self, context.encode_text)


def _graph(join: WindowJoin) -> WindowGraph:
    return join.graph or WindowGraph.of_windows(join.windows)


def by_algorithm(join: WindowJoin, algorithm: str, approach: str = LCA, **settings: Any) -> WJoin:
    """The same join by an algorithm of the report; refused where that does not apply.

    >>> made = by_algorithm(WindowJoin((5, 3), (), (), (), (), 2), "merge", "gca")
    >>> made.algorithm, made.filters.earlier
    ('merge', (5, 5))
    """
    if algorithm not in ALGORITHMS:
        raise UsageError(f"option join = '{algorithm}': there is {', '.join(OFFERED)}")
    if join.streams < 2:
        raise UsageError(f"option join = '{algorithm}' is for joins of two streams or more")
    if approach not in APPROACHES:
        raise UsageError(f"option windows = '{approach}': there is {', '.join(APPROACHES)}")
    if approach == PAIRWISE and algorithm == "merge":
        raise UsageError(
            f"option windows = '{PAIRWISE}' is for joins that ask for a window at every step, 'nested_loop' and 'hash';"
            f" 'merge' asks for none: '{LCA}' or '{GCA}' go with it"
        )
    if ALGORITHMS[algorithm].hashed and key_of_all(join.streams, join.equalities) is None:
        raise UsageError(
            f"option join = '{algorithm}' needs a key that is equal in all streams, such as a.k = b.k AND b.k = c.k;"
            " 'nested_loop' and 'merge' do without"
        )
    same = {field.name: getattr(join, field.name) for field in fields(WindowJoin)}
    filter_of(_graph(join), approach)  # refuses an approach that does not fit the windows
    return WJoin(**same, algorithm=algorithm, approach=approach, **settings)


class WJoinOperator(JoinOperator):
    """The mutable half of `WJoin`."""

    def __init__(self, spec: WJoin, encode_text: Callable[[str], int]) -> None:
        super().__init__(spec, encode_text)
        self._algorithm = ALGORITHMS[spec.algorithm]
        filters = spec.filters
        reads = tuple(streams_of(condition) for condition in spec.conditions)
        self._steps = plan_steps(spec.streams, spec.equalities, reads, filters, spec.count_only, spec.clean_every)
        keys = key_of_all(spec.streams, spec.equalities) if self._algorithm.hashed else None
        self._buffers = BufferStore(
            keys or (NO_KEY,) * spec.streams,
            spec.rows,
            filters.earlier,
            spec.buckets if self._algorithm.hashed else 1,
            self._algorithm.removes,
        )

    def process(self, run: OrderedBatch, ordered: bool) -> Iterator[Output]:
        """Take in a run; yield its results."""
        store, spec = self._buffers, self.spec
        store.reserve(len(run))
        counts = np.zeros(len(run), np.int64)
        new, search = run.tuples.contiguous(), search_space()
        begin, capacity = 0, 1 if spec.count_only else ENOUGH
        while begin < len(run):
            out = np.empty((spec.streams, capacity), np.int64)
            begin_at = begin
            begin, n, status = self._algorithm.join_run(
                self._condition.addresses[1], self._steps, new, begin, store.buffers, search, out, counts
            )
            if status == OVERFLOW:
                raise self._condition.failure()
            if status == BUFFER_FULL:
                store.take_back()
                capacity *= 4 if n == 0 else 1
            made = np.flatnonzero(counts[begin_at:begin]) + begin_at
            if len(made):
                yield self._output(run, made, counts[made], out[:, :n])
        store.advance_watermark(run.watermark)
        self._took_in(run, new.words)

    @property
    def _words(self) -> Words:
        return self._buffers.buffers.words

    def _standing(self, stream: int) -> Words:
        return self._words[:, slots_of(self._buffers.buffers, stream)]

    def _put_back(self, stream: int, words: Words) -> None:
        self._buffers.put_back(stream, words)

    @property
    def state_rows(self) -> int:
        """Tuples in the buffers."""
        return self._buffers.held

    @property
    def comparisons(self) -> int:
        """Comparisons of event times and of values so far."""
        return self._buffers.comparisons
