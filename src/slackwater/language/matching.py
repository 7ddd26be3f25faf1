"""MATCH TIME: how near in time the members of a join must be whose windows follow rates, as written.

Without WITHIN the bound is found while the join runs: half of the larger mean interval between two tuples of a stream.

References: 001 §2.2, §2.3.
"""

from __future__ import annotations

from dataclasses import dataclass

from slackwater.language.clauses import read_duration
from slackwater.language.tokens import Cursor


@dataclass(frozen=True)
class MatchTime:
    """`MATCH TIME WITHIN within`, and where it stands."""

    within: int | None
    place: tuple[int, int]


def begins_match(cursor: Cursor) -> bool:
    """Whether MATCH TIME comes next, and not a stream's other name."""
    return cursor.word() == "MATCH" and cursor.word(1) == "TIME"


def read_match(cursor: Cursor) -> MatchTime | None:
    """The clause, if it comes next.

    >>> read_match(Cursor("MATCH TIME WITHIN 5 SECONDS")).within, read_match(Cursor("MATCH TIME")).within
    (5000000, None)
    """
    if not begins_match(cursor):
        return None
    first = cursor.take()
    cursor.take()
    within = read_duration(cursor, "how far apart members may be") if cursor.accept("WITHIN") else None
    return MatchTime(within, (first.start, cursor.tokens[cursor.index - 1].end + 1))
