"""Seeded change rows by micro-batches, and the table that they make, by its definition."""

from __future__ import annotations

import random
from collections.abc import Iterable
from datetime import UTC, datetime, timedelta
from typing import Any, TypeAlias

import pyarrow as pa

KEY = ("window_end", "country")
START = datetime(2026, 11, 1, 12, tzinfo=UTC)
COUNTRIES = ("de", "fr", "it", 'O"Brien, \\.', "", None)
SCHEMA = pa.schema(
    [
        ("window_end", pa.timestamp("us", "UTC")), ("country", pa.string()), ("total", pa.float64()), ("n", pa.int64()),
        ("_change", pa.string()), ("_version", pa.int64()),
    ]
)  # fmt: skip
Row: TypeAlias = dict[str, Any]
Rows: TypeAlias = dict[tuple[Any, ...], tuple[Any, ...]]


def micro_batches(count: int, rows: int = 40, windows: int = 8, seed: int = 7) -> list[pa.Table]:
    """Change rows as a query emits them: of each key insert, then updates, a delete at times, and insert again."""
    rng = random.Random(seed)
    versions: dict[tuple[Any, ...], int] = {}
    there: set[tuple[Any, ...]] = set()
    made = []
    for _ in range(count):
        batch: list[Row] = []
        for _ in range(rows):
            key = (
                START + timedelta(seconds=rng.randrange(windows), microseconds=rng.randrange(2)),
                rng.choice(COUNTRIES),
            )
            versions[key] = versions.get(key, -1) + 1
            change = "insert" if key not in there else rng.choice(("update", "update", "delete"))
            (there.discard if change == "delete" else there.add)(key)
            values = (rng.choice((rng.random() * 1e9, float("inf"), None)), rng.randrange(1 << 40))
            batch.append(dict(zip(SCHEMA.names, (*key, *values, change, versions[key]), strict=True)))
        # Tasks emit in any order.
        rng.shuffle(batch)
        made.append(pa.Table.from_pylist(batch, SCHEMA))
    return made


def table_of(batches: Iterable[pa.Table]) -> Rows:
    """What is there in the end: of every key the row with the highest version, unless it is a delete."""
    newest: dict[tuple[Any, ...], Row] = {}
    for batch in batches:
        for row in batch.to_pylist():
            key = tuple(row[name] for name in KEY)
            if key not in newest or row["_version"] > newest[key]["_version"]:
                newest[key] = row
    return {key: (row["total"], row["n"], row["_version"]) for key, row in newest.items() if row["_change"] != "delete"}
