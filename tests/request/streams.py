"""Small streams for the tests of steps: times are in milliseconds, `at` puts them on a clock."""

from __future__ import annotations

from collections import Counter
from datetime import UTC, datetime, timedelta
from typing import Any

import pyarrow as pa

import slackwater as sw

COLUMNS = pa.schema([("ts", pa.int64()), ("k", pa.int64()), ("v", pa.float64())])
JOIN = "SELECT r.v AS rv, m.v AS mv FROM radar r [2 s], metar m [2 s] WHERE r.k = m.k"
BOTH = {"radar": COLUMNS, "metar": COLUMNS}


def rows(*tuples: tuple[int, ...]) -> pa.Table:
    """Rows (ts, k, v); k is 1 and v the time in seconds where they are left out."""
    full = [(t[0], t[1] if len(t) > 1 else 1, float(t[2]) if len(t) > 2 else t[0] / 1000) for t in tuples]
    return pa.table([list(column) for column in zip(*full, strict=True)] if full else [[], [], []], schema=COLUMNS)


def at(milliseconds: int) -> datetime:
    """A moment so many milliseconds after 1970 began."""
    return datetime(1970, 1, 1, tzinfo=UTC) + timedelta(milliseconds=milliseconds)


def seen(step: sw.Step | None, *names: str) -> tuple[int, Counter[tuple[Any, ...]]] | None:
    """The time of a step in milliseconds, and its rows as a multiset of these columns."""
    if step is None:
        return None
    time = (step.time - at(0)) // timedelta(milliseconds=1)
    return time, Counter(zip(*(step.rows.column(name).to_pylist() for name in names), strict=True))


class Wall:
    """A clock that stands until it is moved; rows come soon after they happened, as in a live query."""

    def __init__(self) -> None:
        self.seconds = 3000.0

    def __call__(self) -> float:
        return self.seconds


def fed(query: str, *pushes: tuple[str, pa.Table], **options: object) -> sw.LiveQuery:
    """A query over `radar` and `metar` that has taken these rows in."""
    live = sw.live(query, BOTH, clock=Wall(), **options)  # type: ignore[arg-type]
    for stream, table in pushes:
        live.push(stream, table)
    return live
