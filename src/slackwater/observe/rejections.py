"""When most rows of a stream are rejected: one sentence that says so, why, and what to look at.

Invariant: every runtime says it in these words, and says nothing where rejections are the exception they are meant to
be.
"""

from __future__ import annotations

from collections.abc import Mapping

FEW = 10
"""Of fewer rows, nothing is said while more may come."""
SHOWN = 200
"""Characters of a row that are shown."""
_TIMES = frozenset(("null_time", "nan_time", "unparsable_time"))


def rejection_warning(
    stream: str, rows: int, rejected: Mapping[str, int], example: str | None, time: str | None = None
) -> str | None:
    """The sentence for a stream with so many rows, of which so many were rejected by reason; None where few were.

    `example` is one of the rejected rows, `time` the event-time column.

    >>> print(rejection_warning("s", 4375, {"null_time": 4375}, '{"at": 5}', "ts"))
    4,375 of 4,375 rows of stream s were rejected: null_time, for example {"at": 5}; is 'ts' the event-time column?
    >>> rejection_warning("clicks", 4375, {"null_time": 12}, None)
    """
    count = sum(rejected.values())
    # Wrong clocks are always fewer than right ones, so of those less is enough to speak of.
    if not count or (2 * count < rows and 100 * rejected.get("ahead", 0) < rows):
        return None
    by_count = sorted(((n, reason) for reason, n in rejected.items() if n), key=lambda one: (-one[0], one[1]))
    reasons = ", ".join(reason if len(by_count) == 1 else f"{reason} {n:,}" for n, reason in by_count)
    text = f"{count:,} of {rows:,} rows of stream {stream} were rejected: {reasons}"
    if example is not None:
        text += f", for example {example if len(example) <= SHOWN else example[:SHOWN] + ' ...'}"
    return f"{text}; {_remedy(by_count[0][1], time)}"


def _remedy(reason: str, time: str | None) -> str:
    named = "the event-time column" if time is None else f"'{time}'"
    if reason in _TIMES:
        return f"is {named} the event-time column?" if time is not None else "is it the right event-time column?"
    if reason == "time_out_of_range":
        return f"is the unit of {named} the right one?"
    if reason == "ahead":
        return "they are ahead of their stream by more than option max_ahead allows, and the others did not come along"
    return "they hold numbers that 64 bits cannot"
