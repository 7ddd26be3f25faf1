"""`upsert`: a sink that keeps a table up to date.

Invariant: after micro-batch N a table has, of every key, the row with the highest version that any micro-batch up to N
had of it, unless that one is a delete; also where N was written before, wholly or in part.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from inspect import signature
from typing import Any

from pyspark.sql import DataFrame, SparkSession

from slackwater.core.errors import UsageError
from slackwater.language.scope import did_you_mean
from slackwater.runtime.spark.outputs import Writer
from slackwater.runtime.spark.upsert.changes import CHANGE, Opened, Target, as_changes, check_columns
from slackwater.runtime.spark.upsert.merge import DeltaTable, IcebergTable
from slackwater.runtime.spark.upsert.postgres import PostgresTable
from slackwater.runtime.spark.upsert.topic import CompactedTopic

KINDS: Mapping[str, Callable[..., Target]] = {
    "delta": DeltaTable,
    "iceberg": IcebergTable,
    "postgres": PostgresTable,
    "kafka": CompactedTopic,
}


@dataclass(frozen=True)
class Upsert(Writer):
    """A table with the key of its rows; `upsert` makes one."""

    target: Target
    key: tuple[str, ...] = ()
    """As the user has stated it; empty where nothing was."""
    declared: tuple[str, ...] = ()
    """The key that the plan of the query declares: versions are counted by it."""
    run: str = ""
    """Whose micro-batches these are."""
    _opened: list[Opened] = field(default_factory=list, compare=False, repr=False)

    takes_changes = True

    def with_key(self, declared: tuple[str, ...] | None) -> Upsert:
        return replace(self, declared=tuple(declared or ()))

    def check(self, columns: Sequence[str], what: str) -> None:
        key = self._key(columns, what)
        if columns:
            check_columns(columns, key, what)
        self.target.check(what)

    def _key(self, columns: Sequence[str], what: str) -> tuple[str, ...]:
        """The columns that tell rows apart."""
        key = self.key or self.declared
        if not key:
            raise UsageError(
                f"{what}: an upsert needs a key: name the columns that tell rows apart, as in"
                " key=['window_end', 'country']"
            )
        if CHANGE in columns and self.declared and set(key) != set(self.declared):
            raise UsageError(
                f"{what}: key={list(key)} is not what versions are counted by; leave it out, or write"
                f" key={list(self.declared)}"
            )
        return key

    def of_run(self, run: str, what: str) -> Upsert:
        return replace(self, run=f"slackwater {run} {what}", _opened=[])

    def refuse_other_runs(self, spark: SparkSession, what: str) -> None:
        if self.target.has_rows_of_another_run(spark):
            raise UsageError(
                f"{what}: table {self.target.name!r} has the rows of another run, whose versions say nothing here;"
                " empty it, name a new one, or go on with the checkpoint of that run"
            )

    def write(self, frame: DataFrame, number: int) -> None:
        what = f"upsert into {self.target.name!r}"
        key = self._key(frame.columns, what)
        check_columns(frame.columns, key, what)
        if not self._opened:
            self._opened.append(self.target.opened(self.run))
        self._opened[0].apply(as_changes(frame), key, number, CHANGE in frame.columns)


def upsert(kind: str, table: str, /, *, key: str | Sequence[str] | None = None, **options: Any) -> Upsert:
    """A table that a query keeps up to date: change rows are applied by their key, every micro-batch once.

        sw.start(spark, text, ..., results=sw.upsert("postgres", "totals", dsn="dbname=shop"), checkpoint="checkpoint")

    - "delta": a path, which has a slash, or a table of the session's catalog.
    - "iceberg": `catalog.db.table`.
    - "postgres": `table` or `schema.table`, in the database of `dsn`, as psycopg takes it. `patience` is how many
      seconds the server may be away (60). It needs `pip install 'slackwater[postgres]'`.
    - "kafka": a topic at `servers`, compacted. A row is a message, and one without a value deletes it. `client` has
      options of the Kafka client, as in `client={"security.protocol": "SSL"}`. It needs
      `pip install 'slackwater[kafka]'`.

    `key` names the columns that tell rows apart; without it, it is that of the query. A table that is not there is
    created. It keeps `_version`, the version of each row: a change is applied where its own is higher. Rows of a query
    that has no changes are inserts of version 0, so of rows with one key the first stays.

    >>> upsert("delta", "out/totals", key="country").key
    ('country',)
    """
    if kind not in KINDS:
        hint = did_you_mean(kind, KINDS) or f"; there are {', '.join(KINDS)}"
        raise UsageError(f"upsert({kind!r}, ...): there is no such kind of table{hint}")
    if not table:
        raise UsageError(f"upsert({kind!r}, {table!r}): name the table")
    known = list(signature(KINDS[kind]).parameters)[1:]
    for name in options:
        if name not in known:
            hint = did_you_mean(name, known) or (f"; there are {', '.join(known)}" if known else "; there are none")
            raise UsageError(f"upsert({kind!r}, ...): there is no option {name!r}{hint}")
    keys = (key,) if isinstance(key, str) else tuple(key or ())
    return Upsert(KINDS[kind](table, **options), keys)
