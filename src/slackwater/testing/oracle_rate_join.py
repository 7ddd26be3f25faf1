"""Joins with windows that follow rates, slow and obvious: the truth on a whole trace by trying all pairs.

Invariant: shares no code with the join kernel. What is in force for a tuple hangs on smaller event times alone, and
windows let go when time moves on, so there is one truth, whatever the order of equal times.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection

from slackwater.core.batch import Batch
from slackwater.core.rates import Resize
from slackwater.operators.join.rate_windows import RateJoin
from slackwater.testing.oracle_join import Result, joins
from slackwater.testing.oracle_rates import FIRST_WITHIN, newest_of, resizes_of
from slackwater.testing.oracle_release import Tuple, tuples_of


def oracle_rate_join(
    spec: RateJoin, batch: Batch, absent: Collection[int] = (), resizes: list[Resize] | None = None
) -> Counter[Result]:
    """The results, for the windows that were in force; `absent` are the tuples that were late or rejected."""
    tuples = sorted((e for e in tuples_of(batch) if e.passes and e.row not in absent), key=lambda e: e.ts)
    recorded = resizes_of(spec, tuples) if resizes is None else resizes
    windows: list[list[Tuple]] = [[], []]
    sizes, within = spec.last, FIRST_WITHIN if spec.within is None else spec.within
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
