"""As-of joins, slow and obvious: every tuple looks through all versions.

Invariant: shares no code with the operator. A result is (timestamp, columns), a null standing where there is no
version.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Collection, Iterable, Iterator, Sequence
from typing import Any

from slackwater.core.batch import Batch
from slackwater.core.schema import NULL_WORD
from slackwater.expressions.tree import Column, walk
from slackwater.operators.asof.spec import AsOfJoin
from tests.kit.evaluate import evaluate
from tests.kit.oracle_projection import Made
from tests.kit.oracle_release import Released, Tuple, tuples_of
from tests.kit.words import decode

ALWAYS = -(2**70)


def truth(spec: AsOfJoin, batch: Batch, absent: Collection[int] = ()) -> Counter[Any]:
    """The true rows on these tuples, but for those that are absent."""
    present = [(e, ALWAYS) for e in tuples_of(batch) if e.passes and e.row not in absent]
    return _rows(spec, [e for e, _ in present], present)


def processed(spec: AsOfJoin, released: Iterable[Released]) -> Counter[Any]:
    """The rows on a release sequence: a late tuple of the second stream is seen by what the watermark had not passed
    when it came, one of the first gives nothing."""
    steps = list(released)
    return _rows(spec, [s.tuple for s in steps if not s.late], [(s.tuple, s.met if s.late else ALWAYS) for s in steps])


def of_inputs(spec: AsOfJoin, inputs: Sequence[Sequence[Tuple]]) -> Iterator[Made]:
    """The true rows on these tuples of either input."""
    return _rows(spec, list(inputs[0]), [(e, ALWAYS) for e in inputs[1]]).elements()


class Asking:
    """The same, tuple by tuple: who waits for the watermark, and all versions with those that they met."""

    def __init__(self, spec: AsOfJoin) -> None:
        self.spec = spec
        self.waiting: list[Tuple] = []
        self.seen: list[tuple[Tuple, int]] = []

    def add(self, e: Tuple, met: int) -> None:
        """A tuple that met this watermark."""
        late = e.ts < met
        if e.stream == 1:
            self.seen.append((e, met if late else ALWAYS))
        elif not late:
            self.waiting.append(e)

    def up_to(self, watermark: int | None) -> Iterator[Made]:
        """The rows of those that the watermark has passed; of all."""
        over = [e for e in self.waiting if watermark is None or e.ts < watermark]
        self.waiting = [e for e in self.waiting if e not in over]
        for e in sorted(over, key=lambda e: e.ts):
            yield from _rows(self.spec, [e], self.seen).elements()


def corrected(spec: AsOfJoin, released: Iterable[Released], reach: int) -> Counter[Any]:
    """The rows in the end, where tuples count as if the watermark were `reach` behind."""
    steps = list(released)
    asking = [s.tuple for s in steps if s.tuple.ts >= s.met - reach]
    return _rows(spec, asking, [(s.tuple, s.met - reach if s.late else ALWAYS) for s in steps])


def state_bound(spec: AsOfJoin, since: Callable[[int], int], watermark: int) -> int:
    """What the watermark has not passed, of both streams, and a version of each of a few keys."""
    return 64 + 4 * since(watermark - 1)


def _rows(spec: AsOfJoin, asking: list[Tuple], seen: list[tuple[Tuple, int]]) -> Counter[Any]:
    rows = []
    for a in asking:
        if a.stream != 0:
            continue
        found = [b for b, met in seen if b.stream == 1 and met <= a.ts and _matches(spec, a, b)]
        best = max(found, key=lambda b: (b.ts, _carried(spec, b)), default=None)
        if (best is not None or spec.outer) and _wanted(spec, (a, best)):
            rows.append((a.ts, _columns(spec, (a, best))))
    return Counter(rows)


def _matches(spec: AsOfJoin, a: Tuple, b: Tuple) -> bool:
    for mine, other in spec.keys:
        if a.words[mine] != b.words[other] or a.words[mine] == NULL_WORD:
            return False
    older = a.ts - b.ts
    return older >= (1 if spec.strict else 0) and (spec.within is None or older <= spec.within)


def _carried(spec: AsOfJoin, b: Tuple) -> tuple[int, ...]:
    """What decides between two of one time: the words that leave, the identity last."""
    rows: list[int] = []
    for stream, row in spec.emit:
        if stream == 1 and row not in rows and row != 1:
            rows.append(row)
    return tuple(b.words[row] for row in (*rows, 1) if (1, row) in spec.emit)


def _columns(spec: AsOfJoin, row: tuple[Tuple, Tuple | None]) -> tuple[int, ...]:
    found = []
    for (stream, word), null in zip(spec.emit, spec.nulls, strict=True):
        e = row[stream]
        found.append(null if e is None else e.words[word])
    return tuple(found)


def _wanted(spec: AsOfJoin, row: tuple[Tuple, Tuple | None]) -> bool:
    """Whether everything is true of a row that must be."""
    place = dict(zip(spec.names, spec.emit, strict=False))
    values: list[dict[str, object]] = [{}, {}]
    for condition in spec.kept:
        for node in walk(condition):
            if isinstance(node, Column):
                e, (_, word) = row[node.stream], place[node.stream, node.name]
                values[node.stream][node.name] = None if e is None else decode(e.words[word], node.kind)
    return all(evaluate(condition, values) is True for condition in spec.kept)
