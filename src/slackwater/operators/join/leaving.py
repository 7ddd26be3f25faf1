"""When the results of a join leave: in their turn, with what late tuples add to them, or as their last member arrives.

Invariant: of the same tuples and watermarks, results that leave on arrival are those that leave in turn, in another
order; and what is corrected are results that a late tuple completes.
"""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True)
class Leaving:
    """What a join is told; a value of its spec."""

    on_arrival: bool = False
    """Whether tuples are joined as they arrive, and not in event-time order."""
    correctable: int | None = None
    """How far behind the watermark results of late tuples are still made; None: not at all."""
    held: bool = False
    """Whether what is made on arrival is held until the watermark has come so far (`published.in_order`)."""

    @property
    def in_turn(self) -> bool:
        """Whether results leave once, in order, and nothing follows."""
        return not self.on_arrival and self.correctable is None

    @property
    def reaches(self) -> int:
        """For how much longer than windows say tuples must be findable."""
        return self.correctable or 0


IN_TURN = Leaving()
