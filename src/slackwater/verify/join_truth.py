"""All combinations of tuples that join: enumerated by DuckDB, one stream after the other.

Invariant: a combination is in the answer iff every pair i, j keeps `ts_j >= ts_i - W_j` (which is `ts_j >= T - W_j`
for the greatest T), or the windows stated between pairs, and every condition is true.

A key may have few values (two assets, or no key at all), so joining on it alone could compare every tuple with every
other. Time is therefore cut into buckets as wide as a partial combination's reach: the next member lies in one of at
most two of them, and a hash join on key and bucket compares only what is near in time.
"""

# ruff: noqa: S608 (every name and number put into the SQL is made in this package)

from __future__ import annotations

from collections.abc import Collection, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any

from slackwater.core.errors import UsageError
from slackwater.expressions.tree import Call, Expr, columns_of, streams_of
from slackwater.language.bound import JoinQuery
from slackwater.verify.sql import Renderer
from slackwater.verify.windows import Windows

MOST_COMPARISONS = 20_000_000_000
"""Beyond this a truth takes minutes to hours; better refused in a sentence than waited for."""


@dataclass(frozen=True)
class Enumeration:
    """Where the tuples of one query are, and what they must satisfy."""

    connection: Any
    query: JoinQuery
    render: Renderer
    tables: Sequence[str]
    """By position in FROM: what to read its tuples from."""

    @cached_property
    def windows(self) -> Windows:
        """How far apart the streams may be."""
        return Windows.of(self.query)

    def combinations(self, members: Sequence[int], conditions: Sequence[Expr], keep: Collection[str]) -> str:
        """A SELECT of the combinations of some streams, with the columns in `keep` (their `ts_<i>` always).

        All steps but the last are carried out at once; the last runs when the SELECT does, so a count never stores it.
        """
        order = self._order(members, conditions)
        done, waiting = order[:1], list(conditions)
        here, waiting = _split(waiting, done)
        step = f"SELECT * FROM {self.tables[order[0]]} WHERE {self.render.all_of(here)}"
        for number, stream in enumerate(order[1:]):
            self.connection.execute(f"CREATE OR REPLACE TEMP TABLE partial_{number} AS {step}")
            here, waiting = _split(waiting, [*done, stream])
            step = self._joined(f"partial_{number}", done, stream, here, {*keep, *self._needed(waiting)})
            done = [*done, stream]
        return f"SELECT * FROM ({step}) WHERE {self.windows.one_of(done)}" if self.windows.undecided else step

    def _joined(
        self, partial: str, done: Sequence[int], stream: int, here: Sequence[Expr], keep: Collection[str]
    ) -> str:
        most, origin = self.windows.widest, self._origin()
        oldest = _pick("greatest", [f"ts_{i} - {most[i][stream]}" for i in done])
        newest = _pick("least", [f"ts_{i} + {most[stream][i]}" for i in done])
        width = max(1, min(most[i][stream] + most[stream][i] for i in done))
        # A period may be empty, and what lies before the origin is in no bucket.
        left = (
            f"SELECT *, unnest(range(greatest(lo - {origin}, 0) // {width}, (hi - {origin}) // {width} + 1)) AS near"
            f" FROM (SELECT *, {oldest} AS lo, {newest} AS hi FROM {partial}) WHERE hi >= greatest(lo, {origin})"
        )
        right = f"SELECT *, (ts_{stream} - {origin}) // {width} AS bucket FROM {self.tables[stream]}"
        keys = [pair for pair in (_key(condition, stream) for condition in here) if pair is not None]
        self._refuse_if_endless(left, right, keys)
        columns = [f"ts_{i}" for i in (*done, stream)]
        columns += sorted(name for name in keep if name not in columns and _stream(name) in (*done, stream))
        return (
            f"SELECT {', '.join(columns)} FROM ({left}) JOIN ({right})"
            f" ON near = bucket AND ts_{stream} >= lo AND ts_{stream} <= hi AND {self.render.all_of(here)}"
        )

    def _refuse_if_endless(self, left: str, right: str, keys: Sequence[tuple[Expr, Expr]]) -> None:
        names = [f"k{n}" for n in range(len(keys))]
        theirs = "".join(f", {self.render(mine)} AS {name}" for name, (mine, _) in zip(names, keys, strict=True))
        ours = "".join(f", {self.render(own)} AS {name}" for name, (_, own) in zip(names, keys, strict=True))
        on = " AND ".join(["near = bucket", *(f"a.{name} = b.{name}" for name in names)])
        (comparisons,) = self.connection.execute(
            "SELECT sum(CAST(a.n AS DOUBLE) * b.n) FROM"
            f" (SELECT near{theirs}, count(*) AS n FROM ({left}) GROUP BY ALL) a"
            f" JOIN (SELECT bucket{ours}, count(*) AS n FROM ({right}) GROUP BY ALL) b ON {on}"
        ).fetchone()
        if (comparisons or 0) > MOST_COMPARISONS:
            raise UsageError(
                f"the true answer needs {comparisons:.1e} comparisons, more than verify makes"
                f" ({MOST_COMPARISONS:.0e}); verify a shorter piece of the input"
            )

    def _order(self, members: Sequence[int], conditions: Sequence[Expr]) -> list[int]:
        """Streams in the order to join them: along equalities first, then other conditions, then by time alone."""
        order: list[int] = []
        while len(order) < len(members):
            rest = [stream for stream in members if stream not in order]
            order.append(max(rest, key=lambda stream: _ties(conditions, stream, tuple(order) or rest)))
        return order

    def _needed(self, conditions: Sequence[Expr]) -> set[str]:
        return {self.render.column(*pair) for condition in conditions for pair in columns_of(condition)}

    def _origin(self) -> int:
        """The earliest event time: buckets count from it, so that integer division never meets a negative number."""
        earliest = " UNION ALL ".join(f"SELECT min(ts_{i}) AS t FROM {table}" for i, table in enumerate(self.tables))
        (origin,) = self.connection.execute(f"SELECT min(t) FROM ({earliest})").fetchone()
        return int(origin or 0)


def _split(conditions: Sequence[Expr], streams: Sequence[int]) -> tuple[list[Expr], list[Expr]]:
    """The conditions that read only these streams, and the others."""
    here = [condition for condition in conditions if streams_of(condition) <= set(streams)]
    return here, [condition for condition in conditions if condition not in here]


def _key(condition: Expr, stream: int) -> tuple[Expr, Expr] | None:
    """(the others' side, this stream's side) of an equality that a hash join can use."""
    if isinstance(condition, Call) and condition.op == "=":
        for own, other in (condition.args, condition.args[::-1]):
            if streams_of(own) == {stream} and streams_of(other) and stream not in streams_of(other):
                return other, own
    return None


def _ties(conditions: Sequence[Expr], stream: int, others: Sequence[int]) -> tuple[int, int]:
    """How many equalities, and how many conditions at all, tie a stream to the others."""
    reached = [c for c in conditions if stream in streams_of(c) and streams_of(c) <= {*others, stream}]
    return sum(_key(condition, stream) is not None for condition in reached), len(reached)


def _pick(function: str, texts: Sequence[str]) -> str:
    return f"{function}({', '.join(texts)})"


def _stream(column: str) -> int:
    """The stream a column of ours belongs to: `ts_2`, `row_2`, `v2_0`."""
    head, tail = column.split("_")
    return int(head[1:]) if head.startswith("v") else int(tail)
