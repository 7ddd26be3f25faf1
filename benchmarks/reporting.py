"""What was measured beside what was promised, as tables for people and as JSON for machines.

Invariant: a figure is best of all runs, and every run is shown.
"""

from __future__ import annotations

from dataclasses import asdict, dataclass
from typing import Any

from rich.table import Table

from benchmarks.queries import Benchmark
from benchmarks.running import Measured

FLAT_WITHIN = 1.25
"""How much more a tuple may cost at the end of a long input than of a short one."""
FIRST_QUERY_S = 5.0


@dataclass(frozen=True)
class Line:
    """One promise: the figure, the target, and the runs behind it, all in `unit`."""

    name: str
    says: str
    unit: str
    figure: float
    target: float
    runs: tuple[float, ...]

    @property
    def hit(self) -> bool:
        return self.figure <= self.target if self.unit in ("s", "x") else self.figure >= self.target


def speed_line(benchmark: Benchmark, measured: Measured) -> Line:
    """Work done a second, or the seconds themselves."""
    done = {"tuples": measured.tuples, "results": measured.results, "pairs": measured.pairs}
    if benchmark.unit == "s":
        figures = measured.seconds
    else:
        figures = tuple(done[benchmark.unit] / seconds for seconds in measured.seconds)
    best = min(figures) if benchmark.unit == "s" else max(figures)
    unit = "s" if benchmark.unit == "s" else f"{benchmark.unit}/s"
    return Line(benchmark.name, benchmark.says, unit, best, benchmark.target, figures)


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
    table = Table(title="slackwater core benchmarks: one core, epoch 1 s, slack 2 s")
    for heading in ("benchmark", "what"):
        table.add_column(heading)
    for heading in ("measured", "target", "", "all runs"):
        table.add_column(heading, justify="right")
    for line in lines:
        verdict = "[green]hit[/]" if line.hit else "[red]miss[/]"
        runs = ", ".join(_short(run) for run in line.runs)
        table.add_row(
            line.name,
            line.says,
            f"{_short(line.figure)} {line.unit}",
            f"{_short(line.target)} {line.unit}",
            verdict,
            runs,
        )
    return table


def as_json(lines: list[Line]) -> list[dict[str, Any]]:
    """For machines."""
    return [asdict(line) | {"hit": line.hit} for line in lines]


def _short(figure: float) -> str:
    return f"{figure / 1e6:.2f} M" if figure >= 1e5 else f"{figure:.2f}"
