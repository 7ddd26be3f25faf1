"""What a join of two streams does with tuples that have no partner, and how often it gives those that have.

Invariant: a kind says which rows there are, and nothing about time: when a row leaves is said by windows alone.
"""

from __future__ import annotations

from enum import Enum


class JoinKind(Enum):
    """INNER is any join that leaves out what has no partner; all others have two inputs.

    >>> JoinKind.LEFT.preserved, JoinKind.FULL.preserved, JoinKind.ANTI.preserved
    ((True, False), (True, True), (True, False))
    """

    INNER = "inner"
    LEFT = "left outer"
    RIGHT = "right outer"
    FULL = "full outer"
    SEMI = "left semi"
    ANTI = "left anti"

    @property
    def preserved(self) -> tuple[bool, bool]:
        """Of which streams a tuple has a row of its own, or stands for the row."""
        return self not in (JoinKind.INNER, JoinKind.RIGHT), self in (JoinKind.RIGHT, JoinKind.FULL)

    @property
    def one_sided(self) -> bool:
        """Whether rows have columns of the first stream alone."""
        return self in (JoinKind.SEMI, JoinKind.ANTI)

    @property
    def lonely(self) -> bool:
        """Whether a tuple without partner gives a row."""
        return self not in (JoinKind.INNER, JoinKind.SEMI)

    @property
    def outer(self) -> bool:
        """Whether pairs leave, and beside them rows with nulls in the place of a partner."""
        return self in (JoinKind.LEFT, JoinKind.RIGHT, JoinKind.FULL)
