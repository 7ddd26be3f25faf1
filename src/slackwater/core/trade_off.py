"""What another target would cost: the slack that each share asks for, by what a controller has seen.

Invariant: shares rise and are those of all curves alike, so that curves of several shards can be put together; slacks
are microseconds and never fall along them. All of it is an estimate from the recent past.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Literal

from slackwater.core.measured import RESULTS, WINDOWS
from slackwater.core.values import Value, first, over_shards

SHARES = (0.5, 0.6, 0.7, 0.8, 0.85, 0.9, 0.925, 0.95, 0.96, 0.97, 0.98, 0.985, 0.99, 0.995, 0.998, 0.999)
"""The targets that are asked about."""

__all__ = ["RESULTS", "SHARES", "WINDOWS", "TradeOff", "trade_off_of"]


def _largest(one: tuple[int, ...], other: tuple[int, ...]) -> tuple[int, ...]:
    return tuple(map(max, one, other))


@dataclass(frozen=True)
class TradeOff(Value):
    """A slack for every share of results that are to be there, or of windows that are to be within the bound.

    That of a query whose shards each have their own is, at every share, the one of the shard that asks for most.

    >>> (TradeOff("results", (0.5, 0.9), (1, 5)) + TradeOff("results", (0.5, 0.9), (2, 3))).slacks
    (2, 5)
    """

    of: Literal["results", "windows"]
    shares: tuple[float, ...] = field(metadata=over_shards(first))
    slacks: tuple[int, ...] = field(metadata=over_shards(_largest))


def trade_off_of(of: Literal["results", "windows"], slack_for: Callable[[float], int]) -> TradeOff:
    """Ask for the slack of every share; an answer that is less than one before it is not believed.

    >>> trade_off_of("results", lambda share: round(100 / (1.01 - share))).slacks[:3]
    (196, 244, 323)
    """
    slacks: list[int] = []
    for share in SHARES:
        slacks.append(max(slack_for(share), slacks[-1] if slacks else 0))
    return TradeOff(of, SHARES, tuple(slacks))
