"""Which engines compute a query over instantaneous windows, as a value."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import asdict, dataclass
from typing import Any


@dataclass(frozen=True)
class EnginesSeen:
    """How many operators each engine computes now, how often that has changed, and what the last look found."""

    row: int
    column: int
    changed: int
    """How often the plan was changed while running."""
    counted: int
    """How often rows were counted to see whether it should be."""

    def as_json(self) -> dict[str, int]:
        """As plain data, for reports and for another process."""
        return asdict(self)

    @staticmethod
    def of_json(reported: dict[str, Any]) -> EnginesSeen:
        """The inverse of `as_json`.

        >>> EnginesSeen.of_json(EnginesSeen(2, 1, 0, 3).as_json())
        EnginesSeen(row=2, column=1, changed=0, counted=3)
        """
        return EnginesSeen(**reported)


def computed_by(engines: dict[str, int]) -> str:
    """The same in words.

    >>> computed_by(EnginesSeen(2, 1, 1, 3).as_json())
    '2 operators by compiled kernels, 1 in the database; changed 1 times while running'
    """
    changed = f"changed {engines['changed']:,} times while running" if engines["changed"] else "as planned"
    return f"{engines['row']:,} operators by compiled kernels, {engines['column']:,} in the database; {changed}"


def of_all_shards(seen: Sequence[EnginesSeen]) -> EnginesSeen | None:
    """What shards come to together: each places its operators by what it has seen.

    >>> of_all_shards([EnginesSeen(3, 0, 0, 1), EnginesSeen(1, 2, 1, 2)])
    EnginesSeen(row=4, column=2, changed=1, counted=3)
    """
    if not seen:
        return None
    return EnginesSeen(*(sum(getattr(one, name) for one in seen) for name in ("row", "column", "changed", "counted")))
