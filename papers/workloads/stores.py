"""Sales of several stores: every item sold is a tuple of its store's stream.

Invariant: nothing is sold while stores are closed, event times are in order, and over the open hours the stores sell
5000 items an hour together, however many they are. Within half an hour of opening sales rise to their full rate, and
in the half hour before closing they fall.

The recorded sales of the report are not public. Hours, rate and window are its; which items sell is not told: here
their popularity is a Zipf distribution with skew 0.6 over 20,000 items, so that the best seller is 0.7 % of all sales.

References: 002 §4.2, §4.3 (Wal*Mart transactions).
"""

from __future__ import annotations

from itertools import pairwise

import numpy as np
import pyarrow as pa

from papers.workloads.dsyn import zipf_ranks
from slackwater.core.errors import UsageError
from slackwater.workloads.workload import (
    EPOCH_MS,
    Floats,
    Integers,
    Workload,
    arrival_ranks,
    generator,
    whole_milliseconds,
)

HOUR_MS = 3_600_000
OPENING_MS, CLOSING_MS = round(7.5 * HOUR_MS), 20 * HOUR_MS
RAMP_MS = HOUR_MS // 2
SALES_AN_HOUR = 5000
ITEMS, SKEW = 20_000, 0.6
MOST_STORES = 8

_MANY, _MOMENT, _STORE, _ITEM, _QUANTITY, _PRICE = range(6)


def store_sales(seed: int = 0, minutes: float = 1440.0, stores: int = 4) -> Workload:
    """Streams `store1`, ... (ts, item, quantity, price), and the query for items that all stores sold within an hour.

    >>> workload = store_sales(minutes=60, stores=2)
    >>> workload.streams["store2"].column_names, 4700 < sum(t.num_rows for t in workload.streams.values()) < 5500
    (['ts', 'arrival', 'item', 'quantity', 'price'], True)
    """
    if not 1 <= stores <= MOST_STORES:
        raise UsageError(f"there are between 1 and {MOST_STORES} stores, not {stores}")
    moment = _moments(seed, whole_milliseconds(minutes))
    sold = len(moment)
    item = zipf_ranks(generator(seed, _ITEM).random(sold), ITEMS, SKEW)
    quantity = generator(seed, _QUANTITY).geometric(0.7, sold)
    price = np.round(np.exp(generator(seed, _PRICE, 1).normal(1.5, 1.0, ITEMS + 1)), 2)[item]
    store = generator(seed, _STORE).integers(0, stores, sold)
    arrivals = arrival_ranks([moment[store == s] for s in range(stores)])
    streams = {
        f"store{s + 1}": pa.table(
            {
                "ts": EPOCH_MS + moment[store == s],
                "arrival": arrivals[s],
                "item": item[store == s],
                "quantity": quantity[store == s],
                "price": price[store == s],
            }
        )
        for s in range(stores)
    }
    names = list(streams)
    equal = " AND ".join(f"{a}.item = {b}.item" for a, b in pairwise(names))
    lines = ["SELECT store1.item AS item", "FROM " + ", ".join(f"{name} [1 HOUR]" for name in names)]
    lines += [f"WHERE {equal}"] * bool(equal) + ["WITH COMPLETE"]
    return Workload("stores", streams, "\n".join(lines))


def _moments(seed: int, length: int) -> Integers:
    """When something is sold, in milliseconds from the start."""
    minute = 60_000
    edges = np.arange(0, length + minute, minute, dtype=np.float64)
    expected = np.concatenate([[0.0], np.cumsum(_rate(EPOCH_MS + edges[:-1] + minute / 2) * minute / HOUR_MS)])
    many = generator(seed, _MANY).poisson(expected[-1])
    when = np.interp(generator(seed, _MOMENT).random(many) * expected[-1], expected, edges)
    return np.sort(np.minimum(when, length - 1)).astype(np.int64)


def _rate(ts: Floats) -> Floats:
    """Sales an hour at a moment of the day."""
    of_day = ts % (24 * HOUR_MS)
    share = np.clip(np.minimum(of_day - OPENING_MS, CLOSING_MS - of_day) / RAMP_MS, 0.0, 1.0)
    # The ramps cost half an hour of the day, which the rest makes good.
    open_ms = CLOSING_MS - OPENING_MS
    return np.asarray(SALES_AN_HOUR * share * open_ms / (open_ms - RAMP_MS), np.float64)
