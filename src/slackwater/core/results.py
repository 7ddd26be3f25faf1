"""How the results of a query leave: in which order, and as which stream.

Results of a join are brought into order by a strategy. Results leave as they come into force, as they leave it, or
again and again while they are in it. This module has what a query may ask for, and what a kernel reports about it.

References: 004 §2.1.2 (relation-to-stream operators).
"""

from __future__ import annotations

from dataclasses import asdict, dataclass
from typing import Any

SYNC, FILTER, ADAPTIVE = "sync", "filter", "adaptive"
STRATEGIES = (SYNC, FILTER, ADAPTIVE)
DEFAULT_ALPHA = 0.3
ISTREAM, DSTREAM, RSTREAM = "ISTREAM", "DSTREAM", "RSTREAM"


@dataclass(frozen=True)
class Ordering:
    """What is asked for: a strategy, and for the adaptive one the load from which on work is overlapped with waiting.

    >>> Ordering().strategy
    'adaptive'
    """

    strategy: str = ADAPTIVE
    alpha: float = DEFAULT_ALPHA


@dataclass(frozen=True)
class OrderingSeen:
    """What is in force."""

    asked: str
    strategy: str
    """SYNC or FILTER."""
    switches: int
    held_results: int
    """Results that are made, and wait to be emitted."""
    most_held_results: int
    load: float | None
    """The share of time that goes into tuples which have to wait; None where arrival times are not known."""
    rates: tuple[float, ...]
    """Arrivals a second, stream by stream."""
    seconds_per_tuple: float | None

    def as_json(self) -> dict[str, Any]:
        """For the report."""
        reported = asdict(self)
        for name, digits in (("load", 4), ("seconds_per_tuple", 9)):
            reported[name] = None if reported[name] is None else round(reported[name], digits)
        return reported | {"rates": [round(rate, 3) for rate in self.rates]}


@dataclass(frozen=True)
class Out:
    """The operator from relation to stream.

    >>> str(Out()), str(Out(RSTREAM, 1_000_000))
    ('ISTREAM', 'RSTREAM')
    """

    kind: str = ISTREAM
    every: int | None = None
    """RSTREAM of a join: the results in force are given at every multiple of it, in microseconds."""

    def __str__(self) -> str:
        return self.kind


AS_MADE = Out()
"""A result leaves when it is made: what a query does that says nothing."""
