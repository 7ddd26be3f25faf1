"""A workload: streams as they arrived, the query that was asked of them, and what disorder a stream shows.

Invariant: the rows of every stream are in arrival order, `arrival` orders the tuples of all streams of a workload
against each other, and `ts` is int64 milliseconds since 1970-01-01 UTC. What disorder there is, is measured on event
times and the order of rows alone: the clock of a stream is the largest event time so far, and a tuple is out of order
iff it lies below that clock.

References: 004 §2.2.1 (stream clock, delay), §4.1.3 (correlated out-of-order tuples), Table 4.1.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.parquet as pq

from slackwater.core.errors import UsageError

Integers = npt.NDArray[np.int64]
Floats = npt.NDArray[np.float64]
Flags = npt.NDArray[np.bool_]

EPOCH_MS = 1_372_514_400_000
"""2013-06-29T14:00:00Z, where the event time of every generated stream begins."""


@dataclass(frozen=True)
class Workload:
    """Named streams, each with the columns `ts`, `arrival` and its own, and a query over them."""

    name: str
    streams: dict[str, pa.Table]
    query: str
    further: Mapping[str, str] = field(default_factory=dict)
    """Other queries that were asked of the same streams, by name."""


def write(workload: Workload, folder: str | Path) -> tuple[Path, ...]:
    """Write one parquet file a stream, `query.sql` and `NAME.sql` for further queries. Returns the files.

    The folder is made where it is missing.

    >>> import tempfile
    >>> table = pa.table({"ts": [EPOCH_MS], "arrival": [0]})
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     [path.name for path in write(Workload("tiny", {"s": table}, "SELECT * FROM s"), folder)]
    ['s.parquet', 'query.sql']
    """
    target = Path(folder)
    target.mkdir(parents=True, exist_ok=True)
    written = []
    for name, table in workload.streams.items():
        path = target / f"{name}.parquet"
        pq.write_table(table, path)
        written.append(path)
    for name, text in {"query": workload.query, **workload.further}.items():
        path = target / f"{name}.sql"
        path.write_text(text.rstrip() + "\n", encoding="utf-8")
        written.append(path)
    return tuple(written)


def generator(seed: int, *purpose: int) -> np.random.Generator:
    """A random generator of its own for each purpose (stream, column, ...), so that none disturbs another.

    >>> bool(generator(0, 1).random() == generator(0, 1).random())
    True
    """
    if seed < 0:
        raise UsageError(f"a seed is a whole number from 0 on, not {seed}")
    return np.random.default_rng(np.random.SeedSequence(seed, spawn_key=purpose))


LONGEST_MINUTES = 7 * 24 * 60
"""No memory holds the streams of much more."""


def whole_milliseconds(minutes: float) -> int:
    """A length in minutes as milliseconds; nothing, and more than a week, are refused.

    >>> whole_milliseconds(0.5)
    30000
    """
    milliseconds = round(minutes * 60_000) if 0 < minutes <= LONGEST_MINUTES else 0
    if milliseconds < 1:
        raise UsageError(f"a workload lasts from 1 millisecond to {LONGEST_MINUTES:,} minutes, not {minutes:g}")
    return milliseconds


def arrival_ranks(times: Sequence[npt.NDArray[np.generic]]) -> list[Integers]:
    """One order over all streams from each stream's times of arrival; ties go by stream, then by row.

    >>> [ranks.tolist() for ranks in arrival_ranks([np.array([0, 5, 9]), np.array([5, 6])])]
    [[0, 1, 4], [2, 3]]
    """
    order = np.argsort(np.concatenate(times), kind="stable")
    ranks = np.empty(len(order), np.int64)
    ranks[order] = np.arange(len(order))
    return np.split(ranks, np.cumsum([len(stream) for stream in times])[:-1])


SMALL_DELAY_MS = 100


@dataclass(frozen=True)
class DisorderStatistics:
    """Times are milliseconds; `rate` is tuples a second of event time."""

    tuples: int
    duration_ms: int
    out_of_order: int
    correlated: int
    """Out-of-order tuples whose predecessor in arrival order is out of order too."""
    max_delay_ms: int
    small_delay_share: float
    """Share of the out-of-order tuples delayed by less than 100 ms; 1 where nothing is out of order."""
    rate: float


def delays(ts: npt.ArrayLike) -> Integers:
    """How far each tuple lies behind the clock of its stream when it arrives; 0 in order.

    >>> delays([10, 30, 20, 30, 5]).tolist()
    [0, 0, 10, 0, 25]
    """
    times = np.asarray(ts, np.int64)
    return np.maximum.accumulate(times) - times


def disorder_statistics(ts: npt.ArrayLike) -> DisorderStatistics:
    """Measure event times in milliseconds, given in arrival order.

    >>> found = disorder_statistics([1000, 3000, 2950, 2000, 4000])
    >>> found.out_of_order, found.correlated, found.max_delay_ms, found.small_delay_share
    (2, 1, 1000, 0.5)
    """
    times = np.asarray(ts, np.int64)
    if len(times) == 0:
        return DisorderStatistics(0, 0, 0, 0, 0, 1.0, 0.0)
    delay = delays(times)
    late = delay > 0
    count = int(late.sum())
    duration = int(times.max() - times.min())
    return DisorderStatistics(
        tuples=len(times),
        duration_ms=duration,
        out_of_order=count,
        correlated=int((late[1:] & late[:-1]).sum()),
        max_delay_ms=int(delay.max()),
        small_delay_share=int((late & (delay < SMALL_DELAY_MS)).sum()) / count if count else 1.0,
        rate=len(times) * 1000 / duration if duration else 0.0,
    )
