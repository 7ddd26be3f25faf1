"""The true answers, by DuckDB over all rows; and how the rows of a side compare with them.

Invariant: rows are compared as multisets, column by column by name: times in microseconds, floats to nine digits.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

import duckdb
import pyarrow as pa

from benchmarks.nexmark.queries import Query

_BUCKET = """CREATE MACRO bucket(t, s) AS
    make_timestamp(epoch_us(t) - epoch_us(t) % (CAST(s AS BIGINT) * 1000000))"""


@dataclass(frozen=True)
class Compared:
    """What a side found of the true rows."""

    true: int
    missing: int
    wrong: int
    """Rows that are not true, or are there too often."""

    @property
    def equal(self) -> bool:
        return self.missing == self.wrong == 0

    @property
    def recall(self) -> float:
        """The share of the true rows that was found."""
        return 1.0 if not self.true else 1 - self.missing / self.true


def true_answer(query: Query, tables: Mapping[str, pa.Table]) -> pa.Table:
    """What DuckDB gives over whole streams."""
    with duckdb.connect() as database:
        database.execute(_BUCKET)
        for name in query.streams:
            database.register(name, _without_zone(tables[name]))
        return database.sql(query.judge or query.ours).to_arrow_table()


def compared(truth: pa.Table, found: pa.Table) -> Compared:
    """The rows of a side beside the true ones, in the columns of these."""
    with duckdb.connect() as database:
        for name, table in (("truth", truth), ("found", found.select(truth.column_names))):
            database.register("given", _without_zone(table))
            columns = ", ".join(_plain(field) for field in truth.schema)
            database.execute(f"CREATE TABLE {name} AS SELECT {columns} FROM given")
        missing, wrong = (
            database.execute(f"SELECT COUNT(*) FROM (FROM {one} EXCEPT ALL FROM {other})").fetchone() or (0,)
            for one, other in (("truth", "found"), ("found", "truth"))
        )
    return Compared(truth.num_rows, int(missing[0]), int(wrong[0]))


def _plain(field: pa.Field) -> str:
    name = f'"{field.name}"'
    if pa.types.is_floating(field.type):
        return f"printf('%.9g', CAST({name} AS DOUBLE)) AS {name}"
    if pa.types.is_timestamp(field.type):
        return f"epoch_us({name}) AS {name}"
    return f"CAST({name} AS VARCHAR) AS {name}"


def _without_zone(table: pa.Table) -> pa.Table:
    """Times in UTC, as microseconds without a zone."""
    for at, field in enumerate(table.schema):
        if pa.types.is_timestamp(field.type):
            table = table.set_column(at, field.name, table.column(at).cast(pa.timestamp("us")))
    return table
