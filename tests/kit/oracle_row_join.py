"""Joins with windows that count tuples or follow rates, slow and obvious: the truth by trying all combinations.

Invariant: shares no code with the join kernel. Tuples of one stream stand in the order of their event times, equal ones
as they arrived. Which of two streams comes first at one and the same time is free, so the truth is two: what every
order gives, and what some order may give. Where windows follow rates, what is in force for a tuple hangs on smaller
event times alone, and windows let go when time moves on, so there is one truth, whatever the order of equal times.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection
from itertools import product

from slackwater.core.batch import Batch
from slackwater.core.rates import Resize
from slackwater.operators.join.operator import WindowJoin
from slackwater.operators.join.rate_windows import RateWindows
from tests.kit.oracle_join import Members, Result, joins, last_of, near_enough
from tests.kit.oracle_rates import FIRST_WITHIN, newest_of, resizes_of
from tests.kit.oracle_release import Tuple, tuples_of


def oracle_row_join(
    spec: WindowJoin, batch: Batch, absent: Collection[int] = ()
) -> tuple[Counter[Result], Counter[Result]]:
    """The results that every order of equal timestamps gives, and those that some may give.

    >>> from slackwater.operators.join.operator import WindowJoin
    >>> from slackwater.operators.join.count_windows import by_rows
    >>> spec = by_rows(WindowJoin((2, 2), (), (), (), (), 2), (1, 1))
    >>> oracle_row_join(spec, Batch.of([(0, 1), (0, 2), (1, 3)]))[0]
    Counter({(3, (1, 2)): 1})
    """
    streams: list[list[Tuple]] = [[] for _ in spec.windows]
    for e in tuples_of(batch):
        if e.passes and not (last_of(spec)[e.stream] and e.row in absent):
            streams[e.stream].append(e)
    for mine in streams:
        mine.sort(key=lambda e: e.ts)
    certain: Counter[Result] = Counter()
    possible: Counter[Result] = Counter()
    for places in product(*(range(len(mine)) for mine in streams)):
        members = tuple(mine[place] for mine, place in zip(streams, places, strict=True))
        if near_enough(spec, members) and joins(spec, members):
            result = max(e.ts for e in members), tuple(e.row for e in members)
            possible[result] += _counts(spec, streams, places, members, ties=False)
            certain[result] += _counts(spec, streams, places, members, ties=True)
    return +certain, +possible


def _counts(
    spec: WindowJoin, streams: list[list[Tuple]], places: tuple[int, ...], members: Members, ties: bool
) -> bool:
    """Whether every member is among the last of its stream; with `ties`, when all of the newest's time have come.

    A member that alone is the newest is the last to be processed, whatever comes after it.
    """
    newest = max(e.ts for e in members)
    for mine, place, n, e in zip(streams, places, last_of(spec), members, strict=True):
        after = [other for other in mine[place + 1 :] if other.ts < newest + ties]
        triggers = e.ts == newest and sum(other.ts == newest for other in members) == 1
        if n and len(after) >= n and not triggers:
            return False
    return True


def oracle_rate_join(
    spec: WindowJoin, batch: Batch, absent: Collection[int] = (), resizes: list[Resize] | None = None
) -> Counter[Result]:
    """The results, for the windows that were in force; `absent` are the tuples that were late or rejected."""
    tuples = sorted((e for e in tuples_of(batch) if e.passes and e.row not in absent), key=lambda e: e.ts)
    recorded = resizes_of(spec, tuples) if resizes is None else resizes
    windows: list[list[Tuple]] = [[], []]
    assert isinstance(spec.policy, RateWindows), "windows that follow rates"
    sizes, within = spec.policy.last, FIRST_WITHIN if spec.policy.within is None else spec.policy.within
    results: Counter[Result] = Counter()
    for now in sorted({e.ts for e in tuples}):
        for one in recorded:
            if one.at <= now:
                sizes, within = one.sizes, one.within
        windows = [newest_of(mine, size) for mine, size in zip(windows, sizes, strict=True)]
        before = [len(mine) for mine in windows]
        for e in tuples:
            if e.ts == now:
                windows[e.stream].append(e)
        for a, left in enumerate(windows[0]):
            for b, right in enumerate(windows[1]):
                is_new = a >= before[0] or b >= before[1]
                if is_new and abs(left.ts - right.ts) <= within and joins(spec, (left, right)):
                    results[now, (left.row, right.row)] += 1
    return results
