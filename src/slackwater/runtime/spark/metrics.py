"""What one shard says of itself after a micro-batch, as it travels: JSON with times in microseconds.

Invariant: a clock or watermark that has not moved yet is null; whoever computes with it reads it as before all time.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from slackwater.model.time import BEFORE_ALL

Metrics = Mapping[str, Any]


def clocks_of(reported: Metrics) -> list[int]:
    """The clocks of the streams.

    >>> clocks_of({"clocks": [None, 7]})[1]
    7
    """
    return [BEFORE_ALL if clock is None else clock for clock in reported["clocks"]]


def watermark_of(reported: Metrics) -> int:
    """Up to where everything has been emitted."""
    return BEFORE_ALL if reported["watermark"] is None else int(reported["watermark"])
