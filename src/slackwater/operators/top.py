"""The first rows of every window: those that come first by some columns, so many of each window and part of it.

Invariant: a window `[start, end)` is emitted when the watermark reaches `end`, as the windows of aggregates are; a late
tuple counts in a window that was still open when it came, and in no other. Of tuples that the order leaves equal the
older comes first, and then the one that is less in what is emitted: so nothing depends on how tuples came. What so many
others of its window and part stand before can be let go at once, for what comes later only stands before it, too.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from slackwater.core.batch import TS, Words
from slackwater.core.schema import NULL_FLOAT, NULL_WORD, Kind
from slackwater.core.state import StateUpdate
from slackwater.core.time import format_duration
from slackwater.disorder.ordered_batch import OrderedBatch
from slackwater.expressions.text_table import TextTable
from slackwater.operators.array_checkpoint import ArrayCheckpoint
from slackwater.operators.contract import PLAIN, BuildContext, KeyClass, Operator, OperatorSpec
from slackwater.operators.description import Described, Detail, Shown
from slackwater.operators.output import Output
from slackwater.operators.state_size import WindowContents

SMALLEST = 1024
"""So many tuples more than there were are worth letting go of some."""
_ALL_BUT_SIGN = np.int64(2**63 - 1)


@dataclass(frozen=True)
class SortKey:
    """A row of a tuple that tuples are put in order by. -0.0 is 0.0, NaN the greatest, a text is as its bytes are."""

    row: int
    kind: Kind
    descending: bool = False
    nulls_first: bool = True

    def words(self, own: Words, texts: TextTable | None, exactly: bool = False) -> tuple[Words, Words]:
        """Of the words of its row, two each that are less iff a tuple comes first; `exactly`, only equal words are."""
        null = own == (NULL_FLOAT if self.kind is Kind.FLOAT else NULL_WORD)
        if self.kind is Kind.FLOAT:
            own = own if exactly else (own.view(np.float64) + 0.0).view(np.int64)
            own = np.where(own < 0, own ^ _ALL_BUT_SIGN, own)
        elif self.kind is Kind.TEXT and texts is not None:
            own = places_of_texts(own, texts)
        own = np.where(null, 0, ~own if self.descending else own)
        return np.where(null, -1 if self.nulls_first else 1, 0), own


def places_of_texts(codes: Words, texts: TextTable) -> Words:
    """Of every code the place of its text among all of them, by their bytes."""
    distinct, of = np.unique(codes, return_inverse=True)
    ends, data = texts.gather(texts.find(distinct))
    column = pa.Array.from_buffers(pa.large_binary(), len(distinct), [None, pa.py_buffer(ends), pa.py_buffer(data)])
    place = np.empty(len(distinct), np.int64)
    place[pc.array_sort_indices(column).to_numpy()] = np.arange(len(distinct))
    return place[of.ravel()]


@dataclass(frozen=True)
class TopRows(OperatorSpec):
    """Spec: the window, what tells its parts apart, the order, and how many. Output columns: window start, window end,
    columns, and the number of each tuple in its part, from 1 on."""

    range: int
    partition: tuple[int, ...]
    order: tuple[SortKey, ...]
    most: int
    columns: tuple[SortKey, ...]
    """What is emitted; what is less in these comes first where the order says nothing."""
    rows: int
    start: int | None = None
    """The row that holds the start of a tuple's window, where that is the window of an aggregate; it ends behind the
    tuple then."""

    @property
    def windowed(self) -> bool:
        return True

    @property
    def needs_order(self) -> bool:
        """It is all the same in which order the tuples of a window come."""
        return False

    @property
    def one_shard(self) -> str | None:
        return None if self.partition else "the first rows of a window are those of all its rows"

    @property
    def shard_rows(self) -> tuple[tuple[int, ...], ...] | None:
        return (self.partition,) if self.partition else None

    @property
    def key_classes(self) -> list[KeyClass]:
        given = [column.row for column in self.columns]
        return [({0: row}, [2 + at for at, other in enumerate(given) if other == row]) for row in self.partition]

    @property
    def looks_back(self) -> int:
        return self.range

    @property
    def carried(self) -> tuple[int, ...]:
        """The rows that are kept of a tuple, the event time first."""
        read = (key.row for key in (*self.order, *self.columns))
        start = () if self.start is None else (self.start,)
        return tuple(dict.fromkeys((TS, *self.partition, *read, *start)))

    def ends(self, ts: Words) -> Words:
        """Where the windows of tuples of these times end."""
        return ts - ts % self.range + self.range

    def describe(self, shown: Shown) -> Described:
        (stream,) = shown.aliases
        parts = [shown.name(0, row) for row in self.partition]
        order = [_in_words(key, shown) for key in self.order]
        window = format_duration(self.range)
        windows = ["every window" if self.start is not None else f"every window of {window}", *parts]
        label = f"first {self.most} of {stream} in {' and '.join(windows)}"
        attributes = {"operator": "top", "streams": [stream], "most": self.most, "keys": parts, "order": order}
        attributes |= {"needs_order": self.needs_order, "range_us": self.range if self.start is None else None}
        return Described(label, attributes, (Detail(f"order by {', '.join(order)}; then the older, then by columns"),))

    def build(self, context: BuildContext = PLAIN) -> TopOperator:
        return TopOperator(self, context.texts)


def _in_words(key: SortKey, shown: Shown) -> str:
    nulls = "" if key.nulls_first is not key.descending else f" NULLS {'FIRST' if key.nulls_first else 'LAST'}"
    return f"{shown.name(0, key.row)}{' DESC' if key.descending else ''}{nulls}"


class TopOperator(Operator):
    """The mutable half of `TopRows`: the tuples of open windows that are among the first so far."""

    spec: TopRows

    def __init__(self, spec: TopRows, texts: TextTable | None = None) -> None:
        self.spec, self._texts = spec, texts
        self._place = {row: at for at, row in enumerate(spec.carried)}
        self._held: Words = np.zeros((len(self._place), 0), np.int64)
        """The rows of tuples that are carried."""
        self._enough = SMALLEST
        self._kept = ArrayCheckpoint("top")

    def process(self, run: OrderedBatch, ordered: bool) -> Iterator[Output]:
        """Take in a run; yield the windows it closes."""
        spec, passed = self.spec, run.passed(ordered)
        comes = np.flatnonzero(spec.ends(run.ts) > run.watermark_at_arrival)
        if len(comes):
            self._held = np.hstack([self._held, run.words[np.array(spec.carried)[:, None], comes]])
        closed = spec.ends(self._held[0]) <= passed.max(initial=run.watermark)
        if closed.any():
            made, self._held = self._held[:, closed], self._held[:, ~closed]
            yield self._emitted(made, passed)
        if self._held.shape[1] > self._enough:
            self._keep_first()

    def _keep_first(self) -> None:
        """Keep the first of every window and part."""
        first, _ = self._first_of(self._held)
        self._held = np.ascontiguousarray(self._held[:, first])
        self._enough = 2 * len(first) + SMALLEST

    def _emitted(self, tuples: Words, passed: Words) -> Output:
        spec, place = self.spec, self._place
        first, number = self._first_of(tuples)
        tuples = tuples[:, first]
        ends = spec.ends(tuples[0])
        starts = ends - spec.range if spec.start is None else tuples[place[spec.start]]
        columns = (starts, ends, *(tuples[place[column.row]] for column in spec.columns), number + 1)
        return Output(ends, columns, np.searchsorted(passed, ends), None, len(ends), at_watermark=True)

    def _first_of(self, tuples: Words) -> tuple[Words, Words]:
        """The tuples that are among the first of their window and part, in order, and how many each has before it."""
        spec = self.spec
        # Sessions that end together have begun at times of their own.
        begun = () if spec.start is None else (spec.start,)
        part = [spec.ends(tuples[0]), *(tuples[self._place[row]] for row in (*begun, *spec.partition))]
        keys = [*part, *self._words_of(spec.order, tuples)]
        found = np.lexsort(keys[::-1])
        first_of_part, first_of_equals = _first_alike(part, found), _first_alike(keys, found)
        number, least = np.arange(len(found)) - first_of_part, first_of_equals - first_of_part
        # What the order leaves equal is in or out together, until it is known which comes first.
        near = np.flatnonzero(least < spec.most)
        found, number, equals = found[near], number[near], (number != least)[near].any()
        if equals:
            ties = self._words_of(spec.columns, tuples[:, found], exactly=True)
            behind = np.lexsort((*ties[::-1], tuples[0, found], *(key[found] for key in keys[::-1])))
            found = found[behind]
            number = np.arange(len(found)) - _first_alike(part, found)
        wanted = np.flatnonzero(number < spec.most)
        return found[wanted], number[wanted]

    def _words_of(self, keys: Sequence[SortKey], tuples: Words, exactly: bool = False) -> list[Words]:
        return [word for key in keys for word in key.words(tuples[self._place[key.row]], self._texts, exactly)]

    @property
    def state_rows(self) -> int:
        """Tuples of open windows."""
        return int(self._held.shape[1])

    def window_contents(self, watermark: int) -> Iterator[WindowContents]:
        """The same, with their words."""
        yield WindowContents(0, self.state_rows, self._held.size)

    def snapshot_delta(self) -> list[StateUpdate]:
        self._keep_first()
        return list(self._kept.snapshot_delta({"held": self._held.T}))

    def restore(self, entries: list[StateUpdate]) -> None:
        arrays = self._kept.restore(entries)
        if arrays:
            self._held = np.ascontiguousarray(arrays["held"].T)


def _first_alike(keys: Sequence[Words], order: Words) -> Words:
    """Of every place in an order the first one from which on all keys are the same.

    >>> _first_alike([np.array([7, 7, 8, 8, 8]), np.array([1, 1, 1, 1, 2])], np.arange(5)).tolist()
    [0, 0, 2, 2, 4]
    """
    begins = np.arange(len(order)) == 0
    for key in keys:
        begins[1:] |= key[order[1:]] != key[order[:-1]]
    return np.asarray(np.maximum.accumulate(np.where(begins, np.arange(len(order)), 0)))
