"""What an experiment is: trials to run, claims to hold them against, a figure to draw.

Invariant: an experiment holds no numbers of ours. It says what the paper says; what was measured is put beside it by
the rows of a run, and a claim that does not hold is shown as one that does not.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from itertools import pairwise
from math import isfinite
from typing import Any

from matplotlib.figure import Figure

from papers.experiments.sweep import Row, Trial

SAME = ("workload", "window_s", "change", "way", "target", "period_s", "parameter", "value")
"""What rows of different seeds have in common."""
WORST = {"phi": min, "phi99": min, "recall_min": min, "largest_error": max, "adaptation_ms_p99": max}


@dataclass(frozen=True)
class Scale:
    """How much is run."""

    quick: bool = False
    seed: int = 0

    @property
    def minutes(self) -> float | None:
        """Length of the join streams; None: as published."""
        return 6.0 if self.quick else None

    @property
    def seeds(self) -> tuple[int, ...]:
        return (self.seed,) if self.quick else tuple(range(self.seed, self.seed + 3))


@dataclass(frozen=True)
class Claim:
    """What is said, what was measured, and whether that agrees; None: it could not be measured."""

    says: str
    measured: str
    holds: bool | None

    def as_json(self) -> dict[str, Any]:
        return {"claim": self.says, "measured": self.measured, "holds": self.holds}


@dataclass(frozen=True)
class Experiment:
    """One figure or table, under the names that the papers give it."""

    id: str
    title: str
    trials: Callable[[Scale], list[Trial]]
    claims: Callable[[Sequence[Row]], list[Claim]]
    draw: Callable[[Figure, Sequence[Row]], None]
    columns: tuple[str, ...]
    """Columns of a row that the printed table shows."""
    also: tuple[str, ...] = ()
    size: tuple[float, float] = field(default=(12.0, 7.0))
    """Inches."""
    pictures: Callable[[Sequence[Row]], Mapping[str, Figure]] = field(default=lambda rows: {})
    """More figures, by the names of their files."""
    alone: bool = False
    """Whether trials are run one after the other, because two at a time would spoil what is measured."""
    completed: Callable[[Sequence[Row]], list[Row]] = list
    """Rows with what only all of them together tell."""


def pick(rows: Iterable[Row], **wanted: Any) -> list[Row]:
    """The offered rows that have these values; a value that is a tuple lists alternatives.

    >>> pick([{"way": "a", "offered": True}, {"way": "b", "offered": True}], way=("b", "c"))
    [{'way': 'b', 'offered': True}]
    """

    def fits(row: Row) -> bool:
        return all(
            row[key] in value if isinstance(value, tuple) else row[key] == value for key, value in wanted.items()
        )

    return [row for row in rows if row["offered"] and fits(row)]


def over_seeds(rows: Iterable[Row]) -> list[Row]:
    """One row for all seeds: the mean of every number, and the worst where a single bad run must show."""
    groups: dict[tuple[Any, ...], list[Row]] = {}
    for row in rows:
        groups.setdefault(tuple(row[key] for key in SAME), []).append(row)
    return [_joined(group) for group in groups.values()]


def _joined(group: list[Row]) -> Row:
    first = group[0]
    joined: Row = {key: first[key] for key in SAME} | {"offered": all(row["offered"] for row in group)}
    joined["seeds"] = len(group)
    if not joined["offered"]:
        joined["refused"] = next(row["refused"] for row in group if not row["offered"])
        return joined
    for key, value in first.items():
        if key not in joined and isinstance(value, int | float) and all(key in row for row in group):
            numbers = [float(row[key]) for row in group]
            joined[key] = sum(numbers) / len(numbers)
            if key in WORST:
                joined[f"{key}_worst"] = WORST[key](numbers)
    return joined


def extreme(rows: Iterable[Row], key: str, least: bool = True) -> float | None:
    """The least or the largest of a number over rows; None where no row has it."""
    numbers = [float(row[key]) for row in rows if key in row and isfinite(row[key])]
    if not numbers:
        return None
    return min(numbers) if least else max(numbers)


def at_least(says: str, rows: Iterable[Row], key: str, bound: float) -> Claim:
    """A claim that a number is nowhere below a bound."""
    least = extreme(rows, key)
    if least is None:
        return Claim(says, "not offered", None)
    return Claim(says, f"at least {least:.3f}", least >= bound)


def falls(says: str, rows: Sequence[Row], key: str, along: str, rising: bool = False, slip: float = 0.1) -> Claim:
    """A claim that a number goes down (or up) along another, other things equal; steps against it may be a tenth."""
    worst: float | None = None
    for group in _lines(rows, along):
        for before, after in pairwise(sorted(group, key=lambda row: row[along], reverse=rising)):
            step = (after[key] - before[key]) / max(before[key], 1e-9)
            worst = step if worst is None else max(worst, step)
    if worst is None:
        return Claim(says, "not offered", None)
    return Claim(says, f"largest step the other way {max(worst, 0.0):.0%}", worst <= slip)


def _lines(rows: Sequence[Row], along: str) -> list[list[Row]]:
    groups: dict[tuple[Any, ...], list[Row]] = {}
    for row in rows:
        if row["offered"]:
            groups.setdefault(tuple(row[key] for key in (*SAME, "seed") if key != along), []).append(row)
    return [group for group in groups.values() if len(group) > 1]
