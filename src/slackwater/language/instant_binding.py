"""From a parsed query over instantaneous windows to its tree of relation-to-relation operators.

Every SELECT becomes, from below: the entries of FROM joined two by two, semi and anti joins for IN and EXISTS, an
aggregate where it groups, a selection for HAVING, a projection where it computes, and DISTINCT. A sub-query of FROM is
an entry like a window.

NOT IN follows SQL's rule of three truths: a row is kept iff no row of the query is equal, and none is null where there
is a row at all, and its own value is no null unless there is no row. So it is an anti join whose condition also holds
of nulls; only where conditions say IS NOT NULL of both sides it is one by key.

Invariant: as for every bound query (`bind`). What one stream alone can tell is that stream's filter.

References: 004 §2.1.2 (R2R operators), §6.2.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Literal as OneOf

from slackwater.core.schema import Field, Schema
from slackwater.core.time import format_duration
from slackwater.expressions.aggregates import FUNCTIONS
from slackwater.expressions.functions import typed_call
from slackwater.expressions.relational import (
    Aggregate,
    AggregateCall,
    Distinct,
    Project,
    Relation,
    Scan,
)
from slackwater.expressions.tree import Column, Expr, columns_of, streams_of, with_columns
from slackwater.language.absence import Member, apart, equality, is_known
from slackwater.language.bound import WINDOW_COLUMNS, InstantQuery, Output, StreamRef
from slackwater.language.check import check_aliases, check_select
from slackwater.language.derived import aggregate_leaves_as, leaves_as
from slackwater.language.forms import unwrapped
from slackwater.language.groups import (
    Groups,
    bind_groups,
    call_column,
    conjuncts_of,
    is_aggregation,
    key_column,
    renamed,
    window_column,
)
from slackwater.language.nodes import Select, Stream, Window, refused, text_of, why_no_slide
from slackwater.language.relations import Combined, Entry, combined, join, pruned, selected
from slackwater.language.scalars import Scalars
from slackwater.language.scope import InnerScope, Scope
from slackwater.language.selection import bind_outputs, free_name, name_columns

Source = Callable[[Stream], str]
"""Finds the stream that an entry of FROM reads, or refuses it."""


@dataclass(frozen=True)
class _Shape:
    """A bound SELECT: a relation, and what is selected of its columns."""

    relation: Relation
    outputs: tuple[tuple[Field, Expr], ...]


def bind_instants(query: Select, schemas: Mapping[str, Schema], source: Source) -> InstantQuery:
    """The bound query; `source` finds the stream that an entry of FROM reads."""
    binder = _Binder(text_of(query), schemas, source)
    relation = binder.materialized(binder.select(query, outermost=True), query)
    relation = pruned(relation, {column.name for column in relation.columns})
    assert binder.slides.slide is not None, "a query over instants reads a window"
    return InstantQuery(binder.named_streams(), relation, binder.slides.slide, query.quality, query.options, query.out)


class _Slides:
    """Reads the windows of a query one after the other, and knows the slide that the first has stated."""

    def __init__(self) -> None:
        self.slide: int | None = None

    def window_of(self, stream: Stream) -> Window:
        """The window of an entry that reads a source."""
        window, known = stream.window, self.slide
        wanted = f"{stream.alias} [RANGE 5 MINUTES SLIDE {format_duration(known) if known else '1 SECOND'}]"
        if window is None:
            message = f"stream {stream.alias} needs a window that slides with the others, as in {wanted}"
            raise refused(stream, message)
        if not isinstance(window, Window) or window.in_rows:
            message = f"windows that slide together are of time; write RANGE and SLIDE, as in {wanted}"
            raise refused(window, message)
        if window.slide is None:
            message = (
                "all windows of this query are read at the same instants, so this one needs the SLIDE of the others,"
                f" as in {wanted}"
            )
            raise refused(window, message)
        if known is not None and window.slide != known:
            message = (
                f"this window slides by {format_duration(window.slide)} and another of this query by"
                f" {format_duration(known)}; all are read at the same instants, so write the same SLIDE"
            )
            raise refused(window, message, window.slide_place)
        why = why_no_slide(window.slide, window.range)
        if why is not None:
            raise refused(window, why, window.slide_place)
        self.slide = window.slide
        return window

    def no_window_of(self, stream: Stream) -> None:
        """Refuse a window behind a sub-query."""
        if stream.window is not None:
            message = (
                f"{stream.alias} is read at the same instants as the windows inside it, and has no window of its own;"
                " leave it out"
            )
            raise refused(stream.window, message)


class _Binder:
    """Binds one SELECT after the other, and collects the windows they read."""

    def __init__(self, text: str, schemas: Mapping[str, Schema], source: Source) -> None:
        self._text, self._schemas, self._source = text, schemas, source
        self.streams: list[StreamRef] = []
        self._ways: list[tuple[str, ...]] = []
        """Of every stream, the names of the sub-queries that it stands in."""
        self._way: tuple[str, ...] = ()
        self.slides = _Slides()

    def named_streams(self) -> tuple[StreamRef, ...]:
        """The streams, each with a name of its own for reports: its alias, and where two have the same, with the way to
        it."""
        aliases = Counter(stream.alias for stream in self.streams)
        taken: set[str] = set()
        found = []
        for stream, way in zip(self.streams, self._ways, strict=True):
            wished = stream.alias if aliases[stream.alias] == 1 else ".".join((*way, stream.alias))
            found.append(replace(stream, alias=free_name(wished, taken)))
        return tuple(found)

    def select(self, query: Select, outermost: bool = False) -> _Shape:
        """One SELECT, and all inside it."""
        check_select(query, outermost)
        entries, positions = self._entries(query)
        scope = Scope(self._text, tuple(entry.stream for entry in entries))
        plain, members = apart(query.conditions, scope)
        conditions = conjuncts_of([Scalars(scope, "WHERE").condition(node) for node in plain])
        found = self._combined(entries, positions, conditions)
        for member in members:
            found = self._with_member(found, entries, member, conditions)
        shape = (_grouped if is_aggregation(query) else _projected)(query, scope, found)
        if outermost:
            _refuse_bounds(shape, query)
        if query.kind != "DISTINCT":
            return shape
        relation = Distinct(self.materialized(shape, query))
        return _Shape(relation, tuple((column, _own(column)) for column in relation.columns))

    def materialized(self, shape: _Shape, query: Select) -> Relation:
        """The relation that has exactly what is selected; without a projection where it has that already."""
        if not shape.outputs:
            message = "every row would be empty; select a column beside the bounds of the window"
            raise refused(query.items[0], message)
        columns = tuple(column for column, _ in shape.outputs)
        exprs = tuple(expr for _, expr in shape.outputs)
        if exprs == tuple(map(_own, shape.relation.columns)) and columns == shape.relation.columns:
            return shape.relation
        return Project(shape.relation, exprs, columns)

    def _entries(self, query: Select) -> tuple[list[Entry], list[int | None]]:
        """The entries of FROM, and which of the streams each is; None for a sub-query."""
        check_aliases(query)
        entries: list[Entry] = []
        positions: list[int | None] = []
        for stream in query.streams:
            if stream.query is None:
                positions.append(len(self.streams))
                entries.append(self._window(stream))
            else:
                self.slides.no_window_of(stream)
                positions.append(None)
                self._way += (stream.alias,)
                entries.append(self._subquery(stream.alias, stream.query))
                self._way = self._way[:-1]
        return entries, positions

    def _window(self, stream: Stream) -> Entry:
        """An entry that reads a source; all its columns, until it is known which are needed."""
        source = self._source(stream)
        window = self.slides.window_of(stream)
        bound = StreamRef(stream.alias, source, self._schemas[source], window.range, window.slide)
        self.streams.append(bound)
        self._ways.append(self._way)
        fields = sorted(bound.schema.fields, key=lambda field: field.name != bound.schema.time)
        columns = tuple(Field(one.name, one.kind, leaves_as(Column(0, one.name, one.kind), (bound,))) for one in fields)
        scan = Scan(len(self.streams) - 1, window.range, columns)
        return Entry(bound, scan, {column.name: column.name for column in columns})

    def _subquery(self, alias: str, query: Select) -> Entry:
        shape = self.select(query)
        if not all(isinstance(expr, Column) for _, expr in shape.outputs):
            relation = self.materialized(shape, query)
            shape = _Shape(relation, tuple((column, _own(column)) for column in relation.columns))
        fields = tuple(column for column, _ in shape.outputs)
        names = {column.name: expr.name for column, expr in shape.outputs if isinstance(expr, Column)}
        return Entry(StreamRef(alias, "", Schema(fields, ""), None), shape.relation, names)

    def _combined(self, entries: list[Entry], positions: list[int | None], conditions: Sequence[Expr]) -> Combined:
        """The entries joined; conditions on one of them are judged before."""
        for at, (entry, position) in enumerate(zip(entries, positions, strict=True)):
            # A constant holds of every row or of none, so it filters every entry.
            alone = [one for one in conditions if streams_of(one) <= {at}]
            if position is not None:
                own = tuple(_of_stream(one, position) for one in alone)
                self.streams[position] = replace(self.streams[position], filters=own)
            elif alone:
                reading = Combined(entry.relation, {(at, name): own for name, own in entry.names.items()})
                entries[at] = replace(entry, relation=selected(entry.relation, [reading.over(one) for one in alone]))
        return combined(entries, [one for one in conditions if len(streams_of(one)) > 1])

    def _with_member(
        self, left: Combined, entries: Sequence[Entry], member: Member, conditions: Sequence[Expr]
    ) -> Combined:
        """The rows of a relation that IN or EXISTS leaves of it."""
        kind: OneOf["semi", "anti"] = "anti" if member.negated else "semi"
        outer = Scope(self._text, tuple(entry.stream for entry in entries))
        query = member.query
        own = self._member_entries(query, outer)
        count = len(own.scope.streams) - len(entries)
        values = [Scalars(outer, "WHERE").bind(value) for value in member.values]
        if values and len(own.values) != len(values):
            counts = f"{len(values)} value{'s' * (len(values) > 1)}", f"{len(own.values)} columns"
            message = f"IN looks for {counts[0]}, and its query selects {counts[1]}"
            raise refused(query.items[-1], message)
        shifted = {(at + count, name): own_name for (at, name), own_name in left.names.items()}
        around = Combined(left.relation, shifted)
        pairs = []
        for value, inner in zip((_shifted(value, count) for value in values), own.values, strict=False):
            equal = equality(outer, value, inner, member.node)
            known = is_known(value, [_shifted(one, count) for one in conditions]) and is_known(inner, own.conditions)
            if member.negated and not known:
                nulls = typed_call("is_null", (value,)), typed_call("is_null", (inner,))
                equal = typed_call("or", (equal, *nulls))
            pairs.append(equal)
        made = join(around, own.combined, [*pairs, *own.correlated], kind, left.relation.columns)
        return Combined(made, left.names)

    def _member_entries(self, query: Select, outer: Scope) -> _Inside:
        """The query of IN or EXISTS; where it groups, computes once for all or is DISTINCT, as one entry."""
        check_select(query)
        if is_aggregation(query) or query.kind:
            entry = self._subquery("", query)
            scope = InnerScope(self._text, (entry.stream, *outer.streams), 1)
            values = tuple(Column(0, one.name, one.kind, one.scale) for one in entry.stream.schema.fields)
            names = {(0, name): own for name, own in entry.names.items()}
            return _Inside(scope, Combined(entry.relation, names), (), values, ())
        entries, positions = self._entries(query)
        scope = InnerScope(self._text, (*(entry.stream for entry in entries), *outer.streams), len(entries))
        plain, members = apart(query.conditions, scope)
        conditions = conjuncts_of([Scalars(scope, "WHERE").condition(node) for node in plain])
        own = range(len(entries))
        inside = [one for one in conditions if all(at in own for at in streams_of(one))]
        found = self._combined(entries, positions, inside)
        for member in members:
            found = self._with_member(found, entries, member, inside)
        # What EXISTS selects is not looked at, and yet must have a meaning.
        outputs = bind_outputs(query.items, scope)
        correlated = tuple(one for one in conditions if one not in inside)
        return _Inside(scope, found, correlated, tuple(one.expr for one in outputs), tuple(inside))


@dataclass(frozen=True)
class _Inside:
    """A bound query of IN or EXISTS. Expressions read its entries, and behind them those of the query around it."""

    scope: Scope
    combined: Combined
    correlated: tuple[Expr, ...]
    """Conditions that read the query around it."""
    values: tuple[Expr, ...]
    """What it selects."""
    conditions: tuple[Expr, ...]
    """What is true of all its rows."""


def _grouped(query: Select, scope: Scope, found: Combined) -> _Shape:
    """The groups of a SELECT, and what is selected of them."""
    groups = bind_groups(query, scope)
    _refuse_bounds_inside(groups, query)
    order = name_columns([asked for _, asked in groups.selected], text_of(query), aggregate=True)
    names = _names_of_groups(groups, order)
    keys = tuple(
        Field(names[key_column(at)], expr.kind, leaves_as(expr, scope.streams))
        for at, (expr, _) in enumerate(groups.keys)
    )
    for call in groups.calls:
        if FUNCTIONS[call.function].by_time:
            message = f"{call.function} goes by event time, and rows of an instant have none; write MIN or MAX"
            raise refused(query.items[0], message)
        if FUNCTIONS[call.function].sketched:
            message = f"{call.function} is not offered over windows that slide together; write COUNT(DISTINCT x)"
            raise refused(query.items[0], message)
        if FUNCTIONS[call.function].by_second:
            message = f"{call.function} is not offered over windows that slide together; write MIN or MAX"
            raise refused(query.items[0], message)
    calls = tuple(
        AggregateCall(
            call.function, None if call.argument is None else found.over(call.argument), call.parameter,
            Field(names[call_column(at)], call.kind, aggregate_leaves_as(call, scope.streams)),
        )
        for at, call in enumerate(groups.calls)
    )  # fmt: skip
    relation: Relation = Aggregate(found.relation, tuple(found.over(expr) for expr, _ in groups.keys), keys, calls)
    relation = selected(relation, [renamed(one, names) for one in groups.having])
    group = StreamRef("", "", Schema(relation.columns, ""), None)
    outputs = []
    for (expr, _), name in zip(groups.selected, order, strict=True):
        own = renamed(expr, names)
        outputs.append((Field(name, own.kind, leaves_as(own, (group,))), own))
    return _Shape(relation, tuple(outputs))


def _names_of_groups(groups: Groups, order: Sequence[str]) -> dict[str, str]:
    """Names of keys and aggregates in the relation: as they are selected, where they are."""
    names: dict[str, str] = {}
    taken = set(order)
    for (expr, _), name in zip(groups.selected, order, strict=True):
        if isinstance(expr, Column):
            names.setdefault(expr.name, name)
    wished = [(key_column(at), asked.longer) for at, (_, asked) in enumerate(groups.keys)]
    wished += [(call_column(at), written) for at, written in enumerate(groups.written)]
    for column, asked in wished:
        if column not in names:
            names[column] = free_name(asked, taken)
    return names


def _refuse_bounds_inside(groups: Groups, query: Select) -> None:
    """Refuse what computes with the bounds of a window: an instant has windows of several lengths."""
    computed = [expr for expr, _ in groups.selected] + list(groups.having)
    if any(name in WINDOW_COLUMNS for expr in computed for _, name in columns_of(expr)):
        message = "window_start and window_end are those of the result, and nothing can be computed from them here"
        raise refused(query, message)


def _projected(query: Select, scope: Scope, found: Combined) -> _Shape:
    """What a SELECT without groups selects."""
    items = tuple(item for item in query.items if window_column(unwrapped(item.node), scope) is None)
    outputs: tuple[Output, ...] = bind_outputs(items, scope)
    return _Shape(
        found.relation,
        tuple(
            (Field(one.name, one.expr.kind, leaves_as(one.expr, scope.streams)), found.over(one.expr))
            for one in outputs
        ),
    )


def _refuse_bounds(shape: _Shape, query: Select) -> None:
    """Refuse names that the results have already."""
    for column, _ in shape.outputs:
        if column.name.lower() in WINDOW_COLUMNS:
            message = f"a column of the result cannot be called '{column.name}'; name it otherwise with AS"
            raise refused(query.items[0], message)


def _own(column: Field) -> Column:
    return Column(0, column.name, column.kind, column.scale)


def _of_stream(expr: Expr, position: int) -> Expr:
    """An expression that reads one entry, as the filter of that stream."""
    return with_columns(expr, lambda column: replace(column, stream=position))


def _shifted(expr: Expr, by: int) -> Expr:
    """An expression over entries that stand further behind."""
    return with_columns(expr, lambda column: replace(column, stream=column.stream + by))
