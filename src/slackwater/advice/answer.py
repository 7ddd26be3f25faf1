"""The answer of `slackwater advise`: what every slack keeps and costs, the least slack for what one wants to keep, and
what that costs by when results leave.

A tuple is findable from its arrival until the watermark is beyond its window, whether it is held back meanwhile or
not: so on arrival costs the state of in order, and none of its waiting. To correct results for d longer keeps it for d
longer, which is the state of a slack that is d longer.

Invariant: plain data; what is printed, drawn or written as JSON is read from it.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from slackwater.advice.cost import Cost
from slackwater.core.batch import Floats, Words
from slackwater.core.emitting import ON_ARRIVAL, ONCE, Emit
from slackwater.core.time import DAY, HOUR, MICROSECOND, MILLISECOND, MINUTE, SECOND

TARGETS = (0.9, 0.95, 0.99, 0.999)
"""What people ask for."""
UNITS = (
    (DAY, "days"), (HOUR, "hours"), (MINUTE, "minutes"), (SECOND, "seconds"), (MILLISECOND, "milliseconds"),
    (MICROSECOND, "microseconds"),
)  # fmt: skip


@dataclass(frozen=True)
class Curve:
    """The share that is kept at every slack of a grid: of a join's true results, or of an aggregate's windows."""

    slacks: Words
    kept: Floats
    of: int
    """So many true results, or rows of windows."""

    def at(self, slack: int) -> float:
        """What is kept with a slack, and at least with one between two points of the grid.

        >>> Curve(np.array([0, 10]), np.array([0.5, 1.0]), 2).at(9)
        0.5
        """
        return float(self.kept[np.searchsorted(self.slacks, slack, "right") - 1])

    def least(self, target: float) -> int | None:
        """The least slack that keeps a share and goes on doing so; None: no slack does.

        >>> Curve(np.array([0, 10]), np.array([0.5, 1.0]), 2).least(0.9)
        10
        """
        short = np.flatnonzero(self.kept < target - 1e-12)
        if not len(short):
            return 0
        return int(self.slacks[short[-1] + 1]) if short[-1] + 1 < len(self.slacks) else None

    def as_json(self) -> dict[str, Any]:
        return {
            "of": self.of,
            "slack_ms": (self.slacks / MILLISECOND).tolist(),
            "kept": [round(share, 9) for share in self.kept.tolist()],
            "least_slack_ms": least_as_json(self),
        }


@dataclass(frozen=True)
class Point:
    """One slack: what it keeps, what it costs, and through which stream the rest is lost."""

    slack: int
    kept: float
    waiting: Cost
    lost_by_stream: Mapping[str, float]
    mean_error: float | None = None
    """Of the windows that are emitted."""
    never: float | None = None
    """The share of windows that are not emitted at all."""

    def as_json(self) -> dict[str, Any]:
        latency = self.waiting.latency
        found: dict[str, Any] = {
            "slack_ms": self.slack / MILLISECOND,
            "kept": self.kept,
            "latency_ms": None if latency is None else latency / MILLISECOND,
            "held": self.waiting.held,
            "state": self.waiting.kept,
            "state_peak": self.waiting.most_kept,
            "lost_by_stream": dict(self.lost_by_stream),
        }
        if self.mean_error is not None:
            found |= {"mean_error": self.mean_error, "never": self.never}
        return found


@dataclass(frozen=True)
class ForSpark:
    """The same question asked of Spark's own operators, which drop late rows."""

    curve: Curve
    micro_batch: str
    micro_batches: int
    columns: Mapping[str, str]
    """The event-time column of every stream."""


@dataclass(frozen=True)
class Advice:
    """What every slack would have cost and kept."""

    measure: str
    """`recall`: the share of true results. `error`: the share of windows off by at most `bound`."""
    bound: float | None
    curve: Curve
    points: tuple[Point, ...]
    by_stream: Mapping[str, Curve]
    """What is kept if only this stream's late tuples lose results."""
    by_hour: Mapping[int, Curve]
    """By the hour of day (UTC) of the result."""
    tuples: int
    rejected: int
    epochs: str
    further: Mapping[float, Curve] = field(default_factory=dict)
    """Of an aggregate: the same for other errors."""
    for_spark: ForSpark | None = None
    notes: tuple[str, ...] = ()

    def point(self, slack: int) -> Point:
        """What is known of a slack for which cost was found as well."""
        return next(one for one in self.points if one.slack == slack)

    @property
    def rounds(self) -> bool:
        """Whether a delay that is to be written is not the exact one."""
        curves = [self.curve] if self.for_spark is None else [self.curve, self.for_spark.curve]
        found = (curve.least(target) for curve in curves for target in TARGETS)
        return any(in_whole_units(slack)[2] for slack in found if slack is not None)

    def as_json(self) -> dict[str, Any]:
        """Everything; durations in milliseconds."""
        found: dict[str, Any] = {
            "measure": self.measure,
            "bound": self.bound,
            "tuples": self.tuples,
            "rejected": self.rejected,
            "epoch": self.epochs,
            "true_results": self.curve.of,
            "least_slack_ms": least_as_json(self.curve),
            "points": [one.as_json() for one in self.points],
            "curve": self.curve.as_json(),
            "by_stream": {name: least_as_json(one) for name, one in self.by_stream.items()},
            "by_hour": {
                f"{hour:02d}": {"of": one.of, "least_slack_ms": least_as_json(one)}
                for hour, one in self.by_hour.items()
            },
        }
        found["emissions"] = [one.as_json() for one in emission_costs(self)]
        if self.further:
            found["by_error"] = {f"{bound:g}": least_as_json(one) for bound, one in self.further.items()}
        if self.for_spark is not None:
            spark = self.for_spark
            found["for_spark"] = {
                "micro_batch": spark.micro_batch,
                "micro_batches": spark.micro_batches,
                "least_delay_ms": least_as_json(spark.curve),
                "with_watermark": {f"{q:g}": line for q, line in watermark_lines(spark).items()},
                "curve": spark.curve.as_json(),
            }
        if self.notes:
            found["notes"] = list(self.notes)
        return found

    def __str__(self) -> str:
        from slackwater.advice.text import as_text

        return as_text(self)

    def _repr_html_(self) -> str:
        from slackwater.advice.text import as_html

        return as_html(self)


def least_as_json(curve: Curve) -> dict[str, float | None]:
    """The least slack for every target, in milliseconds."""
    found = {target: curve.least(target) for target in TARGETS}
    return {f"{target:g}": None if slack is None else slack / MILLISECOND for target, slack in found.items()}


def in_whole_units(micros: int) -> tuple[int, str, bool]:
    """A duration as it is written into a query: so many of the largest unit that is exact, or, where that would be more
    digits than anyone reads, rounded up by less than a hundredth; and whether it was rounded.

    >>> in_whole_units(600_000_000), in_whole_units(1_779_521_000)
    ((10, 'minutes', False), (1780, 'seconds', True))
    """
    for size, unit in UNITS:
        if micros and micros % size == 0 and (size >= SECOND or micros < 100 * SECOND):
            return micros // size, unit, False
    for size, unit in UNITS:
        if micros >= 100 * size:
            return -(-micros // size), unit, True
    return 0, "seconds", False


def watermark_lines(spark: ForSpark) -> dict[float, tuple[str, ...] | None]:
    """The `withWatermark` of every stream for every target, as it is written in PySpark."""
    lines: dict[float, tuple[str, ...] | None] = {}
    for target in TARGETS:
        delay = spark.curve.least(target)
        if delay is None:
            lines[target] = None
            continue
        # Spark counts in milliseconds.
        count, unit, _ = in_whole_units(-(-delay // MILLISECOND) * MILLISECOND)
        said = f"{count} {unit}"
        lines[target] = tuple(f'{name}.withWatermark("{column}", "{said}")' for name, column in spark.columns.items())
    return lines


ENOUGH = 0.99
"""The share of the first answer."""


@dataclass(frozen=True)
class EmissionCost:
    """One way to emit, with the least slack for ENOUGH."""

    emit: str
    first: float
    """The share that the first answer has."""
    last: float
    """The share with corrections."""
    latency: float | None
    """Of the first answer, as of a slack; None also where nothing waits."""
    state: float

    @property
    def waits(self) -> bool:
        """Whether a result waits for anything but its last member."""
        return self.emit != ON_ARRIVAL

    def as_json(self) -> dict[str, Any]:
        latency = None if self.latency is None else self.latency / MILLISECOND
        return {
            "emit": self.emit,
            "first_answer": self.first,
            "with_corrections": self.last,
            "waits": self.waits,
            "latency_ms": latency,
            "state": self.state,
        }


def emission_costs(advice: Advice) -> list[EmissionCost]:
    """The ways to emit that a query has; none where no slack keeps enough."""
    slack, whole = advice.curve.least(ENOUGH), advice.curve.least(1.0)
    if slack is None or not advice.curve.of:
        return []
    point = advice.point(slack)
    kept, state = point.kept, point.waiting.kept
    found = [EmissionCost(str(ONCE), kept, kept, point.waiting.latency, state)]
    if advice.bound is None and len(advice.by_stream) > 1:
        found.append(EmissionCost(ON_ARRIVAL, kept, kept, None, state))
    if whole is not None and whole > slack:
        corrected = f"{Emit(corrections=True)} FOR {clause(whole - slack)}"
        found.append(EmissionCost(corrected, kept, 1.0, point.waiting.latency, advice.point(whole).waiting.kept))
    return found


def clause(slack: int) -> str:
    """A duration as a query has it.

    >>> clause(1_508_000), clause(60_000_000)
    ('1508 MS', '1 MINUTES')
    """
    count, unit, _ = in_whole_units(slack)
    return f"{count} {'MS' if unit == 'milliseconds' else unit.upper()}"
