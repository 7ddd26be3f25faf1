"""What another target would cost: the slack that each share asks for, by what a controller has seen.

Invariant: shares rise and are those of all curves alike, so that curves of several shards can be put together; slacks
are microseconds and never fall along them. All of it is an estimate from the recent past.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict, dataclass
from typing import Any, Literal

from slackwater.core.measured import RESULTS, WINDOWS

SHARES = (0.5, 0.6, 0.7, 0.8, 0.85, 0.9, 0.925, 0.95, 0.96, 0.97, 0.98, 0.985, 0.99, 0.995, 0.998, 0.999)
"""The targets that are asked about."""

__all__ = ["RESULTS", "SHARES", "WINDOWS", "TradeOff", "strictest", "trade_off_of"]


@dataclass(frozen=True)
class TradeOff:
    """A slack for every share of results that are to be there, or of windows that are to be within the bound."""

    of: Literal["results", "windows"]
    shares: tuple[float, ...]
    slacks: tuple[int, ...]

    def as_json(self) -> dict[str, Any]:
        """Plain data."""
        return asdict(self)

    @classmethod
    def of_json(cls, data: Mapping[str, Any]) -> TradeOff:
        """The inverse of `as_json`."""
        return cls(data["of"], tuple(data["shares"]), tuple(data["slacks"]))


def trade_off_of(of: Literal["results", "windows"], slack_for: Callable[[float], int]) -> TradeOff:
    """Ask for the slack of every share; an answer that is less than one before it is not believed.

    >>> trade_off_of("results", lambda share: round(100 / (1.01 - share))).slacks[:3]
    (196, 244, 323)
    """
    slacks: list[int] = []
    for share in SHARES:
        slacks.append(max(slack_for(share), slacks[-1] if slacks else 0))
    return TradeOff(of, SHARES, tuple(slacks))


def strictest(parts: Sequence[TradeOff]) -> TradeOff | None:
    """The curve of a query whose shards each have their own: what the shard asks for that asks for most.

    >>> strictest([TradeOff("results", (0.5, 0.9), (1, 5)), TradeOff("results", (0.5, 0.9), (2, 3))]).slacks
    (2, 5)
    """
    if not parts:
        return None
    return TradeOff(parts[0].of, parts[0].shares, tuple(map(max, zip(*(part.slacks for part in parts), strict=True))))
