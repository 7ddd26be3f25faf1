"""Which streams are slow: those that hold the others back for longer than a program wants to wait.

Invariant: the stream that is furthest ahead is never slow, so there is always something left to answer from.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from slackwater.core.errors import UsageError
from slackwater.core.time import BEFORE_ALL, parse_duration

Patience = str | Mapping[str, str]
"""One duration for all streams, or one a stream; a stream that is not named is waited for."""


@dataclass
class SourceClocks:
    """What is known of the time of every stream.

    >>> clocks = SourceClocks(("radar", "metar"), at=0)
    >>> clocks.begin(0, now=1)
    >>> clocks.note("metar", 0, now=1)
    >>> clocks.note("radar", 90_000_000, now=2)
    >>> clocks.slow(limits("1 minute", ("radar", "metar")), now=2)
    ('metar',)
    """

    sources: tuple[str, ...]
    at: int
    """When the first tuple came, before that when one could have; microseconds."""

    def __post_init__(self) -> None:
        self.clocks = dict.fromkeys(self.sources, BEFORE_ALL)
        self._spoke: dict[str, int] = {}
        self._first = BEFORE_ALL

    def begin(self, ts: int, now: int) -> None:
        """The first tuple of all has this event time; later calls do nothing."""
        if self._first == BEFORE_ALL:
            self._first, self.at = ts, now

    def note(self, source: str, clock: int, now: int) -> None:
        """The clock of a stream stands there; where it has moved, the stream has spoken at this moment."""
        if clock != self.clocks[source]:
            self.clocks[source] = clock
            self._spoke[source] = now

    @property
    def largest(self) -> int:
        return max(self.clocks.values())

    def slow(self, allowed: Mapping[str, int], now: int) -> tuple[str, ...]:
        """The streams behind the largest clock by more than their limit, or behind it and silent for longer.

        A stream that has said nothing yet counts as if it had stood where the first tuple of all did.
        """
        return tuple(source for source in self.sources if source in allowed and self._is_slow(source, allowed, now))

    def _is_slow(self, source: str, allowed: Mapping[str, int], now: int) -> bool:
        clock = self.clocks[source] if source in self._spoke else self._first
        behind, silent = self.largest - clock, now - self._spoke.get(source, self.at)
        if source not in self._spoke:
            return self._first != BEFORE_ALL and max(behind, silent) > allowed[source]
        return behind > 0 and max(behind, silent) > allowed[source]


def limits(patience: Patience | None, sources: tuple[str, ...]) -> dict[str, int]:
    """Per stream, for how long it is waited for; none at all: for ever."""
    if patience is None:
        return {}
    if not isinstance(patience, str | Mapping):
        raise UsageError(f"patience: {patience!r} is no duration; write '5 seconds', or one for each stream by name")
    stated = dict.fromkeys(sources, patience) if isinstance(patience, str) else patience
    for name in stated:
        if name not in sources:
            raise UsageError(f"patience: there is no stream '{name}'; the streams are {', '.join(sources)}")
    try:
        return {name: parse_duration(duration) for name, duration in stated.items()}
    except ValueError as error:
        raise UsageError(f"patience: {error}") from None
