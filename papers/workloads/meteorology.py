"""Meteorology: many instruments on few streams, faster and larger in storms.

Invariant: the event times of a stream increase strictly, whatever its sources do. The times between two events of a
source are uniform within 10 % of its interval, and it begins anywhere in that interval. A source turns to another mode
in the midst of an interval: what is left of it is waited for at the new pace, so each mode has its rate from its first
second on. Of one seed, a shorter workload in order is the beginning of a longer one.

Storms are at minutes 20, 80 and 140 (a caption has 60) and last 20 minutes; all sources are in the same weather, and
storms are not sped up with the rates. Sizes and rates are those of `products.py`, where the decisions about them stand.

References: 001 section 4.4, Tables 1 and 3.
"""

# ruff: noqa: S608 (the queries are texts in our own language, and every name in them is made here)

from __future__ import annotations

from collections.abc import Sequence
from itertools import pairwise
from textwrap import indent

import numpy as np
import pyarrow as pa

from papers.workloads.delays import Delays
from papers.workloads.modes import MeasuredWorkload, Mode, Periods, within
from papers.workloads.products import FOUR, NINE, Product
from slackwater.core.errors import UsageError
from slackwater.workloads.workload import (
    EPOCH_MS,
    Integers,
    arrival_ranks,
    generator,
    whole_milliseconds,
)

HOUR_MS, MINUTE_MS = 3_600_000, 60_000
FASTEST = 1_000_000
SPEED = 8.0
STORMS_MIN = (20.0, 80.0, 140.0)
STORM_MS = 20 * MINUTE_MS
JITTER = 0.1
INTERVAL = "5 MINUTES"

_GAP, _SIZE, _READING, _DELAY = range(4)


def meteorology(
    seed: int = 0,
    minutes: float = 180.0,
    speed: float = SPEED,
    disorder: Delays | None = None,
    storms: Sequence[float] = STORMS_MIN,
) -> MeasuredWorkload:
    """The four streams of Table 3: `metar`, `acars`, `nexrad` and `caps`.

    The query is the time-based match of all four; `rates` is the paper's query, and `caps_first` the reordered one.

    >>> workload = meteorology(minutes=60)
    >>> workload.streams["caps"].column_names
    ['ts', 'arrival', 'arrival_ts', 'source', 'id', 'size', 'storm', 'dbz', 'wind_kt']
    >>> [mode.rate * 3600 for mode in workload.modes if mode.stream == "caps"]
    [960.0, 4800.0]
    """
    streams, modes = _make(FOUR, seed, minutes, speed, disorder, storms)
    ids = ", ".join(f"{name}.id AS {name}" for name in streams)
    # Three seconds are about half the mean interval of the slowest stream, which is what a match means in the paper.
    query = f"SELECT {ids}\nFROM metar [3 SEC], acars [3 SEC], caps [3 SEC], nexrad [3 SEC]\nWITH COMPLETE"
    further = {
        "rates": rate_chain(("metar", "acars", "caps", "nexrad"), INTERVAL),
        "caps_first": rate_chain(("acars", "caps", "metar", "nexrad"), INTERVAL),
    }
    return MeasuredWorkload("meteorology", streams, query, further, modes)


def nine_products(
    seed: int = 0,
    minutes: float = 180.0,
    speed: float = SPEED,
    disorder: Delays | None = None,
    storms: Sequence[float] = STORMS_MIN,
) -> MeasuredWorkload:
    """The nine streams of Table 1; the query is its columns: events and bytes of each product, every ten minutes.

    >>> list(nine_products(minutes=1).streams)
    ['metar1', 'metar2', 'rawinsonde', 'acars', 'nexrad2', 'nexrad3', 'goes', 'eta', 'caps']
    """
    streams, modes = _make(NINE, seed, minutes, speed, disorder, storms)
    parts = [f"SELECT '{name}' AS product, size FROM {name}" for name in streams]
    # A union takes up to eight queries, so one of them is a union itself.
    rest = "\n    UNION ALL ".join(parts[5:])
    union = "\n  UNION ALL ".join([*parts[:5], f"SELECT product, size FROM (\n    {rest}) others"])
    query = (
        f"SELECT product, COUNT(*) AS events, SUM(size) AS bytes\nFROM (\n  {union}\n) every [RANGE 10 MINUTES]\n"
        "GROUP BY product\nWITH COMPLETE"
    )
    return MeasuredWorkload("meteorology9", streams, query, {}, modes)


def rate_chain(streams: Sequence[str], interval: str) -> str:
    """The joins of the paper: the first two streams, then each further one with what came out, matched by time.

    A result names one event of each stream by its `id`.

    >>> print(rate_chain(("a", "b", "c"), "5 MINUTES"))
    SELECT x.a AS a, x.b AS b, y.id AS c
    FROM (
      SELECT x.id AS a, y.id AS b
      FROM a x [RATE 5 MINUTES], b y [RATE 5 MINUTES] MATCH TIME
    ) x [RATE 5 MINUTES], c y [RATE 5 MINUTES] MATCH TIME
    WITH COMPLETE
    """
    query, below, carried = "", streams[0], f"x.id AS {streams[0]}"
    for number, name in enumerate(streams[1:], 1):
        query = (
            f"SELECT {carried}, y.id AS {name}\nFROM {below} x [RATE {interval}], {name} y [RATE {interval}] MATCH TIME"
        )
        below = f"(\n{indent(query, '  ')}\n)"
        carried = ", ".join(f"x.{one} AS {one}" for one in streams[: number + 1])
    return f"{query}\nWITH COMPLETE"


def _make(
    products: Sequence[Product], seed: int, minutes: float, speed: float, disorder: Delays | None, at: Sequence[float]
) -> tuple[dict[str, pa.Table], tuple[Mode, ...]]:
    if not 0 < speed <= FASTEST:
        raise UsageError(
            f"speed is how many times faster than in reality, above 0 and at most {FASTEST:,}, not {speed:g}"
        )
    length = whole_milliseconds(minutes)
    storms = _storms(at, length)
    clear = _between(storms, length)
    tables = [
        _stream(product, number, seed, speed, length, storms, disorder) for number, product in enumerate(products)
    ]
    arrivals = arrival_ranks([table["arrival_ts"].to_numpy() for table in tables])
    streams = {
        product.stream: table.add_column(1, "arrival", pa.array(arrival))
        for product, table, arrival in zip(products, tables, arrivals, strict=True)
    }
    modes = tuple(
        Mode(product.stream, name, periods, product.sources * per_hour * speed / 3600, sum(sizes) / 2)
        for product in products
        for name, periods, per_hour, sizes in zip(
            ("clear", "storm"), (clear, storms), product.per_hour, product.sizes, strict=True
        )
    )
    return streams, modes


def _storms(at: Sequence[float], length: int) -> Periods:
    begins = [round(minute * MINUTE_MS) for minute in at]
    if any(begin < 0 for begin in begins) or any(later - begin < STORM_MS for begin, later in pairwise(begins)):
        raise UsageError("storms are given by the minutes at which they begin, in order and at least 20 minutes apart")
    return tuple((begin, min(begin + STORM_MS, length)) for begin in begins if begin < length)


def _between(storms: Periods, length: int) -> Periods:
    edges = [0, *(edge for storm in storms for edge in storm), length]
    return tuple((begin, end) for begin, end in zip(edges[0::2], edges[1::2], strict=True) if begin < end)


def _stream(
    product: Product, number: int, seed: int, speed: float, length: int, storms: Periods, disorder: Delays | None
) -> pa.Table:
    ts, source = _events(product, number, seed, speed, length, storms)
    events = len(ts)
    storm = within(ts, storms)
    low, high = np.array(product.sizes)[storm.astype(np.int64)].T
    share = generator(seed, number, _SIZE).random(events)
    columns: dict[str, np.typing.NDArray[np.generic]] = {
        "ts": EPOCH_MS + ts,
        "arrival_ts": EPOCH_MS + ts,
        "source": source,
        "id": np.arange(events, dtype=np.int64),
        "size": (low + np.floor(share * (high - low + 1))).astype(np.int64),
        "storm": storm,
    }
    for place, reading in enumerate(product.readings):
        drawn = generator(seed, number, _READING, place).normal(0.0, reading.spread, events)
        mean = np.where(storm, reading.storm, reading.clear)
        columns[reading.name] = np.round(np.maximum(mean + drawn, reading.least), 2)
    if disorder is not None:
        held = disorder.draw(generator(seed, number, _DELAY), events)
        columns["arrival_ts"] = EPOCH_MS + np.floor(ts + held).astype(np.int64)
    rows = np.argsort(columns["arrival_ts"], kind="stable")
    return pa.table({name: column[rows] for name, column in columns.items()})


def _events(
    product: Product, number: int, seed: int, speed: float, length: int, storms: Periods
) -> tuple[Integers, Integers]:
    """When something happens, in milliseconds from the start, and at which source.

    Every source counts its intervals, which are longer in milliseconds in clear weather; so an event is due where the
    count reaches a sum of numbers around 1.
    """
    edges = np.array(sorted({0, length, *(edge for storm in storms for edge in storm)}), np.int64)
    rate = np.array(product.per_hour)[within(edges[:-1], storms).astype(np.int64)] * speed / HOUR_MS
    due_by = np.concatenate(([0.0], np.cumsum(rate * np.diff(edges))))
    many = int(due_by[-1] / (1 - JITTER)) + 2
    due, source = [], []
    for one in range(product.sources):
        rng = generator(seed, number, _GAP, one)
        phase = rng.random()
        gaps = rng.uniform(1 - JITTER, 1 + JITTER, many)
        reached = np.cumsum(gaps) - phase * gaps[0]
        due.append(np.interp(reached[reached < due_by[-1]], due_by, edges))
        source.append(np.full(len(due[-1]), one, np.int64))
    moments = np.concatenate(due)
    order = np.argsort(moments, kind="stable")
    place = np.arange(len(order))
    # Of two events in one millisecond the second waits for the next: a channel wants a total order.
    ts = np.maximum.accumulate(np.floor(moments[order]).astype(np.int64) - place) + place
    return ts, np.concatenate(source)[order]
