"""The rows that a run gave, as a table of the judge.

Invariant: every row that was given is in the table, in the order it was given; the order is watched on the way.
"""

# ruff: noqa: S608 (every name and number put into the SQL is made in this package)

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import pyarrow as pa

from slackwater.core.schema import Kind
from slackwater.verify.inputs import column_of, words
from slackwater.verify.sql import TYPES


@dataclass
class Stored:
    """What is known of the rows beside the rows themselves."""

    rows: int = 0
    descents: int = 0
    """How often the time of a row is below that of the row before."""
    types: dict[str, pa.DataType] = field(default_factory=dict)
    """The types the columns came in."""
    _last: int | None = None

    def see(self, table: pa.Table, times: np.ndarray[Any, np.dtype[np.int64]]) -> None:
        """Count the next rows, in the order they were given.

        >>> stored, rows = Stored(), pa.table({"v": [7, 7, 7]})
        >>> stored.see(rows, np.array([1, 3, 2])); stored.see(rows, np.array([1, 1, 1]))
        >>> stored.rows, stored.descents
        (6, 2)
        """
        self.rows += table.num_rows
        self.types = self.types or {one.name: one.type for one in table.schema}
        if not len(times):
            return
        if self._last is not None and times[0] < self._last:
            self.descents += 1
        self.descents += int(np.count_nonzero(times[1:] < times[:-1]))
        self._last = int(times[-1])


def store(
    connection: Any,
    table: str,
    columns: Mapping[str, tuple[str, Kind]],
    time: str,
    produced: Iterable[pa.Table] | pa.Table,
) -> Stored:
    """Make a table of the rows: `place`, their number among all that were given, and the columns, each by the name it
    was given under and its kind. `time` is the column that rows leave in the order of."""
    typed = ", ".join(f"{column} {TYPES[kind]}" for column, (_, kind) in columns.items())
    connection.execute(f"CREATE TABLE {table} (place BIGINT, {typed})")
    stored = Stored()
    for given in [produced] if isinstance(produced, pa.Table) else produced:
        found = {column: words(column_of(given, name), kind) for column, (name, kind) in columns.items()}
        places = pa.array(range(stored.rows, stored.rows + given.num_rows), pa.int64())
        stored.see(given, found[time].to_numpy())
        connection.register("arriving", pa.table({"place": places, **found}))
        connection.execute(f"INSERT INTO {table} SELECT place, {', '.join(columns)} FROM arriving")
        connection.unregister("arriving")
    return stored
