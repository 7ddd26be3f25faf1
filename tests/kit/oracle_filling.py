"""Windows that are filled in steps, slow and obvious: every tuple goes to all windows it is in.

Invariant: shares no code with the operator. An answer is known by its start, its end and its key.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable

from slackwater.core.batch import Batch
from slackwater.operators.aggregate.filling import FillingAggregate
from tests.kit.oracle_aggregate import Answer, aggregate_of
from tests.kit.oracle_release import NEVER, Released, Tuple, tuples_of


def truth(spec: FillingAggregate, batch: Batch, absent: Collection[int] = ()) -> Answer:
    """The true answer on these tuples: those that came late are in windows that were open, so none is absent.

    >>> from slackwater.operators.aggregate.algebra import AggregateSpec
    >>> spec = FillingAggregate(6, 2, (), (AggregateSpec("COUNT"),), 2)
    >>> truth(spec, Batch.of([(0, 3, 8), (0, 1, 8)]))
    {(0, (4,)): (2,), (0, (6,)): (2,), (0, (2,)): (1,)}
    """
    return processed(spec, [Released(e, NEVER, NEVER) for e in tuples_of(batch) if e.passes])


def processed(spec: FillingAggregate, released: Iterable[Released]) -> Answer:
    """The answer on a release sequence: a tuple counts in every window that ends after the watermark it met."""
    members: dict[tuple[int, tuple[int, ...]], list[Tuple]] = {}
    for step in released:
        e = step.tuple
        for start, end in steps_of(spec, e.ts):
            if end > step.met:
                members.setdefault((start, (end, *(e.words[row] for row in spec.keys))), []).append(e)
    return {window: tuple(aggregate_of(one, inside) for one in spec.aggregates) for window, inside in members.items()}


def steps_of(spec: FillingAggregate, ts: int) -> list[tuple[int, int]]:
    """The windows that an event time is in."""
    assert spec.slide is not None, "the length of a step"
    start = ts - ts % spec.range
    return [(start, end) for end in range(start + spec.slide, start + spec.range + 1, spec.slide) if ts < end]


def state_bound(spec: FillingAggregate, since: Callable[[int], int], watermark: int) -> int:
    """A partial result a tuple, and its value where one is kept, for as long as its window is not full."""
    return (2 if any(one.holistic for one in spec.aggregates) else 1) * since(watermark - spec.range)
