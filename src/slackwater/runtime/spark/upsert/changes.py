"""What all kinds of tables that are kept up to date have in common: change rows, and which row of a key counts; names
of tables, keys and JSON; and what a kind of table does.

Invariant: of the rows of a micro-batch with one key, that with the highest version is applied and no other. Rows that
are no changes count as inserts of version 0. Keys are equal as SQL groups them: null equals null. What a user names
goes into SQL in quotes, part by part; a dot within quotes belongs to a name. Equal values have equal JSON, so that a
key is the same bytes after every start: all fields, in the order of the columns; times in UTC with microseconds.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from typing import Protocol, TypeVar

import pyarrow as pa
import pyarrow.compute as pc
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as fn

from slackwater.core.errors import UsageError
from slackwater.language.scope import did_you_mean
from slackwater.runtime.spark.types import column

CHANGE, VERSION = "_change", "_version"
"""The columns that make a row a change row: insert, update or delete; and 0, 1, ... of each key."""
T = TypeVar("T")
INSERT, DELETE = "insert", "delete"
_NEWEST, _ROW = "_newest", "_row"


def as_changes(frame: DataFrame) -> DataFrame:
    """Rows as change rows."""
    if CHANGE in frame.columns:
        return frame
    return frame.withColumn(VERSION, fn.lit(0).cast("long")).withColumn(CHANGE, fn.lit(INSERT))


def newest(changes: DataFrame, keys: Sequence[str]) -> DataFrame:
    """The change of every key that counts, computed by Spark."""
    others = [name for name in changes.columns if name not in keys]
    found = fn.max_by(fn.struct(*map(column, others)), fn.col(VERSION)).alias(_NEWEST)
    grouped = changes.groupBy(*map(column, keys)).agg(found)
    return grouped.select(
        *(column(name) if name in keys else fn.col(_NEWEST).getField(name).alias(name) for name in changes.columns)
    )


def newest_rows(changes: pa.Table, keys: Sequence[str]) -> pa.Table:
    """The same of rows that are here, in the order of their versions."""
    order = pc.sort_indices(changes, sort_keys=[(VERSION, "ascending")])
    numbered = changes.select(list(keys)).take(order).append_column(_ROW, order)
    # One thread keeps the order.
    last = numbered.group_by(list(keys), use_threads=False).aggregate([(_ROW, "last")])
    return changes.take(last.column(f"{_ROW}_last"))


SECONDS = "yyyy-MM-dd'T'HH:mm:ss.SSSSSS"
JSON = {
    "ignoreNullFields": "false", "timestampFormat": f"{SECONDS}XXX", "timestampNTZFormat": SECONDS, "timeZone": "UTC",
}  # fmt: skip
"""Options of Spark's `to_json`, which else cuts times to milliseconds, and has them in the zone of the session."""


def parts_of(name: str, quote: str) -> tuple[str, ...]:
    """The parts of a name, between dots.

    >>> parts_of("lake.sales.by_country", "`"), parts_of('public."a.b""c"', '"')
    (('lake', 'sales', 'by_country'), ('public', 'a.b"c'))
    """
    part = re.compile(rf"{quote}((?:[^{quote}]|{quote}{quote})+){quote}|([^{quote}.]+)")
    parts, at = [], 0
    while (found := part.match(name, at)) is not None:
        parts.append(found[2] or found[1].replace(quote * 2, quote))
        at = found.end()
        if at == len(name):
            return tuple(parts)
        if name[at] != ".":
            break
        at += 1
    raise UsageError(f"{name!r} is no name of a table; write it as in schema.table, with {quote} around unusual parts")


def check_columns(columns: Sequence[str], key: Sequence[str], what: str) -> None:
    """Refuse rows that cannot be told apart by this key."""
    twice = [name for name, count in Counter(name.lower() for name in columns).items() if count > 1]
    if twice:
        alike = [name for name in columns if name.lower() == twice[0]]
        raise UsageError(f"{what}: columns {_listed(alike)} differ by case alone; name one otherwise with AS")
    if (CHANGE in columns) != (VERSION in columns):
        own, missing = (CHANGE, VERSION) if CHANGE in columns else (VERSION, CHANGE)
        raise UsageError(
            f"{what}: there is a column '{own}' and no '{missing}'; change rows have both, so name yours otherwise with"
            " AS"
        )
    ordinary = [name for name in columns if name not in (CHANGE, VERSION)]
    for name in key:
        if name not in ordinary:
            hint = did_you_mean(name, ordinary) or f"; there are {', '.join(ordinary)}"
            raise UsageError(f"{what}: there is no column '{name}' for the key of an upsert{hint}")


def check_fits(
    stored: Mapping[str, T],
    given: Mapping[str, T],
    holds: Callable[[T, T], bool],
    table: str,
    shown: Callable[[T], str] = str,
) -> None:
    """Refuse a table that has other columns than the rows, or cannot hold them, by the types of both."""
    for name, type in given.items():
        if name not in stored:
            raise UsageError(f"table {table!r} has no column '{name}', which the results have; name another table")
        if not holds(stored[name], type):
            raise UsageError(
                f"table {table!r}: column '{name}' is {shown(stored[name])}, and that of the results {shown(type)};"
                " name another table, or use CAST in the query"
            )
    for name in stored:
        if name not in given:
            raise UsageError(
                f"table {table!r} has a column '{name}', which the results do not have; name another table"
            )


def _listed(names: Sequence[str]) -> str:
    return " and ".join(f"'{name}'" for name in names)


class Opened(Protocol):
    """A table as one output of one query writes it."""

    def apply(self, changes: DataFrame, keys: Sequence[str], number: int, versioned: bool) -> None:
        """Apply the change rows of a micro-batch, unless that has been done. Rows that are not `versioned` are inserts
        of version 0, which any run may add to."""


class Target(Protocol):
    """A table that change rows are applied to."""

    @property
    def name(self) -> str:
        """What users call it."""

    def check(self, what: str) -> None:
        """Refuse a table that cannot be written; nothing is written here."""

    def has_rows_of_another_run(self, spark: SparkSession) -> bool:
        """Whether some run has left change rows in it: their versions say nothing about those of another."""

    def opened(self, run: str) -> Opened:
        """The table for the micro-batches of this run."""


def not_written(name: str, number: int, why: str) -> str:
    """What to say of a micro-batch that is not in a table."""
    return (
        f"table {name!r}: micro-batch {number} could not be written ({why.rstrip('.')}); a start from the same"
        " checkpoint goes on with it, and writes it once"
    )
