"""The first rows of every window, slow and obvious: all tuples of a window are sorted when it closes.

Invariant: shares no code with the operator. A result is (end of the window, columns).
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Collection, Iterable, Iterator
from math import copysign, isnan
from typing import Any

from slackwater.core.batch import Batch
from slackwater.core.schema import Kind
from slackwater.operators.top import SortKey, TopRows
from tests.kit.oracle_projection import Made
from tests.kit.oracle_release import NEVER, Released, Tuple, tuples_of
from tests.kit.words import decode


def truth(spec: TopRows, batch: Batch, absent: Collection[int] = ()) -> Counter[Made]:
    """The true rows on these tuples, but for those that are absent."""
    present = [e for e in tuples_of(batch) if e.passes and e.row not in absent]
    return _rows(spec, [(e, NEVER) for e in present])


def processed(spec: TopRows, released: Iterable[Released]) -> Counter[Made]:
    """The rows on a release sequence: a tuple is in its window if that ends after the watermark that it met.

    >>> spec = TopRows(10, (), (SortKey(1, Kind.INT, descending=True),), 2, (SortKey(1, Kind.INT),), 2)
    >>> steps = [Released(Tuple(0, ts, (ts, value)), met, met) for ts, value, met in ((3, 7, 0), (4, 9, 3), (5, 8, 12))]
    >>> sorted(processed(spec, steps))
    [(10, (0, 10, 7, 2)), (10, (0, 10, 9, 1))]
    """
    return _rows(spec, [(step.tuple, step.met) for step in released])


def state_bound(spec: TopRows, since: Callable[[int], int], watermark: int) -> int:
    """Tuples of open windows."""
    return since(watermark - spec.range)


def _rows(spec: TopRows, came: Iterable[tuple[Tuple, int]]) -> Counter[Made]:
    windows = OpenTop(spec)
    for e, met in came:
        windows.add(e, met)
    return Counter(windows.up_to(None))


class OpenTop:
    """The tuples of every window and part that has not been emitted."""

    def __init__(self, spec: TopRows) -> None:
        self.spec = spec
        self.members: dict[tuple[int, tuple[int, ...]], list[Tuple]] = {}

    def add(self, e: Tuple, met: int) -> None:
        """A tuple that met this watermark enters its window, if that is open."""
        end = e.ts // self.spec.range * self.spec.range + self.spec.range
        begun = () if self.spec.start is None else (self.spec.start,)
        if end > met:
            part = tuple(e.words[row] for row in (*begun, *self.spec.partition))
            self.members.setdefault((end, part), []).append(e)

    def up_to(self, watermark: int | None) -> Iterator[Made]:
        """Emit the windows that end by then, or all."""
        spec = self.spec
        for end, part in sorted(self.members):
            if watermark is None or end <= watermark:
                inside = sorted(self.members.pop((end, part)), key=self._place)
                for number, e in enumerate(inside[: spec.most], 1):
                    start = end - spec.range if spec.start is None else e.words[spec.start]
                    yield end, (start, end, *(e.words[column.row] for column in spec.columns), number)

    def _place(self, e: Tuple) -> Any:
        """By the order; then the older; then by what is emitted, minus zero before zero."""
        shown = [e.words[column.row] for column in self.spec.columns]
        kinds = [column.kind for column in self.spec.columns]
        signs = [copysign(1.0, decode(w, k) or 0) if k is Kind.FLOAT else 0 for w, k in zip(shown, kinds, strict=True)]
        return (
            [_rank(key, e.words[key.row]) for key in self.spec.order],
            e.ts,
            [(_rank(key, word), sign) for key, word, sign in zip(self.spec.columns, shown, signs, strict=True)],
        )


def _rank(key: SortKey, word: int) -> tuple[int, int, float]:
    value = decode(word, key.kind)
    if value is None:
        return (-1 if key.nulls_first else 1), 0, 0
    sign = -1 if key.descending else 1
    return (0, sign, 0) if isnan(value) else (0, 0, sign * value)
