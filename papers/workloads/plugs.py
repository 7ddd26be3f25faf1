"""Smart plugs: every plug reports its work (property 0, kWh since its start) and its load (property 1, W) each second.

Invariant: the columns and their types are those of the recorded data, work never shrinks, and it grows by exactly
what the load says (as far as a 32-bit value can show it).

References: 004 §6.4.
"""

from __future__ import annotations

import numpy as np
import pyarrow as pa

from papers.workloads.delays import Delays
from slackwater.core.errors import UsageError
from slackwater.workloads.workload import EPOCH_MS, Floats, Workload, generator, whole_milliseconds

HOUSES, HOUSEHOLDS_A_HOUSE = 40, 5
WORK, LOAD = 0, 1
JOULES_A_KWH = 3.6e6

_VALUES, _ORDER, _DELAY = range(3)


def smart_plugs(seed: int = 0, minutes: float = 5.0, plugs: int = 1000, disorder: Delays | None = None) -> Workload:
    """One stream `plugs`, 2 tuples a second for each plug, in order unless `disorder` holds tuples back.

    The query is the 5-minute window of Q3: largest and average load of each plug, every second.

    >>> stream = smart_plugs(minutes=0.1, plugs=3).streams["plugs"]
    >>> stream.num_rows, stream.column_names
    (36, ['ts', 'arrival', 'value', 'property', 'plug', 'household', 'house'])
    """
    if not 1 <= plugs <= 2**15:
        raise UsageError(f"there are between 1 and {2**15} plugs, not {plugs}")
    seconds = max(1, whole_milliseconds(minutes) // 1000)
    load = _loads(generator(seed, _VALUES), seconds, plugs)
    started = generator(seed, _VALUES, 1).uniform(0, 100, plugs)
    work = started + np.cumsum(load, axis=0) / JOULES_A_KWH

    report = _reports_of_a_second(generator(seed, _ORDER), plugs)
    plug, kind = report // 2, report % 2
    value = np.stack((work, load), axis=2).reshape(seconds, 2 * plugs)[:, report].ravel()
    second = np.repeat(np.arange(seconds, dtype=np.int64), 2 * plugs)
    rows = np.arange(len(second))
    if disorder is not None:
        sent = 1000 * rows / (2 * plugs)
        rows = np.argsort(sent + disorder.draw(generator(seed, _DELAY), len(rows)), kind="stable")
    within = rows % (2 * plugs)
    place = plug[within] // HOUSES
    stream = pa.table(
        {
            "ts": EPOCH_MS + 1000 * second[rows],
            "arrival": np.arange(len(rows), dtype=np.int64),
            "value": value[rows].astype(np.float32),
            "property": kind[within].astype(np.int8),
            "plug": (place // HOUSEHOLDS_A_HOUSE).astype(np.int16),
            "household": (place % HOUSEHOLDS_A_HOUSE).astype(np.int16),
            "house": (plug[within] % HOUSES).astype(np.int16),
        }
    )
    query = (
        "SELECT house, household, plug, MAX(value) AS highest, AVG(value) AS average\n"
        "FROM plugs [RANGE 5 MINUTES SLIDE 1 SECOND]\n"
        f"WHERE property = {LOAD}\nGROUP BY house, household, plug\nWITH COMPLETE"
    )
    return Workload("plugs", {"plugs": stream}, query)


def _loads(rng: np.random.Generator, seconds: int, plugs: int) -> Floats:
    """Watts by (second, plug): an appliance of its own size on each plug, switched about once in five minutes."""
    size = np.exp(rng.normal(3.5, 1.5, plugs))
    switched = rng.random((seconds, plugs)) < 1 / 300
    switched[0] = rng.random(plugs) < 0.6
    on = np.cumsum(switched, axis=0) % 2
    wobble = 1 + 0.03 * rng.standard_normal((seconds, plugs))
    return np.asarray(np.round(size * on * np.maximum(wobble, 0), 3), np.float64)


def _reports_of_a_second(rng: np.random.Generator, plugs: int) -> np.typing.NDArray[np.int64]:
    """The order in which plugs report, the same every second; 2p is the work of plug p and 2p + 1 its load."""
    order = rng.permutation(plugs)
    return np.stack((2 * order, 2 * order + 1), axis=1).ravel()
