"""What statements of the database cost on this machine: the constants of the column engine.

Each constant is the time of a statement that does little else, less what the constants before it account for. Tables
are like windows: some hundred thousand rows of a key and three values, one thread, in memory. A table is brought up to
date as a window is: new rows are inserted from Arrow, old ones deleted.

Invariant: all that this module asks of the database goes through one connection, so that another way to reach it is a
change of one function.

References: 004 §6.3.2, cost of a DB-op.
"""

# ruff: noqa: S608 (all names in the statements are made here)

from __future__ import annotations

from typing import Any

import numpy as np
import pyarrow as pa

from slackwater.experiments.hybrid_timing import LEAST, seconds_of
from slackwater.verify.inputs import workbench

ROWS = 400_000
GROUPS = 1000
WIDTH = 4
FANOUT = 50
"""Partners of a row, where pairs are what costs."""
SMALL = 100
"""Times that a statement over next to nothing is repeated."""


def _table(rows: int, groups: int, first: int = 0) -> pa.Table:
    rng = np.random.default_rng(rows + groups)
    values = {f"v{n}": rng.random(rows) for n in range(WIDTH - 2)}
    return pa.table({"ts": np.arange(first, first + rows), "k": rng.integers(0, groups, rows), **values})


class _Database:
    """The connection that is measured."""

    def __init__(self, connection: Any) -> None:
        self._connection = connection
        connection.execute("SET threads = 1")

    def keep(self, name: str, table: pa.Table) -> None:
        self._connection.register("given", table)
        self._connection.execute(f"CREATE OR REPLACE TABLE {name} AS SELECT * FROM given")
        self._connection.unregister("given")

    def bring(self, name: str, table: pa.Table, since: int) -> None:
        """New rows in, old rows out."""
        self._connection.register("given", table)
        self._connection.execute(f"INSERT INTO {name} SELECT * FROM given")
        self._connection.execute(f"DELETE FROM {name} WHERE ts < {since}")
        self._connection.unregister("given")

    def ask(self, statement: str) -> pa.Table:
        return self._connection.sql(statement).to_arrow_table()

    def seconds(self, statement: str, times: int = 1) -> float:
        return seconds_of(lambda: self.ask(statement), times)


def measure_columns() -> dict[str, float]:
    """The constants of the column engine, by their names in `Costs`."""
    with workbench(()) as connection:
        return _measured(_Database(connection))


def _measured(database: _Database) -> dict[str, float]:
    found: dict[str, float] = {}

    def less(total: float, known: float, units: float) -> float:
        return max(LEAST, (total - known) / units)

    database.keep("w", _table(ROWS, GROUPS))
    database.keep("one", _table(1, 1))
    database.keep("groups", pa.table({"k": np.arange(GROUPS), "top": np.arange(GROUPS)}))
    database.keep("many", _table(ROWS, ROWS))
    database.keep("others", pa.table({"k": np.arange(ROWS), "top": np.arange(ROWS)}))
    database.keep("few", pa.table({"k": np.repeat(np.arange(GROUPS), FANOUT), "top": np.arange(GROUPS * FANOUT)}))

    statement = database.seconds("SELECT k, SUM(v0) AS s FROM one GROUP BY k", SMALL)
    found["column_statement"] = statement
    found["column_input"], found["column_value_in"] = _inputs(database)
    scan = database.seconds("SELECT COUNT(*) AS n FROM w WHERE v0 > 0.5")
    found["column_scan"] = less(scan, statement, ROWS)
    rows_out = database.seconds("SELECT * FROM w")
    found["column_value_out"] = less(rows_out, statement, ROWS * WIDTH)
    hashed = database.seconds("SELECT k, SUM(v0) AS s FROM w GROUP BY k")
    found["column_hash"] = less(hashed, statement, ROWS)
    apart = database.seconds("SELECT COUNT(*) AS n FROM (SELECT k, SUM(v0) AS s FROM many GROUP BY k)")
    groups = ROWS * (1 - np.exp(-1))
    found["column_group"] = less(apart, statement + ROWS * found["column_hash"], groups)
    sorted_ = database.seconds("SELECT k, MEDIAN(v0) AS m FROM w GROUP BY k")
    found["column_sort"] = less(sorted_, statement, ROWS)
    pairs = database.seconds("SELECT SUM(a.top + b.top) AS s FROM few a JOIN few b ON a.k = b.k")
    found["column_pair"] = less(pairs, statement, GROUPS * FANOUT * FANOUT)
    probed = database.seconds("SELECT SUM(g.top) AS s FROM w JOIN groups g ON w.k = g.k")
    found["column_probe"] = less(probed, statement + ROWS * found["column_pair"], ROWS)
    built = database.seconds("SELECT SUM(o.top) AS s FROM many m JOIN others o ON m.k = o.k")
    known = statement + ROWS * (found["column_probe"] + found["column_pair"])
    found["column_build"] = less(built, known, ROWS)
    return found


def _inputs(database: _Database) -> tuple[float, float]:
    """What it costs to bring a table up to date: however little is new, and for each value."""
    at = [ROWS]
    database.keep("moving", _table(ROWS, GROUPS))

    def bring(rows: int) -> None:
        at[0] += rows
        database.bring("moving", _table_of(rows, at[0]), at[0] - ROWS)

    prepared: dict[int, pa.Table] = {}

    def _table_of(rows: int, first: int) -> pa.Table:
        # Made once for each size; only the event times move on, which costs next to nothing.
        table = prepared.setdefault(rows, _table(rows, GROUPS))
        return table.set_column(0, "ts", pa.array(np.arange(first - rows, first)))

    fixed = seconds_of(lambda: bring(1), SMALL // 2)
    large = ROWS // 4
    return fixed, max(LEAST, (seconds_of(lambda: bring(large), 2) - fixed) / (large * WIDTH))
