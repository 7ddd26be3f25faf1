"""Outer, semi and anti joins, slow and obvious: all pairs are tried, and whoever is in none has a row of its own.

Invariant: shares no code with the operator. A result is (timestamp, columns), a null standing where there is no tuple;
counted, its timestamp.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Collection, Iterable, Iterator, Sequence
from typing import Any

from slackwater.core.batch import Batch
from slackwater.core.join_kinds import JoinKind
from slackwater.core.schema import NULL_WORD
from slackwater.expressions.tree import Column, walk
from slackwater.operators.join.absence import OuterJoin
from tests.kit.evaluate import evaluate
from tests.kit.oracle_join import SlowWindows, joins, near_enough
from tests.kit.oracle_projection import Made
from tests.kit.oracle_release import Released, Tuple, tuples_of
from tests.kit.words import decode

Pair = tuple[Tuple | None, Tuple | None]


def truth(spec: OuterJoin, batch: Batch, absent: Collection[int] = ()) -> Counter[Any]:
    """The true rows on these tuples, but for those that are absent."""
    present = [e for e in tuples_of(batch) if e.passes and e.row not in absent]
    pairs = [(a, b) for a in present if a.stream == 0 for b in present if b.stream == 1]
    return _rows(spec, [pair for pair in pairs if _matches(spec, *pair)], present)


def processed(spec: OuterJoin, released: Iterable[Released]) -> Counter[Any]:
    """The rows on a release sequence: a late tuple is met by those behind it, and makes nothing itself."""
    before: list[Tuple] = []
    pairs: list[tuple[Tuple, Tuple]] = []
    in_time: list[Tuple] = []
    for step in released:
        e = step.tuple
        if not step.late:
            met = [(e, other) if e.stream == 0 else (other, e) for other in before if other.stream != e.stream]
            pairs += [pair for pair in met if _matches(spec, *pair)]
            in_time.append(e)
        before.append(e)
    return _rows(spec, pairs, in_time)


def of_inputs(spec: OuterJoin, inputs: Sequence[Sequence[Tuple]]) -> Iterator[Made]:
    """The true rows on these tuples of either input."""
    pairs = [(a, b) for a in inputs[0] for b in inputs[1] if _matches(spec, a, b)]
    return _rows(spec, pairs, [*inputs[0], *inputs[1]]).elements()


class Lonely:
    """The same, tuple by tuple: who is in no pair yet, and until when."""

    def __init__(self, spec: OuterJoin) -> None:
        self.spec, self.windows = spec, SlowWindows(spec.made_by)
        self.alone: list[Tuple] = []

    def take(self, e: Tuple, met: int) -> Iterator[Made]:
        """The rows of a tuple that met this watermark, and those of tuples whose window it shows to be over."""
        late = e.ts < met
        yield from self.up_to(met if late else e.ts)
        if not late:
            kind = self.spec.kind
            self.alone += [e] * kind.preserved[e.stream]
            for a, b in self.windows.results(e):
                row: Pair = (a, None) if kind.one_sided else (a, b)
                if kind.outer or (kind is JoinKind.SEMI and any(a is x for x in self.alone)):
                    yield from self._given(e.ts, row)
                self.alone = [x for x in self.alone if x is not a and x is not b]
        self.windows.enter(e, met)

    def up_to(self, watermark: int | None) -> Iterator[Made]:
        """The rows of those whose window the watermark has passed; of all."""
        over = [(_until(self.spec, x), x) for x in self.alone]
        over = [(until, x) for until, x in over if watermark is None or until < watermark]
        for until, x in sorted(over, key=lambda one: one[0]):
            self.alone = [other for other in self.alone if other is not x]
            if self.spec.kind.lonely:
                yield from self._given(until, (x, None) if x.stream == 0 else (None, x))

    def _given(self, ts: int, row: Pair) -> Iterator[Made]:
        if _wanted(self.spec, row):
            yield ts, _columns(self.spec, row)


def corrected(spec: OuterJoin, released: Iterable[Released], reach: int) -> Counter[Any]:
    """The rows on a release sequence with what late tuples add and take back, as far as that is `reach` behind."""
    before: list[Tuple] = []
    pairs: list[tuple[Tuple, Tuple]] = []
    alone: list[Tuple] = []
    for step in released:
        e = step.tuple
        met = [(e, other) if e.stream == 0 else (other, e) for other in before if other.stream != e.stream]
        reached = [(a, b) for a, b in met if not step.late or max(a.ts, b.ts) >= step.met - reach]
        pairs += [pair for pair in reached if _matches(spec, *pair)]
        alone += [e] * (e.ts >= step.met - reach)
        before.append(e)
    return _rows(spec, pairs, alone)


def state_bound(spec: OuterJoin, since: Callable[[int], int], watermark: int) -> int:
    """That of the join that makes the pairs is asked for instead."""
    raise NotImplementedError


def _until(spec: OuterJoin, x: Tuple) -> int:
    """The last instant at which a partner may lie."""
    until = [x.ts + spec.made_by.windows[x.stream]]
    for row, most, required in spec.closing if x.stream == 0 else ():
        if x.words[row] != NULL_WORD:
            until.append(x.words[row] + most)
        elif required:
            until.append(x.ts)
    return max(x.ts, min(until))


def _matches(spec: OuterJoin, one: Tuple, other: Tuple) -> bool:
    return near_enough(spec.made_by, (one, other)) and joins(spec.made_by, (one, other))


def _rows(spec: OuterJoin, pairs: list[tuple[Tuple, Tuple]], alone: list[Tuple]) -> Counter[Any]:
    """Rows of pairs, in the order in which they are made, and of tuples that may have a row of their own."""
    kind = spec.kind
    rows: list[tuple[int, Pair]] = []
    if kind is JoinKind.SEMI:
        for x in alone:
            firsts = [max(a.ts, b.ts) for a, b in pairs if a is x]
            rows += [(min(firsts), (x, None))] if firsts else []
    elif kind is not JoinKind.ANTI:
        rows += [(max(a.ts, b.ts), (a, b)) for a, b in pairs]
    if kind is not JoinKind.SEMI:
        for x in alone:
            if kind.preserved[x.stream] and not any(x is a or x is b for a, b in pairs):
                row: Pair = (x, None) if x.stream == 0 else (None, x)
                rows.append((_until(spec, x), row))
    wanted = [(ts, _columns(spec, row)) for ts, row in rows if _wanted(spec, row)]
    return Counter(ts for ts, _ in wanted) if spec.counted else Counter(wanted)


def _columns(spec: OuterJoin, row: Pair) -> tuple[int, ...]:
    found = []
    for (stream, word), null in zip(spec.made_by.emit, spec.nulls, strict=True):
        e = row[stream]
        found.append(null if e is None else e.words[word])
    return tuple(found)


def _wanted(spec: OuterJoin, row: Pair) -> bool:
    """Whether everything is true of a row that must be."""
    place = dict(zip(spec.names, spec.made_by.emit, strict=False))
    values: list[dict[str, object]] = [{}, {}]
    for condition in spec.kept:
        for node in walk(condition):
            if isinstance(node, Column):
                e, (_, word) = row[node.stream], place[node.stream, node.name]
                values[node.stream][node.name] = None if e is None else decode(e.words[word], node.kind)
    return all(evaluate(condition, values) is True for condition in spec.kept)
