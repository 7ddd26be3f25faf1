"""Whether a target can be met, by what the recent past asks for: what a controller knows and users are shown.

Invariant: `bound` never exceeds `choices`. `needed` and `reached` are estimates from recent delays, and say so.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass
from typing import Any


@dataclass(frozen=True)
class Outlook:
    """What the most slack allowed does for a target. Slack in microseconds."""

    cap: int
    """The most slack that may be chosen."""
    stated: bool
    """Whether the user stated the cap (AT MOST), or it is the default."""
    choices: int = 0
    """How often slack was chosen."""
    bound: int = 0
    """How often the cap was less than the target asked for."""
    needed: int | None = None
    """The slack that the target asks for now; None: nothing is known yet, or no slack that was seen would do."""
    reached: float | None = None
    """What the cap reaches, by the recent past: recall, or the share of windows within the bound."""
    unreachable: bool = False
    """Whether the target cannot be met within the cap, now and for some time already."""

    def as_json(self) -> dict[str, Any]:
        """Plain data."""
        return asdict(self)

    @classmethod
    def of_json(cls, data: Mapping[str, Any]) -> Outlook:
        """The inverse of `as_json`."""
        return cls(**data)


def worst(parts: Sequence[Outlook]) -> Outlook | None:
    """The outlook of a query whose shards each have their own: sums of choices, and the least that is reached.

    >>> fine, bad = Outlook(10, True, 5), Outlook(10, True, 5, 4, 30, 0.9, True)
    >>> worst([fine, bad])
    Outlook(cap=10, stated=True, choices=10, bound=4, needed=30, reached=0.9, unreachable=True)
    """
    if not parts:
        return None
    needed = [part.needed for part in parts if part.needed is not None]
    reached = [part.reached for part in parts if part.reached is not None]
    return Outlook(
        parts[0].cap,
        parts[0].stated,
        sum(part.choices for part in parts),
        sum(part.bound for part in parts),
        max(needed, default=None),
        min(reached, default=None),
        any(part.unreachable for part in parts),
    )
