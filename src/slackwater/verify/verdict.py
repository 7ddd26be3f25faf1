"""What is judged, and what the judge found. Invariant: missing = missing_late + missing_unexplained."""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Any, Generic, Literal, TypeVar

import pyarrow as pa

from slackwater.core.rates import Resize
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

    @property
    def missing(self) -> int:
        return self.missing_late + self.missing_unexplained

    @property
    def recall_overall(self) -> float:
        """Share of the true results (aggregates: of the true rows) that were produced; 1 where there are none."""
        return (self.results - self.spurious - self.displaced) / self.true_results if self.true_results else 1.0

    @property
    def sound(self) -> bool:
        """Whether everything that went wrong is explained by late tuples."""
        return not (self.missing_unexplained or self.spurious or self.out_of_order)

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
            "measurements": {
                "of": self.measure,
                "count": len(self.measurements),
                "never": len(self.measurements) - len(values),
                "mean": math.fsum(values) / len(values) if values else None,
                "worst": worst(values) if values else None,
            },
        }
