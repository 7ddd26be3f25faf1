"""D_syn: the synthetic join datasets with three and four streams, by the published recipe.

Invariant: the k-th tuples of all streams arrive next to each other, in the order of the streams; a shorter workload
of the same seed is the beginning of a longer one.

The recipe lets a tuple be delayed past the common start, so the first seconds hold event times before it. The step of
the delays is not printed; here they are drawn from {0, 10 ms, ..., 20 s} with 0 as the most frequent.

References: 003 §VI (datasets and queries); 004 §4.3.1.
"""

from __future__ import annotations

from collections.abc import Sequence
from itertools import pairwise

import numpy as np
import pyarrow as pa

from slackwater.workloads.workload import EPOCH_MS, Floats, Integers, Workload, generator, whole_milliseconds

STEP_MS = 10
LARGEST_DELAY_MS = 20_000
VALUES = 100
MINUTE_MS = 60_000

_DELAY, _SCHEDULE, _VALUE = range(3)


def dsyn3(seed: int = 0, minutes: float = 30.0) -> Workload:
    """Three streams (ts, a1) and the 3-way join Q×3; 100 tuples/s a stream.

    >>> workload = dsyn3(minutes=0.1)
    >>> workload.streams["s3"].num_rows, workload.streams["s3"].column_names
    (600, ['ts', 'arrival', 'a1'])
    """
    streams = _streams(seed, minutes, delay_skews=(2.0, 3.0, 3.0), attributes=(("a1",), ("a1",), ("a1",)))
    query = "SELECT * FROM s1 [5 SEC], s2 [5 SEC], s3 [5 SEC]\nWHERE s1.a1 = s2.a1 AND s2.a1 = s3.a1\nWITH COMPLETE"
    return Workload("dsyn3", streams, query)


def dsyn4(seed: int = 0, minutes: float = 30.0) -> Workload:
    """Four streams, a star around s1 (ts, a1, a2, a3), and the 4-way join Q×4; 100 tuples/s a stream.

    >>> dsyn4(minutes=0.1).streams["s1"].column_names
    ['ts', 'arrival', 'a1', 'a2', 'a3']
    """
    attributes = (("a1", "a2", "a3"), ("a1",), ("a2",), ("a3",))
    streams = _streams(seed, minutes, delay_skews=(3.0, 3.0, 3.0, 4.0), attributes=attributes)
    query = (
        "SELECT * FROM s1 [3 SEC], s2 [3 SEC], s3 [3 SEC], s4 [3 SEC]\n"
        "WHERE s1.a1 = s2.a1 AND s1.a2 = s3.a2 AND s1.a3 = s4.a3\nWITH COMPLETE"
    )
    return Workload("dsyn4", streams, query)


def zipf_ranks(uniform: Floats, ranks: int, skew: float) -> Integers:
    """Ranks 1..ranks by a Zipf distribution, one for each number of [0, 1); skew 0 is the uniform distribution.

    >>> zipf_ranks(np.array([0.0, 0.49, 0.51, 0.99]), ranks=2, skew=0.0).tolist()
    [1, 1, 2, 2]
    """
    cumulative = np.cumsum(np.arange(1, ranks + 1, dtype=np.float64) ** -skew)
    found: Integers = np.searchsorted(cumulative, uniform * cumulative[-1], side="right") + 1
    return np.minimum(found, ranks)


def _streams(
    seed: int, minutes: float, delay_skews: Sequence[float], attributes: Sequence[Sequence[str]]
) -> dict[str, pa.Table]:
    tuples = max(1, whole_milliseconds(minutes) // STEP_MS)
    many = len(delay_skews)
    streams = {}
    for number, (skew, names) in enumerate(zip(delay_skews, attributes, strict=True)):
        columns = {
            "ts": _event_times(generator(seed, many, number, _DELAY), tuples, skew),
            "arrival": np.arange(tuples, dtype=np.int64) * many + number,
        }
        for position, name in enumerate(names):
            schedule = generator(seed, many, number, _SCHEDULE, position)
            columns[name] = _attribute(schedule, generator(seed, many, number, _VALUE, position), tuples)
        streams[f"s{number + 1}"] = pa.table(columns)
    return streams


def _event_times(rng: np.random.Generator, tuples: int, skew: float) -> Integers:
    clock = EPOCH_MS + STEP_MS * np.arange(1, tuples + 1, dtype=np.int64)
    return clock - STEP_MS * (zipf_ranks(rng.random(tuples), LARGEST_DELAY_MS // STEP_MS + 1, skew) - 1)


def _attribute(schedule: np.random.Generator, values: np.random.Generator, tuples: int) -> Integers:
    """Values 1..100 whose Zipf skew starts at 1 and changes within [0, 5] every 1 to 10 minutes."""
    bounds, skews = [0], [1.0]
    while bounds[-1] < tuples:
        bounds.append(bounds[-1] + round(schedule.uniform(1, 10) * MINUTE_MS) // STEP_MS)
        skews.append(schedule.uniform(0.0, 5.0))
    uniform = values.random(tuples)
    parts = [
        zipf_ranks(uniform[start:stop], VALUES, skew)
        for (start, stop), skew in zip(pairwise(bounds), skews, strict=False)
    ]
    return np.concatenate(parts)
