"""Everything that is kept as tuples come and go: the windows of every stream, and what is made of each tuple once.

The tuples of a stream are its state. Beside them stands what selections and projections on a window make of each tuple,
and what aggregates on a window have counted by pane; both can be made again from the tuples.

Invariant: windows over one stream share its tuples, whatever their ranges; two readers of the same selection of a
stream share its rows. When the plan changes, the tuples stay where they are, and so does what old and new plan have in
common; the rest is made of the tuples.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field, replace

import numpy as np

from slackwater.core.batch import Flags, Words
from slackwater.expressions.relational import Aggregate, Distinct, Project, Relation, Scan, Select
from slackwater.expressions.tree import Expr
from slackwater.operators.contract import BuildContext
from slackwater.operators.instant.blocks import JOIN_KEY, VALUE, Block, Mapper, Sieve, block, places_of
from slackwater.operators.instant.fragments import reading
from slackwater.operators.instant.grouping import KeptAggregate
from slackwater.operators.instant.spec import InstantRelation
from slackwater.operators.instant.store import CarriedKey, WindowStore


def window_under(relation: Relation) -> Scan | None:
    """The window whose tuples give a row of the relation each, where there is one."""
    while isinstance(relation, Select | Project):
        relation = relation.input
    return relation if isinstance(relation, Scan) else None


def without_range(relation: Relation) -> Relation:
    """What is made of each tuple, however far the window reaches back."""
    if isinstance(relation, Scan):
        return replace(relation, range=0)
    return reading(relation, *(without_range(below) for below in relation.inputs))


class Chain:
    """Selections and projections of the tuples of one stream."""

    def __init__(self, relation: Relation, context: BuildContext) -> None:
        self._steps: list[Sieve | Mapper] = []
        while isinstance(relation, Select | Project):
            columns = relation.input.columns
            if isinstance(relation, Select):
                self._steps.append(Sieve(relation.condition, places_of(columns), context.encode_text))
            else:
                self._steps.append(Mapper(relation.expressions, VALUE, columns, context.encode_text))
            relation = relation.input
        self._steps.reverse()

    def __call__(self, tuples: Block) -> tuple[Block, Words | None]:
        """The rows that are made, and of which tuples; None: of all."""
        of: Words | None = None
        for step in self._steps:
            if isinstance(step, Mapper):
                tuples = step(tuples)
                continue
            keeps: Flags = step(tuples)
            if not keeps.all():
                of = np.flatnonzero(keeps) if of is None else of[keeps]
                tuples = tuples.taken(keeps)
        return tuples, of


@dataclass
class Rows:
    """What is made of each tuple of a stream, and who reads it."""

    stream: int
    chain: Chain
    range: int
    store: WindowStore | None = None
    """None where nobody reads the rows themselves."""
    aggregates: dict[tuple[Relation, int], KeptAggregate] = field(default_factory=dict)
    new: list[WindowStore | KeptAggregate] = field(default_factory=list)
    """What has not yet seen the tuples that were there before it."""

    @property
    def takers(self) -> list[WindowStore | KeptAggregate]:
        """Who wants what is made."""
        return [*([] if self.store is None else [self.store]), *self.aggregates.values()]


class Windows:
    """The windows of all streams, and what stands on them."""

    def __init__(self, spec: InstantRelation, context: BuildContext) -> None:
        self._spec, self._context = spec, context
        self.tuples = [WindowStore(len(spec.scan(stream).columns)) for stream in range(spec.streams)]
        self.ranges = [spec.ranges(stream)[-1] for stream in range(spec.streams)]
        self._made: dict[Relation, Rows] = {}
        self._before: dict[Relation, Rows] = {}
        """What the plan before this one had, while plans change."""

    def begin_change(self) -> None:
        """Begin a change of plan: the new readers of these windows ask for what they need."""
        self._before, self._made = self._made, {}

    def end_change(self, passed: int) -> None:
        """Drop what nobody has asked for, and make of the tuples what is new; instants up to `passed` are over."""
        self._before = {}
        for rows in self._made.values():
            if not rows.new:
                continue
            aggregates = [one for one in rows.new if isinstance(one, KeptAggregate)]
            for aggregate in aggregates:
                aggregate.begin(passed)
            for ts, words in self.tuples[rows.stream].all():
                self._give(rows, rows.new, ts, block(np.ascontiguousarray(words), len(ts)), passed)
            for aggregate in aggregates:
                aggregate.begun()
            rows.new = []

    def rows_of(self, relation: Relation) -> WindowStore:
        """Where the rows are kept that selections and projections make of a window."""
        scan = window_under(relation)
        assert scan is not None, "rows of one window"
        if relation is scan:
            return self.tuples[scan.stream]
        rows = self._rows(relation, scan)
        rows.range = max(rows.range, scan.range)
        if rows.store is None:
            before = self._before.get(without_range(relation))
            if before is not None and before.store is not None and before.range >= rows.range:
                rows.store, rows.range = before.store, before.range
            else:
                rows.store = WindowStore(len(relation.columns))
                rows.new.append(rows.store)
        return rows.store

    def carry(self, relation: Relation, keys: Sequence[Expr]) -> CarriedKey:
        """Add a number for these keys to the rows that are made of a window."""
        mapper = Mapper(keys, JOIN_KEY, relation.columns, self._context.encode_text)
        return self.rows_of(relation).carry(tuple(keys), len(keys), mapper)

    def aggregate_of(self, relation: Aggregate | Distinct) -> KeptAggregate:
        """The aggregate of such rows, kept by pane."""
        scan = window_under(relation.input)
        assert scan is not None, "rows of one window"
        rows = self._rows(relation.input, scan)
        key = (without_range(relation), scan.range)
        if key not in rows.aggregates:
            before = self._before.get(without_range(relation.input))
            kept = None if before is None else before.aggregates.get(key)
            if kept is None:
                kept = KeptAggregate(relation, scan.range, self._spec.slide, self._context)
                rows.new.append(kept)
            rows.aggregates[key] = kept
        return rows.aggregates[key]

    def _rows(self, relation: Relation, scan: Scan) -> Rows:
        key = without_range(relation)
        if key not in self._made:
            self._made[key] = Rows(scan.stream, Chain(relation, self._context), 0)
        return self._made[key]

    def append(self, stream: int, ts: Words, words: Words, met: Words | int) -> None:
        """Tuples of a stream, in processing order, each with the watermark that it met."""
        self.tuples[stream].append(ts, words)
        given = block(np.ascontiguousarray(words), len(ts))
        for rows in self._made.values():
            if rows.stream == stream:
                self._give(rows, rows.takers, ts, given, met)

    def _give(
        self, rows: Rows, takers: Sequence[WindowStore | KeptAggregate], ts: Words, given: Block, met: Words | int
    ) -> None:
        """What a chain makes of some tuples, to those who want it."""
        made, of = rows.chain(given)
        when, their = (ts, met) if of is None else (ts[of], met if isinstance(met, int) else met[of])
        for taker in takers:
            if isinstance(taker, WindowStore):
                taker.append(when, made.rows)
            else:
                taker.take(when, made, their)

    def advance(self, watermark: int) -> None:
        """Compute the aggregates of the instants up to the watermark."""
        for rows in self._made.values():
            for aggregate in rows.aggregates.values():
                aggregate.advance(watermark)

    def expire(self, instant: int) -> None:
        """The next instant is this one, or later."""
        for stream, store in enumerate(self.tuples):
            store.expire(instant - self.ranges[stream])
        for rows in self._made.values():
            if rows.store is not None:
                rows.store.expire(instant - rows.range)

    def make_again(self, passed: int) -> None:
        """Make all that stands on the tuples anew; instants up to `passed` are over."""
        for rows in self._made.values():
            if rows.store is not None:
                rows.store.clear()
            rows.new = rows.takers
        self.end_change(passed)
