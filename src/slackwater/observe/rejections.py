"""When rejected rows are worth a warning, and its words.

Invariant: a few bad rows are normal and only counted; a stream of which most is rejected is said aloud, with the reason
and an example.
"""

from __future__ import annotations

from collections.abc import Mapping

FEWEST = 10
"""Of fewer rows only all of them are worth a word."""


def rejection_warning(stream: str, rows: int, rejected: Mapping[str, int], example: str | None) -> str | None:
    """The sentence, where at least half of the rows were rejected; else None.

    >>> print(rejection_warning("s", 20, {"null_time": 20}, '{"ts": null}'))
    all 20 rows of stream s were rejected: 20 null_time, for example {"ts": null}; is the event-time column right?
    >>> rejection_warning("clicks", 20, {"null_time": 2}, None) is None
    True
    """
    count = sum(rejected.values())
    if count == 0 or (count < rows and (rows < FEWEST or 2 * count < rows)):
        return None
    reasons = ", ".join(f"{n:,} {reason}" for reason, n in sorted(rejected.items(), key=lambda one: -one[1]))
    shown = f", for example {example}" if example else ""
    share = f"all {rows:,}" if count >= rows else f"{count:,} of {rows:,}"
    timely = any(reason.endswith("_time") for reason in rejected)
    hint = "; is the event-time column right?" if timely else ""
    return f"{share} rows of stream {stream} were rejected: {reasons}{shown}{hint}"
