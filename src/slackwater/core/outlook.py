"""Whether a target can be met, by what the recent past asks for: what a controller knows and users are shown.

Invariant: `bound` never exceeds `choices`. `needed` and `reached` are estimates from recent delays, and say so.
"""

from __future__ import annotations

from dataclasses import dataclass, field

from slackwater.core.values import Value, first, over_shards


@dataclass(frozen=True)
class Outlook(Value):
    """What the most slack allowed does for a target. Slack in microseconds.

    That of a query whose shards each have their own is the worst of them, over the choices of all.

    >>> Outlook(10, True, 5) + Outlook(10, True, 5, 4, 30, 0.9, True)
    Outlook(cap=10, stated=True, choices=10, bound=4, needed=30, reached=0.9, unreachable=True)
    """

    cap: int = field(metadata=over_shards(first))
    """The most slack that may be chosen."""
    stated: bool
    """Whether the user stated the cap (AT MOST), or it is the default."""
    choices: int = 0
    """How often slack was chosen."""
    bound: int = 0
    """How often the cap was less than the target asked for."""
    needed: int | None = field(default=None, metadata=over_shards(max))
    """The slack that the target asks for now; None: nothing is known yet, or no slack that was seen would do."""
    reached: float | None = field(default=None, metadata=over_shards(min))
    """What the cap reaches, by the recent past: recall, or the share of windows within the bound."""
    unreachable: bool = False
    """Whether the target cannot be met within the cap, now and for some time already."""
