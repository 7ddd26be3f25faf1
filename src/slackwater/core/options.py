"""The options of a query. `OPTIONS (name = value, ...)` sets them; a name that is not here is refused.

Invariant: every number among them has a range, which is written beside it; code that reads one from outside asks
`out_of_range`.
"""

from __future__ import annotations

from dataclasses import dataclass, field, fields
from typing import Any

from slackwater.core.time import DAY, LONGEST, MILLISECOND, MINUTE, format_duration


@dataclass(frozen=True)
class Range:
    """From least to most; where an end is open, it is not part of the range."""

    least: float
    most: float
    open_least: bool = False
    open_most: bool = False

    def holds(self, value: float) -> bool:
        """Whether a value lies in it; a NaN never does.

        >>> Range(0, 1, open_most=True).holds(0), Range(0, 1, open_most=True).holds(1)
        (True, False)
        """
        above = self.least < value if self.open_least else self.least <= value
        return above and (value < self.most if self.open_most else value <= self.most)


MOST_GAPS = 1e9
"""More gaps than any stream has."""
MOST_TUPLES_A_SECOND = 1e12
"""More than any stream has."""
_SHARE = Range(0.0, 1.0, open_most=True)
_INNER_SHARE = Range(0.0, 1.0, open_least=True, open_most=True)


def _within(default: Any, allowed: Range) -> Any:
    return field(default=default, metadata={"range": allowed})


@dataclass(frozen=True)
class Options:
    """Durations are microseconds.

    >>> Options().max_ahead == 10 * MINUTE
    True
    """

    initial_slack: int = _within(0, Range(0, LONGEST))
    """Slack before anything is known about delays; softens the start of COMPLETE."""
    max_ahead: int = _within(10 * MINUTE, Range(1, LONGEST))
    """How far ahead of its stream's clock a tuple may be before it must be confirmed by later ones."""
    max_behind: int = _within(DAY, Range(1, LONGEST))
    """How far behind its stream's clock a tuple may be for the controller to learn from its delay. A tuple further
    behind is late whatever the slack: one row dated 1970 must not make a query wait for 54 years."""
    idle_timeout: int | None = _within(None, Range(1, LONGEST))
    """A stream silent for longer no longer holds the others back; None: it holds them for ever."""
    idle_after: float | None = _within(None, Range(1.0, MOST_GAPS))
    """A stream that is behind the others, in event time, by more than this many of its usual gaps no longer holds
    them back; None: it does."""
    controller: str | None = None
    """The controller that chooses the slack for a quality target; None: the steady one."""
    adaptation_interval: int | None = _within(None, Range(MILLISECOND, DAY))
    """How often a controller chooses anew; None: every second, more often where the period is short, and more rarely
    where it is long."""
    granularity: int = _within(10 * MILLISECOND, Range(1, DAY))
    """The granularity of delays and of slack (g)."""
    basic_window: int = _within(10 * MILLISECOND, Range(1, DAY))
    """The length of the basic windows into which the model divides a window (b)."""
    selectivity: str | None = None
    """What the published model for joins assumes of late tuples: 'noneqsel' (the default), that they join differently
    from others, as the last interval has shown; 'eqsel', that they do not."""
    retrospect: float = _within(0.99, _INNER_SHARE)
    """How far back the published controllers for aggregates measure: this quantile of the delays (q)."""
    retention: int | None = _within(None, Range(0, LONGEST))
    """How long after a window has passed late tuples can still be counted exactly. None: joins follow the period and
    the delays seen, as far as memory goes; aggregates keep to a minute."""
    clock_by: str | None = None
    """A column that names the partition of a tuple, such as the one it was read from, or several with commas between
    them: the stream's clock is then the smallest of its partitions', so that a partition that lags behind is waited
    for."""
    size_by: str | None = None
    """A numeric column with the bytes of an event, for the account of memory, of every stream that has it.
    Without, the size of an event is the words that are kept of it."""
    shape: str = "multiway"
    """How streams are joined: 'multiway', by one operator; 'binary', by a left-deep tree of operators of two inputs."""
    join: str | None = None
    """By which algorithm of the W-join report streams are joined: 'hash', 'nested_loop' or 'merge'; None: by the
    engine, which is none of these."""
    windows: str | None = None
    """Of `join`, how it goes about windows that differ from pair to pair: 'lca' (the default), by the largest window of
    each stream's pairs; 'gca', by the largest of all; 'pairwise', along a path."""
    sampling: str | None = None
    """Of windows that follow rates, how rates are measured: 'sliding' (the default), over the last interval at any
    time; 'rounds', interval after interval, as published."""
    order: str | None = None
    """Of joins of three streams or more whose windows follow rates, which are joined first: 'rates' (the default where
    rates are known), those that take least memory; 'written', those that stand first."""
    ordering: str | None = None
    """When tuples of a join are joined: 'sync', in event-time order; 'filter', as they leave their slack, so that
    results wait in their place; None, 'adaptive': as the load asks for."""
    shards_by: str | None = None
    """Of joins without a key, by what Spark cuts them into shards: 'place', so that tuples near each other meet (the
    default where a band or a distance joins two streams); 'rows', which copies more, and evenly wherever they are."""
    engine: str | None = None
    """Of queries over instantaneous windows, what computes them: 'row', compiled kernels; 'column', the database inside
    the worker; None, 'auto': for every operator whichever costs less."""
    expected_rate: float | None = _within(None, Range(0.0, MOST_TUPLES_A_SECOND, open_least=True))
    """Of queries over instantaneous windows, how many tuples a second are to be expected of each stream, until they
    have been counted; None: a thousand, or what a recording has."""
    alpha: float | None = _within(None, _SHARE)
    """From which load on 'adaptive' joins tuples early, in [0, 1); None: 0.3."""

    def least_retention(self, period: int = 0) -> int:
        """The retention that is stated, or else a minute, and not less than the period that quality is measured over.

        >>> Options().least_retention(2 * MINUTE) == 2 * MINUTE, Options(retention=5).least_retention(MINUTE)
        (True, 5)
        """
        return max(MINUTE, period) if self.retention is None else self.retention


RANGES: dict[str, Range] = {one.name: one.metadata["range"] for one in fields(Options) if "range" in one.metadata}
"""The range of every option that is a number."""


def out_of_range(name: str, value: float) -> str | None:
    """What an option may be, if it may not be this.

    >>> out_of_range("granularity", 0)
    'it is a duration from 1 us to 1 d, not 0 s'
    >>> out_of_range("alpha", 1.0)
    'it is a share, at least 0 and below 1, not 1'
    >>> out_of_range("idle_after", 0.5)
    'it is a number of gaps, at least 1, not 0.5'
    >>> out_of_range("alpha", 0.5)
    """
    allowed = RANGES.get(name)
    if allowed is None or allowed.holds(value):
        return None
    if allowed.most == 1.0:
        least = "more than 0" if allowed.open_least else "at least 0"
        return f"it is a share, {least} and below 1, not {value:g}"
    if allowed.most == MOST_GAPS:
        return f"it is a number of gaps, at least 1, not {value:g}"
    if allowed.most == MOST_TUPLES_A_SECOND:
        return f"it is a number of tuples a second, more than 0, not {value:g}"
    least, most = format_duration(int(allowed.least)), format_duration(int(allowed.most))
    return f"it is a duration from {least} to {most}, not {format_duration(int(value))}"
