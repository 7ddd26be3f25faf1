"""Aggregates over windows that count tuples, slow and obvious: every window is a slice of a list.

Invariant: shares no code with the operator. A window is known by its bounds; of several with the same bounds and key,
by which of them it is.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection, Iterable

from slackwater.model.batch import Batch
from slackwater.operators.row_aggregate import RowAggregate
from slackwater.testing.oracle_aggregate import Answer, aggregated
from slackwater.testing.oracle_release import Released, Tuple, tuples_of


def oracle_row_aggregate(spec: RowAggregate, batch: Batch, absent: Collection[int] = ()) -> Answer:
    """The true answer on these tuples, but for those that are absent."""
    present = [e for e in tuples_of(batch) if e.passes and e.row not in absent]
    return _answer(spec, sorted(present, key=lambda e: e.ts))


def oracle_row_aggregate_processing(spec: RowAggregate, released: Iterable[Released]) -> Answer:
    """The answer on a release sequence: late tuples are left out.

    >>> from slackwater.operators.algebra import AggregateSpec
    >>> spec = RowAggregate(2, None, (), (AggregateSpec("COUNT"),), 2)
    >>> oracle_row_aggregate_processing(spec, [Released(Tuple(0, t, (t, t)), 0, t) for t in (3, 5, 9)])
    {(3, (5, 0)): (2,), (9, (9, 0)): (1,)}
    """
    return _answer(spec, [step.tuple for step in released if not step.late])


def _answer(spec: RowAggregate, ordered: list[Tuple]) -> Answer:
    answer: Answer = {}
    seen: Counter[tuple[int, ...]] = Counter()
    for begin in range(0, len(ordered), spec.slide or spec.range):
        inside = ordered[begin : begin + spec.range]
        groups: dict[tuple[int, ...], list[Tuple]] = {}
        for e in inside:
            groups.setdefault(tuple(e.words[row] for row in spec.keys), []).append(e)
        for key, members in groups.items():
            bounds = inside[0].ts, inside[-1].ts
            nth = seen[*bounds, *key]
            seen[*bounds, *key] += 1
            answer[bounds[0], (bounds[1], nth, *key)] = tuple(aggregated(one, members) for one in spec.aggregates)
    return answer
