"""Aggregates and DISTINCT over relations, by the kernels of the aggregate operator.

An aggregate that stands on a window, with nothing but selections and projections between, is kept by pane as tuples
come and go. Any other is computed from the rows of an instant: they are numbered by their keys and added to the partial
result of their group. Where all values must be seen in order, they are given to the aggregate operator as one window.

Invariant: a window of an instant T ends at T, whereas those of the aggregate operator begin at multiples of the slide;
so event times are shifted by what the range leaves when it is divided by the slide.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from itertools import pairwise

import numpy as np

from slackwater.core.batch import FIRST_COLUMN, TS, Words
from slackwater.core.collections.numbering import Numbering
from slackwater.core.schema import Field, Kind
from slackwater.core.state import encode_json, state_update
from slackwater.core.time import AFTER_ALL, BEFORE_ALL
from slackwater.disorder.ordered_batch import OrderedBatch, OrderedTuples
from slackwater.expressions.relational import Aggregate, AggregateCall, Distinct
from slackwater.expressions.tree import Column, Expr
from slackwater.operators.aggregate.algebra import AggregateSpec, Layout, lower
from slackwater.operators.aggregate.operator import WindowAggregate
from slackwater.operators.aggregate.panes import first_open
from slackwater.operators.aggregate.partials import ROW, add_rows, begin_groups, program_for
from slackwater.operators.contract import BuildContext
from slackwater.operators.instant.blocks import GROUP_KEY, VALUE, Block, Mapper, block, empty, gathered
from slackwater.operators.output import Output

BOUNDS = 2
"""Columns of an aggregate's output before its keys: start and end of the window."""


def as_aggregate(distinct: Distinct) -> Aggregate:
    """DISTINCT is a group for every row; the count that comes with it is dropped."""
    columns = distinct.columns
    keys = tuple(Column(0, column.name, column.kind, column.scale) for column in columns)
    counted = Field("\0count", Kind.INT, columns[0].arrow)
    return Aggregate(distinct.input, keys, columns, (AggregateCall("COUNT", None, None, counted),))


def _with_room(program: Words, state: Words, groups: int) -> Words:
    """Partial results for at least so many groups."""
    if groups <= len(state):
        return state
    larger = np.zeros((max(256, 2 * groups), state.shape[1]), np.int64)
    larger[: len(state)] = state
    begin_groups(program, larger, larger.view(np.float64), len(state))
    return larger


class Totals:
    """Partial results of groups that are known by numbers."""

    def __init__(
        self, program: Words, arguments: Mapper, specs: Sequence[AggregateSpec], layout: Layout, width: int
    ) -> None:
        self._program, self._arguments, self._specs, self._layout = program, arguments, specs, layout
        self._width = width
        self._state: Words = np.zeros((0, layout.width), np.int64)

    def add(self, numbers: Words, given: Block, groups: int) -> None:
        """Add rows to the groups with these numbers; there are so many groups."""
        self._state = _with_room(self._program, self._state, groups)
        values = self._arguments(given).words
        add_rows(
            self._program, self._state, self._state.view(np.float64), numbers, values, values.view(np.float64)
        )  # fmt: skip

    def block(self, keys: Words, groups: int | Words) -> Block:
        """The groups with these keys: so many from the first on, or those with these numbers."""
        state = self._state[:groups] if isinstance(groups, int) else self._state[groups]
        if not len(state):
            return empty(self._width)
        lowered = [lower(spec, self._layout, state) for spec in self._specs]
        return block(np.stack([*keys, *lowered][: self._width]), len(state))


class Grouping:
    """What the aggregate operator is given of the rows of a relation, and what it gives back."""

    def __init__(self, node: Aggregate | Distinct, context: BuildContext) -> None:
        aggregate = as_aggregate(node) if isinstance(node, Distinct) else node
        columns = aggregate.input.columns
        self._context = context
        self.width = len(node.columns)
        self._keys = Mapper(aggregate.keys, GROUP_KEY, columns, context.encode_text)
        arguments = list(dict.fromkeys(call.argument for call in aggregate.calls if call.argument is not None))
        self._arguments = Mapper(arguments, VALUE, columns, context.encode_text)
        first = FIRST_COLUMN + len(aggregate.keys)
        self._rows = first + len(arguments)
        self._key_rows = tuple(range(FIRST_COLUMN, first))
        self._specs = tuple(_spec(call, first, arguments) for call in aggregate.calls)
        self._layout = Layout.of(self._specs)
        self.holistic = any(spec.holistic for spec in self._specs)

    def over(self, size: int, slide: int | None) -> WindowAggregate:
        """The aggregate over windows of this size."""
        return WindowAggregate(size, slide, self._key_rows, self._specs, self._rows)

    def run(self, ts: Words | int, given: Block, met: Words | int, watermark: int) -> OrderedBatch:
        """Rows as tuples, and where the watermark stands behind them."""
        n = given.n
        words = np.empty((self._rows, n), np.int64)
        words[TS], words[1] = ts, 0
        keys = self._keys(given).words
        first = FIRST_COLUMN + keys.shape[0]
        words[FIRST_COLUMN:first] = keys[:, :n]
        words[first:] = self._arguments(given).words[:, :n]
        return _run(words, np.broadcast_to(np.asarray(met, np.int64), (n,)).copy(), watermark)

    def nothing(self, watermark: int) -> OrderedBatch:
        """No rows, and where the watermark stands."""
        return _run(np.zeros((self._rows, 0), np.int64), np.zeros(0, np.int64), watermark)

    def of(self, blocks: Iterable[Block]) -> Block:
        """The groups of these rows."""
        if self.holistic:
            return self._of_window(blocks)
        numbering, totals = Numbering(len(self._key_rows), nulls=True), self.totals()
        for given in blocks:
            if given.n:
                totals.add(numbering.of(*self._keys(given)), given, numbering.count)
        return totals.block(numbering.keys, numbering.count)

    def totals(self) -> Totals:
        """Partial results for groups that are known by numbers; there are none where values must be seen in order."""
        program = program_for(self._layout, self._context.texts)
        # Rows of a program count from the event time; here arguments stand alone.
        program[:, ROW] -= np.where(program[:, ROW] >= 0, FIRST_COLUMN + len(self._key_rows), 0)
        return Totals(program, self._arguments, self._specs, self._layout, self.width)

    def _of_window(self, blocks: Iterable[Block]) -> Block:
        operator = self.over(1, None).build(self._context)
        made: list[Output] = []
        for given in blocks:
            if given.n:
                made += operator.process(self.run(0, given, BEFORE_ALL, BEFORE_ALL), False)
        made += operator.process(self.nothing(AFTER_ALL), False)
        return gathered((self.block_of(output) for output in made), self.width)

    def block_of(self, output: Output) -> Block:
        """Groups without the bounds of their window."""
        columns = output.columns[BOUNDS : BOUNDS + self.width]
        return block(np.stack(columns) if columns else np.zeros((0, output.results), np.int64), output.results)


def _run(words: Words, met: Words, watermark: int) -> OrderedBatch:
    nothing = np.zeros(words.shape[1], np.int64)
    return OrderedBatch(OrderedTuples.of(nothing, words, met), watermark, watermark, watermark)


def _spec(call: AggregateCall, first: int, arguments: list[Expr]) -> AggregateSpec:
    if call.argument is None:
        return AggregateSpec(call.function)
    return AggregateSpec(call.function, first + arguments.index(call.argument), call.argument.kind, call.parameter)


class KeptAggregate:
    """An aggregate over the tuples of one window, kept by pane."""

    def __init__(self, node: Aggregate | Distinct, size: int, slide: int, context: BuildContext) -> None:
        self._grouping = Grouping(node, context)
        self.width = self._grouping.width
        self._shift = size % slide
        self._spec, self._context = self._grouping.over(size, slide), context
        self.begin()

    def begin(self, passed: int = BEFORE_ALL) -> None:
        """Forget everything. Instants up to `passed` are over; tuples that come until `begun` are those of windows
        after it."""
        self._operator = self._spec.build(self._context)
        self._made: dict[int, Block] = {}
        # A tuple behind the watermark is put into its place among all panes of a group, one by one; it is far quicker
        # to fill panes that no window has reached, and then to say which window is next.
        self._over = None if passed == BEFORE_ALL or self._grouping.holistic else passed
        if self._over is None:
            self.advance(passed)
            self._made.clear()

    def begun(self) -> None:
        """All tuples that were there are back."""
        if self._over is not None:
            following = {"next": first_open(self._spec.grid, self._shifted(self._over))}
            entries = [one for one in self._operator.snapshot_delta() if one.key != "next"]
            self._operator = self._spec.build(self._context)
            self._operator.restore([state_update("aggregate", "next", encode_json(following)), *entries])
            self._over = None

    def take(self, ts: Words, given: Block, met: Words | int) -> None:
        """More tuples of the window, each with the watermark that it met."""
        if given.n:
            reached = BEFORE_ALL if self._over is not None else met
            self._process(self._grouping.run(ts + self._shift, given, reached + self._shift, BEFORE_ALL))

    def advance(self, watermark: int) -> None:
        """Answer all instants up to the watermark."""
        self._process(self._grouping.nothing(self._shifted(watermark)))

    def at(self, instant: int) -> Block:
        """The groups of an instant; those of earlier ones are forgotten."""
        for earlier in [one for one in self._made if one < instant]:
            del self._made[earlier]
        return self._made.get(instant, empty(self.width))

    def _shifted(self, watermark: int) -> int:
        return watermark if watermark in (BEFORE_ALL, AFTER_ALL) else watermark + self._shift

    def _process(self, run: OrderedBatch) -> None:
        found: dict[int, list[Block]] = {}
        for output in self._operator.process(run, False):
            edges = [0, *(np.flatnonzero(np.diff(output.ts)) + 1).tolist(), len(output.ts)]
            groups = self._grouping.block_of(output)
            for begin, end in pairwise(edges):
                instant = int(output.ts[begin]) - self._shift
                found.setdefault(instant, []).append(block(np.ascontiguousarray(groups.words[:, begin:end])))
        for instant, parts in found.items():
            # What was there already is of the same instant: a large window leaves in several pieces.
            before = [self._made[instant]] if instant in self._made else []
            self._made[instant] = gathered([*before, *parts], self.width)
