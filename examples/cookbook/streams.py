"""Small made streams for the cookbook, as tables in the order of arrival: `ts` and `arrival` are in milliseconds."""

from __future__ import annotations

import random
import tempfile
from datetime import datetime
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq

SECOND, MINUTE, HOUR = 1_000, 60_000, 3_600_000


def arriving(rows: list[dict[str, Any]], seed: int) -> pa.Table:
    """The same rows, each late by a second on average and one in forty by up to a minute."""
    rng = random.Random(seed)
    late = (MINUTE * rng.random() if rng.random() < 0.025 else rng.expovariate(1 / SECOND) for _ in rows)
    arrived = [row | {"arrival": int(row["ts"] + by)} for row, by in zip(rows, late, strict=True)]
    return pa.Table.from_pylist(arrived).sort_by("arrival")


def impressions_and_clicks(minutes: int = 15) -> dict[str, pa.Table]:
    """Three ads a second are shown to users; half of them are clicked within 40 seconds."""
    rng, shown, clicked = random.Random(1), [], []
    for ts in range(0, minutes * MINUTE, 333):
        seen = {"user": f"u{rng.randrange(500)}", "ad": f"ad{rng.randrange(10)}"}
        shown.append({"ts": ts, **seen})
        if rng.random() < 0.5:
            clicked.append({"ts": ts + rng.randrange(40 * SECOND), **seen})
    return {"impressions": arriving(shown, 2), "clicks": arriving(clicked, 3)}


def orders_payments_parcels(orders: int = 600, every: int = 10 * SECOND) -> dict[str, pa.Table]:
    """Nine orders in ten are paid within an hour, and four of five of these are sent within three days."""
    rng, ordered, paid, sent = random.Random(4), [], [], []
    for number in range(orders):
        order = {"ts": number * every, "id": number, "customer": rng.randrange(20), "amount": rng.randrange(5, 200)}
        ordered.append(order)
        if rng.random() < 0.9:
            paid.append({"ts": order["ts"] + rng.randrange(HOUR), "order_id": number})
            if rng.random() < 0.8:
                sent.append({"ts": paid[-1]["ts"] + rng.randrange(71 * HOUR), "order_id": number})
    return {"orders": arriving(ordered, 5), "payments": arriving(paid, 6), "parcels": arriving(sent, 7)}


def visits(minutes: int = 60, doubled: float = 0.0) -> pa.Table:
    """Five pages a second that 200 users of three countries look at; some messages are sent twice."""
    rng, rows = random.Random(8), []
    for number, ts in enumerate(range(0, minutes * MINUTE, 200)):
        user = rng.randrange(200)
        row = {"ts": ts, "id": number, "user": f"u{user}", "country": ("DE", "FR", "JP")[user % 3]}
        rows += [row, row] if rng.random() < doubled else [row]
    return arriving(rows, 9)


def prices_and_trades(minutes: int = 10) -> dict[str, pa.Table]:
    """Two prices and one trade a second, of three symbols."""
    rng = random.Random(10)
    prices = [
        {"ts": ts, "symbol": rng.choice("ABC"), "price": rng.randrange(9000, 11000) / 100}
        for ts in range(0, minutes * MINUTE, 500)
    ]
    trades = [
        {"ts": ts, "symbol": rng.choice("ABC"), "shares": rng.randrange(1, 100)}
        for ts in range(MINUTE, minutes * MINUTE, 1000)
    ]
    return {"prices": arriving(prices, 11), "trades": arriving(trades, 12)}


def files_of(table: pa.Table, parts: int) -> str:
    """A folder with the rows of a table in some files of parquet, in the order of arrival."""
    folder, rows = tempfile.mkdtemp(prefix="cookbook-"), -(-table.num_rows // parts)
    for part in range(parts):
        pq.write_table(table.slice(part * rows, rows), f"{folder}/{part}.parquet")
    return folder


def show(rows: list[dict[str, Any]]) -> None:
    """Print rows as lines, times without their day."""
    for row in rows:
        values = {name: f"{v:%H:%M:%S}" if isinstance(v, datetime) else v for name, v in row.items()}
        print("  ".join(f"{name} {value}" for name, value in values.items()))
