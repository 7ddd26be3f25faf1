"""Operators whose windows are not of time, planned."""

from __future__ import annotations

from slackwater.core.errors import UsageError
from slackwater.core.options import Options
from slackwater.expressions.tree import Expr
from slackwater.language.bound import (
    FillingWindow,
    JoinQuery,
    LandmarkWindow,
    RateWindow,
    RowWindow,
    SessionWindow,
    StreamRef,
    follows_rates,
)
from slackwater.operators.aggregate.algebra import AggregateSpec
from slackwater.operators.aggregate.count_windows import NEVER, LandmarkAggregate, RowAggregate
from slackwater.operators.aggregate.filling import FillingAggregate
from slackwater.operators.aggregate.operator import WindowAggregate
from slackwater.operators.join.count_windows import BY_TIME, EVER, by_rows
from slackwater.operators.join.operator import WindowJoin
from slackwater.operators.join.rate_windows import ROUNDS, SLIDING, by_rate
from slackwater.operators.session.operator import SessionAggregate


def landmarks_of(stream: StreamRef) -> tuple[Expr, ...]:
    """What opens and what closes the landmark windows of a stream."""
    window = stream.window
    if not isinstance(window, LandmarkWindow):
        return ()
    return (window.start,) if window.end is None else (window.start, window.end)


def aggregate_over(
    stream: StreamRef, keys: tuple[int, ...], aggregates: tuple[AggregateSpec, ...], rows: int, truths: tuple[int, ...]
) -> WindowAggregate:
    """The aggregate over whatever window the stream has; `truths` are the rows of what `landmarks_of` names."""
    window = stream.window
    if isinstance(window, RowWindow):
        return RowAggregate(window.rows, window.slide, keys, aggregates, rows)
    if isinstance(window, LandmarkWindow):
        start, end = (*truths, NEVER)[:2]
        return LandmarkAggregate(0, None, keys, aggregates, rows, start=start, end=end, every=window.slide or 0)
    if isinstance(window, FillingWindow):
        return FillingAggregate(window.range, window.step, keys, aggregates, rows)
    if isinstance(window, SessionWindow):
        return SessionAggregate(window.gap, None, keys, aggregates, rows, most=window.most)
    assert stream.range is not None, "binding an aggregate without a window"
    return WindowAggregate(stream.range, stream.slide, keys, aggregates, rows)


SAMPLINGS = {"sliding": SLIDING, "rounds": ROUNDS}


def counting(join: WindowJoin, query: JoinQuery) -> WindowJoin:
    """The join with the windows of rows, or that follow rates, which its query has; refused where these cannot be."""
    windows = [stream.window for stream in query.streams]
    last = tuple(window.rows if isinstance(window, RowWindow) else BY_TIME for window in windows)
    if follows_rates(query) and join.streams > 1:
        return _by_rates(join, query)
    # A selection has no window: its only tuple is the newest.
    if join.streams == 1 or not any(last):
        return join
    if query.options.shape != "multiway":
        raise UsageError(
            f"option shape = '{query.options.shape}' does not go with windows of rows; a node below knows too little"
            " of what its results will meet above"
        )
    if query.options.join is not None:
        raise UsageError(f"option join = '{query.options.join}' is for windows of time alone")
    return by_rows(join, last)


def check_joined_by_rates(options: Options) -> None:
    """Refuse what is said about the joining of streams that windows which follow rates cannot go with."""
    if options.shape != "multiway":
        raise UsageError(
            f"option shape = '{options.shape}' does not go with windows that follow rates, whose streams are joined two"
            " by two in any case; leave it out"
        )
    if options.join is not None or options.windows is not None:
        name = "join" if options.join is not None else "windows"
        raise UsageError(f"option {name} = '{getattr(options, name)}' is for windows of time alone; leave it out")
    if options.sampling is not None and options.sampling not in SAMPLINGS:
        raise UsageError(f"option sampling = '{options.sampling}': there is {' and '.join(SAMPLINGS)}")


def _by_rates(join: WindowJoin, query: JoinQuery) -> WindowJoin:
    """The join of two inputs whose windows follow rates."""
    check_joined_by_rates(query.options)
    windows = [stream.window for stream in query.streams]
    intervals = tuple(window.interval for window in windows if isinstance(window, RateWindow))
    assert len(intervals) == len(windows) == 2, "more streams are planned as a chain"
    within = EVER if query.match is None else query.match.within
    by_arrival = any(isinstance(window, RateWindow) and window.by_arrival for window in windows)
    return by_rate(join, intervals, within, SAMPLINGS[query.options.sampling or "sliding"], by_arrival)
