"""A bound query: every name resolved, every type known, every filter where it belongs. What the planner starts from.

Invariant: a bound query is plain, frozen data; two equal texts over equal schemas bind to equal values.

References: 004 §2.1.2, §6.2 (queries over instantaneous windows).
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import Field, dataclass, replace
from typing import Any, ClassVar

from slackwater.core.emitting import ONCE, Emit
from slackwater.core.join_kinds import JoinKind
from slackwater.core.options import Options
from slackwater.core.quality import Quality
from slackwater.core.results import AS_MADE, Out
from slackwater.core.schema import Kind, Schema
from slackwater.core.time import Bounds
from slackwater.expressions.relational import Relation
from slackwater.expressions.tree import Expr

WINDOW_COLUMNS = ("window_start", "window_end")
"""What the results of an aggregate begin with."""
RESULT_TIME = "_ts"
"""The event time of a result, for the query around it; results of all but aggregates leave with it."""


@dataclass(frozen=True)
class RowWindow:
    """A window that counts tuples: the last `rows` of its stream; in aggregates, moved by `slide` of them."""

    rows: int
    slide: int | None = None
    """None means tumbling."""


@dataclass(frozen=True)
class LandmarkWindow:
    """From a tuple of which `start` is true to one of which `end` is; without `end`, with an answer every `slide`."""

    start: Expr
    end: Expr | None
    slide: int | None


@dataclass(frozen=True)
class RateWindow:
    """A window that counts tuples, as many as its stream brings in `interval` microseconds; the count follows the
    rate."""

    interval: int
    by_arrival: bool = False
    """Whether the interval is one of wall-clock time, to be mapped to event time when the streams are first sampled."""


@dataclass(frozen=True)
class FillingWindow:
    """A tumbling window that answers every `step` until it is full, with all tuples since its start."""

    range: int
    step: int


@dataclass(frozen=True)
class SessionWindow:
    """As long as neighbours are at most `gap` apart, and no longer than `most`; None: however long."""

    gap: int
    most: int | None = None


@dataclass(frozen=True)
class Match:
    """MATCH TIME: members of a result lie at most `within` microseconds apart; None: as the rates say."""

    within: int | None


@dataclass(frozen=True)
class StreamRef:
    """One entry of FROM. `source` names the stream it reads; a self-join reads one source under two aliases.

    A sub-query reads no source of its own: then `query` is what it says, and the schema that of its results.
    """

    alias: str
    source: str
    schema: Schema
    range: int | None
    """Window size in microseconds; None where a single stream is merely filtered, or `JoinQuery.bounds` say it."""
    slide: int | None = None
    """Step of an aggregate window; None (RANGE without SLIDE) means tumbling."""
    filters: tuple[Expr, ...] = ()
    """Conjuncts of WHERE that read this stream alone (`Column.stream` is this entry's position)."""
    query: BoundQuery | None = None
    window: RowWindow | LandmarkWindow | RateWindow | SessionWindow | FillingWindow | None = None
    """A window that is not one of time; `range` and `slide` are None then."""


@dataclass(frozen=True)
class Output:
    """One item of the SELECT list of a join or selection."""

    name: str
    expr: Expr


@dataclass(frozen=True)
class Aggregate:
    """One aggregate call. `argument` is None for COUNT(*); `parameter` is the p of QUANTILE."""

    name: str
    function: str
    """One of `expressions.aggregates.FUNCTIONS`."""
    argument: Expr | None
    parameter: float | None
    kind: Kind
    by: Expr | None = None
    """What MAX_BY and MIN_BY choose the argument by."""

    @property
    def reads(self) -> tuple[Expr, ...]:
        """All that it reads of a tuple."""
        return tuple(expr for expr in (self.argument, self.by) if expr is not None)

    def over(self, renamed: Callable[[Expr], Expr]) -> Aggregate:
        """The same call over other expressions."""
        argument, by = (None if expr is None else renamed(expr) for expr in (self.argument, self.by))
        return replace(self, argument=argument, by=by)


class RowsQuery:
    """A query whose results are rows, each at its own event time: what every kind of them has.

    A kind is a frozen dataclass with at least these fields.
    """

    __dataclass_fields__: ClassVar[dict[str, Field[Any]]]
    streams: tuple[StreamRef, ...]
    outputs: tuple[Output, ...]
    quality: Quality
    options: Options
    out: Out
    emit: Emit


@dataclass(frozen=True)
class Closing:
    """What a partner of a row of the first input can be no newer than: a time that the row carries, and so much."""

    name: str
    most: int
    required: bool
    """Whether a row in which that time is null has no partner at all."""


@dataclass(frozen=True)
class JoinQuery(RowsQuery):
    """An m-way window join; with one stream, a plain selection in event-time order."""

    streams: tuple[StreamRef, ...]
    conditions: tuple[Expr, ...]
    """Conjuncts of WHERE that read two streams or more."""
    outputs: tuple[Output, ...]
    quality: Quality
    options: Options
    bounds: tuple[Bounds, ...] = ()
    """Where a window clause is written: all windows of the query as stated, those in brackets too, per alternative."""
    out: Out = AS_MADE
    match: Match | None = None
    """Of windows that follow rates: how near in time members must be; None: however far."""
    emit: Emit = ONCE
    kind: JoinKind = JoinKind.INNER
    """What becomes of tuples without partner. Where it is not INNER there are two streams, and `conditions`, which may
    read one of them alone, say who is a partner."""
    kept: tuple[Expr, ...] = ()
    """What must be true of a row of such a join, nulls in it included."""
    closing: tuple[Closing, ...] = ()
    """Where the first input is a sub-query: how windows of such a join end sooner than by the time of a row."""


@dataclass(frozen=True)
class AggregateQuery:
    """Window aggregates over one stream, per group where `keys` is not empty."""

    stream: StreamRef
    keys: tuple[Output, ...]
    aggregates: tuple[Aggregate, ...]
    order: tuple[str, ...]
    """Names of keys, aggregates and what is computed from them as the SELECT list has them (a GROUP BY key need not be
    selected, and so need not an aggregate that something else reads)."""
    quality: Quality
    options: Options
    out: Out = AS_MADE
    computed: tuple[Output, ...] = ()
    """What is computed of a group once its aggregates are known; a column is that of the group (`groups_of`)."""
    having: tuple[Expr, ...] = ()
    """What must all be true of a group, or it is left out; the same columns."""
    emit: Emit = ONCE


@dataclass(frozen=True)
class UnionQuery(RowsQuery):
    """UNION ALL: the rows of several sub-queries with the same columns, each at its own event time."""

    streams: tuple[StreamRef, ...]
    outputs: tuple[Output, ...]
    """The columns, under the names that the first sub-query gives them."""
    quality: Quality
    options: Options
    out: Out = AS_MADE
    emit: Emit = ONCE


class RelationQuery:
    """A query whose results are relations, one at every instant; `instants.InstantQuery` is the one there is."""

    __dataclass_fields__: ClassVar[dict[str, Field[Any]]]
    streams: tuple[StreamRef, ...]
    quality: Quality
    options: Options
    out: Out
    emit: Emit


BoundQuery = AggregateQuery | RowsQuery | RelationQuery
"""Three shapes: windows of an aggregate, rows, or relations. Kinds of rows are added by their own files (`kinds`)."""


def streams_read(query: BoundQuery) -> tuple[StreamRef, ...]:
    """The entries of FROM; of a union, its sub-queries."""
    return (query.stream,) if isinstance(query, AggregateQuery) else query.streams


def is_chain(query: BoundQuery) -> bool:
    """Whether a query has others inside it, so that it takes several operators."""
    return any(stream.query is not None for stream in streams_read(query))


def follows_rates(query: BoundQuery) -> bool:
    """Whether the windows of a query, not of those inside it, follow the rates of its streams."""
    return any(isinstance(stream.window, RateWindow) for stream in streams_read(query))


def all_inside(query: BoundQuery) -> Iterator[BoundQuery]:
    """A query, and all that it reads."""
    yield query
    for stream in streams_read(query):
        if stream.query is not None:
            yield from all_inside(stream.query)


def rates_anywhere(query: BoundQuery) -> bool:
    """Whether windows of a query, or of those inside it, follow rates."""
    return any(map(follows_rates, all_inside(query)))


def goes_by_arrival(query: BoundQuery) -> bool:
    """Whether a window of a query, or of those inside it, is of the moments at which tuples arrive."""
    windows = (stream.window for one in all_inside(query) for stream in streams_read(one))
    return any(isinstance(window, RateWindow) and window.by_arrival for window in windows)


def raw_streams(query: BoundQuery) -> tuple[StreamRef, ...]:
    """The entries of FROM that read sources, those of sub-queries too, in the order of the text."""
    found: list[StreamRef] = []
    for stream in streams_read(query):
        found += [stream] if stream.query is None else raw_streams(stream.query)
    return tuple(found)


@dataclass(frozen=True)
class InstantQuery(RelationQuery):
    """What is computed from the windows of one instant."""

    streams: tuple[StreamRef, ...]
    """The windows in the order of the text, those of sub-queries too; `relation` refers to them by position. Two
    windows over one source are two of them."""
    relation: Relation
    """Its columns are those that are selected, in their order and under their names."""
    slide: int
    """Microseconds between two instants."""
    quality: Quality
    options: Options
    out: Out = AS_MADE
    emit: Emit = ONCE

    @property
    def range(self) -> int:
        """The longest window."""
        return max(stream.range or 0 for stream in self.streams)
