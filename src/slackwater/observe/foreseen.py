"""A target that cannot be met is said: one sentence with the numbers that a user needs, for every runtime.

Invariant: while a query runs the sentence is said once per change; nothing is said where the target can be met, but for
how often the cap was less than it asked for.
"""

from __future__ import annotations

from typing import Any

from slackwater.core.outlook import Outlook
from slackwater.core.quality import Quality, Recall, RelativeError
from slackwater.core.time import MILLISECOND, roughly


def name_of(target: Quality) -> str:
    """The target without its period and its cap.

    >>> name_of(Recall(0.95, 60_000_000, 5)), name_of(RelativeError(0.01, 0.9))
    ('RECALL 0.95', 'ERROR 0.01 CONFIDENCE 0.9')
    """
    if isinstance(target, Recall):
        return f"RECALL {target.target:g}"
    if isinstance(target, RelativeError):
        return f"ERROR {target.bound:g} CONFIDENCE {target.confidence:g}"
    return str(target)


def unreachable(target: Quality, outlook: Outlook | None) -> str | None:
    """The sentence for a target that cannot be met within the cap; None where it can.

    >>> minute, day = 60_000_000, 86_400_000_000
    >>> capped = Outlook(10 * minute, True, 50, 20, needed=9 * day, reached=0.9343, unreachable=True)
    >>> print(unreachable(Recall(0.95, 360 * minute), capped))
    RECALL 0.95 cannot be met within 10 minutes: it would need a slack of about 9 days; with 10 minutes 0.934 is reached
    >>> unreachable(Recall(0.95, minute), Outlook(10 * minute, True))
    """
    if outlook is None or not outlook.unreachable:
        return None
    cap = roughly(outlook.cap)
    text = f"{name_of(target)} cannot be met within {cap}"
    if not outlook.stated:
        text += " (the most by default; AT MOST says otherwise)"
    if outlook.needed is None:
        text += ": no slack that is known would do"
    else:
        text += f": it would need a slack of about {roughly(outlook.needed)}"
    if outlook.reached is None:
        return text
    if isinstance(target, RelativeError):
        return f"{text}; with {cap} {outlook.reached:.3g} of the windows keep it"
    return f"{text}; with {cap} {outlook.reached:.3g} is reached"


def reachable_again(target: Quality, cap: int) -> str:
    """The sentence for a target that could not be met, and can be now.

    >>> reachable_again(Recall(0.95, 60_000_000), cap=600_000_000)
    'RECALL 0.95 can be met within 10 minutes again'
    """
    return f"{name_of(target)} can be met within {roughly(cap)} again"


def how_often(outlook: Outlook) -> str:
    """How often the cap was less than the target asked for.

    >>> how_often(Outlook(600_000_000, True, choices=50, bound=20))
    'slack is at most 10 minutes; the cap bound in 40 % of the choices'
    >>> how_often(Outlook(600_000_000, False, choices=5000, bound=1))
    'slack is at most 10 minutes by default; the cap bound in 0.02 % of the choices'
    >>> how_often(Outlook(600_000_000, False, choices=50))
    'slack is at most 10 minutes by default; the cap never bound'
    """
    text = f"slack is at most {roughly(outlook.cap)}{'' if outlook.stated else ' by default'}"
    if not outlook.bound:
        return f"{text}; the cap never bound"
    return f"{text}; the cap bound in {100 * outlook.bound / outlook.choices:.2g} % of the choices"


def as_reported(target: Quality | None, outlook: Outlook | None) -> dict[str, Any] | None:
    """What a report holds of it."""
    if outlook is None:
        return None
    return {
        "cap_ms": outlook.cap / MILLISECOND,
        "stated": outlook.stated,
        "choices": outlook.choices,
        "bound": outlook.bound,
        "bound_share": round(outlook.bound / outlook.choices, 6) if outlook.choices else None,
        "needed_ms": None if outlook.needed is None else outlook.needed / MILLISECOND,
        "reached": None if outlook.reached is None else round(outlook.reached, 6),
        "unreachable": outlook.unreachable,
        "said": None if target is None else unreachable(target, outlook),
    }


class Foretelling:
    """Reports of one query that its target cannot be met, and that it can again, whenever that changes.

    >>> foretelling = Foretelling()
    >>> target, bad = Recall(0.95, 60_000_000), Outlook(1_000_000, True, unreachable=True)
    >>> foretelling.news(target, bad), foretelling.news(target, bad)
    ('RECALL 0.95 cannot be met within 1 second: no slack that is known would do', None)
    >>> foretelling.news(target, Outlook(1_000_000, True))
    'RECALL 0.95 can be met within 1 second again'
    """

    def __init__(self) -> None:
        self._said = False

    def news(self, target: Quality, outlook: Outlook | None) -> str | None:
        if outlook is None or outlook.unreachable == self._said:
            return None
        self._said = outlook.unreachable
        return unreachable(target, outlook) if self._said else reachable_again(target, outlook.cap)
