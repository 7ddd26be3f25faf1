"""What a run gave where rows change what has left: its first answer, the answer after all changes, and what is wrong
with the changes themselves.

Invariant: of the rows of one result the versions are 0, 1, ... in the order in which they leave; the first inserts, an
update or a deletion changes one that is there, and another insert follows a deletion alone. Of the answer after all
changes the row of the highest version is left, unless it deletes. The first answer are the rows that are no corrections
and not of open windows; one that deletes takes a row of an open window back.

A result of a join is known by its members, of an as-of join by its tuple of the first stream, a row of an aggregate by
window and group, a distinct row by all it has. Rows of several operators have no identity: each is a result of its own.
"""

# ruff: noqa: S608 (every name and number put into the SQL is made in this package)

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from typing import Any

import pyarrow as pa

from slackwater.core.emitting import AMENDS, CHANGE, CLOCK, VERSION
from slackwater.core.schema import Kind
from slackwater.language.asof import AsOfQuery
from slackwater.language.bound import RESULT_TIME, WINDOW_COLUMNS, AggregateQuery, BoundQuery, JoinQuery, is_chain
from slackwater.language.distinct import DistinctQuery
from slackwater.verify.inputs import column_of, words

FINAL = "_final"
"""A column of rows that are sorted out: the largest clock when the first answer to their result was emitted."""
_FAULTS = {
    "a version that has left before": "copy > 1",
    "a version before its turn": "version > coalesce(most, -1) + 1",
    "a version after its turn": "version <= most OR version < 0",
    "a change that there is not": "change NOT IN ('insert', 'update', 'delete')",
    "an insert of what is there": "change = 'insert' AND coalesce(before, 'delete') <> 'delete'",
    "a change of what is not there": "change <> 'insert' AND coalesce(before, 'delete') = 'delete'",
}
"""What may be wrong with a row, the first that holds: `most` is the highest version of its result before it, `before`
the change of the row before it, and `copy` says the how manieth of its version it is."""


@dataclass(frozen=True)
class Fault:
    """Change rows that break the rules."""

    what: str
    rows: int
    example: str
    """The first of them, by what its result is known by."""

    def __str__(self) -> str:
        """One line.

        >>> print(Fault("a version before its turn", 2, "_row_a 3, _row_b 7, version 2"))
        a version before its turn: 2 rows, the first with _row_a 3, _row_b 7, version 2
        """
        return f"{self.what}: {self.rows:,} row{'' if self.rows == 1 else 's'}, the first with {self.example}"


@dataclass(frozen=True)
class ChangeRows:
    """The rows of a run, by the answer that they belong to."""

    first: pa.Table
    """The first answer, in the order it was given."""
    corrected: pa.Table
    """What is left after all changes, by time."""
    early: pa.Table
    """Rows of open windows, of results that are in the first answer or were taken back by it."""
    corrections: int
    faults: tuple[Fault, ...]


def split(connection: Any, query: BoundQuery, produced: Iterable[pa.Table] | pa.Table) -> ChangeRows:
    """Sort out the rows that a query gave."""
    rows = produced if isinstance(produced, pa.Table) else pa.concat_tables(produced)
    known_by = dict(_identity(query))
    columns = {f"k{n}": words(column_of(rows, name), kind) for n, (name, kind) in enumerate(known_by.items())}
    columns |= {"change": rows.column(CHANGE), "version": rows.column(VERSION), "amends": rows.column(AMENDS)}
    columns |= {
        "clock": words(rows.column(CLOCK), Kind.TIME),
        "time": words(column_of(rows, time_of(query)), Kind.TIME),
    }
    columns |= {"place": pa.array(range(rows.num_rows), pa.int64())}
    connection.register("changing", pa.table(columns))
    same = ", ".join(f"k{n}" for n in range(len(known_by))) or "place"
    connection.execute(
        "CREATE TABLE changes AS SELECT *, lag(change) OVER earlier AS before,"
        " max(version) OVER (earlier ROWS BETWEEN UNBOUNDED PRECEDING AND 1 PRECEDING) AS most,"
        f" row_number() OVER (PARTITION BY {same}, version ORDER BY place) AS copy,"
        f" max(version) OVER (PARTITION BY {same}) AS last,"
        f" max(version) FILTER (NOT amends) OVER (PARTITION BY {same}) AS stood,"
        f" max(clock) FILTER (NOT amends) OVER (PARTITION BY {same}) AS final"
        f" FROM changing WINDOW earlier AS (PARTITION BY {same} ORDER BY place)"
    )
    connection.unregister("changing")
    faults = tuple(_faults(connection, list(known_by)))
    parts = {
        "first": "NOT amends AND change <> 'delete' ORDER BY place",
        "corrected": "version = last AND change <> 'delete' ORDER BY time, place",
        "early": "amends AND version < stood ORDER BY place",
    }
    found = {}
    for name, which in parts.items():
        chosen = connection.sql(f"SELECT place, final FROM changes WHERE {which}").to_arrow_table()
        found[name] = rows.take(chosen["place"]).append_column(FINAL, chosen["final"])
    (corrections,) = connection.execute(
        "SELECT count(*) FILTER (amends AND (stood IS NULL OR version > stood)) FROM changes"
    ).fetchone()
    connection.execute("DROP TABLE changes")
    return ChangeRows(**found, corrections=corrections, faults=faults)


def time_of(query: BoundQuery) -> str:
    """The column that rows leave in the order of."""
    return WINDOW_COLUMNS[1] if isinstance(query, AggregateQuery) else RESULT_TIME


def _identity(query: BoundQuery) -> Iterator[tuple[str, Kind]]:
    """The columns that tell the rows of one result; none where each is a result of its own."""
    if isinstance(query, AggregateQuery):
        yield from ((name, Kind.TIME) for name in WINDOW_COLUMNS)
        yield from ((key.name, key.expr.kind) for key in query.keys)
    elif isinstance(query, DistinctQuery):
        yield RESULT_TIME, Kind.TIME
        yield from ((output.name, output.expr.kind) for output in query.outputs)
    elif isinstance(query, AsOfQuery):
        yield RESULT_TIME, Kind.TIME
        yield f"_row_{query.streams[0].alias}", Kind.INT
    elif isinstance(query, JoinQuery) and not is_chain(query):
        yield RESULT_TIME, Kind.TIME
        told = query.streams[:1] if query.kind.one_sided else query.streams
        yield from ((f"_row_{stream.alias}", Kind.INT) for stream in told)


def _faults(connection: Any, known_by: list[str]) -> Iterator[Fault]:
    names = " ".join(f"WHEN {rule} THEN {number}" for number, rule in enumerate(_FAULTS.values()))
    shown = ["version", *(f"k{n}" for n in range(len(known_by)))]
    firsts = ", ".join(f"arg_min({name}, place)" for name in shown)
    found = connection.execute(
        f"SELECT fault, count(*), {firsts} FROM (SELECT *, CASE {names} END AS fault FROM changes)"
        " WHERE fault IS NOT NULL GROUP BY fault ORDER BY fault"
    ).fetchall()
    for fault, rows, version, *key in found:
        example = ", ".join(f"{name} {value}" for name, value in zip(known_by, key, strict=True))
        yield Fault(list(_FAULTS)[fault], rows, f"{example}, version {version}".removeprefix(", "))
