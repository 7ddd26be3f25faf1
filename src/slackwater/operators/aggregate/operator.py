"""The window aggregate operator: sliding and tumbling, with and without groups, incremental.

Invariant: a window `[start, end)` is emitted once per group that has tuples in it, when the watermark reaches `end`; a
late tuple counts in every window that was still open when it came, and in no other.

References: 004 §2.1.2, §3.1 (Example 3.1.1), §4.1.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property

import numpy as np

from slackwater.core.batch import Floats, Words
from slackwater.core.quality import Quality, RelativeError
from slackwater.core.state import StateUpdate, decode_json, decode_words, encode_json, encode_words, state_update
from slackwater.core.time import AFTER_ALL, BEFORE_ALL, LONGEST, format_duration
from slackwater.disorder.meters import AnswerLog, Scaling, Watched
from slackwater.disorder.ordered_batch import OrderedBatch
from slackwater.expressions.text_table import TextTable
from slackwater.operators.aggregate import state as st
from slackwater.operators.aggregate.algebra import AggregateSpec, Layout, answered, lower
from slackwater.operators.aggregate.answers import NEAR_COLUMNS, NOTHING_NEAR, asked_of, log_for, summaries
from slackwater.operators.aggregate.description import describe_aggregate, moving
from slackwater.operators.aggregate.estimating import with_estimates
from slackwater.operators.aggregate.having import Having, HavingOperator
from slackwater.operators.aggregate.holistic_values import values_of
from slackwater.operators.aggregate.pane_partials import KEY, combine_all
from slackwater.operators.aggregate.panes import Panes, first_open, last_pane, panes
from slackwater.operators.aggregate.partials import program_for
from slackwater.operators.aggregate.shared.fragments import OF_KEY as OF_SHARED_KEY
from slackwater.operators.aggregate.shared.store import ClosedLines, PaneReader
from slackwater.operators.aggregate.tables import GrowingTables, put_back
from slackwater.operators.aggregate.window_loop import (
    CLOSED_ALL,
    EMITTED_BY,
    OF_KEY,
    WINDOW,
    admit_panes,
    consume,
)
from slackwater.operators.contract import PLAIN, BuildContext, KeyClass, Operator, OperatorSpec, WithoutKey
from slackwater.operators.description import Described, Shown
from slackwater.operators.output import Output
from slackwater.operators.state_size import WindowContents

AT_ONCE = 1 << 15
"""Tuples that are taken in before there is room for more."""
MOST_LINES = 1 << 17
"""Lines at which an output is yielded; it is larger by at most one window."""


@dataclass(frozen=True)
class WindowAggregate(OperatorSpec):
    """Spec: the window, the rows that hold the group keys, the aggregates.

    Output columns: window start, window end, keys, aggregates.
    """

    range: int
    slide: int | None
    keys: tuple[int, ...]
    aggregates: tuple[AggregateSpec, ...]
    rows: int
    """Word rows of an input tuple."""
    having: Having | None = field(default=None, kw_only=True)
    """Which lines are emitted; None: all."""
    estimated: bool = field(default=False, kw_only=True)
    """Whether estimates stand behind the aggregates: by aggregate three columns (`estimating`)."""

    @property
    def needs_order(self) -> bool:
        """Aggregates commute, so epoch release may hand tuples over unsorted."""
        return False

    @cached_property
    def grid(self) -> Panes:
        return panes(self.range, self.slide)

    @cached_property
    def layout(self) -> Layout:
        return Layout.of(self.aggregates)

    @property
    def watched(self) -> Watched | None:
        return Watched(self.range, self.grid.slide, self.keys, asked_of(self.aggregates))

    @property
    def windowed(self) -> bool:
        return True

    @property
    def as_panes(self) -> WindowAggregate | None:
        return self

    @property
    def pane_partials(self) -> WindowAggregate | None:
        """Itself, where all aggregates have partials of a few words which can be combined anywhere."""
        return self.as_panes if all(one.combined_anywhere for one in self.aggregates) else None

    @property
    def state_identity(self) -> object:
        return {
            "range": self.range,
            "slide": self.slide,
            "keys": self.keys,
            "accumulators": self.layout.components,
            "sorted": [one for one in self.aggregates if one.holistic],
            "rows": self.rows,
        }

    def learning_key(self, quality: Quality) -> str:
        # Errors are learned for each aggregate by itself.
        return repr(self.watched) if isinstance(quality, RelativeError) else ""

    @property
    def shard_rows(self) -> tuple[tuple[int, ...], ...] | None:
        return (self.keys,) if self.keys and self.one_shard is None else None

    @property
    def key_classes(self) -> list[KeyClass]:
        # The bounds of the window come before the keys.
        return [] if self.one_shard else [({0: row}, [2 + at]) for at, row in enumerate(self.keys)]

    @property
    def without_key(self) -> WithoutKey:
        return WithoutKey.NOT if self.keys or self.pane_partials is None else WithoutKey.AS_PARTIALS

    def corrected(self, reach: int) -> OperatorSpec | None:
        # It is an aggregate that is told to do more, so it is made of this one.
        from slackwater.operators.aggregate.changing import Changing

        return None if self.as_panes is None else Changing(self, reach)

    @property
    def looks_back(self) -> int:
        return self.range

    def with_times(self) -> WindowAggregate:
        return self

    def held_until(self, made: Output) -> Words:
        return made.ts + self.grid.slide - 1

    @property
    def moves(self) -> str:
        """The window and how it moves, in words."""
        size, step = format_duration(self.range), format_duration(self.slide or self.range)
        return f"window {size}, {moving(size, step)}"

    def bounds(self, window: Words) -> tuple[Words, Words]:
        """Start and end of windows with these numbers."""
        start = window * self.grid.slide
        return start, start + self.range

    def kept_as(self, one: AggregateSpec) -> str:
        """What is kept of one of its aggregates, in words."""
        return one.algebra.slides_by

    def describe(self, shown: Shown) -> Described:
        return describe_aggregate(self, shown)

    def build(self, context: BuildContext = PLAIN) -> Operator:
        """The mutable half; MIN and MAX of text look texts up in a table."""
        if context.panes is not None:
            return self.emitting(PaneReadingOperator(self, context.panes), context)
        return self.emitting(AggregateOperator(self, context.texts), context)

    def emitting(self, operator: Operator, context: BuildContext) -> Operator:
        """An operator that computes all lines, as one that emits those that are wanted."""
        return operator if self.having is None else HavingOperator(operator, self.having, context)


class _Answering(Operator):
    """Emits closed windows, and notes what their answers leave behind."""

    spec: WindowAggregate

    def __init__(self, spec: WindowAggregate) -> None:
        self.spec = spec
        self._answers: AnswerLog | None = None
        self._scaling = Scaling(len(spec.aggregates)) if spec.estimated else None
        self._last = LONGEST
        """From which place in the run on lines are those of an input that has ended, to which nothing more can come."""

    @property
    def scaling(self) -> Scaling | None:
        return self._scaling

    def answers_for(self, bound: float) -> AnswerLog | None:
        self._answers = log_for(self.spec.aggregates, bound)
        return self._answers

    def _begin_run(self, run: OrderedBatch) -> None:
        self._last = len(run) if run.watermark == AFTER_ALL else LONGEST

    def _closed(
        self, window: Words, keys: Words, values: list[Words], by: Words, aggregates: Sequence[AggregateSpec],
        layout: Layout, state: Words, near: Floats,
    ) -> Output:  # fmt: skip
        """Lines of windows with these numbers and keys; `values` of these aggregates were made of `state`."""
        start, end = self.spec.bounds(window)
        if self._answers is not None:
            self._answers.note(window.copy(), keys.copy(), summaries(aggregates, layout, state, values, near))
        # Views would keep whole buffers alive for as long as the results are.
        columns = (start, end, *(key.copy() for key in keys.T), *values)
        if self._scaling is not None:
            columns += tuple(with_estimates(aggregates, layout, state, values, self._scaling, by >= self._last))
        return Output(columns[1], columns, by, None, len(window), at_watermark=True)


class PaneReadingOperator(_Answering):
    """The operator where the owner of a store keeps the panes, moves them on, and delivers what its windows came to.

    What it emits for a run is what `AggregateOperator` emits for the same tuples, up to the rounding of float sums,
    whose partials are added up in another order. Of its own it has the number of its next window, and nothing else.
    """

    def __init__(self, spec: WindowAggregate, reader: PaneReader) -> None:
        super().__init__(spec)
        self.reader = reader

    def process(self, run: OrderedBatch, ordered: bool) -> Iterator[Output]:
        delivered, self.reader.delivered = self.reader.delivered, []
        self._begin_run(run)
        for closed, by, clock, emit_time in delivered:
            yield replace(self._output(closed, by), clock=clock, emit_time=emit_time)

    def _output(self, closed: ClosedLines, by: Words) -> Output:
        reader = self.reader
        assert reader.store is not None, "it reads panes"
        layout, values = reader.store.spec.layout, closed.values
        if values is None:
            values = [lower(one, layout, closed.state) for one in reader.aggregates]
        window, keys = closed.lines[:, WINDOW], closed.lines[:, OF_SHARED_KEY:]
        return self._closed(window, keys, values, by, reader.aggregates, layout, closed.state, NOTHING_NEAR)

    @property
    def state_rows(self) -> int:
        """Partials that it still needs, whoever else needs them."""
        return self.reader.held

    def window_contents(self, watermark: int) -> Iterator[WindowContents]:
        """The same, with their words."""
        held = self.reader.held
        yield WindowContents(0, held, held * (len(self.spec.keys) + self.spec.layout.width))

    def snapshot_delta(self) -> list[StateUpdate]:
        return [state_update("aggregate", "next", encode_json({"next": self.reader.next}))]

    def restore(self, entries: list[StateUpdate]) -> None:
        for entry in entries:
            if entry.key == "next" and entry.value is not None:
                self.reader.next = decode_json(entry.value)["next"]


class AggregateOperator(_Answering):
    """The mutable half of `WindowAggregate`: runs in, closed windows out."""

    def __init__(self, spec: WindowAggregate, texts: TextTable | None = None) -> None:
        super().__init__(spec)
        self._texts = texts
        self._key_rows = np.array(spec.keys, np.int64)
        self._persisted: dict[tuple[str, str], bytes] = {}
        self._begin()

    def _begin(self) -> None:
        spec = self.spec
        program = program_for(spec.layout, self._texts)
        self._tables = GrowingTables(program, len(spec.keys), spec.layout.width, spec.aggregates)
        self.begin_at(first_open(spec.grid, BEFORE_ALL))

    @property
    def tables(self) -> GrowingTables:
        """Its panes, partials and groups."""
        return self._tables

    def another(self) -> AggregateOperator:
        """One of the same spec that has taken in nothing."""
        return AggregateOperator(self.spec, self._texts)

    def begin_at(self, window: int) -> None:
        """The first window that is closed will be this one; no pane has entered the front."""
        self._tables.scalars[[st.NEXT, st.ENTERED, st.FLIP]] = window, self._entered_before(window), st.NO_PANE

    def _entered_before(self, window: int) -> int:
        """The newest pane that has entered when this window is the next."""
        return int(last_pane(self.spec.grid, window - 1))

    def process(self, run: OrderedBatch, ordered: bool) -> Iterator[Output]:
        """Take in a run; yield the windows it closes."""
        t = self._tables
        self._begin_run(run)
        words = np.ascontiguousarray(run.words)
        new = st.Taken(words, words.view(np.float64), run.watermark_at_arrival, self._key_rows, t.value_rows)
        noted = self._answers
        near, bound = (0, 0.0) if noted is None else (NEAR_COLUMNS * t.quantiles, noted.bound)
        begin, status, capacity = 0, -1, 1024
        while status != CLOSED_ALL:
            # Space for all at once would be space for as many partials as there are tuples.
            stop = min(len(run), begin + AT_ONCE // t.wide)
            t.reserve(stop - begin)
            most = max(capacity, int(t.scalars[st.GROUPS]) + (stop - begin if t.keys else 1))
            closed = st.room_for(most, OF_KEY + t.keys, t.width + t.answers, near, bound)
            begin, n, status = consume(t.now, self.spec.grid, new, begin, stop, ordered, run.watermark, closed)
            capacity = min(4 * capacity, MOST_LINES // t.wide)
            if n:
                yield self._lowered(closed.lines[:n], closed.state[:n], closed.near[:n])

    def combine_panes(self, partials: Words) -> None:
        """Take in partials of tuples that met no watermark beyond them (`pane_partials`)."""
        t, width = self._tables, self.spec.layout.width
        t.reserve(partials.shape[1])
        state = np.ascontiguousarray(partials[-width:].T)
        keys = KEY + np.arange(len(self.spec.keys))
        combine_all(t.now, self.spec.grid, np.ascontiguousarray(partials), keys, state, state.view(np.float64))

    def _lowered(self, lines: Words, state: Words, near: Floats) -> Output:
        aggregates, layout = self.spec.aggregates, self.spec.layout
        by, behind = lines[:, EMITTED_BY].copy(), layout.width
        values = []
        for one in aggregates:
            if one.holistic:
                values.append(answered(one, state[:, behind : behind + one.words]))
                behind += one.words
            else:
                values.append(lower(one, layout, state))
        return self._closed(lines[:, WINDOW], lines[:, OF_KEY:], values, by, aggregates, layout, state, near)

    @property
    def state_rows(self) -> int:
        """Partial aggregates, and values of holistic ones."""
        return int(self._tables.scalars[st.PARTIALS] + self._tables.scalars[st.VALUES_KEPT])

    def window_contents(self, watermark: int) -> Iterator[WindowContents]:
        """Partial aggregates, and values of holistic ones; what they were made of is not kept."""
        t = self._tables
        partials, values = int(t.scalars[st.PARTIALS]), int(t.scalars[st.VALUES_KEPT])
        yield WindowContents(0, partials + values, t.words_in_use)

    def snapshot_delta(self) -> list[StateUpdate]:
        table = self._tables.now.partials
        live = np.flatnonzero(table[:, st.PANE] != st.NO_PANE)
        pane_of = table[live, st.PANE]
        touched = set(np.unique(pane_of[table[live, st.DIRTY] == 1]).tolist())
        present = set(np.unique(pane_of).tolist())
        entries = [state_update("aggregate", "next", encode_json({"next": int(self._tables.scalars[st.NEXT])}))]
        for pane in sorted(touched):
            members = live[pane_of == pane]
            entries.append(state_update("pane", str(pane), encode_words(self._tables.encoded(members))))
            if self._tables.arguments:
                entries.append(state_update("values", str(pane), self._encode_values(members)))
        gone = {place for place in self._persisted if int(place[1]) not in present}
        entries += [state_update(*place, None) for place in sorted(gone)]
        table[:, st.DIRTY] = 0
        self._note(entries[1:])
        return entries

    def _note(self, entries: list[StateUpdate]) -> None:
        """Panes as they were persisted: a kernel that has fallen behind is given only those that changed."""
        for entry in entries:
            if entry.value is None:
                self._persisted.pop((entry.namespace, entry.key), None)
            else:
                self._persisted[entry.namespace, entry.key] = entry.value

    def _encode_values(self, members: Words) -> bytes:
        owner = np.empty(int(self._tables.scalars[st.VALUES_KEPT]), np.int64)
        kept = np.empty((self._tables.arguments, len(owner)), np.int64)
        n = values_of(self._tables.now, members, owner, kept)
        return encode_words({"owner": owner[:n]} | {f"v{h}": words[:n] for h, words in enumerate(kept)})

    def restore(self, entries: list[StateUpdate]) -> None:
        """Rebuild the panes; those that had entered the window enter it again."""
        (following,) = (decode_json(e.value)["next"] for e in entries if e.key == "next" and e.value is not None)
        self._note([entry for entry in entries if entry.key != "next"])
        self._begin()
        self.begin_at(following)
        t, entered = self._tables, self._entered_before(following)
        for pane in sorted(int(key) for namespace, key in self._persisted if namespace == "pane"):
            partials = decode_words(self._persisted["pane", str(pane)])
            kept = decode_words(self._persisted["values", str(pane)]) if t.arguments else {}
            self._restore_pane(pane, partials, kept)
            # One after the other: there is room for values that wait to enter, and so for a pane of them only.
            admit_panes(t.now, st.NO_PANE, min(pane, entered), t.arguments > 0)
        t.scalars[st.ENTERED] = entered
        t.now.partials[:, st.DIRTY] = 0

    def _restore_pane(self, pane: int, partials: dict[str, Words], kept: dict[str, Words]) -> None:
        t = self._tables
        keys, state = t.decoded(partials)
        owners = kept.get("owner", np.zeros(0, np.int64))
        t.reserve(max(len(state), len(owners)))
        held = np.array([kept[f"v{h}"] for h in range(t.arguments)], np.int64).reshape(t.arguments, len(owners))
        put_back(t.now, pane, keys, np.arange(t.keys), state, owners, held, np.arange(t.arguments))
