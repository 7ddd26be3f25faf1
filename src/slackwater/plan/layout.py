"""Giving rows to columns and computed keys of one input."""

from __future__ import annotations

from collections.abc import Container

from slackwater.core.batch import FIRST_COLUMN, ROW, TS
from slackwater.core.join_kinds import JoinKind
from slackwater.core.schema import Kind
from slackwater.disorder.release.state import NO_PARTITION
from slackwater.expressions.computed import PARTITION, Computed
from slackwater.expressions.functions import typed_call
from slackwater.expressions.render import is_infix, render
from slackwater.expressions.tree import Column, Expr, Literal, columns_of
from slackwater.language.bound import BoundQuery, JoinQuery, StreamRef
from slackwater.operators.state_size import Member
from slackwater.plan.physical import IDENTITY, InputPlan


class InputLayout:
    """Hands out rows of one input, each column and each computed expression once."""

    def __init__(self, stream: StreamRef, position: int) -> None:
        self._stream, self._position = stream, position
        self._columns: dict[str, int] = {}
        self._computed: dict[tuple[Expr, str], int] = {}
        self._named: dict[str, int] = {}
        self._next = FIRST_COLUMN

    def column(self, name: str) -> int:
        """The row of a column; event time and identity have theirs already."""
        if name == self._stream.schema.time:
            return TS
        if name == IDENTITY:
            return ROW
        if name in self._named:
            return self._named[name]
        if name not in self._columns:
            self._columns[name] = self._take()
        return self._columns[name]

    def value(self, expr: Expr, role: str) -> int:
        """The row that holds an expression: a plain column is its own row, unless it is a float key."""
        if isinstance(expr, Column) and (role == "argument" or expr.kind is not Kind.FLOAT):
            return self.column(expr.name)
        key = (expr, role)
        if key not in self._computed:
            self._computed[key] = self._take()
        return self._computed[key]

    def named(self, expr: Expr) -> str:
        """A name, as of a column, for the row that holds an expression: its text, unless another has that name."""
        row = self.value(expr, "argument")
        name = f"({render(expr)})" if is_infix(expr) else render(expr)
        while name in self._stream.schema or self._named.get(name, row) != row:
            name += "'"
        self._named[name] = row
        return name

    def _take(self) -> int:
        self._next += 1
        return self._next - 1

    def finish(self, clock_by: str | None = None, size_by: str | None = None) -> InputPlan:
        """Fix the layout; what only filters and computed rows read is placed behind the rows that are shipped.

        `clock_by` names the columns that tell the partitions of a stream apart, as far as the stream has them;
        `size_by` the one with the bytes of its events.
        """
        partition_slot = NO_PARTITION
        if clock_by is not None and self._stream.query is None:
            partition_slot = self._partition(clock_by)
        members = tuple(self._member(one) for one in _members(self._stream, size_by))
        shipped = self._next
        for expr in (*self._stream.filters, *(expr for expr, _ in self._computed)):
            for _, name in columns_of(expr):
                self.column(name)
        schema = self._stream.schema
        return InputPlan(
            self._stream,
            self._position,
            tuple((name, schema[name].kind, row) for name, row in self._columns.items()),
            tuple(Computed(expr, row, role) for (expr, role), row in self._computed.items()),
            shipped,
            self._next,
            partition_slot,
            members,
        )

    def _partition(self, clock_by: str) -> int:
        """The row that names the partition of a tuple: one column as it is, several as one text."""
        schema = self._stream.schema
        columns = [name for name in partition_columns(clock_by, schema) if name in schema]
        if not columns:
            return NO_PARTITION
        if len(columns) == 1:
            return self.column(columns[0])
        named = (
            (Literal(name, Kind.TEXT), Column(self._position, name, schema[name].kind, schema[name].scale))
            for name in columns
        )
        return self.value(typed_call("partition", tuple(arg for pair in named for arg in pair)), PARTITION)

    def _member(self, event: Event) -> Member:
        """Where the identity and the size of an event stand; those of events that came from below, in hidden rows."""
        source, column, kind = event
        if self._stream.query is None:
            return Member(source, ROW, None if column is None else self.column(column), kind is Kind.FLOAT)
        return Member(source, self._take(), None if column is None else self._take(), kind is Kind.FLOAT)


def partition_columns(clock_by: str, known: Container[str]) -> list[str]:
    """The columns that the option `clock_by` names: one, or several with commas between them.

    >>> partition_columns("host, channel", ()), partition_columns("a,b", ["a,b"])
    (['host', 'channel'], ['a,b'])
    """
    if clock_by in known:
        return [clock_by]
    return list(dict.fromkeys(name.strip() for name in clock_by.split(",")))


Event = tuple[str, str | None, Kind | None]
"""A source, and the column with the size of its events and its kind, if it has one."""


def _members(stream: StreamRef, size_by: str | None) -> list[Event]:
    """The events that a tuple of this entry of FROM is made of; none where they are not told apart."""
    if stream.query is None:
        if size_by is None or size_by not in stream.schema:
            return [(stream.source, None, None)]
        return [(stream.source, size_by, stream.schema[size_by].kind)]
    return [] if size_by is None else _joined(stream.query, size_by)


def _joined(query: BoundQuery, size_by: str) -> list[Event]:
    """The events of a combination that a join makes, in the order of the text; what else makes rows makes new ones."""
    if not isinstance(query, JoinQuery) or query.kind is not JoinKind.INNER:
        return []
    inputs = [_members(stream, size_by) for stream in query.streams]
    return [event for one in inputs for event in one] if all(inputs) else []
