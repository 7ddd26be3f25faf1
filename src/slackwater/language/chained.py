"""Joins one behind the other, some of which ask for what has no partner: those of FROM in the order of the text, then
IN and EXISTS with a query.

Inner joins next to each other are one join of several streams. Every other join has two inputs: what the joins before
it give, as a sub-query would, and one stream more. So a row stands at the time at which all of them are sure of it.

Invariant: what stands behind ON decides who is a partner, and never takes a preserved tuple away; what stands in WHERE
is asked of rows. It is asked further below, or becomes a filter of a stream, only where that comes to the same. A
window in brackets is between its stream and each other one, also where a join stands between them.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property

from slackwater.core.join_kinds import JoinKind
from slackwater.core.options import Options
from slackwater.core.quality import Complete
from slackwater.core.schema import Kind
from slackwater.expressions.functions import typed_call
from slackwater.expressions.tree import Column, Expr, Literal, streams_of, walk, with_columns
from slackwater.language.bound import JoinQuery, Output, StreamRef
from slackwater.language.derived import result_schema
from slackwater.language.event_times import closing_of, event_times
from slackwater.language.nodes import TEXT, Select, Stream, text_of
from slackwater.language.window_bounds import bind_windows


@dataclass
class Level:
    """A join of streams, by their numbers, with what the levels before it give. Expressions go by these numbers."""

    kind: JoinKind
    streams: list[int]
    on: list[Expr] = field(default_factory=list)
    """Who is a partner; empty for inner joins, of which all is asked of rows."""
    where: list[Expr] = field(default_factory=list)
    """What is asked of rows."""


@dataclass(frozen=True)
class Rows:
    """What a level gives to the next one: a stream, or a sub-query."""

    stream: StreamRef
    names: dict[Column, str] = field(default_factory=dict)
    """What the sub-query calls columns of the streams in it."""

    def column(self, column: Column) -> Column:
        """A column of a stream in it as one of the first input of a join."""
        return replace(column, stream=0, name=self.names.get(column, column.name))


@dataclass(frozen=True)
class Joins:
    """The levels of a query, from below. The first is of inner joins, or of one stream."""

    select: Select
    """Says the windows between the streams of FROM."""
    streams: tuple[StreamRef, ...]
    entries: tuple[Stream, ...]
    """Where the streams stand in the text."""
    levels: tuple[Level, ...]

    @property
    def visible(self) -> tuple[int, ...]:
        """The streams whose columns rows have."""
        return self._members[-1]

    def bound(self, selected: Iterable[Output]) -> JoinQuery:
        """The last join, with the others inside it; what is selected reads the visible streams."""
        outputs = tuple(Output(one.name, numbered(one.expr, self.visible)) for one in selected)
        self._keep_windows()
        self._ask_early()
        below: Rows | None = None
        for number, level in enumerate(self.levels[:-1]):
            if number == 0 and len(level.streams) == 1:
                below = Rows(replace(self.streams[level.streams[0]], filters=tuple(level.where)))
                continue
            wanted = self._read_above(number, outputs)
            names = called({column: f"{self.streams[column.stream].alias}.{column.name}" for column in wanted})
            inner = self._join(number, below, tuple(Output(name, column) for column, name in names.items()))
            below = Rows(_as_stream(inner), names)
        return self._join(len(self.levels) - 1, below, outputs)

    @cached_property
    def _members(self) -> list[tuple[int, ...]]:
        """Of every level, the streams whose columns the next one can read."""
        found: list[tuple[int, ...]] = []
        for level in self.levels:
            before = found[-1] if found else ()
            found.append(before if level.kind.one_sided else (*before, *level.streams))
        return found

    @cached_property
    def _lacking(self) -> list[frozenset[int]]:
        """Of every level, those that a row may be without."""
        found = [frozenset[int]()]
        for before, level in zip(self._members, self.levels[1:], strict=False):
            lacking = {*found[-1]}
            lacking |= {*before} if level.kind.preserved[1] else set()
            lacking |= {*level.streams} if level.kind.outer and level.kind.preserved[0] else set()
            found.append(frozenset(lacking))
        return found

    def _is_apart(self, number: int) -> bool:
        """Whether a level reads a sub-query, whose rows have a time of their own."""
        return number > 1 or (number == 1 and len(self.levels[0].streams) > 1)

    def _keep_windows(self) -> None:
        """State windows in brackets as conditions where the times of their streams are columns of a sub-query."""
        for number, level in enumerate(self.levels):
            if self._is_apart(number):
                conditions = level.where if level.kind is JoinKind.INNER else level.on
                before = [(at, other) for at in self._members[number - 1] for other in level.streams]
                among = [(at, other) for at in level.streams for other in level.streams if at < other]
                for pair in (*before, *among):
                    for newer, older in (pair, pair[::-1]):
                        conditions += self._near(newer, older, self._lacking[number - 1])

    def _time(self, stream: int) -> Column:
        return Column(stream, self.streams[stream].schema.time, Kind.TIME)

    def _near(self, newer: int, older: int, lacking: frozenset[int]) -> Iterator[Expr]:
        """What the window of a stream says of how much newer another may be."""
        size = self.streams[older].range
        if size is not None:
            last = typed_call("shift", (self._time(older), Literal(size, Kind.INT)))
            near = typed_call("<=", (self._time(newer), last))
            absent = [typed_call("is_null", (self._time(at),)) for at in (newer, older) if at in lacking]
            yield typed_call("or", (*absent, near)) if absent else near

    def _ask_early(self) -> None:
        """Ask everything as far below as it can be."""
        for below, level in reversed([*zip(self.levels, self.levels[1:], strict=False)]):
            before = [expr for expr in level.on if streams_of(expr) and _may_drop(level.kind, 0)]
            before += [expr for expr in level.where if not level.kind.preserved[1]]
            sunk = [expr for expr in before if not streams_of(expr) & {*level.streams}]
            below.where += sunk
            level.on, level.where = ([one for one in own if one not in sunk] for own in (level.on, level.where))

    def _read_above(self, number: int, outputs: Iterable[Output]) -> list[Column]:
        """The columns of streams that are read behind a level."""
        exprs = [output.expr for output in outputs]
        exprs += [expr for level in self.levels[number + 1 :] for expr in (*level.on, *level.where)]
        read = (node for expr in exprs for node in walk(expr) if isinstance(node, Column))
        return [column for column in dict.fromkeys(read) if column.stream in self._members[number]]

    def _join(self, number: int, below: Rows | None, outputs: Iterable[Output]) -> JoinQuery:
        """The query of a level over what is below it."""
        level = self.levels[number]
        own = tuple(self.streams[at] for at in level.streams)
        shown, entries = own, [self.entries[at] for at in level.streams]
        streams, first = own, 0
        if below is not None:
            streams, first = (*self._with_windows(number, below, own),), 1
            members = self._members[number - 1]
            known = [at for at in members if at not in self._lacking[number - 1]] or members
            shown = (self.streams[known[0]], *own)
            entries = [self.entries[level.streams[0] if self._is_apart(number) else 0], *entries]

        def here(expr: Expr) -> Expr:
            return with_columns(
                expr,
                lambda column: (
                    replace(column, stream=first + level.streams.index(column.stream))
                    if below is None or column.stream in level.streams
                    else below.column(column)
                ),
            )

        inner = level.kind is JoinKind.INNER
        on, where = ([here(expr) for expr in exprs] for exprs in (level.on, level.where))
        select = Select(streams=[entry.copy() for entry in entries])
        select.meta[TEXT] = text_of(self.select)
        together = [*(self.levels[0].streams if first and not self._is_apart(number) else ()), *level.streams]
        if together == [*range(len(self.select.streams))]:
            select = self.select
        bound, bounds, asked = bind_windows(select, streams, where if inner else on, shown)
        filters, conditions = split(asked, len(streams)) if inner else _of_partners(level.kind, asked)
        kept: list[Expr] = []
        for expr in () if inner else where:
            alone = next((at for at in (0, 1) if streams_of(expr) <= {at} and _tells_all(level.kind, at)), None)
            (kept if alone is None else filters[alone]).append(expr)
        return JoinQuery(
            tuple(replace(one, filters=(*one.filters, *more)) for one, more in zip(bound, filters, strict=True)),
            tuple(conditions), tuple(Output(output.name, here(output.expr)) for output in outputs), Complete(),
            Options(), bounds, kind=level.kind, kept=tuple(kept), closing=() if inner else closing_of(on, streams),
        )  # fmt: skip

    def _with_windows(self, number: int, below: Rows, own: Sequence[StreamRef]) -> Iterator[StreamRef]:
        """The inputs of a level with windows that are long enough for those of all streams in them."""
        if not self._is_apart(number):
            yield from (below.stream, *own)
            return
        members, times = self._members[number - 1], event_times(below.stream)
        sizes = [self.streams[at].range for at in members]
        known = [size for size in sizes if size is not None]
        yield replace(below.stream, range=max(known) if len(known) == len(sizes) else None)
        for stream in own:
            if stream.range is None:
                yield stream
            else:
                earlier = max(-times[below.names[self._time(at)]][0] for at in members)
                yield replace(stream, range=stream.range + earlier)


def numbered(expr: Expr, streams: Sequence[int]) -> Expr:
    """An expression over some streams, by the numbers that these have among all."""
    return with_columns(expr, lambda column: replace(column, stream=streams[column.stream]))


def _of_partners(kind: JoinKind, on: Iterable[Expr]) -> tuple[list[list[Expr]], list[Expr]]:
    """What ON says: filters of each input, and what is asked of both, or of one that is preserved."""
    filters: list[list[Expr]] = [[], []]
    conditions: list[Expr] = []
    for expr in on:
        alone = next((at for at in (1, 0) if streams_of(expr) <= {at} and _may_drop(kind, at)), None)
        (conditions if alone is None else filters[alone]).append(expr)
    return filters, conditions


def _may_drop(kind: JoinKind, stream: int) -> bool:
    """Whether a tuple of a stream that is no partner of any may as well not be there."""
    return kind is JoinKind.SEMI or not kind.preserved[stream]


def _tells_all(kind: JoinKind, stream: int) -> bool:
    """Whether what is asked of the tuple of a stream in a row may be asked before rows are made."""
    return kind.preserved[stream] and not kind.preserved[1 - stream]


def split(conjuncts: Sequence[Expr], streams: int) -> tuple[list[list[Expr]], list[Expr]]:
    """Conjuncts of one stream alone, per stream, and those of several.

    A constant holds of every tuple or of none, so it filters every stream: none then keeps tuples for results that
    cannot come.
    """
    filters: list[list[Expr]] = [[] for _ in range(streams)]
    conditions = []
    for expr in conjuncts:
        read = streams_of(expr)
        if len(read) > 1:
            conditions.append(expr)
            continue
        for position in read or range(streams):
            filters[position].append(expr)
    return filters, conditions


def called(wished: dict[Column, str]) -> dict[Column, str]:
    """Names for columns of several streams, each once: a quoted name may have a dot in it."""
    taken: set[str] = set()
    names = {}
    for number, (column, name) in enumerate(wished.items()):
        names[column] = f"{name}#{number}" if name in taken else name
        taken.add(names[column])
    return names


def _as_stream(join: JoinQuery) -> StreamRef:
    """What a join gives, called by what it joins."""
    sign = "⨝" if join.kind is JoinKind.INNER else f"{join.kind.name} JOIN"
    alias = f" {sign} ".join(stream.alias for stream in join.streams)
    return StreamRef(alias, "", result_schema(join), None, query=join)


def lifted(
    exprs: Iterable[Expr], streams: Sequence[StreamRef], join_of: Callable[[tuple[Output, ...]], JoinQuery]
) -> tuple[StreamRef, Callable[[Expr], Expr]]:
    """A join as a sub-query that selects what expressions over its streams read; and such an expression over it."""
    read = [node for expr in exprs for node in walk(expr) if isinstance(node, Column)]
    names = called({column: f"{streams[column.stream].alias}.{column.name}" for column in read})
    inner = join_of(tuple(Output(name, column) for column, name in names.items()))
    rows = Rows(_as_stream(inner), names)
    return rows.stream, lambda expr: with_columns(expr, rows.column)
