"""What is judged, and what the judge found. Invariant: missing = missing_late + missing_unexplained."""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Any, Generic, Literal, TypeVar

import pyarrow as pa

from slackwater.core.rates import Resize
from slackwater.verify.change_rows import Fault
from slackwater.verify.recall import RecallPeriods
from slackwater.verify.sql import Renderer

Query = TypeVar("Query", covariant=True)


@dataclass(frozen=True)
class Trial(Generic[Query]):
    """A query of one operator, and what a run of it produced. The rows of its streams are in tables s0, s1, ..."""

    connection: Any
    query: Query
    render: Renderer
    produced: Iterable[pa.Table] | pa.Table
    periods: RecallPeriods
    count_only: bool = False
    """Whether results were counted by second instead of made."""
    resizes: Sequence[Resize] = ()
    """Where windows follow rates: which sizes were in force since when, from the beginning on."""


@dataclass(frozen=True)
class Verdict:
    """A run against the truth.

    A sound run has `missing_unexplained`, `spurious` and `out_of_order` 0, whatever its quality target;
    `missing_late` is the price of not having waited.

    >>> verdict = Verdict("recall", 9, 10, 1, 0, 0, 0, ((5, 1.0), (6, 0.8)))
    >>> verdict.missing, verdict.recall_overall, verdict.fulfilment(0.9), verdict.sound
    (1, 0.9, 0.5, True)
    """

    measure: Literal["recall", "error"]
    results: int
    """Rows produced (a counted join: the sum of the counts)."""
    true_results: int
    missing_late: int
    missing_unexplained: int
    spurious: int
    out_of_order: int
    measurements: tuple[tuple[int, float], ...]
    """Joins: (t, recall over (t - P, t]). Aggregates: (window_end, worst relative error) of each true row, infinite
    where it was not produced."""
    displaced: int = 0
    """Results that are right only because late tuples were not there to push a member out of a window that counts."""
    changed: Changed | None = None
    """Where rows change what has left: what followed, or came before. All else is said of the first answer."""

    @property
    def missing(self) -> int:
        return self.missing_late + self.missing_unexplained

    @property
    def recall_overall(self) -> float:
        """Share of the true results (aggregates: of the true rows) that were produced; 1 where there are none."""
        return (self.results - self.spurious - self.displaced) / self.true_results if self.true_results else 1.0

    @property
    def precision(self) -> float:
        """Share of the rows that were produced which are true; 1 where there are none."""
        return 1 - (self.spurious + self.displaced) / self.results if self.results else 1.0

    @property
    def sound(self) -> bool:
        """Whether everything that went wrong is explained by late tuples."""
        wrong = self.missing_unexplained or self.spurious or self.out_of_order
        return not wrong and (self.changed is None or self.changed.sound)

    def fulfilment(self, x: float) -> float | None:
        """Φ(x): the share of measurements with recall at least (error at most) x; None where nothing was measured."""
        if not self.measurements:
            return None
        if self.measure == "recall":
            met = sum(value >= x for _, value in self.measurements)
        else:
            met = sum(value <= x for _, value in self.measurements)
        return met / len(self.measurements)

    def to_json(self) -> dict[str, Any]:
        """The counts and a summary of the measurements; strict JSON, so no infinity (`never` counts those)."""
        values = [value for _, value in self.measurements if math.isfinite(value)]
        worst = min if self.measure == "recall" else max
        return {
            "results": self.results,
            "true_results": self.true_results,
            "missing": self.missing,
            "missing_late": self.missing_late,
            "missing_unexplained": self.missing_unexplained,
            "spurious": self.spurious,
            "out_of_order": self.out_of_order,
            **({"displaced": self.displaced} if self.displaced else {}),
            "recall_overall": self.recall_overall,
            **({} if self.changed is None else self.changed.to_json()),
            "measurements": {
                "of": self.measure,
                "count": len(self.measurements),
                "never": len(self.measurements) - len(values),
                "mean": math.fsum(values) / len(values) if values else None,
                "worst": worst(values) if values else None,
            },
        }


@dataclass(frozen=True)
class Changed:
    """What is said of rows that change what has left."""

    corrections: int
    """Rows behind the first answer."""
    faults: tuple[Fault, ...]
    """Change rows that break the rules."""
    corrected: Verdict | None
    """The answer after all corrections against the truth; None where there are none. What is missing because of late
    tuples came too late to be corrected."""
    early: Early | None = None
    """Rows of open windows; None where there are none."""

    @property
    def sound(self) -> bool:
        """Whether the changes keep their rules, and what is wrong after them is explained by tuples that came too
        late."""
        return not self.faults and (self.corrected is None or self.corrected.sound)

    def to_json(self) -> dict[str, Any]:
        """What is added to the report of the first answer."""
        found: dict[str, Any] = {"change_faults": {one.what: one.rows for one in self.faults}}
        if self.corrected is not None:
            left_out = {"out_of_order", "measurements"}
            after = {key: value for key, value in self.corrected.to_json().items() if key not in left_out}
            found |= {"corrections": self.corrections, "corrected": after}
            if self.corrected.measure == "error":
                found["corrected"]["exact"] = self.corrected.fulfilment(0)
        return found if self.early is None else found | {"early": self.early.to_json()}


@dataclass(frozen=True)
class Early:
    """What is said of rows of open windows. Durations are microseconds, medians over the results that had any."""

    rows: int
    results: int
    """Results that had a row before their window was closed."""
    first_after: float | None
    """From the start of the window to the first row; None where all that was emitted came at the end of the input."""
    near_after: float | None
    """To the first row that is off by `near` at most."""
    final_after: float | None
    """To the row of the closed window."""
    near: float
    covered: float | None
    """Share of the rows whose error is at most the one that was expected; None where no row says."""

    def to_json(self) -> dict[str, Any]:
        """With durations in milliseconds."""
        durations = {"first": self.first_after, "near": self.near_after, "final": self.final_after}
        return {
            "rows": self.rows,
            "results": self.results,
            "near": self.near,
            **{f"{name}_after_ms": None if one is None else one / 1000 for name, one in durations.items()},
            "covered": self.covered,
        }
