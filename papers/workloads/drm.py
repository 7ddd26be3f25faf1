"""Streams of fixed and of changing rate: D, R and M, and two streams of very different rates.

Invariant: a rate is a beat. The n-th event of a stream lies at a place of its own in the n-th beat of its rate, off it
by at most half of `jitter`, so intervals vary by `jitter` (10 % where nothing is said) and rates do not drift; without
jitter all intervals are equal, but for the rounding to milliseconds. Event times of a stream never go back.

D and M keep the fast rate. R has it for ten seconds and then sends one event a second for ten seconds, and so on. The
`id` of an event is the beat of the fast rate that it falls into, so that events of one beat match on it, whatever
the mode of R. The rate is 25 a second, with which the paper's window of 10 s holds 250 (its section 4.1 has 10).
"A few bytes" are 16.

References: 001 sections 4.1 and 4.3, Fig. 4, 6 and 7.
"""

from __future__ import annotations

import numpy as np
import pyarrow as pa

from papers.workloads.delays import Delays
from papers.workloads.modes import MeasuredWorkload, Mode, Periods
from slackwater.core.errors import UsageError
from slackwater.workloads.workload import (
    EPOCH_MS,
    Floats,
    arrival_ranks,
    generator,
    whole_milliseconds,
)

RATE, SLOW_RATE = 25.0, 1.0
TURN_MS = 10_000
LARGE, SMALL = 50_000, 16
JITTER = 0.1
FASTEST = 1000.0
"""Event times are milliseconds."""

_OFF, _VALUE, _DELAY = range(3)


def drm(
    seed: int = 0,
    minutes: float = 3.0,
    rate: float = RATE,
    jitter: float = JITTER,
    disorder: Delays | None = None,
) -> MeasuredWorkload:
    """Streams `d` (50 KB events), `r` and `m` (small ones).

    The query matches all three on `id` within half a second; `rates` is the single join of the paper, and `two_joins`
    the one that joins what it gives with `m`.

    >>> workload = drm()
    >>> {name: table.num_rows for name, table in workload.streams.items()}
    {'d': 4500, 'r': 2340, 'm': 4500}
    """
    length = whole_milliseconds(minutes)
    always: Periods = ((0, length),)
    turns = [(begin, min(begin + TURN_MS, length)) for begin in range(0, length, TURN_MS)]
    modes = (
        Mode("d", "steady", always, rate, LARGE),
        Mode("r", "fast", tuple(turns[0::2]), rate, SMALL),
        Mode("r", "slow", tuple(turns[1::2]), SLOW_RATE, SMALL),
        Mode("m", "steady", always, rate, SMALL),
    )
    streams = _make(("d", "r", "m"), modes, rate, seed, jitter, disorder)
    query = (
        "SELECT d.id AS id, d.value AS d, r.value AS r, m.value AS m\n"
        "FROM d [500 MS], r [500 MS], m [500 MS]\nWHERE d.id = r.id AND r.id = m.id\nWITH COMPLETE"
    )
    single = "FROM d [RATE 10 SECONDS], r [RATE 10 SECONDS] MATCH TIME\nWHERE d.id = r.id"
    further = {
        "rates": f"SELECT d.id AS id, d.value AS d, r.value AS r\n{single}\nWITH COMPLETE",
        "two_joins": "SELECT m.id AS id, m.value AS m, dr.r AS r\n"
        f"FROM (SELECT r.id AS id, r.value AS r {single}) dr [RATE 10 SECONDS], m [RATE 10 SECONDS] MATCH TIME\n"
        "WITH COMPLETE",
    }
    return MeasuredWorkload("drm", streams, query, further, modes)


def two_rates(
    seed: int = 0,
    minutes: float = 1.0,
    fast: float = 1000.0,
    slow: float = 1.0,
    disorder: Delays | None = None,
) -> MeasuredWorkload:
    """Streams `fast` and `slow`, evenly spaced: what a window of 2 s holds can be counted by hand.

    >>> [np.unique(np.diff(table["ts"].to_numpy())).tolist() for table in two_rates().streams.values()]
    [[1], [1000]]
    """
    always: Periods = ((0, whole_milliseconds(minutes)),)
    modes = (Mode("fast", "steady", always, fast, SMALL), Mode("slow", "steady", always, slow, SMALL))
    streams = _make(("fast", "slow"), modes, fast, seed, 0.0, disorder)
    select = "SELECT fast.id AS fast, slow.id AS slow"
    query = f"{select}\nFROM fast [2 SEC], slow [2 SEC]\nWITH COMPLETE"
    # The slow stream has two events in 2 s where the fast one has 2000: 2002 in all, and 4000 with one count for both.
    further = {"rates": f"{select}\nFROM fast [RATE 2 SECONDS], slow [RATE 2 SECONDS] MATCH TIME\nWITH COMPLETE"}
    return MeasuredWorkload("rates", streams, query, further, modes)


def _make(
    names: tuple[str, ...],
    modes: tuple[Mode, ...],
    beat: float,
    seed: int,
    jitter: float,
    disorder: Delays | None,
) -> dict[str, pa.Table]:
    if not 0 <= jitter < 1:
        raise UsageError(f"jitter is a share of the interval, from 0 to below 1, not {jitter:g}")
    for mode in modes:
        if not 0 < mode.rate <= FASTEST:
            raise UsageError(f"a rate is above 0 and at most {FASTEST:g} events a second, not {mode.rate:g}")
    tables = []
    for number, name in enumerate(names):
        parts = [
            _beats(begin, end, mode.rate, (number + 0.5) / len(names))
            for mode in modes
            if mode.stream == name
            for begin, end in mode.periods
        ]
        due, interval = np.concatenate(parts, axis=1)[:, np.argsort(np.concatenate([part[0] for part in parts]))]
        size = next(mode.size for mode in modes if mode.stream == name)
        tables.append(_table(due, interval, int(size), beat, seed, number, jitter, disorder))
    arrivals = arrival_ranks([table["arrival_ts"].to_numpy() for table in tables])
    return {
        name: table.add_column(1, "arrival", pa.array(arrival))
        for name, table, arrival in zip(names, tables, arrivals, strict=True)
    }


def _beats(begin: int, end: int, rate: float, place: float) -> Floats:
    """Where the beats of a period are, and how long each is, in milliseconds: two lines."""
    interval = 1000 / rate
    due = begin + interval * (np.arange(np.ceil((end - begin) / interval)) + place)
    return np.stack((due[due < end], np.full((due < end).sum(), interval)))


def _table(
    due: Floats,
    interval: Floats,
    size: int,
    beat: float,
    seed: int,
    number: int,
    jitter: float,
    disorder: Delays | None,
) -> pa.Table:
    events = len(due)
    off = jitter / 2 * generator(seed, number, _OFF).uniform(-1, 1, events) * interval
    ts = np.maximum.accumulate(np.maximum(np.floor(due + off), 0)).astype(np.int64)
    arrived = ts
    if disorder is not None:
        arrived = np.floor(ts + disorder.draw(generator(seed, number, _DELAY), events)).astype(np.int64)
    rows = np.argsort(arrived, kind="stable")
    columns = {
        "ts": EPOCH_MS + ts,
        "arrival_ts": EPOCH_MS + arrived,
        "source": np.zeros(events, np.int64),
        "id": np.floor(due * beat / 1000).astype(np.int64),
        "size": np.full(events, size, np.int64),
        "value": np.round(generator(seed, number, _VALUE).normal(0.0, 1.0, events), 3),
    }
    return pa.table({name: column[rows] for name, column in columns.items()})
