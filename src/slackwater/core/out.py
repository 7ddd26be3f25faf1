"""How the results of a query leave: as they come into force, as they leave it, or again and again while they are in it.

References: 004 §2.1.2 (relation-to-stream operators).
"""

from __future__ import annotations

from dataclasses import dataclass

ISTREAM, DSTREAM, RSTREAM = "ISTREAM", "DSTREAM", "RSTREAM"


@dataclass(frozen=True)
class Out:
    """The operator from relation to stream.

    >>> str(Out()), str(Out(RSTREAM, 1_000_000))
    ('ISTREAM', 'RSTREAM')
    """

    kind: str = ISTREAM
    every: int | None = None
    """RSTREAM of a join: the results in force are given at every multiple of it, in microseconds."""

    def __str__(self) -> str:
        return self.kind


AS_MADE = Out()
"""A result leaves when it is made: what a query does that says nothing."""
