"""An aggregate that changes what it has emitted: what late tuples would have changed of closed windows follows.

A late tuple counts in every window that is still open when it comes; of those that are closed, the ones that end at
most `correctable` before the watermark that it meets are computed again, with all tuples that are kept, and what has
changed leaves at the end of the run.

Invariant: first answers are those of the aggregate alone. Together with the changes they are its answer over every
tuple that came while its window could still be corrected, however runs are cut; per window and group versions are 0, 1
and so on.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, replace
from typing import NamedTuple

import numpy as np

from slackwater.core.batch import Flags, Words
from slackwater.core.jit import in_place
from slackwater.core.quality import Quality
from slackwater.core.state import StateUpdate, by_part, under
from slackwater.disorder.meters import AnswerLog, Watched
from slackwater.disorder.ordered_batch import OrderedBatch
from slackwater.operators.aggregate.emitted_rows import EMITTED, Changes, EmittedRows
from slackwater.operators.aggregate.kept_panes import KeptPanes
from slackwater.operators.aggregate.operator import AggregateOperator, WindowAggregate
from slackwater.operators.aggregate.panes import Panes
from slackwater.operators.contract import PLAIN, BuildContext, KeyClass, Operator, OperatorSpec, WithoutKey
from slackwater.operators.description import Described, Shown
from slackwater.operators.output import Output
from slackwater.operators.state_size import RESULTS, WindowContents

FIRST, KEPT = "first", "kept"
"""The parts of its state, beside EMITTED."""


@dataclass(frozen=True)
class Changing(OperatorSpec):
    """Spec: the aggregate, and how far behind the watermark its windows are corrected."""

    made_by: WindowAggregate
    correctable: int

    @property
    def rows(self) -> int:
        return self.made_by.rows

    @property
    def needs_order(self) -> bool:
        return self.made_by.needs_order

    @property
    def watched(self) -> Watched | None:
        return self.made_by.watched

    @property
    def windowed(self) -> bool:
        return True

    @property
    def pane_partials(self) -> WindowAggregate | None:
        """Partials are of tuples in time, which nothing is corrected for; they are kept beside those of late ones."""
        return self.made_by.pane_partials

    @property
    def state_identity(self) -> object:
        # For how much longer panes are kept may change.
        return {"made_by": self.made_by.state_identity, "changes": True}

    def learning_key(self, quality: Quality) -> str:
        return self.made_by.learning_key(quality)

    @property
    def one_shard(self) -> str | None:
        return self.made_by.one_shard

    @property
    def shard_rows(self) -> tuple[tuple[int, ...], ...] | None:
        return self.made_by.shard_rows

    @property
    def key_classes(self) -> list[KeyClass]:
        return self.made_by.key_classes

    @property
    def without_key(self) -> WithoutKey:
        # What partial results of shards come to is not known before they are combined.
        return WithoutKey.NOT

    def describe(self, shown: Shown) -> Described:
        return self.made_by.describe(shown)

    def build(self, context: BuildContext = PLAIN) -> ChangingAggregate:
        return ChangingAggregate(self, context)


@in_place
def end_of_piece(oldest_with: Words, since: Words, first: Words, begin: int) -> int:
    """Where a piece of late tuples ends that may be kept before any window is computed again that one of them is for.

    A tuple that comes too late for a window must not be kept before that one is computed for those that came in time.
    """
    oldest = first[begin]
    for i in range(begin, len(first)):
        if since[i] > oldest and since[i] > oldest_with[i]:
            return i
        oldest = min(oldest, first[i])
    return len(first)


class Late(NamedTuple):
    """Late tuples of which closed windows are corrected: their places in the run, and by each the windows of it."""

    places: Words
    first: Words
    last: Words

    def among(self, piece: slice) -> Late:
        """Some of them."""
        return Late(self.places[piece], self.first[piece], self.last[piece])


def first_open_at(grid: Panes, watermark: Words) -> Words:
    """The oldest windows that end after these watermarks."""
    return np.asarray((watermark - grid.range) // grid.slide + 1)


class ChangingAggregate(Operator):
    """The mutable half of `Changing`: the aggregate, the panes of windows that may change, the rows that have left."""

    spec: Changing

    def __init__(self, spec: Changing, context: BuildContext) -> None:
        self.spec = spec
        # Which rows are wanted is asked here, where a row that is wanted no more is a change.
        aggregate = replace(spec.made_by, having=None)
        self._first = AggregateOperator(aggregate, context.texts)
        self._panes = KeptPanes(aggregate, context.texts)
        having = spec.made_by.having
        self._having = None if having is None else having.compiled(context)
        self._keys = len(aggregate.keys)
        self._rows = EmittedRows(self._keys, len(aggregate.aggregates))

    def process(self, run: OrderedBatch, ordered: bool) -> Iterator[Output]:
        """Take in a run; yield the windows it closes, and then what its late tuples change of those that are closed."""
        for made in self._first.process(run, ordered):
            yield from self._answered(made)
        yield from self._corrected(run)
        self._forget(run.watermark)

    def _answered(self, made: Output) -> Iterator[Output]:
        """Closed windows, whose rows leave for the first time."""
        kept = self._wanted(made)
        changes = self._rows.take(*self._lines(made), kept, final=True)
        if len(changes.lines):
            yield self._leaving(made, changes)

    def _lines(self, made: Output) -> tuple[Words, Words, Words]:
        """The windows of lines, their keys, and their values."""
        grid, values = self.spec.made_by.grid, 2 + self._keys
        return made.columns[0] // grid.slide, _side_by_side(made, 2, values), _side_by_side(made, values, None)

    def _wanted(self, made: Output) -> Flags:
        """Of which lines HAVING is true."""
        return np.ones(len(made.ts), np.bool_) if self._having is None else self._having(made.columns)

    def _leaving(self, made: Output, changes: Changes) -> Output:
        """The lines that leave, as they do."""
        leaving = made.only(changes.lines)
        columns = (*leaving.columns[: 2 + self._keys], *changes.values.T)
        return replace(leaving, columns=columns, change=changes.change, version=changes.version)

    def _corrected(self, run: OrderedBatch) -> Iterator[Output]:
        """What late tuples change of closed windows."""
        late = run.late
        in_time = np.flatnonzero(~late)
        self._panes.keep(run.words if len(in_time) == len(run) else run.words[:, in_time])
        places = np.flatnonzero(late)
        if not len(places):
            return
        grid = self.spec.made_by.grid
        ts, watermark = run.ts[places], run.watermark_at_arrival[places]
        with_it = first_open_at(grid, ts), ts // grid.slide
        since = first_open_at(grid, watermark - self.spec.correctable - 1)
        missed = Late(places, np.maximum(with_it[0], since), np.minimum(with_it[1], first_open_at(grid, watermark) - 1))
        first = np.where(missed.first <= missed.last, missed.first, NOWHERE)
        begin = 0
        while begin < len(places):
            end = end_of_piece(with_it[0], since, first, begin)
            yield from self._changed_by(run, missed.among(slice(begin, end)))
            begin = end

    def _changed_by(self, run: OrderedBatch, late: Late) -> Iterator[Output]:
        """What these late tuples change, all of which may be kept."""
        panes, rows = self._panes, self._rows
        words = run.words[:, late.places]
        panes.keep(words)
        missing = late.first <= late.last
        if not missing.any():
            return
        places, first, last = (column[missing] for column in late)
        windows, groups, by = _each_once(panes.groups(words[:, missing]), first, last, places)
        marked = rows.mark(windows, panes.keys(groups), by + 1)
        for made in panes.rows_of(windows, groups):
            window, keys, values = self._lines(made)
            marks = rows.marks(rows.places(window, keys, np.zeros(len(window), np.bool_)))
            again = np.flatnonzero(marks)
            now = replace(made, by=marks - 1, at_watermark=False, amends=True).only(again)
            changes = rows.take(window[again], keys[again], values[again], self._wanted(now))
            if len(changes.lines):
                yield self._leaving(now, changes)
        rows.unmark(marked)

    def _forget(self, watermark: int) -> None:
        """Windows that are not corrected any more once the watermark stands here."""
        grid = self.spec.made_by.grid
        before = (watermark - self.spec.correctable - 1 - grid.range) // grid.slide + 1
        self._panes.forget(before)
        self._rows.forget(before)

    def combine_panes(self, partials: Words) -> None:
        self._first.combine_panes(partials)
        self._panes.combine_panes(partials)

    def answers_for(self, bound: float) -> AnswerLog | None:
        return self._first.answers_for(bound)

    @property
    def state_rows(self) -> int:
        """Partial aggregates and values of open windows, of those that may change, and the rows that have left."""
        return self._first.state_rows + self._panes.state_rows + len(self._rows)

    def window_contents(self, watermark: int) -> Iterator[WindowContents]:
        """What the window holds, with what is kept of closed ones; and the rows that have left."""
        own = [one for each in (self._first, self._panes) for one in each.window_contents(watermark)]
        yield WindowContents(0, sum(one.tuples for one in own), sum(one.words for one in own))
        yield WindowContents(RESULTS, len(self._rows), self._rows.words)

    def snapshot_delta(self) -> list[StateUpdate]:
        entries = [*under(FIRST, self._first.snapshot_delta()), *under(KEPT, self._panes.snapshot_delta())]
        return [*entries, *self._rows.snapshot_delta()]

    def restore(self, entries: list[StateUpdate]) -> None:
        parts = by_part(entries)
        self._first.restore(parts[FIRST])
        self._panes.restore(parts[KEPT])
        self._rows.restore(parts[EMITTED])


NOWHERE = 2**62
"""In place of the first window that is corrected, where there is none."""


def _side_by_side(made: Output, begin: int, end: int | None) -> Words:
    """Columns of lines as one array, of shape (lines, columns)."""
    columns = made.columns[begin:end]
    return np.stack(columns, axis=1) if columns else np.zeros((len(made.ts), 0), np.int64)


def _each_once(groups: Words, first: Words, last: Words, places: Words) -> tuple[Words, Words, Words]:
    """Every window of every group that tuples are in, with the last of these."""
    # Most tuples of a group are in the same windows.
    spans, of = np.unique(np.stack([groups, first, last]), axis=1, return_inverse=True)
    newest = np.zeros(spans.shape[1], np.int64)
    np.maximum.at(newest, of.ravel(), places)
    counts = spans[2] - spans[1] + 1
    nth = np.arange(counts.sum()) - np.repeat(np.cumsum(counts) - counts, counts)
    windows = np.repeat(spans[1], counts) + nth
    pairs, of = np.unique(np.stack([np.repeat(spans[0], counts), windows]), axis=1, return_inverse=True)
    by = np.zeros(pairs.shape[1], np.int64)
    np.maximum.at(by, of.ravel(), np.repeat(newest, counts))
    return pairs[1], pairs[0], by
