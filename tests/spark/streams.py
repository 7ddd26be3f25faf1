"""Seeded streams of the Spark tests, and rows as multisets."""

from __future__ import annotations

from collections import Counter

import numpy as np
import pyarrow as pa

START = 1_700_000_000_000


def readings(seed: int, n: int, begin: int = 0, late_share: float = 0.1) -> pa.Table:
    """About one tuple a millisecond, some of them late, with a text key."""
    rng = np.random.default_rng(seed)
    ts = START + begin + np.arange(n) - np.where(rng.random(n) < late_share, rng.integers(0, 400, n), 0)
    keys = [f"k{key}" for key in rng.integers(0, 20, n)]
    return pa.table({"ts": ts, "arrival": begin * 2 + np.arange(n) * 2 + seed % 2, "key": keys, "v": rng.random(n)})


def pieces(seed: int, count: int, each: int = 1000, late_share: float = 0.1) -> list[pa.Table]:
    """One table a micro-batch, each going on where the one before ended."""
    return [readings(seed + 2 * i, each, i * each, late_share) for i in range(count)]


def counted(table: pa.Table, *names: str) -> Counter[tuple[object, ...]]:
    """Rows as a multiset, of these columns or of all."""
    return Counter(zip(*(table.column(name).to_pylist() for name in names or table.column_names), strict=True))
