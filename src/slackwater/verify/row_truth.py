"""All combinations of tuples that join where some windows count tuples: numbered and enumerated by DuckDB.

Invariant: the tuples of a stream are numbered by (event time, arrival). With T the greatest time of a combination, a
member of a stream whose window holds n tuples is one of the n last that had come: those before T and, since the order
of equal times among streams is free, some or all of those at T. A combination is `certain` where every order has it.

A combination is made at its trigger, the member with the greatest time (among equals, the stream that comes first in
FROM). Numbers and times are cut into buckets as wide as a window, so that a hash join compares only what is near.
"""

# ruff: noqa: S608 (every name and number put into the SQL is made in this package)

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from slackwater.core.time import BEFORE_ALL
from slackwater.expressions.tree import streams_of
from slackwater.language.bound import JoinQuery, RowWindow
from slackwater.verify.sql import Renderer


@dataclass(frozen=True)
class RowEnumeration:
    """Where the tuples of one query are."""

    connection: Any
    query: JoinQuery
    render: Renderer

    def store(self, name: str, late_ones: bool) -> None:
        """Table `name`: row_<i>, met_<i>, time and certain of every combination.

        Without `late_ones` a window that counts has only the tuples that were in time: what a run can give.
        """
        streams = range(len(self.query.streams))
        for j in streams:
            which = f" WHERE met_{j} = {BEFORE_ALL}" if self._last(j) and not late_ones else ""
            number(self.connection, j, which)
        found = " UNION ALL ".join(self._triggered_by(trigger) for trigger in streams)
        self.connection.execute(f"CREATE TABLE {name} AS {found}")

    def _last(self, stream: int) -> int:
        window = self.query.streams[stream].window
        return window.rows if isinstance(window, RowWindow) else 0

    def _triggered_by(self, trigger: int) -> str:
        """A SELECT of the combinations whose first newest member is of this stream."""
        streams = range(len(self.query.streams))
        step = self._with_numbers(trigger)
        done, waiting = [trigger], list(self.query.conditions)
        for j in (j for j in streams if j != trigger):
            done.append(j)
            here = [condition for condition in waiting if streams_of(condition) <= {*done}]
            waiting = [condition for condition in waiting if condition not in here]
            width = self._last(j) or max(1, self.query.streams[j].range or 0)
            lo, hi, own = self._period(j, trigger)
            step = (
                f"SELECT * EXCLUDE (near, bucket) FROM"
                f" (SELECT *, unnest(range(({lo}) // {width}, ({hi}) // {width} + 1)) AS near FROM ({step}))"
                f" JOIN (SELECT *, {own} // {width} AS bucket FROM numbered_{j})"
                f" ON near = bucket AND {own} BETWEEN {lo} AND {hi}"
                f" AND ts_{j} {'<' if j < trigger else '<='} ts_{trigger} AND {self.render.all_of(here)}"
            )
        columns = ", ".join(f"row_{i}, met_{i}" for i in streams)
        return f"SELECT {columns}, ts_{trigger} AS time, {self._certain(trigger)} AS certain FROM ({step})"

    def _period(self, j: int, trigger: int) -> tuple[str, str, str]:
        """Between what a member of stream j lies, and what of it: its number, or its time from the earliest one on."""
        if self._last(j):
            return f"greatest(before_{j} - {self._last(j) - 1}, 0)", f"upto_{j}", f"number_{j}"
        # Integer division rounds towards zero, so nothing may be negative.
        first = f"(SELECT min(ts_{j}) FROM numbered_{j})"
        size = self.query.streams[j].range or 0
        return f"greatest(ts_{trigger} - {size} - {first}, 0)", f"ts_{trigger} - {first}", f"(ts_{j} - {first})"

    def _with_numbers(self, trigger: int) -> str:
        """The triggers, each with how many tuples of every stream whose window counts lie before it, and up to it."""
        step = f"SELECT * FROM numbered_{trigger}"
        for j in range(len(self.query.streams)):
            for name, compared in (("before", ">"), ("upto", ">=")) if self._last(j) else ():
                step = (
                    f"SELECT t.*, coalesce(r.number, 0) AS {name}_{j} FROM ({step}) t"
                    f" ASOF LEFT JOIN reached_{j} r ON t.ts_{trigger} {compared} r.at"
                )
        return step

    def _certain(self, trigger: int) -> str:
        """Whether all members are in their windows in every order of equal times; one that alone is newest is."""
        streams = range(len(self.query.streams))
        at_once = " + ".join(f"CAST(ts_{i} = ts_{trigger} AS INTEGER)" for i in streams)
        last = [
            f"(number_{j} > upto_{j} - {self._last(j)} OR (ts_{j} = ts_{trigger} AND {at_once} = 1))"
            for j in streams
            if self._last(j)
        ]
        return " AND ".join(last)


def number(connection: Any, stream: int, which: str) -> None:
    """Tables `numbered_<stream>`: its tuples with numbers; and `reached_<stream>`: the last number at each time."""
    connection.execute(
        f"CREATE OR REPLACE TEMP TABLE numbered_{stream} AS SELECT *,"
        f" row_number() OVER (ORDER BY ts_{stream}, place_{stream}) AS number_{stream} FROM s{stream}{which}"
    )
    connection.execute(
        f"CREATE OR REPLACE TEMP TABLE reached_{stream} AS"
        f" SELECT ts_{stream} AS at, max(number_{stream}) AS number FROM numbered_{stream} GROUP BY ts_{stream}"
    )


def counts_rows(query: JoinQuery) -> bool:
    """Whether a window of this join counts tuples."""
    return len(query.streams) > 1 and any(stream.window is not None for stream in query.streams)


def explained_by_late(query: JoinQuery) -> str:
    """Whether a late member of a window of time explains that a combination was not made."""
    times = [i for i, stream in enumerate(query.streams) if stream.window is None]
    return " OR ".join(f"met_{i} >= time" for i in times) or "false"
