"""Advice over recorded streams: read them once, count what every slack loses, and say what it costs.
`slackwater.advise` takes tables, files, or DataFrames that are watched for a while.

Invariant: streams are read, filtered, guarded and put into order by the code that runs queries; what a query asks for
itself (its WITH) is not looked at, but for the error of an aggregate. A query that cannot be advised on is refused in
one sentence that says which can.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import pyarrow as pa

from slackwater.advice.answer import TARGETS, Advice, Curve, ForSpark, Point
from slackwater.advice.arrivals import ArrivalHistory, history_of
from slackwater.advice.cost import JoinCost, WindowCost
from slackwater.advice.dropping import Dropping
from slackwater.advice.joins import EnumeratedJoin, KeyedJoin, count_dropped, keys_of
from slackwater.advice.tally import Tally, grid_of, lost_at
from slackwater.advice.windows import AggregateWindows, ErrorTally
from slackwater.core.batch import Words
from slackwater.core.emitting import ONCE
from slackwater.core.errors import QueryError, UsageError
from slackwater.core.join_kinds import JoinKind
from slackwater.core.quality import NoWait, RelativeError
from slackwater.core.results import AS_MADE, ISTREAM
from slackwater.core.time import MILLISECOND, SECOND, format_duration, parse_duration
from slackwater.expressions.aggregates import FUNCTIONS
from slackwater.language.bound import AggregateQuery, BoundQuery, JoinQuery, is_chain, streams_read
from slackwater.operators.pipeline import Epochs, check_epochs
from slackwater.plan.physical import PhysicalPlan
from slackwater.sources.binding import bind_to_tables, plan_over
from slackwater.sources.lookups import Lookup, with_lookups
from slackwater.sources.replay import Replay, replay
from slackwater.sources.tabular import as_tables, check_unit

TAKEN = (
    "advise takes joins and selections over time windows, and window aggregates with COUNT, SUM, AVG, MIN, MAX, VAR and"
    " STDDEV"
)


def check_supported(query: BoundQuery) -> None:
    """Refuse a query of which it is not known which results a slack loses."""
    reason = _why_not(query)
    if reason is not None:
        raise UsageError(f"{reason}; {TAKEN}")


def _why_not(query: BoundQuery) -> str | None:
    if not isinstance(query, JoinQuery | AggregateQuery):
        return f"this is a {type(query).__name__.removesuffix('Query').lower()} query"
    if is_chain(query):
        return "the query has others inside it, and each loses results of its own: ask about them one by one"
    for stream in streams_read(query):
        if stream.window is not None:
            return f"the window of {stream.alias} is not one of time"
    if isinstance(query, JoinQuery):
        if query.kind is not JoinKind.INNER:
            return f"this is a {query.kind.value} join, and late tuples make rows of it false: ask about the inner join"
        if query.out.kind != ISTREAM:
            return f"results leave by {query.out}, not as they are made: leave that out"
        if query.options.shape != "multiway" or query.options.join is not None:
            return "options shape and join choose another algorithm, which loses other results: leave them out"
        return None
    if query.having:
        return "HAVING depends on what was lost: leave it out"
    if query.out.kind != ISTREAM and query.out.every:
        return f"results leave by {query.out}, not as they are made: leave that out"
    for one in query.aggregates:
        if FUNCTIONS[one.function].keeps_values:
            return f"{one.function} keeps all values of a window"
        if FUNCTIONS[one.function].sketched:
            return f"{one.function} is an estimate, and has an error whatever is lost"
        if FUNCTIONS[one.function].chooses:
            return f"what a missing tuple does to {one.function} has no bound"
    return None


ERRORS = (0.0, 0.01, 0.05, 0.1)
"""Errors that are looked at beside the one that is asked for."""
USUAL_ERROR = 0.01
MICRO_BATCH = Epochs(span=SECOND)
"""How Spark is assumed to divide a stream into micro-batches, unless said otherwise."""


@dataclass(frozen=True)
class AdviceRequest:
    """What is wanted of the advice."""

    epochs: Epochs = Epochs(each_tuple=True)  # noqa: RUF009 (frozen)
    slacks: tuple[int, ...] = ()
    """Slacks that are looked at whatever the curve is like, in microseconds."""
    error: float | None = None
    """Aggregates: off by at most this share; None: what the query says, or 1 %."""
    spark: bool = False


def advise_over(
    query: BoundQuery,
    sources: Mapping[str, pa.Table],
    time_unit: str,
    asked: AdviceRequest,
    arrival_time: str | None = None,
    ranks: Mapping[str, Words] | None = None,
) -> Advice:
    """What every slack would have cost and kept, for one query over recorded streams."""
    check_supported(query)
    # What is selected changes no count, and need not be read.
    bare: Any = replace(query, outputs=()) if isinstance(query, JoinQuery) else query
    plan = plan_over(replace(bare, quality=NoWait(), out=AS_MADE, emit=ONCE), sources, time_unit, identities=True)
    arrivals = replay(plan, sources, time_unit, arrival_time, ranks)
    history = history_of(plan, arrivals, asked.epochs)
    dropping = None
    if asked.spark:
        cut = MICRO_BATCH if asked.epochs.each_tuple else asked.epochs
        dropping = Dropping.of(plan, arrivals, cut, history)
    of = _of_windows if plan.operator.windowed else _of_join
    return of(query, plan, arrivals, history, asked, dropping)


def _of_join(
    query: BoundQuery,
    plan: PhysicalPlan,
    arrivals: Replay,
    history: ArrivalHistory,
    asked: AdviceRequest,
    dropping: Dropping | None,
) -> Advice:
    grid, names = _grid(history, history.most, asked), _names(query)
    tally = Tally.of(grid, history.streams, len(history.batch))
    dropped = None if dropping is None else Tally.of(_grid(history, dropping.most, asked), history.streams, 0)
    every = np.arange(len(history.batch))
    below = None if dropping is None else dropping.below(every, history.ts)
    keys = keys_of(plan)
    if keys is None or (dropped is not None and history.streams > 2):
        EnumeratedJoin(history, plan, arrivals.codebook).count(tally, dropped, below)
    else:
        join = KeyedJoin.of(history, plan, keys)
        join.count(tally)
        if dropped is not None and below is not None:
            of_members = below[join.grouped.arrival]
            count_dropped(join.grouped, join.windows, of_members, dropped.grid, dropped.by_stream, dropped.by_hour)
            dropped.true_by_hour[:] = tally.true_by_hour
    curve = _recall(grid, tally.by_stream.sum(axis=0), tally.true)
    by_stream = {name: _recall(grid, lost, tally.true) for name, lost in zip(names, tally.by_stream, strict=True)}
    by_hour = {
        hour: _recall(grid, tally.by_hour[hour], int(true)) for hour, true in enumerate(tally.true_by_hour) if true
    }
    cost = JoinCost(history, tally.made, np.array(plan.windows, np.int64))
    points = []
    for slack in _shown(curve, asked.slacks):
        lost = {name: 1 - one.at(slack) for name, one in by_stream.items()}
        points.append(Point(slack, curve.at(slack), cost.of(slack), lost))
    spark = None
    if dropped is not None and dropping is not None:
        kept = _recall(dropped.grid, dropped.by_stream.sum(axis=0), dropped.true)
        spark = _for_spark(query, asked, kept, dropping)
    return Advice(
        "recall", None, curve, tuple(points), by_stream, by_hour, len(arrivals), history.rejected,
        _cut(asked.epochs), for_spark=spark, notes=arrivals.notes,
    )  # fmt: skip


def _of_windows(
    query: BoundQuery,
    plan: PhysicalPlan,
    arrivals: Replay,
    history: ArrivalHistory,
    asked: AdviceRequest,
    dropping: Dropping | None,
) -> Advice:
    assert isinstance(query, AggregateQuery)
    aggregate = plan.operator.as_panes
    assert aggregate is not None, "checked by `check_supported`"
    bound = asked.error
    if bound is None:
        bound = query.quality.bound if isinstance(query.quality, RelativeError) else USUAL_ERROR
    bounds = (bound, *(one for one in ERRORS if one != bound))
    windows = AggregateWindows(history, query, aggregate, arrivals.codebook)
    tally = ErrorTally(_grid(history, history.most, asked), bounds)
    windows.count(tally)
    (name,) = _names(query)
    true, grid = tally.true, tally.grid
    curves = {one: _kept(grid, steps, true) for one, steps in zip(bounds, tally.within, strict=True)}
    by_hour = {
        hour: _kept(grid, tally.by_hour[hour], int(rows)) for hour, rows in enumerate(tally.true_by_hour) if rows
    }
    emitted, finite, error = (np.cumsum(one[:-1]) for one in (tally.emitted, tally.finite, tally.error))
    first, ends = (np.concatenate(one) for one in zip(*tally.rows, strict=True)) if tally.rows else (grid[:0], grid[:0])
    curve, cost = curves[bound], WindowCost(history, first, ends)
    points = []
    for slack in _shown(curve, asked.slacks):
        at = int(np.searchsorted(grid, slack, "right")) - 1
        kept = curve.at(slack)
        mean = max(0.0, float(error[at] / finite[at])) if finite[at] else 0.0
        never = 1 - float(emitted[at] / true) if true else 0.0
        points.append(Point(slack, kept, cost.of(slack), {name: 1 - kept}, mean, never))
    spark = None
    if dropping is not None:
        dropped = ErrorTally(_grid(history, dropping.most, asked), (bound,))
        windows.count(dropped, dropping.below)
        spark = _for_spark(query, asked, _kept(dropped.grid, dropped.within[0], dropped.true), dropping)
    return Advice(
        "error", bound, curve, tuple(points), {name: curve}, by_hour, len(arrivals), history.rejected,
        _cut(asked.epochs), {one: curves[one] for one in sorted(curves)}, spark, arrivals.notes,
    )  # fmt: skip


def _grid(history: ArrivalHistory, most: int, asked: AdviceRequest) -> Words:
    # A delay of seconds is not written to the microsecond.
    fine = most < SECOND and bool((history.ts % MILLISECOND != 0).any())
    return grid_of(most, fine, asked.slacks)


def _recall(grid: Words, counted: Words, true: int) -> Curve:
    return Curve(grid, 1 - lost_at(counted) / max(1, true), true)


def _kept(grid: Words, steps: Words, true: int) -> Curve:
    return Curve(grid, np.cumsum(steps[:-1]) / true if true else np.ones(len(grid)), true)


def _names(query: BoundQuery) -> list[str]:
    return [stream.alias for stream in streams_read(query)]


def _shown(curve: Curve, further: Sequence[int]) -> list[int]:
    """Slacks for which cost is found: those of the targets, some between them, and those that were asked for."""
    picked = {0, *further} | {slack for target in TARGETS if (slack := curve.least(target)) is not None}
    last = curve.least(1.0)
    if last is not None:
        picked.add(last)
        # Each of these about halves the one above.
        picked |= {int(curve.slacks[np.searchsorted(curve.slacks, last >> step, "left")]) for step in range(1, 5)}
    return sorted(picked)


def _for_spark(query: BoundQuery, asked: AdviceRequest, curve: Curve, dropping: Dropping) -> ForSpark:
    cut = MICRO_BATCH if asked.epochs.each_tuple else asked.epochs
    columns = {stream.alias: stream.schema.time for stream in streams_read(query)}
    return ForSpark(curve, _cut(cut), dropping.micro_batches, columns)


def _cut(epochs: Epochs) -> str:
    if epochs.each_tuple:
        return "tuple by tuple"
    return f"{epochs.tuples:,} tuples" if epochs.tuples else format_duration(epochs.span)


def advise(
    *given: Any,
    epochs: Epochs | None = None,
    slacks: Sequence[str] = (),
    error: float | None = None,
    for_spark: bool = False,
    watch: str | None = None,
    time: str = "ts",
    time_unit: str = "ms",
    arrival_time: str | None = None,
    **named: Any,
) -> Advice:
    """Which slack would have lost what, and what each would have cost.

    Streams are what `replay` takes, by name, `sw.advise(text, a=rows, b="b.parquet")`, or one mapping after the text.
    `slacks` are looked at beside those that suggest themselves. `error` is how far off a window of an aggregate may be.
    `for_spark` adds the `withWatermark` of Spark's own operators. Streaming DataFrames are watched for a while:
    `sw.advise(spark, text, a=df, watch="1 minute")`.

    >>> import pyarrow as pa
    >>> ticks = pa.table({"ts": [1000, 3000, 2000, 9000], "v": [1, 1, 1, 1]})
    >>> advice = advise("SELECT SUM(v) AS total FROM s [RANGE 1 SECOND]", s=ticks)
    >>> advice.curve.at(0), advice.curve.least(0.99)
    (0.75, 1000)
    """
    check_unit(time_unit)
    check_epochs(epochs)
    query, streams = _told(given, named)
    asked = AdviceRequest(
        epochs or Epochs(each_tuple=True), tuple(_micros("slacks", one) for one in slacks), error, for_spark
    )  # fmt: skip
    if error is not None and not 0 <= error < 1:
        raise UsageError(f"error {error:g}: it is a share, at least 0 and below 1")
    if not (asked.epochs.each_tuple or asked.epochs.tuples or asked.epochs.span):
        raise UsageError("epochs: say how long they are, as in slackwater.Epochs(tuples=1000)")
    ranks = None
    if any(hasattr(one, "sparkSession") for one in streams.values()):
        from slackwater.runtime.spark.watching import watched

        lookup = next((name for name, one in streams.items() if isinstance(one, Lookup)), None)
        if lookup is not None:
            raise UsageError(f"{lookup} is a static relation, which advise takes beside tables and files alone")
        tables, ranks = watched(streams, None if watch is None else _micros("watch", watch))
    elif watch is not None:
        raise UsageError("watch is for streaming DataFrames; tables and files are read as they are")
    else:
        query, streams = with_lookups(query, streams)
        tables = as_tables(streams)
    bound = bind_to_tables(query, tables, time)
    if bound.explain:
        raise QueryError("EXPLAIN has no results to lose; leave it out")
    return advise_over(bound.query, tables, time_unit, asked, arrival_time, ranks)


def _told(given: tuple[Any, ...], named: Mapping[str, Any]) -> tuple[str, dict[str, Any]]:
    """The query and its streams; a session in front of them is not needed, and may be there."""
    rest = given[1:] if given and not isinstance(given[0], str) else given
    if not rest or not isinstance(rest[0], str) or len(rest) > 2:
        raise UsageError("say the query and its streams, as in sw.advise('SELECT ...', a=rows)")
    if len(rest) == 2 and not isinstance(rest[1], Mapping):
        raise UsageError("streams are given by name, as in sw.advise('SELECT ...', a=rows)")
    return rest[0], {**(rest[1] if len(rest) == 2 else {}), **named}


def _micros(name: str, text: str) -> int:
    try:
        return parse_duration(text)
    except ValueError as error:
        raise UsageError(f"{name}: {error}") from None
