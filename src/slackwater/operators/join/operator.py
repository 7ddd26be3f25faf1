"""The m-way window join as an operator: runs in, results out, as rows or as counts.

Invariant: results are exactly the combinations with every member inside its window of the newest one's timestamp T
(`T - W_i <= ts_i <= T`), or where a window graph is given inside all bounds of it, every equality and condition true,
whose last member in processing order was in time.

Bounds that cannot be told while partners are looked for one by one become conditions (`at_most`, `one_alternative`),
true of a combination iff its event times keep the bounds.

References: 003 §II-A and Alg. 2; 004 Alg. 4.6; 002 §5.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace

import numpy as np

from slackwater.core.batch import TS, Words
from slackwater.core.errors import DataError
from slackwater.core.rates import Resize
from slackwater.core.schema import Kind
from slackwater.core.state import StateUpdate
from slackwater.core.time import BEFORE_ALL
from slackwater.core.window_graph import WindowGraph
from slackwater.disorder.meters import LedgerTerms
from slackwater.disorder.ordered_batch import OrderedBatch, OrderedTuples
from slackwater.expressions.compile import Condition, compile_condition, no_condition
from slackwater.expressions.functions import typed_call
from slackwater.expressions.tree import Column, Expr, Literal, streams_of, walk
from slackwater.operators.contract import (
    PLAIN,
    BuildContext,
    KeyClass,
    NullKeys,
    Operator,
    OperatorSpec,
    ResizeLog,
    WithoutKey,
)
from slackwater.operators.description import Described, Shown
from slackwater.operators.join.adaptive import AdaptiveProbes
from slackwater.operators.join.bands import Band, bands_of
from slackwater.operators.join.description import describe_join, describe_selection
from slackwater.operators.join.leaving import IN_TURN, Leaving
from slackwater.operators.join.ledger import JoinLedger
from slackwater.operators.join.loop import BUFFER_FULL, OVERFLOW, PAUSED, TOO_MANY
from slackwater.operators.join.persisted import PersistedTuples, Remembered
from slackwater.operators.join.policy import BY_EVENT_TIME, WindowPolicy
from slackwater.operators.join.probing import Equality, Linkage, ProbePlan, classes_of, first_plan
from slackwater.operators.join.search import Search, search_space
from slackwater.operators.join.store import BEGIN, END, WindowStore
from slackwater.operators.output import Output
from slackwater.operators.state_size import WindowContents

TIME = "\0ts"
"""The name of a member's own event time: one that no query can spell."""
ENOUGH = 1 << 17
"""Results per output chunk; one tuple's results are never split."""
AT_ONCE = 1 << 13
"""Tuples that are taken in before there is room for more."""


@dataclass(frozen=True)
class WindowJoin(OperatorSpec):
    """Spec of a join; with one stream, a selection.

    Output columns: the members' words named by `emit`, as (stream, row) pairs. Counted: none, but a weight per line.
    """

    windows: tuple[int, ...]
    """Per stream, how much newer than one of its tuples a member of a result may be."""
    equalities: tuple[Equality, ...]
    conditions: tuple[Expr, ...]
    columns: tuple[tuple[int, str, int], ...]
    """(stream, column, row) for every column that a condition reads."""
    emit: tuple[tuple[int, int], ...]
    rows: int
    count_only: bool = False
    graph: WindowGraph | None = None
    """Bounds between pairs of streams, where `windows`, which are its own then, do not say it all."""
    policy: WindowPolicy = BY_EVENT_TIME
    """What windows hold, and when a tuple leaves them."""
    leaving: Leaving = IN_TURN
    """When results leave, and whether those of late tuples follow."""

    def __post_init__(self) -> None:
        self.policy.check(self.windows, self.graph)

    @property
    def residuals(self) -> tuple[Expr, ...]:
        """The conditions, and what only a whole combination can be asked about its times."""
        if self.graph is None or not self.graph.undecided:
            return self.conditions
        return (*self.conditions, one_alternative(self.graph))

    @property
    def most(self) -> Words | None:
        """The bounds between pairs, for compiled code; None where the windows say it all."""
        return self.policy.most(self.graph)

    @property
    def streams(self) -> int:
        return len(self.windows)

    @property
    def needs_order(self) -> bool:
        return not self.leaving.on_arrival

    @property
    def at_once(self) -> bool:
        return self.leaving.on_arrival

    @property
    def as_join(self) -> WindowJoin:
        return self

    @property
    def windows_joined(self) -> tuple[int, ...]:
        return self.windows

    @property
    def state_identity(self) -> object:
        # What is selected is taken from what the windows hold.
        return self if self.one_shard else replace(self, emit=())

    @property
    def one_shard(self) -> str | None:
        return self.policy.one_shard

    @property
    def resize_at_first(self) -> Resize | None:
        return self.policy.resize_at_first

    @property
    def shard_rows(self) -> tuple[tuple[int, ...], ...] | None:
        if self.streams == 1 or not self.key_classes:
            return None
        rows, _ = self.key_classes[0]
        return tuple((rows[stream],) for stream in range(self.streams))

    @property
    def key_classes(self) -> list[KeyClass]:
        if self.one_shard:
            return []
        if self.streams == 1:
            return [({0: row}, [at]) for at, (_, row) in enumerate(self.emit)]
        of_all = [one for one in classes_of(self.equalities) if len({stream for stream, _ in one}) == self.streams]
        return [
            (dict(sorted(one, reverse=True)), [at for at, place in enumerate(self.emit) if place in one])
            for one in of_all
        ]

    @property
    def null_keys(self) -> NullKeys:
        return NullKeys.PASS if self.streams == 1 else NullKeys.DROP

    @property
    def without_key(self) -> WithoutKey:
        return WithoutKey.NOT if self.streams == 1 or self.one_shard else WithoutKey.BY_COMBINATION

    def bands_for_tiles(self, times: bool) -> list[Band]:
        rows = {(stream, name): row for stream, name, row in self.columns}
        columns = (part for condition in self.conditions for part in walk(condition) if isinstance(part, Column))
        of_time = {(one.stream, rows[one.stream, one.name]) for one in columns if one.kind is Kind.TIME}
        sides = {band: {(side.stream, side.row) for side in (band.left, band.right)} for band in self.bands}
        return [band for band in self.bands if times or not of_time & sides[band]]

    def arriving(self) -> WindowJoin:
        return replace(self, leaving=Leaving(on_arrival=True))

    def corrected(self, reach: int) -> WindowJoin:
        return replace(self, leaving=Leaving(correctable=reach))

    @property
    def looks_back(self) -> int:
        return max(self.windows)

    def with_times(self) -> WindowJoin:
        return replace(self, emit=self.emit + tuple((stream, TS) for stream in range(self.streams)))

    def without_times(self, made: Output) -> tuple[Words, ...]:
        return made.columns[: len(self.emit)]

    def held_until(self, made: Output) -> Words:
        times = made.columns[-self.streams :]
        return np.asarray(np.min([ts + size for ts, size in zip(times, self.windows, strict=True)], axis=0))

    def describe(self, shown: Shown) -> Described:
        return describe_selection(self, shown) if self.streams == 1 else describe_join(self, shown)

    @property
    def algorithm_asked_for(self) -> str | None:
        """The name of the algorithm, where it is not the engine that joins."""
        return None

    def explain(self, aliases: Sequence[str]) -> list[str]:
        """What EXPLAIN says of an algorithm that was asked for."""
        return []

    def linkage(self, count_only: bool, in_order: bool) -> Linkage:
        """What links the streams; which of them are leaves hangs on both arguments."""
        # A tuple that probes is asked nothing by itself: what reads it alone is asked with its partners.
        every = frozenset(range(self.streams))
        reads = tuple(own if len(own) > 1 else every for own in map(streams_of, self.residuals))
        return Linkage(self.streams, self.equalities, reads, count_only, self.graph, in_order, self.bands)

    @property
    def bands(self) -> tuple[Band, ...]:
        """What conditions say about how close two columns are to each other."""
        return bands_of(self.conditions, {(stream, name): row for stream, name, row in self.columns})

    def probes(self) -> ProbePlan:
        """How every arriving stream probes the others, as long as nothing has been found."""
        return first_plan(self.linkage(self.count_only, in_order=self.leaving.in_turn))

    def build(self, context: BuildContext = PLAIN) -> JoinOperator:
        if self.leaving.in_turn:
            return JoinOperator(self, context.encode_text)
        # It is a join that is told to do more, so it is made of this one.
        from slackwater.operators.join.unordered_join import UnorderedJoin

        return UnorderedJoin(self, context.encode_text)


class JoinOperator(Operator):
    """The mutable half of `WindowJoin`."""

    spec: WindowJoin

    def __init__(self, spec: WindowJoin, encode_text: Callable[[str], int]) -> None:
        self.spec = spec
        self._condition = self._compiled(encode_text)
        self._windows = np.array(spec.windows, np.int64)
        linkage = spec.linkage(spec.count_only, in_order=True)
        self.order = AdaptiveProbes(linkage, self._windows, spec.most, spec.count_only, spec.policy.in_time_only)
        self._store = WindowStore(spec.streams, spec.rows, self.order.indexes)
        self._watermark = BEFORE_ALL
        self._eviction = spec.policy.eviction(spec.streams)
        self._persisted = PersistedTuples(spec.rows, self._store, self._eviction)
        self._remembered: Remembered | None = None
        self._space: Search | None = None
        self._out: Words | None = None

    @property
    def condition(self) -> Condition:
        """What equalities and windows do not say, compiled."""
        return self._condition

    def _compiled(self, encode_text: Callable[[str], int]) -> Condition:
        conditions = self.spec.residuals
        if not conditions:
            return no_condition()
        places = {(stream, column): row for stream, column, row in self.spec.columns}
        places |= {(stream, TIME): TS for stream in range(self.spec.streams) if (stream, TIME) not in places}
        return compile_condition(conditions, lambda stream, name: places[stream, name], encode_text)

    def ledger_for(self, terms: LedgerTerms) -> JoinLedger:
        return self.open_ledger(terms, *terms.buckets(self.spec.windows))

    def open_ledger(self, terms: LedgerTerms, width: int, buckets: int) -> JoinLedger:
        """A ledger of so many buckets of event time of this width, whose tuples are persisted with the windows; who
        asked for it feeds it."""
        ledger = JoinLedger(self.spec, self._condition, terms, width, buckets)
        self.remember_for(ledger)
        return ledger

    def remember_for(self, remembered: Remembered) -> None:
        """Persist tuples for as long as somebody else needs them, and give them back after a restart."""
        self._remembered = remembered

    def process(self, run: OrderedBatch, ordered: bool) -> Iterator[Output]:
        """Take in a run; yield its results."""
        tuples = run.tuples.contiguous()
        self._eviction.begin_run(len(run))
        # Space for all at once would be space for as many keys as there are tuples.
        for begin in range(0, len(run), AT_ONCE):
            yield from self._process_piece(run, tuples, begin, min(begin + AT_ONCE, len(run)))
        self._eviction.end_run()
        self._took_in(run, tuples.words)

    def _process_piece(self, run: OrderedBatch, tuples: OrderedTuples, first: int, stop: int) -> Iterator[Output]:
        """The tuples of a run from the first on; yields their results."""
        spec, piece, count = self.spec, slice(first, stop), stop - first
        self._store.reserve(np.bincount(run.stream[piece], minlength=spec.streams), self._horizons())
        counts = np.zeros(count, np.int64)
        new = tuples.take(piece).contiguous()
        begin, out = 0, self._capacity_for_results()
        while begin < count:
            begin_at = begin
            begin, n, status = self._eviction.join(
                self._condition.addresses, self.order.probes, new, begin, self._store, self._search(),
                self.order.probe_stats, out, counts,
            )  # fmt: skip
            if status == OVERFLOW:
                raise self._condition.failure()
            if status == TOO_MANY:
                raise DataError("one tuple has more results than 64 bits can count")
            if status == BUFFER_FULL and n == 0:
                out = np.empty((spec.streams, 4 * out.shape[1]), np.int64)
            made = np.flatnonzero(counts[begin_at:begin]) + begin_at
            if len(made):
                yield self._output(run, first + made, counts[made], out[:, :n])
            if status == PAUSED:
                self._choose_order(run, first + begin, stop)

    def _search(self) -> Search:
        """Space for a search in the windows as they are; made anew only when those have grown, for it is large."""
        if self._space is None or self._space.candidates.shape[1] != self._store.words.shape[1]:
            self._space = search_space(self.spec.streams, self._store.words.shape[1])
        return self._space

    def _capacity_for_results(self) -> Words:
        """Space for as many results as go out at once, kept for the same reason."""
        if self._out is None:
            self._out = np.empty((self.spec.streams, 1 if self.spec.count_only else ENOUGH), np.int64)
        return self._out

    def _choose_order(self, run: OrderedBatch, begin: int, stop: int) -> None:
        """Choose the order of probes anew, before tuple `begin` of a run; there is room up to `stop`."""
        reached = int(run.ts[begin - 1]) if begin else self._watermark
        live = self._store.live(np.maximum(max(reached, self._watermark), BEFORE_ALL) - self._windows)
        if self.order.choose(live):
            arriving = np.bincount(run.stream[begin:stop], minlength=self.spec.streams)
            self._store.index_by(self.order.indexes, arriving, self._horizons())

    def _took_in(self, run: OrderedBatch, words: Words) -> None:
        """A run has been processed: its tuples are to be persisted."""
        self._watermark = max(self._watermark, run.watermark)
        self._persisted.take(run, words, self._kept_since())

    def _output(self, run: OrderedBatch, made: Words, counts: Words, slots: Words) -> Output:
        ts = run.ts[made]
        if self.spec.count_only:
            return Output(ts, (), made, counts, int(counts.sum()))
        columns = tuple(self._words[row, slots[stream]] for stream, row in self.spec.emit)
        return Output(np.repeat(ts, counts), columns, np.repeat(made, counts), None, slots.shape[1])

    @property
    def _words(self) -> Words:
        return self._store.words

    def _put_back(self, stream: int, words: Words) -> None:
        self._eviction.put_back(self._store, stream, words, self._horizons())

    def _horizons(self) -> Words:
        """What lies before its stream's horizon cannot be joined any more."""
        return np.maximum(self._watermark, BEFORE_ALL) - self._windows

    def _kept_since(self) -> Words:
        """What lies before is not persisted any more."""
        horizons = self._horizons()
        return horizons if self._remembered is None else np.minimum(horizons, self._remembered.kept_since)

    @property
    def state_rows(self) -> int:
        """Tuples in the windows."""
        return self._store.held

    def window_contents(self, watermark: int) -> Iterator[WindowContents]:
        """The tuples in the windows that may still be joined where the watermark stands here; a window at a time.

        Others may stand there too, until room is made.
        """
        since = self._in_force_since(max(watermark, self._watermark))
        for stream in range(self.spec.streams):
            words = self._standing(stream)
            yield WindowContents.of_tuples(stream, words, np.flatnonzero(words[TS] >= since[stream]))

    def _in_force_since(self, watermark: int) -> Words:
        """What lies before is in no window any more."""
        return np.where(self._eviction.counts, BEFORE_ALL, max(watermark, BEFORE_ALL) - self._windows)

    def _standing(self, stream: int) -> Words:
        """All tuples of a stream that are kept, not all of them still in its window."""
        return self._in_store(self._store, stream)

    def standing(self) -> tuple[Words, Words]:
        """All tuples that are kept, by stream: their streams, and themselves."""
        words = [self._standing(stream) for stream in range(self.spec.streams)]
        return np.repeat(np.arange(len(words)), [one.shape[1] for one in words]), np.concatenate(words, axis=1)

    def _in_store(self, store: WindowStore, stream: int) -> Words:
        begin, end = store.regions[stream, [BEGIN, END]]
        return store.words[:, begin:end]

    def resize_logs(self) -> list[tuple[int, ResizeLog]]:
        log = self._eviction.resize_log
        return [] if log is None else [(0, log)]

    def snapshot_delta(self) -> list[StateUpdate]:
        """New tuples, and what is known of windows that follow rates."""
        return [*self._persisted.snapshot_delta(self._kept_since()), *self._eviction.snapshot_delta(self._store)]

    def restore(self, entries: list[StateUpdate]) -> None:
        """Tuples go back into their windows, oldest chunk first, without making results."""
        entries = self._eviction.restore(entries, self.order.probes)
        for stream, words in self._persisted.restore(entries):
            self._put_back(stream, words)
            if self._remembered is not None:
                self._remembered.put_back(stream, words)
        self._eviction.restored(self._store)


def time_of(stream: int) -> Column:
    """The event time of a member."""
    return Column(stream, TIME, Kind.TIME)


def at_most(newer: Column, older: Column, most: int) -> Expr:
    """One event time is at most so much after another."""
    return typed_call("<=", (typed_call("-", (newer, older)), Literal(most, Kind.INT)))


def one_alternative(graph: WindowGraph) -> Expr:
    """That a combination which keeps the widest bounds keeps one of the alternatives; of a graph that is undecided.

    >>> from slackwater.core.time import before
    >>> either = one_alternative(WindowGraph(2, (before(0, 1, 5), before(1, 0, 5))))
    >>> either.op, [direction.op for direction in either.args]
    ('or', ['<=', '<='])
    """
    return typed_call("or", tuple(_kept(graph, n) for n in range(len(graph.alternatives))))


def _kept(graph: WindowGraph, alternative: int) -> Expr:
    closed, every = graph.closed[alternative], range(graph.streams)
    tighter = [(i, j) for i in every for j in every if closed[i][j] < graph.widest[i][j]]
    bounds = [at_most(time_of(i), time_of(j), closed[i][j]) for i, j in tighter]
    return bounds[0] if len(bounds) == 1 else typed_call("and", tuple(bounds))
