"""Which engines compute a query over instantaneous windows, as a value."""

from __future__ import annotations

from dataclasses import dataclass

from slackwater.core.values import Value


@dataclass(frozen=True)
class EnginesSeen(Value):
    """How many operators each engine computes now, how often that has changed, and what the last look found.

    Each shard assigns its operators by what it has seen.

    >>> EnginesSeen(3, 0, 0, 1) + EnginesSeen(1, 2, 1, 2)
    EnginesSeen(row=4, column=2, changed=1, counted=3)
    """

    row: int
    column: int
    changed: int
    """How often the plan was changed while running."""
    counted: int
    """How often rows were counted to see whether it should be."""


def computed_by(engines: EnginesSeen) -> str:
    """The same in words.

    >>> computed_by(EnginesSeen(2, 1, 1, 3))
    '2 operators by compiled kernels, 1 in the database; changed 1 times while running'
    """
    changed = f"changed {engines.changed:,} times while running" if engines.changed else "as planned"
    return f"{engines.row:,} operators by compiled kernels, {engines.column:,} in the database; {changed}"
