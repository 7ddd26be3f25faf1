"""What runs on clusters: queries over one folder of files, with their truth as SQL.

Invariant: both streams are parts of one source, so a micro-batch has the same tuples of both however a run is cut off;
a delay of 500 ms covers all that are late.
"""

from __future__ import annotations

import io
import os
from collections import Counter
from dataclasses import dataclass
from datetime import datetime
from pathlib import Path

import duckdb
import pyarrow as pa
import pyarrow.parquet as pq

from slackwater.runtime.spark.store import At, store_at
from tests.spark.streams import START, pieces

SCHEMA = "ts long, key string, v double, stream string"
FROM_JOIN = "FROM s a [RANGE 50 MS], s b [RANGE 50 MS] WHERE a.stream = 'a' AND b.stream = 'b' AND a.key = b.key"
PAIRS = "SELECT a.ts AS at, b.ts AS bt, a.key, a.v AS av, b.v AS bv " + FROM_JOIN
SUMS = "SELECT key, SUM(v) AS total, COUNT(*) AS n FROM s [RANGE 400 MS SLIDE 100 MS] GROUP BY key"
COVERED = " WITH DELAY 500 MS"
Rows = Counter[tuple[object, ...]]


@dataclass(frozen=True)
class Stated:
    """A query and its truth: SQL over `s` with the columns of its results."""

    text: str
    truth: str


def windows(columns: str, range: int, slide: int, where: str = "true", by: str = "key, ") -> str:
    """The aggregate of sliding windows, by their ends."""
    return f"""SELECT e - {range}, e, {by}{columns} FROM s, unnest(generate_series(ts // {slide} * {slide} + {slide},
        ts // {slide} * {slide} + {range}, {slide})) AS ends(e) WHERE {where} GROUP BY {by}e"""


TRUE_PAIRS = """SELECT a.ts, b.ts, a.key, a.v, b.v, greatest(a.ts, b.ts) FROM s a, s b WHERE a.stream = 'a'
    AND b.stream = 'b' AND a.key = b.key AND abs(a.ts - b.ts) <= 50"""
TRUE_SUMS = windows("sum(v), count(*)", 400, 100)
CASES: dict[str, dict[str, Stated]] = {
    "join": {"join": Stated(PAIRS + " WITH RECALL 0.9 OVER 1 SECOND", TRUE_PAIRS)},
    "aggregate": {"aggregate": Stated(SUMS + " WITH ERROR 5%", TRUE_SUMS)},
    "set": {
        "pairs": Stated(PAIRS + COVERED, TRUE_PAIRS),
        "sums": Stated(SUMS + COVERED, TRUE_SUMS),
        "large": Stated(
            "SELECT ts AS at, key, v FROM s WHERE v > 0.9" + COVERED, "SELECT ts, key, v, ts FROM s WHERE v > 0.9"
        ),
        "counts": Stated("SELECT COUNT(*) AS n FROM s [RANGE 100 MS]" + COVERED, windows("count(*)", 100, 100, by="")),
        "most": Stated(
            "SELECT key, MAX(v) AS most FROM s [RANGE 200 MS] WHERE v > 0.5 GROUP BY key" + COVERED,
            windows("max(v)", 200, 200, "v > 0.5"),
        ),
    },
}
"""By the names of cases, what one streaming query runs: one query, or a set."""


def files_of_run(count: int, each: int = 400) -> list[pa.Table]:
    """The files of a run, one a micro-batch."""
    both = [pieces(seed, count, each) for seed in (0, 1)]
    marked = [
        [one.drop(["arrival"]).append_column("stream", pa.array([name] * one.num_rows)) for one in tables]
        for name, tables in zip("ab", both, strict=True)
    ]
    return [pa.concat_tables(tables) for tables in zip(*marked, strict=True)]


def publish(folder: At, number: int, table: pa.Table) -> None:
    """Let a file appear, whole."""
    name, content = f"{number:05d}.parquet", io.BytesIO()
    pq.write_table(table, content)
    store_at(folder).write(name, content.getvalue())
    if isinstance(folder, str):
        # File sources go by this time.
        os.utime(Path(folder, name), (1_000_000 + number, 1_000_000 + number))


def rows_in(folder: At) -> Rows:
    """What a folder of results holds by its whole micro-batches."""
    found: Rows = Counter()
    for batch in store_at(folder).names():
        store = store_at(folder, batch)
        for name in store.names():
            if name.endswith(".parquet"):
                content = store.read(name)
                assert content is not None
                table = pq.read_table(io.BytesIO(content))
                found.update(zip(*(column.to_pylist() for column in table.columns), strict=True))
    return found


def truth(stated: Stated, tables: list[pa.Table]) -> Rows:
    """All rows that there are in the end."""
    with duckdb.connect() as connection:
        connection.register("s", pa.concat_tables(tables))
        return plain(Counter(connection.execute(stated.truth).fetchall()))


def plain(rows: Rows) -> Rows:
    """Rows as two engines give them: moments in milliseconds, floats to nine digits, as they add in another order."""

    def value(v: object) -> object:
        return round(v.timestamp() * 1000) if isinstance(v, datetime) else round(v, 9) if isinstance(v, float) else v

    found: Rows = Counter()
    for row, times in rows.items():
        found[tuple(map(value, row))] += times
    return found


def due(row: tuple[object, ...]) -> int:
    """The event time at which a row is due: its latest moment."""
    return max(v for v in row if isinstance(v, int) and v > START // 2)
