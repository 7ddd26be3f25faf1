"""The knobs of a query, all optional. `OPTIONS (name = value, ...)` sets them; a name that is not here is refused."""

from __future__ import annotations

from dataclasses import dataclass

from slackwater.model.time import MILLISECOND, MINUTE


@dataclass(frozen=True)
class Options:
    """Durations are microseconds.

    >>> Options().max_ahead == 10 * MINUTE
    True
    """

    initial_slack: int = 0
    """Slack before anything is known about delays; softens the start of COMPLETE."""
    max_ahead: int = 10 * MINUTE
    """How far ahead of its stream's clock a tuple may be before it must be confirmed by later ones."""
    idle_timeout: int | None = None
    """A stream silent for longer no longer holds the others back; None: it holds them for ever."""
    controller: str | None = None
    """Who chooses the slack of a quality target; None: the steady one."""
    adaptation_interval: int | None = None
    """How often a controller chooses anew; None: every second, or more often where the period is short."""
    granularity: int = 10 * MILLISECOND
    """How finely delays are told apart and slack is chosen (g)."""
    basic_window: int = 10 * MILLISECOND
    """The pieces in which the model thinks of a window (b)."""
    selectivity: str | None = None
    """What the published model for joins assumes of late tuples: 'noneqsel' (the default), that they join differently
    from others, as the last interval has shown; 'eqsel', that they do not."""
    retrospect: float = 0.99
    """How far back the published controllers for aggregates measure: this quantile of the delays (q)."""
    retention: int = MINUTE
    """How long after a window has passed late tuples can still be priced."""
    clock_by: str | None = None
    """A column that tells the parts of a stream apart, such as the partition it was read from: the stream's clock is
    then the smallest of its parts', so that a part which lags behind is waited for."""
    size_by: str | None = None
    """A numeric column with the bytes of an event, for the account of memory; every stream that has it goes by it.
    Without, an event weighs the words that are kept of it."""
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
    """When tuples of a join are joined: 'sync', in their turn; 'filter', as they leave their slack, so that results
    wait in their place; None, 'adaptive': as the load asks for."""
    alpha: float | None = None
    """From which load on 'adaptive' joins tuples before their turn, in [0, 1); None: 0.3."""
