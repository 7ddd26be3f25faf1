"""An aggregate that changes what it has emitted: rows of open windows leave early, those of closed ones are corrected.

A row of an open window is what its tuples come to so far. It leaves each time the largest clock has passed a multiple
of a period, if it is not what has left last; when its window closes, the final row follows.

A late tuple counts in every window that is still open when it comes; of those that are closed, the ones that end at
most `correctable` before the watermark that it meets are computed again, with all tuples that are kept, and what has
changed leaves at the end of the run.

Invariant: final rows are those of the aggregate alone. Together with the changes they are its answer over every
tuple that came while its window could still be corrected, however runs are cut; per window and group versions are 0, 1
and so on.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, replace
from typing import NamedTuple

import numpy as np

from slackwater.core.batch import Flags, Floats, Words
from slackwater.core.collections.records import NONE
from slackwater.core.emitting import DELETE
from slackwater.core.jit import in_place
from slackwater.core.quality import Quality
from slackwater.core.state import StateUpdate, by_part, under
from slackwater.disorder.meters import AnswerLog, Watched
from slackwater.disorder.ordered_batch import OrderedBatch
from slackwater.disorder.release.release import Release
from slackwater.operators.aggregate.emitted_rows import EMITTED, Changes, EmittedRows
from slackwater.operators.aggregate.expected_error import EXPECTED, ExpectedError
from slackwater.operators.aggregate.kept_panes import KeptPanes, open_rows
from slackwater.operators.aggregate.operator import AggregateOperator, WindowAggregate
from slackwater.operators.aggregate.panes import Panes, first_open
from slackwater.operators.aggregate.ticks import TICKS, Ticks
from slackwater.operators.contract import PLAIN, BuildContext, KeyClass, Operator, OperatorSpec, WithoutKey
from slackwater.operators.description import Described, Shown
from slackwater.operators.output import Output
from slackwater.operators.stages import Stages
from slackwater.operators.state_size import RESULTS, WindowContents

LOOKS = 64
"""How often a window is looked at, to find out whether its row may leave."""
PARTS = "first", "kept"
"""The parts of its state that have panes."""


@dataclass(frozen=True)
class Changing(OperatorSpec):
    """Spec: the aggregate, and how its rows change."""

    made_by: WindowAggregate
    correctable: int | None = None
    """How far behind the watermark windows are corrected; None: not at all."""
    every: int | None = None
    """How often rows of open windows leave; None: not at all, or as `error` says."""
    error: float | None = None
    """The expected error at which the one row of an open window leaves."""

    @property
    def period(self) -> int | None:
        """How often rows of open windows are due to be looked at; None: never."""
        return self.every if self.error is None else max(1, self.made_by.range // LOOKS)

    @property
    def reaches(self) -> int:
        """For how much longer than until it closes a window may change; -1: a closed one does not."""
        return -1 if self.correctable is None else self.correctable

    @property
    def at_once(self) -> bool:
        # Rows of open windows are of all tuples that have arrived.
        return self.period is not None

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
        """Partials are of tuples in time, which nothing is corrected for; they are kept beside those of late ones. Of
        their delays they tell nothing, by which rows of open windows are judged."""
        return None if self.at_once else self.made_by.pane_partials

    @property
    def state_identity(self) -> object:
        # For how much longer panes are kept may change, and how often rows leave.
        return {
            "made_by": self.made_by.state_identity,
            "corrected": self.correctable is not None,
            "early": self.at_once,
        }

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
        self._panes = None if spec.correctable is None else KeptPanes(aggregate, context.texts)
        having = spec.made_by.having
        self._having = None if having is None else having.compiled(context)
        self._keys = len(aggregate.keys)
        self._rows = EmittedRows(self._keys, len(aggregate.aggregates))
        self._ticks = None if spec.period is None else Ticks(spec.period)
        self._expected = ExpectedError(aggregate)

    def attach(self, release: Release) -> Stages:
        if self._ticks is not None:
            self._ticks.follow(release)
        return super().attach(release)

    def process(self, run: OrderedBatch, ordered: bool) -> Iterator[Output]:
        """Take in a run; yield the windows it closes, what its late tuples change of closed ones, and rows of open ones
        where they are due."""
        if self._ticks is None:
            yield from self._take(run, ordered)
            return
        for piece in self._ticks.pieces(run):
            for made in self._take(piece.run, ordered):
                yield piece.in_run(made)
            self._expected.saw(piece.run.delay)
            if piece.is_due:
                for made in self._so_far(piece.clock):
                    yield piece.at_its_end(made)

    def _take(self, run: OrderedBatch, ordered: bool) -> Iterator[Output]:
        for made in self._first.process(run, ordered):
            yield from self._answered(made)
        if self._panes is not None:
            yield from self._corrected(run, self._panes)
        self._forget(run.watermark)

    def _answered(self, made: Output) -> Iterator[Output]:
        """Closed windows, whose final rows leave; and rows that have left early and are not wanted in the end."""
        lines = self._lines(made)
        if self._ticks is not None:
            self._expected.closed(*lines)
        changes = self._rows.take(*lines, self._wanted(made), final=True)
        gone = changes.change == DELETE
        if not gone.all():
            yield self._leaving(made, changes.only(~gone))
        if gone.any():
            yield replace(self._leaving(made, changes.only(gone)), amends=True)

    def _so_far(self, clock: int) -> Iterator[Output]:
        """Rows of open windows that have changed since they left, where the largest clock stands there."""
        for made in open_rows(self._first):
            window, keys, values = self._lines(made)
            completeness = self._expected.completeness(made.columns[0], clock)
            expected = self._expected.of(completeness)
            self._expected.try_out(window, keys, values, completeness)
            due = self._due(window, keys, expected)
            now = replace(made, at_watermark=False, amends=True, expected_error=expected).only(due)
            changes = self._rows.take(window[due], keys[due], values[due], self._wanted(now))
            if len(changes.lines):
                yield self._leaving(now, changes)

    def _due(self, window: Words, keys: Words, expected: Floats) -> Words:
        """Which rows of open windows may leave: all, or those that are good enough, for the first time."""
        if self.spec.error is None:
            return np.arange(len(window))
        good = np.flatnonzero(expected <= self.spec.error)
        return good[self._rows.places(window[good], keys[good], np.zeros(len(good), np.bool_)) == NONE]

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

    def _corrected(self, run: OrderedBatch, panes: KeptPanes) -> Iterator[Output]:
        """What late tuples change of closed windows."""
        late = run.late
        in_time = np.flatnonzero(~late)
        panes.keep(run.words if len(in_time) == len(run) else run.words[:, in_time])
        places = np.flatnonzero(late)
        if not len(places):
            return
        grid = self.spec.made_by.grid
        ts, watermark = run.ts[places], run.watermark_at_arrival[places]
        with_it = first_open_at(grid, ts), ts // grid.slide
        since = first_open_at(grid, watermark - self.spec.reaches - 1)
        missed = Late(places, np.maximum(with_it[0], since), np.minimum(with_it[1], first_open_at(grid, watermark) - 1))
        first = np.where(missed.first <= missed.last, missed.first, NOWHERE)
        begin = 0
        while begin < len(places):
            end = end_of_piece(with_it[0], since, first, begin)
            yield from self._changed_by(run, missed.among(slice(begin, end)), panes)
            begin = end

    def _changed_by(self, run: OrderedBatch, late: Late, panes: KeptPanes) -> Iterator[Output]:
        """What these late tuples change, all of which may be kept."""
        rows, words = self._rows, run.words[:, late.places]
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
        before = first_open(self.spec.made_by.grid, watermark - self.spec.reaches - 1)
        if self._panes is not None:
            self._panes.forget(before)
        self._rows.forget(before)

    def combine_panes(self, partials: Words) -> None:
        for one in self._both:
            one.combine_panes(partials)

    @property
    def _both(self) -> list[AggregateOperator]:
        """What has panes."""
        return [self._first] if self._panes is None else [self._first, self._panes]

    def answers_for(self, bound: float) -> AnswerLog | None:
        return self._first.answers_for(bound)

    @property
    def state_rows(self) -> int:
        """Partial aggregates and values of open windows, of those that may change, and the rows that have left."""
        return sum(one.state_rows for one in self._both) + len(self._rows)

    def window_contents(self, watermark: int) -> Iterator[WindowContents]:
        """What the window holds, with what is kept of closed ones; and the rows that have left."""
        own = [one for each in self._both for one in each.window_contents(watermark)]
        yield WindowContents(0, sum(one.tuples for one in own), sum(one.words for one in own))
        yield WindowContents(RESULTS, len(self._rows), self._rows.words)

    def snapshot_delta(self) -> list[StateUpdate]:
        entries = [
            one for part, each in zip(PARTS, self._both, strict=False) for one in under(part, each.snapshot_delta())
        ]
        if self._ticks is not None:
            entries += [*self._ticks.snapshot_delta(), *self._expected.snapshot_delta()]
        return [*entries, *self._rows.snapshot_delta()]

    def restore(self, entries: list[StateUpdate]) -> None:
        parts = by_part(entries)
        for part, each in zip(PARTS, self._both, strict=False):
            each.restore(parts[part])
        if self._ticks is not None:
            self._ticks.restore(parts[TICKS])
            self._expected.restore(parts[EXPECTED])
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
