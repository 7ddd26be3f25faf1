"""Aggregates over windows that are not of time, slow and obvious: every window is a slice of a list.

Invariant: shares no code with the operators. A window is known by its bounds; of several with the same bounds and key,
by which of them it is.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection, Iterable, Iterator

from slackwater.core.batch import Batch
from slackwater.operators.aggregate.count_windows import NEVER, SATISFIED, CountWindows, LandmarkAggregate
from tests.kit.oracle_aggregate import Answer, aggregate_of
from tests.kit.oracle_release import Released, Tuple, tuples_of

_Window = tuple[int, int, list[Tuple]]
"""Start, end, tuples."""


def oracle_count_windows(spec: CountWindows, batch: Batch, absent: Collection[int] = ()) -> Answer:
    """The true answer on these tuples, but for those that are absent."""
    present = [e for e in tuples_of(batch) if e.passes and e.row not in absent]
    return _answer(spec, sorted(present, key=lambda e: e.ts))


def oracle_count_window_processing(spec: CountWindows, released: Iterable[Released]) -> Answer:
    """The answer on a release sequence: late tuples are left out.

    >>> from slackwater.operators.aggregate.algebra import AggregateSpec
    >>> from slackwater.operators.aggregate.count_windows import RowAggregate
    >>> spec = RowAggregate(2, None, (), (AggregateSpec("COUNT"),), 2)
    >>> oracle_count_window_processing(spec, [Released(Tuple(0, t, (t, t)), 0, t) for t in (3, 5, 9)])
    {(3, (5, 0)): (2,), (9, (9, 0)): (1,)}
    """
    return _answer(spec, [step.tuple for step in released if not step.late])


def _answer(spec: CountWindows, ordered: list[Tuple]) -> Answer:
    answer: Answer = {}
    seen: Counter[tuple[int, ...]] = Counter()
    for start, end, inside in _windows(spec, ordered):
        groups: dict[tuple[int, ...], list[Tuple]] = {}
        for e in inside:
            groups.setdefault(tuple(e.words[row] for row in spec.keys), []).append(e)
        for key, members in groups.items():
            nth = seen[start, end, *key]
            seen[start, end, *key] += 1
            answer[start, (end, nth, *key)] = tuple(aggregate_of(one, members) for one in spec.aggregates)
    return answer


def _windows(spec: CountWindows, ordered: list[Tuple]) -> Iterator[_Window]:
    if isinstance(spec, LandmarkAggregate):
        yield from _running(spec, ordered) if spec.end == NEVER else _landmarks(spec, ordered)
        return
    for begin in range(0, len(ordered), spec.slide or spec.range):
        inside = ordered[begin : begin + spec.range]
        yield inside[0].ts, inside[-1].ts, inside


def _landmarks(spec: LandmarkAggregate, ordered: list[Tuple]) -> Iterator[_Window]:
    inside: list[Tuple] = []
    for e in ordered:
        if inside or e.words[spec.start] == SATISFIED:
            inside.append(e)
            if e.words[spec.end] == SATISFIED:
                yield inside[0].ts, e.ts, inside
                inside = []
    if inside:
        yield inside[0].ts, inside[-1].ts, inside


def _running(spec: LandmarkAggregate, ordered: list[Tuple]) -> Iterator[_Window]:
    while ordered and ordered[0].words[spec.start] != SATISFIED:
        ordered = ordered[1:]
    for end in sorted({(e.ts // spec.every + 1) * spec.every for e in ordered}):
        yield ordered[0].ts, end, [e for e in ordered if e.ts < end]
