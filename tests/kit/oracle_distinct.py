"""DISTINCT within a window, slow and obvious: every tuple looks through all rows that were emitted.

Invariant: shares no code with the operator. A result is (timestamp, columns).
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Collection, Iterable

from slackwater.core.batch import Batch
from slackwater.operators.distinct import StreamDistinct
from tests.kit.oracle_projection import Made
from tests.kit.oracle_release import Released, Tuple, tuples_of


def truth(spec: StreamDistinct, batch: Batch, absent: Collection[int] = ()) -> Counter[Made]:
    """The true rows on these tuples, but for those that are absent."""
    present = [e for e in tuples_of(batch) if e.passes and e.row not in absent]
    return _distinct(spec, sorted(present, key=lambda e: e.ts))


def processed(spec: StreamDistinct, released: Iterable[Released]) -> Counter[Made]:
    """The rows on a release sequence: late tuples are left out.

    >>> spec = StreamDistinct(range=4, columns=(1,), rows=2)
    >>> made = processed(spec, [Released(Tuple(0, t, (t, 7)), 0, t) for t in (1, 3, 5, 6)])
    >>> sorted(made)
    [(1, (7,)), (6, (7,))]
    """
    return _distinct(spec, [step.tuple for step in released if not step.late])


def corrected(spec: StreamDistinct, released: Iterable[Released]) -> Counter[Made]:
    """The rows in the end, where late tuples count as far as they are corrected."""
    assert spec.correctable is not None
    counts = [step.tuple for step in released if step.tuple.ts >= step.met - spec.correctable]
    return _distinct(spec, sorted(counts, key=lambda e: e.ts))


def state_bound(spec: StreamDistinct, since: Callable[[int], int], watermark: int) -> int:
    """Rows that left at or after `watermark - range`, a tuple each at most; where they are corrected, tuples that may
    change rows, of whole windows, up to twice as many."""
    if spec.correctable is None:
        return since(watermark - spec.range)
    return 4 * since(watermark - spec.correctable - 3 * spec.range) + 64


class RowsThatLeft:
    """All rows so far."""

    def __init__(self, spec: StreamDistinct) -> None:
        self.spec, self.left = spec, list[Made]()

    def made_of(self, e: Tuple) -> list[Made]:
        """The row of a tuple, unless an equal one has left not long before."""
        row = tuple(e.words[column] for column in self.spec.columns)
        if any(other == row and e.ts - ts <= self.spec.range for ts, other in self.left):
            return []
        self.left.append((e.ts, row))
        return [(e.ts, row)]


def _distinct(spec: StreamDistinct, ordered: list[Tuple]) -> Counter[Made]:
    rows = RowsThatLeft(spec)
    return Counter(made for e in ordered for made in rows.made_of(e))
