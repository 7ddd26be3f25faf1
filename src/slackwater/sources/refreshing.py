"""Static relations that are read anew while a query runs.

Invariant: a relation keeps the columns and types that it began with. What cannot be read, or is something else, is no
version: the one before stays in force, and a warning says so.
"""

from __future__ import annotations

import warnings
from collections.abc import Callable, Mapping, Sequence
from typing import Any

import pyarrow as pa

from slackwater.core.errors import DataError, reason_of
from slackwater.language.static import StaticJoin
from slackwater.sources.lookups import Lookup, check_unique, stream_of, widened
from slackwater.sources.tabular import as_table, with_types

Read = Callable[[Any], pa.Table]
"""The rows of a relation as it was given."""


class Refreshing:
    """One static relation: the version in force, and when the next one is due. Times are microseconds."""

    def __init__(self, join: StaticJoin, given: Lookup, read: Read | None = None) -> None:
        self._join, self._given = join, given
        self._read = read or (lambda rows: as_table(join.relation, rows))
        self._due: int | None = None
        self.table = self._checked()
        self.schema = self.table.schema

    def _checked(self) -> pa.Table:
        table = self._read(self._given.read)
        if self._given.unique:
            check_unique(table, self._join)
        return table

    def look(self, now: int) -> bool:
        """Read it anew where that is due; whether there is another version."""
        every = self._given.refresh
        if every is None:
            return False
        if self._due is None:
            self._due = now + every
        if now < self._due:
            return False
        self._due = now + every
        try:
            table = self._checked()
            if sorted(table.column_names) == sorted(self.schema.names):
                # Rows told in Python, and those of text files, have the types that their values suggest.
                table = with_types(table.select(self.schema.names), {one.name: one.type for one in self.schema})
            if table.schema != self.schema:
                raise DataError(f"its columns were {columns_of(self.schema)}, and are {columns_of(table.schema)}")
        except Exception as error:
            warnings.warn(
                f"static relation {self._join.relation} cannot be read anew, so its last version stays in force:"
                f" {reason_of(error)}",
                stacklevel=2,
            )
            return False
        self.table = table
        return True


def columns_of(schema: pa.Schema) -> str:
    """Columns with their types, as a message has them."""
    return ", ".join(f"{field.name} {field.type}" for field in schema)


class Relations:
    """The static relations of a query over streams that rows are pushed into."""

    def __init__(self, joins: Sequence[StaticJoin], streams: Mapping[str, Any]) -> None:
        names = [name for name, given in streams.items() if not isinstance(given, Lookup)]
        self._joins = [(stream_of(join, names), join, Refreshing(join, streams[join.relation])) for join in joins]

    def widened(self, stream: str, table: pa.Table, now: int) -> pa.Table:
        """Rows of a stream with what the relations have for them at this time."""
        for name, join, relation in self._joins:
            if name == stream:
                relation.look(now)
                table = widened(table, relation.table, join, unique=False)
        return table


NO_RELATIONS = Relations((), {})
