"""Single streams for benchmarks and experiments: one of steady rate with as much disorder as asked for, one in order.

Invariant: the same seed gives the same stream. `arrival` of a uniform stream counts microseconds from the start, so
streams of different rates interleave as they would arrive; event times are evenly spaced, and what is held back loses
its place in the arrival order only. An exponential stream has event times in microseconds, in order.

References: 002 §4.2 (synthetic data streams: integers with exponential times between them).
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import pyarrow as pa

from papers.workloads.delays import Delays
from slackwater.core.errors import UsageError
from slackwater.workloads.workload import EPOCH_MS, Integers, generator

_GAP, _NUMBER = range(2)
SWITCHED_EVERY = 100
_KEY, _VALUE, _X, _Y, _DELAY = range(5)


def uniform_stream(
    tuples: int,
    rate: float,
    keys: int,
    seed: int,
    max_delay_ms: int = 0,
    late_share: float = 0.0,
    field_m: float | None = None,
) -> pa.Table:
    """`tuples` rows (ts, arrival, key, v) at `rate` a second, with x and y on a square of `field_m` where it is given.

    `late_share` of the tuples are held back, by at most `max_delay_ms`.

    >>> table = uniform_stream(tuples=4, rate=2.0, keys=10, seed=0, field_m=100.0)
    >>> table.column_names, np.diff(table["ts"].to_numpy()).tolist()
    (['ts', 'arrival', 'key', 'v', 'x', 'y'], [500, 500, 500])
    """
    if tuples < 0 or not 0 < rate < float("inf") or keys < 1:
        raise UsageError("a stream has 0 tuples or more, a rate above 0 and 1 key or more")
    number = np.arange(tuples)
    held = Delays(late_share, max_delay_ms).draw(generator(seed, _DELAY), tuples)
    moment = np.floor(number * 1_000_000 / rate + held * 1000).astype(np.int64)
    rows = np.argsort(moment, kind="stable")
    columns = {
        "ts": EPOCH_MS + np.floor(number * 1000 / rate).astype(np.int64),
        "arrival": moment,
        "key": generator(seed, _KEY).integers(0, keys, tuples),
        "v": generator(seed, _VALUE).random(tuples),
    }
    if field_m is not None:
        columns["x"] = generator(seed, _X).uniform(0, field_m, tuples)
        columns["y"] = generator(seed, _Y).uniform(0, field_m, tuples)
    return pa.table({name: column[rows] for name, column in columns.items()})


def exponential_stream(
    seed: int, number: int, tuples: int, rates: Sequence[float], values: int
) -> tuple[Integers, Integers]:
    """Event times and values of one stream; where several rates a second are given, they change every 100 tuples.

    >>> ts, value = exponential_stream(seed=0, number=0, tuples=1000, rates=[100.0], values=5)
    >>> bool(8 < ts[-1] / 1e6 < 12), sorted(set(value.tolist()))
    (True, [0, 1, 2, 3, 4])
    """
    turn = np.arange(tuples) // SWITCHED_EVERY % len(rates)
    gap = generator(seed, number, _GAP).exponential(1e6, tuples) / np.asarray(rates)[turn]
    return np.cumsum(gap).astype(np.int64), generator(seed, number, _NUMBER).integers(0, values, tuples)
