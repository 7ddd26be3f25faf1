"""What the database reads faster: `python -m benchmarks.instant [--json FILE]`.

A table of its own, into which tuples are inserted and from which they are deleted as the window slides, or the chunks
of a window where they lie, as Arrow record batches. The statement is that of a correlated aggregate over windows of 0.1
to 5 million tuples. What both engines take for it is `slackwater reproduce 004-fig6.1`, and what Q1 to Q6 take in every
placement `004-fig6.6`.

Invariant: windows are full before the clock starts. CPU time is that of all threads; on a machine that others use it is
what can be compared.
"""

from __future__ import annotations

import argparse
import json
import time
from collections.abc import Callable, Iterator
from dataclasses import asdict, dataclass
from pathlib import Path

import numpy as np
import pyarrow as pa
from rich.console import Console
from rich.table import Table

from slackwater.core.time import SECOND
from slackwater.operators.instant.column_engine import connected

PLUGS = 2_125
WINDOWS = (100_000, 500_000, 1_000_000, 2_000_000, 5_000_000)
INSTANTS = 6
CHUNK = 32_768
STATEMENT = (
    "SELECT a.plug, count(*) FROM w AS a JOIN (SELECT plug, max(load) AS top FROM w GROUP BY plug) AS b"
    " ON a.plug = b.plug AND a.load > CAST('0.5' AS DOUBLE) * b.top GROUP BY a.plug"
)


@dataclass(frozen=True)
class Cost:
    """Milliseconds an instant: the best of all, in CPU time and by the clock."""

    read: str
    tuples: int
    cpu_ms: float
    wall_ms: float
    rows: int


class Stream:
    """Readings of plugs at a steady rate."""

    def __init__(self, rate: float) -> None:
        self._random, self._rate = np.random.default_rng(6), rate

    def columns(self, begin: int, end: int) -> dict[str, np.ndarray]:
        count = int(self._rate * (end - begin) / SECOND)
        return {
            "ts": np.sort(self._random.integers(begin, end, count)),
            "plug": self._random.integers(0, PLUGS, count),
            "load": np.round(self._random.random(count) * 100, 3),
        }


def measured() -> Iterator[Cost]:
    for tuples in WINDOWS:
        stream, database = Stream(tuples / 300), connected()
        full = stream.columns(0, 300 * SECOND)
        batches = [
            pa.record_batch({name: row[at : at + CHUNK] for name, row in full.items()})
            for at in range(0, len(full["ts"]), CHUNK)
        ]
        database.register("w", pa.Table.from_batches(batches))
        yield timed("arrow chunks", tuples, lambda d=database: d.sql(STATEMENT).to_arrow_table().num_rows)
        database.unregister("w")
        database.register("given", pa.table(full))
        database.execute("CREATE TABLE w AS SELECT * FROM given")
        moment = [300 * SECOND]

        def slide(d=database, s=stream, m=moment) -> int:
            d.register("given", pa.table(s.columns(m[0], m[0] + SECOND)))
            d.execute("INSERT INTO w SELECT * FROM given")
            m[0] += SECOND
            d.execute("DELETE FROM w WHERE ts < ?", [m[0] - 300 * SECOND])
            return d.sql(STATEMENT).to_arrow_table().num_rows

        yield timed("own table, with insert and delete", tuples, slide)


def timed(read: str, tuples: int, work: Callable[[], int]) -> Cost:
    cpu, wall, rows = [], [], 0
    for _ in range(INSTANTS):
        began, clock = time.process_time(), time.perf_counter()
        rows = work()
        cpu.append(1e3 * (time.process_time() - began))
        wall.append(1e3 * (time.perf_counter() - clock))
    return Cost(read, tuples, min(cpu), min(wall), rows)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--json", type=Path)
    given = parser.parse_args()
    costs = list(measured())
    table = Table("what is read", "tuples in the window", "CPU ms an instant", "ms by the clock", "rows")
    for cost in costs:
        table.add_row(cost.read, f"{cost.tuples:,}", f"{cost.cpu_ms:.1f}", f"{cost.wall_ms:.1f}", f"{cost.rows:,}")
    Console().print(table)
    if given.json is not None:
        given.json.write_text(json.dumps([asdict(cost) for cost in costs], indent=2))


if __name__ == "__main__":
    main()
