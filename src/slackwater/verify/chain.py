"""The answer of a query of several operators by DuckDB, one level after the other, three times.

What a late row costs depends on the order in which equal event times are processed, which is free; so beside the truth
there are two answers that bound what a run could give: `sure` leaves out what a late row may have lost, `maybe` what it
must have lost.

Invariant: a result of a join is lost for sure iff a member met a watermark behind its time, and perhaps iff it met its
very time; a late row is in the windows that end after the watermark it met, and in no selection.

With corrections an operator hands on what late rows make of it, and whoever reads that takes it as late rows. So
nothing is lost below: a row carries the watermark that its latest member met, and is judged by it at the last join or
window above. Tuple by tuple the watermark there follows that of the streams some tuples behind, so that a row may be in
time above that is late by what its member met.
"""

# ruff: noqa: S608 (every name and number put into the SQL is made in this package)

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from functools import partial
from typing import Any

from slackwater.core.join_kinds import JoinKind
from slackwater.core.schema import Kind
from slackwater.core.time import BEFORE_ALL
from slackwater.expressions.tree import Expr, columns_of
from slackwater.language.asof import AsOfQuery
from slackwater.language.bound import (
    WINDOW_COLUMNS,
    AggregateQuery,
    BoundQuery,
    JoinQuery,
    LandmarkWindow,
    RowsQuery,
    SessionWindow,
    StreamRef,
    UnionQuery,
    streams_read,
)
from slackwater.language.derived import leaves_as
from slackwater.language.distinct import DistinctQuery
from slackwater.language.top import NUMBER, TopQuery
from slackwater.verify.aggregate_truth import make_truth, read_sql
from slackwater.verify.asof import make_rows
from slackwater.verify.chain_absence import OuterRows, Variant
from slackwater.verify.distinct import distinct_rows
from slackwater.verify.groups import GroupRenderer, is_wanted
from slackwater.verify.inputs import JudgedInput, as_produced, load
from slackwater.verify.join_truth import Enumeration
from slackwater.verify.row_aggregate import make_sessions
from slackwater.verify.sql import TYPES, Renderer

_NEVER = f"CAST({BEFORE_ALL} AS BIGINT)"
VARIANTS: tuple[Variant, ...] = ("true", "sure", "maybe")


def expressions_of(query: BoundQuery) -> list[Expr]:
    """Every expression of one query, its sub-queries left out."""
    found = [condition for stream in streams_read(query) for condition in stream.filters]
    if isinstance(query, AggregateQuery):
        window = query.stream.window
        if isinstance(window, LandmarkWindow):
            found += [expr for expr in (window.start, window.end) if expr is not None]
        found += [key.expr for key in query.keys]
        return found + [read for call in query.aggregates for read in call.reads]
    if not isinstance(query, RowsQuery):
        return found
    conditions: tuple[Expr, ...] = (*query.conditions, *query.kept) if isinstance(query, JoinQuery) else ()
    if isinstance(query, AsOfQuery):
        conditions = (*query.kept, *(side for pair in query.keys for side in pair))
    if isinstance(query, TopQuery):
        return [*found, *query.partition, *(one.expr for one in query.order), *query.selected]
    return [*found, *conditions, *(output.expr for output in query.outputs)]


def all_expressions(query: BoundQuery) -> Iterator[Expr]:
    """Every expression of a query and of all inside it."""
    yield from expressions_of(query)
    for stream in streams_read(query):
        if stream.query is not None:
            yield from all_expressions(stream.query)


class Levels:
    """Makes tables of results: `ts`, `met` (the watermark that the latest member met, where it is carried), and `c<k>`
    for the k-th column."""

    def __init__(
        self, connection: Any, inputs: Sequence[JudgedInput], carried: bool = False, in_epochs: bool = True
    ) -> None:
        """`carried`: operators hand on what late rows make of them."""
        self._connection, self._inputs = connection, inputs
        self._carried, self._in_epochs = carried, in_epochs
        self._tables = 0
        self._known: dict[tuple[int, Variant, int], tuple[list[str], int]] = {}
        """What queries read, each by its variant and the raw streams before it; and the raw streams up to there."""

    def not_carried(self) -> Levels:
        """The same where operators lose what late rows would have made."""
        found = Levels(self._connection, self._inputs)
        found._tables = self._tables
        return found

    def results(self, query: BoundQuery, variant: Variant) -> str:
        """The table of all results of a query."""
        return self._results(query, variant, [0], last=True)

    def windows(self, query: AggregateQuery, variant: Variant) -> str:
        """The table of all windows of an aggregate, as `make_truth` has them."""
        return self._windows(query, variant, [0])

    def rows_into(self, query: AggregateQuery, variant: Variant) -> str:
        """The table of all rows that an aggregate is given; `ts_0` has their event times."""
        (source,) = self._sources(query, variant, [0], Renderer([query.stream.schema]))
        return source

    def _results(self, query: BoundQuery, variant: Variant, read: list[int], last: bool) -> str:
        """`last`: no join and no window reads them."""
        if isinstance(query, JoinQuery) and query.kind is not JoinKind.INNER:
            return self._with_absent(query, variant, read)
        level_of: dict[type[BoundQuery], Callable[[Any, Variant, list[int], bool], str]] = {
            UnionQuery: self._united, AggregateQuery: self._aggregated, JoinQuery: self._joined, TopQuery: self._first,
            DistinctQuery: self._without_doubles, AsOfQuery: self._as_of,
        }  # fmt: skip
        return level_of[type(query)](query, variant, read, last)

    def _united(self, query: UnionQuery, variant: Variant, read: list[int], last: bool) -> str:
        inside = [stream.query for stream in query.streams if stream.query is not None]
        parts = [self._results(one, variant, read, last) for one in inside]
        kinds = [output.expr.kind for output in query.outputs]
        listed = ", ".join(["ts", "met", *(f"CAST(c{k} AS {TYPES[kind]}) AS c{k}" for k, kind in enumerate(kinds))])
        return self._made(" UNION ALL ".join(f"SELECT {listed} FROM {part}" for part in parts))

    def _joined(self, query: JoinQuery, variant: Variant, read: list[int], last: bool) -> str:
        render = Renderer([stream.schema for stream in query.streams])
        sources = self._sources(query, variant, read, render)
        streams = range(len(query.streams))
        time = f"greatest({', '.join(f'ts_{i}' for i in streams)})"
        needed = {render.column(*pair) for output in query.outputs for pair in columns_of(output.expr)}
        keep = needed | {f"met_{i}" for i in streams}
        rows = Enumeration(self._connection, query, render, sources).combinations(list(streams), query.conditions, keep)
        # A row of a stream that is late alone has no other that could complete it.
        alone = len(streams) == 1 and query.streams[0].query is None
        sign = "<=" if variant == "maybe" and not alone else "<"
        there = " AND ".join(f"met_{i} {sign} {time}" for i in streams)
        above = not last or (variant == "maybe" and not self._in_epochs)
        if variant == "true" or (self._carried and above):
            there = "true"
        columns = [f"{time} AS ts", f"greatest({', '.join(f'met_{i}' for i in streams)}) AS met"]
        columns += [f"{render.value(output.expr)} AS c{k}" for k, output in enumerate(query.outputs)]
        return self._made(f"SELECT {', '.join(columns)} FROM ({rows}) WHERE {there}")

    def _without_doubles(self, query: DistinctQuery, variant: Variant, read: list[int], last: bool) -> str:
        (stream,) = query.streams
        assert stream.range is not None, "a window of time"
        render = Renderer([stream.schema])
        (source,) = self._sources(query, variant, read, render)
        kinds = [output.expr.kind for output in query.outputs]
        values = "".join(f", {render.value(output.expr)} AS c{k}" for k, output in enumerate(query.outputs))
        there = "true" if variant == "true" else "met_0 < ts_0"
        rows = f"SELECT ts_0 AS ts, met_0 AS met{values} FROM {source} WHERE {there}"
        return self._made(distinct_rows(self._connection, rows, kinds, stream.range))

    def _as_of(self, query: AsOfQuery, variant: Variant, read: list[int], last: bool) -> str:
        """Streams alone are read, so it is sure which version a tuple has; of several of one time any."""
        render = Renderer([stream.schema for stream in query.streams])
        sources = self._sources(query, variant, read, render)
        made = self._name()
        make_rows(self._connection, query, render, sources, made, in_time=variant == "true")
        columns = [f"{render.value(output.expr)} AS c{k}" for k, output in enumerate(query.outputs)]
        joined = " ".join(f"LEFT JOIN {table} s{i} USING (row_{i})" for i, table in enumerate(sources))
        there = "wanted" if variant == "true" else "wanted AND NOT late"
        return self._made(
            f"SELECT {', '.join(['time AS ts', f'{_NEVER} AS met', *columns])} FROM {made} {joined} WHERE {there}"
            " QUALIFY row_number() OVER (PARTITION BY row_0 ORDER BY row_1) = 1"
        )

    def _with_absent(self, query: JoinQuery, variant: Variant, read: list[int]) -> str:
        """A tuple is without partner for sure where none may be there; so both bounds of the other side count."""
        render = Renderer([stream.schema for stream in query.streams])
        variants: tuple[Variant, ...] = ("true",) if variant == "true" else ("sure", "maybe")
        before = read[0]
        worlds = {}
        for one in variants:
            read[0] = before
            worlds[one] = self._sources(query, one, read, render)
        enumerated = partial(Enumeration, self._connection, query, render)
        members = OuterRows(query, worlds, variant, enumerated).candidates(self._made)
        columns = [f"{render.value(output.expr)} AS c{k}" for k, output in enumerate(query.outputs)]
        joined = " ".join(f"LEFT JOIN {table} s{i} USING (row_{i})" for i, table in enumerate(worlds[variant]))
        return self._made(
            f"SELECT {', '.join(['time AS ts', f'{_NEVER} AS met', *columns])} FROM {members} {joined}"
            f" WHERE {render.all_of(query.kept)}"
        )

    def _aggregated(self, query: AggregateQuery, variant: Variant, read: list[int], last: bool) -> str:
        windows = self._windows(query, variant, read)
        value = "t" if variant == "true" else "e"
        held = {key.name: (f"k{n}", key.expr.kind) for n, key in enumerate(query.keys)}
        held |= {call.name: (f"{value}{n}", call.kind) for n, call in enumerate(query.aggregates)}
        groups = GroupRenderer(query, value)
        held |= {one.name: (groups.value(one.expr), one.expr.kind) for one in query.computed}
        columns = [("window_start", Kind.TIME), ("window_end", Kind.TIME), *(held[name] for name in query.order)]
        listed = [f"CAST({name} AS {TYPES[kind]}) AS c{k}" for k, (name, kind) in enumerate(columns)]
        there = is_wanted(query, value) + ("" if variant == "true" else " AND present > 0")
        instant = "window_end" if isinstance(query.stream.window, SessionWindow) else "window_end - 1"
        columns_of_all = ", ".join([f"{instant} AS ts", f"{_NEVER} AS met", *listed])
        return self._made(f"SELECT {columns_of_all} FROM {windows} WHERE {there}")

    def _first(self, query: TopQuery, variant: Variant, read: list[int], last: bool) -> str:
        """The first rows of every window, which a late row is in if it ends after the watermark that it met; they
        stand at its end."""
        (stream,) = query.streams
        render = Renderer([stream.schema])
        (source,) = self._sources(query, variant, read, render)
        if stream.range is None:
            start, end = render.column(0, WINDOW_COLUMNS[0]), "ts_0 + 1"
        else:
            start = f"sw_floor(ts_0, {stream.range})"
            end = f"{start} + {stream.range}"
        way, nulls = {True: "DESC", False: "ASC"}, {True: "NULLS FIRST", False: "NULLS LAST"}
        order = [f"{render.value(one.expr)} {way[one.descending]} {nulls[one.nulls_first]}" for one in query.order]
        order += ["ts_0", *(f"{render.value(expr)} NULLS FIRST" for expr in query.selected)]
        parts = ", ".join(["begun", "made", *map(render.value, query.partition)])
        shown = [
            "number" if one.expr == NUMBER
            else as_produced(one.expr, [stream.schema], leaves_as(one.expr, query.streams), render)
            for one in query.outputs
        ]  # fmt: skip
        columns = ["made AS ts", f"{_NEVER} AS met", "begun AS c0", "made AS c1"]
        columns += [f"{value} AS c{k}" for k, value in enumerate(shown, 2)]
        there = "true" if variant == "true" else "met_0 < made"
        windows = f"SELECT *, {start} AS begun, {end} AS made FROM {source}"
        numbered = f"SELECT *, row_number() OVER (PARTITION BY {parts} ORDER BY {', '.join(order)}) AS number"
        return self._made(
            f"SELECT {', '.join(columns)} FROM ({numbered} FROM ({windows}) WHERE {there}) WHERE number <= {query.most}"
        )

    def _windows(self, query: AggregateQuery, variant: Variant, read: list[int]) -> str:
        render = Renderer([query.stream.schema])
        (source,) = self._sources(query, variant, read, render)
        keys = [render.value(key.expr) for key in query.keys]
        arguments = [read_sql(a, render.value) for a in query.aggregates]
        table = self._name()
        if isinstance(query.stream.window, SessionWindow):
            late_ones = variant == "true"
            make_sessions(self._connection, query, render, keys, arguments, source, table, late_ones)
        else:
            make_truth(self._connection, query, keys, arguments, source, table)
        return table

    def _sources(self, query: BoundQuery, variant: Variant, read: list[int], render: Renderer) -> list[str]:
        """What a query reads, as tables with the columns that `load` makes; `read` counts the raw streams so far."""
        place = (id(query), variant, read[0])
        if place not in self._known:
            self._known[place] = self._loaded(query, variant, read, render), read[0]
        found, read[0] = self._known[place]
        return found

    def _loaded(self, query: BoundQuery, variant: Variant, read: list[int], render: Renderer) -> list[str]:
        exprs = expressions_of(query)
        found = []
        for position, stream in enumerate(streams_read(query)):
            if stream.query is None:
                load(self._connection, position, stream, self._inputs[read[0]], exprs, render)
                read[0] += 1
                found.append(self._name())
                self._connection.execute(f"ALTER TABLE s{position} RENAME TO {found[-1]}")
            else:
                below = self._results(stream.query, variant, read, last=False)
                found.append(self._derived(position, stream, below, variant, render))
        return found

    def _derived(self, position: int, stream: StreamRef, results: str, variant: Variant, render: Renderer) -> str:
        names = stream.schema.names
        columns = [f"ts AS {render.column(position, name)}" for name in names if name == stream.schema.time]
        own = [name for name in names if name != stream.schema.time]
        columns += [f"c{k} AS {render.column(position, name)}" for k, name in enumerate(own)]
        met = "met" if self._carried and (variant == "sure" or self._in_epochs) else _NEVER
        columns += [f"ts AS ts_{position}", f"{met} AS met_{position}"]
        columns += [f"row_number() OVER () AS {name}_{position}" for name in ("row", "place")]
        inside = f"SELECT {', '.join(columns)} FROM {results}"
        return self._made(f"SELECT * FROM ({inside}) WHERE {render.all_of(stream.filters)}")

    def _made(self, select: str) -> str:
        table = self._name()
        self._connection.execute(f"CREATE TABLE {table} AS {select}")
        return table

    def _name(self) -> str:
        self._tables += 1
        return f"level_{self._tables}"
