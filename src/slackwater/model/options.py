"""The knobs of a query, all optional. `OPTIONS (name = value, ...)` sets them; a name that is not here is refused."""

from __future__ import annotations

from dataclasses import dataclass

from slackwater.model.time import MINUTE


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
    clock_by: str | None = None
    """A column that tells the parts of a stream apart, such as the partition it was read from: the stream's clock is
    then the smallest of its parts', so that a part which lags behind is waited for."""
