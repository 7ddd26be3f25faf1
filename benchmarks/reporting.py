"""What was measured beside the base and beside what was promised, as tables for people and as JSON for machines.

Invariant: a figure is best of all runs; a ratio is the median of all pairs of runs, with the interval that it lies in.
"""

from __future__ import annotations

from dataclasses import asdict, dataclass
from typing import Any

from rich.table import Table

from benchmarks.comparing import Judgement
from benchmarks.queries import Benchmark, Job
from benchmarks.running import Measured

FLAT_WITHIN = 1.25
"""How much more a tuple may cost at the end of a long input than of a short one."""
FIRST_QUERY_S = 5.0


@dataclass(frozen=True)
class Line:
    """One figure of all runs, in `unit`, with what was promised, and how the base did in the same minutes."""

    name: str
    says: str
    unit: str
    figure: float
    target: float | None
    runs: tuple[float, ...]
    base: float | None = None
    ratio: Judgement | None = None

    @property
    def verdict(self) -> str:
        if self.ratio is not None and self.ratio.slower:
            return "slower"
        if self.target is None:
            return "ok"
        return (
            "ok" if (self.figure <= self.target if self.unit in ("s", "x") else self.figure >= self.target) else "miss"
        )

    @property
    def hit(self) -> bool:
        return self.verdict == "ok"


def speed_line(job: Job, done: dict[str, int], now: list[float], base: list[float], ratio: Judgement | None) -> Line:
    """Work done a second, or the seconds themselves, of a run of which is known what was done."""

    def figure(seconds: float) -> float:
        return seconds if job.unit == "s" else done[job.unit] / seconds

    unit = "s" if job.unit == "s" else f"{job.unit}/s"
    of_base = figure(min(base)) if base else None
    return Line(job.name, job.says, unit, figure(min(now)), job.target, tuple(map(figure, now)), of_base, ratio)


def flat_line(benchmark: Benchmark, short: Measured, long: Measured) -> Line:
    """Cost of a tuple in the long run over its cost in the short one."""
    cost = short.best / short.tuples
    ratios = tuple(seconds / long.tuples / cost for seconds in long.seconds)
    says = f"cost per tuple, {long.tuples / 1e6:g} M tuples over {short.tuples / 1e6:g} M"
    return Line(f"{benchmark.name} flat", says, "x", min(ratios), FLAT_WITHIN, ratios)


def first_line(benchmark: Benchmark, seconds: tuple[float, ...]) -> Line:
    """The first query of a new process."""
    says = "first query of a new process, machine code on disk"
    return Line(f"{benchmark.name} first", says, "s", min(seconds), FIRST_QUERY_S, seconds)


def as_table(lines: list[Line]) -> Table:
    """For people."""
    table = Table(
        title="slackwater core benchmarks: CPU time of one core, epoch 1 s, slack 2 s; ratio: time now / base"
    )
    for heading in ("benchmark", "what"):
        table.add_column(heading)
    for heading in ("base", "now", "ratio", "99 %", "pairs", "target", ""):
        table.add_column(heading, justify="right")
    for line in lines:
        ratio = line.ratio
        table.add_row(
            line.name,
            line.says,
            "" if line.base is None else _short(line.base),
            f"{_short(line.figure)} {line.unit}",
            "" if ratio is None else f"{ratio.ratio:.3f}",
            "" if ratio is None else f"{ratio.low:.3f} to {ratio.high:.3f}",
            "" if ratio is None else str(len(line.runs)),
            "" if line.target is None else f"{_short(line.target)}",
            f"[{'green' if line.hit else 'red'}]{line.verdict}[/]",
        )
    return table


def as_json(lines: list[Line]) -> list[dict[str, Any]]:
    """For machines."""
    return [asdict(line) | {"hit": line.hit} for line in lines]


def _short(figure: float) -> str:
    return f"{figure / 1e6:.2f} M" if figure >= 1e5 else f"{figure:.2f}"
