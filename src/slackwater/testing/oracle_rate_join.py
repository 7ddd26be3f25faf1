"""Joins with windows that follow rates, slow and obvious: the truth on a whole trace by trying all pairs.

Invariant: shares no code with the join kernel. What is in force for a tuple hangs on event times before it alone.
Which of two streams comes first at one and the same time is free, so the truth is two: what every order gives, and
what some order may give.
"""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Collection
from itertools import product

from slackwater.model.batch import Batch
from slackwater.model.rates import Resize
from slackwater.operators.join.rate_windows import RateJoin
from slackwater.testing.oracle_join import Result, joins
from slackwater.testing.oracle_rates import FIRST_WITHIN, resizes_of
from slackwater.testing.oracle_release import Tuple, tuples_of


def oracle_rate_join(
    spec: RateJoin, batch: Batch, absent: Collection[int] = (), resizes: list[Resize] | None = None
) -> tuple[Counter[Result], Counter[Result]]:
    """The results that every order of equal timestamps gives, and those that some may give, for the windows that were
    in force; `absent` are the tuples that were late or rejected."""
    tuples = [e for e in tuples_of(batch) if e.passes and e.row not in absent]
    recorded = resizes_of(spec, tuples) if resizes is None else resizes
    streams = [sorted((e for e in tuples if e.stream == i), key=lambda e: e.ts) for i in range(spec.streams)]
    leaves = [_leaving(mine, i, spec, recorded) for i, mine in enumerate(streams)]
    certain: Counter[Result] = Counter()
    possible: Counter[Result] = Counter()
    for a, b in product(range(len(streams[0])), range(len(streams[1]))):
        members = (streams[0][a], streams[1][b])
        newest = max(e.ts for e in members)
        if newest - min(e.ts for e in members) > _within_at(newest, spec, recorded) or not joins(spec, members):
            continue
        result = newest, tuple(e.row for e in members)
        gone = (leaves[0][a], leaves[1][b])
        older = [when for e, when in zip(members, gone, strict=True) if e.ts < newest]
        if older:
            (when,) = older
            possible[result] += when >= (newest, 1)
            certain[result] += when > (newest, 1)
        else:
            possible[result] += 1
            certain[result] += all(when > (newest, 1) for when in gone)
    return +certain, +possible


def _leaving(mine: list[Tuple], stream: int, spec: RateJoin, resizes: list[Resize]) -> list[tuple[float, int]]:
    """When each tuple of a stream leaves its window: at a resize, (time, 0), or with another tuple, (time, 1)."""
    left: list[tuple[float, int]] = [(math.inf, 0) for _ in mine]
    size, window = spec.last[stream], []
    events = [(one.at, 0, one.sizes[stream]) for one in resizes] + [(e.ts, 1, i) for i, e in enumerate(mine)]
    for when, kind, value in sorted(events):
        if kind == 0:
            size = value
        else:
            window.append(value)
        while len(window) > size:
            left[window.pop(0)] = (when, kind)
    return left


def _within_at(ts: int, spec: RateJoin, resizes: list[Resize]) -> int:
    within = FIRST_WITHIN if spec.within is None else spec.within
    for one in resizes:
        if one.at <= ts:
            within = one.within
    return within
