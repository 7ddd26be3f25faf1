"""Rows of an outer, semi or anti join that is one of several operators: what is true, and what a run could give.

Invariant: a row is sure iff a run gives it however equal times are ordered, and a run gives none that is not maybe
there. So a tuple is without partner for sure where it may have none, and perhaps where none is sure. A late tuple has
no row of its own. A tuple of a semi join leaves with the first pair that is made of it.
"""

# ruff: noqa: S608 (every name and number put into the SQL is made in this package)

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Literal

from slackwater.core.join_kinds import JoinKind
from slackwater.language.bound import JoinQuery
from slackwater.verify.absence import NOBODY
from slackwater.verify.join_truth import Enumeration

Variant = Literal["true", "sure", "maybe"]
_TIME = "greatest(ts_0, ts_1)"


@dataclass(frozen=True)
class OuterRows:
    """One join. Of every variant `worlds` has what it reads; of the truth alone, or of what is sure and what may be."""

    query: JoinQuery
    worlds: Mapping[Variant, Sequence[str]]
    variant: Variant
    enumerated: Callable[[Sequence[str]], Enumeration]

    def candidates(self, made: Callable[[str], str]) -> str:
        """The table of rows before they are asked what WHERE asks: their members by number, and their time; `made`
        makes a table."""
        kind, parts = self.query.kind, []
        if kind.outer:
            parts.append(f"SELECT row_0, row_1, time FROM {made(self._pairs(self.worlds[self.variant], self.variant))}")
        if kind is JoinKind.SEMI:
            parts.append(self._first(made))
        else:
            parts += [self._alone(stream, made) for stream, kept in enumerate(kind.preserved) if kept]
        return made(" UNION ALL ".join(parts))

    def _pairs(self, tables: Sequence[str], variant: Variant) -> str:
        """The pairs of tuples of two tables that are made."""
        found = self.enumerated(tables).combinations(
            [0, 1], self.query.conditions, {"row_0", "row_1", "met_0", "met_1"}
        )
        sign = "<" if variant == "sure" else "<="
        there = "true" if variant == "true" else " AND ".join(f"met_{i} {sign} {_TIME}" for i in range(2))
        return f"SELECT row_0, row_1, {_TIME} AS time FROM ({found}) WHERE {there}"

    def _partners(self, stream: int, world: Variant, made: Callable[[str], str]) -> str:
        """The pairs of the tuples of a stream, as this variant has them, with those of the other in a world."""
        tables = list(self.worlds[world])
        tables[stream] = self.worlds[self.variant][stream]
        return made(self._pairs(tables, world))

    def _own(self, stream: int) -> str:
        """The tuples of a stream that may have a row."""
        in_time = "true" if self.variant == "true" else f"met_{stream} <= ts_{stream}"
        return f"{self.worlds[self.variant][stream]} WHERE {in_time}"

    def _alone(self, stream: int, made: Callable[[str], str]) -> str:
        """Those that are in no pair, each as a row."""
        until = self._until(stream)
        members = [f"row_{i}" if i == stream else f"{NOBODY} AS row_{i}" for i in range(2)]
        there = [
            f"row_{stream} IN (SELECT row_{stream} FROM {self._partners(stream, world, made)})" for world in self.worlds
        ]
        found = " AND ".join(there) if self.variant == "maybe" else " OR ".join(there)
        return f"SELECT {', '.join(members)}, {until} AS time FROM {self._own(stream)} AND NOT ({found})"

    def _until(self, stream: int) -> str:
        """The last instant at which a partner may lie, or the time of the tuple where that lies before."""
        enumeration, own = self.enumerated(()), f"ts_{stream}"
        ends = [f"{own} + {max(0, enumeration.windows.widest[1 - stream][stream])}"]
        for one in self.query.closing if stream == 0 else ():
            time = enumeration.render.column(0, one.name)
            absent = own if one.required else ends[0]
            ends.append(f"CASE WHEN {time} IS NULL THEN {absent} ELSE {time} + {one.most} END")
        return f"greatest({own}, least({', '.join(ends)}))" if len(ends) > 1 else ends[0]

    def _first(self, made: Callable[[str], str]) -> str:
        """Tuples of the first stream with the first of their pairs; with every one that may be the first."""
        firsts = {
            world: f"(SELECT row_0, min(time) AS time FROM {self._partners(0, world, made)} GROUP BY row_0)"
            for world in self.worlds
        }
        own = f"row_0 IN (SELECT row_0 FROM {self._own(0)})"
        if self.variant == "true":
            return f"SELECT row_0, {NOBODY} AS row_1, time FROM {firsts['true']} WHERE {own}"
        if self.variant == "sure":
            both = f"{firsts['sure']} JOIN {firsts['maybe']} USING (row_0, time)"
            return f"SELECT row_0, {NOBODY} AS row_1, time FROM {both} WHERE {own}"
        pairs = f"(SELECT DISTINCT row_0, time FROM {self._partners(0, 'maybe', made)})"
        late = f"LEFT JOIN (SELECT row_0, time AS latest FROM {firsts['sure']}) USING (row_0)"
        return (
            f"SELECT row_0, {NOBODY} AS row_1, time FROM {pairs} {late} WHERE {own} AND time <= coalesce(latest, time)"
        )
