"""A model of what a micro-batch costs, by shards, partitions and key groups: `python -m benchmarks.cores_model FILE`.

FILE has the measurements of `benchmarks.cores`. Every cost is a sum of named terms, each with a factor that is not
negative, by least squares of relative errors. A model is worth what it says of a run that it has not seen: each run is
left out once, and then all runs with the most shards together.

`--figure FILE` draws what it says of up to 1,000 cores.
"""

from __future__ import annotations

import argparse
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt

from benchmarks.cores import DEFAULT_GROUPS, Measured, Setting, read

Term = Callable[[Setting], float]
TERMS: dict[str, Term] = {
    "a tuple of A2": lambda at: at.tuples * (at.query == "A2"),
    "a tuple of J2": lambda at: at.tuples * (at.query == "J2"),
    "a tuple": lambda at: at.tuples,
    "a task that reads": lambda at: at.partitions * at.streams,
    "a task of shards": lambda at: at.shards,
    "a task": lambda at: at.partitions * at.streams + at.shards,
    "a key group": lambda at: at.groups,
    "a header (partition x shard)": lambda at: at.partitions * at.streams * at.shards,
    "a block (partition x key group)": lambda at: at.partitions * at.streams * at.groups,
    "a micro-batch": lambda at: 1.0,
}
WORK = ("a task that reads", "a task of shards", "a key group")
CROSSES = ("a header (partition x shard)", "a block (partition x key group)")


@dataclass(frozen=True)
class Cost:
    """What is measured, in which unit, and of which terms it is made."""

    name: str
    unit: str
    measured: Callable[[Measured], float]
    terms: tuple[str, ...]


COSTS = (
    Cost("cores", "s", lambda one: one.task_seconds, ("a tuple of A2", "a tuple of J2", *WORK, *CROSSES)),
    Cost("CPU of the driver", "s", lambda one: one.cpu.driver + one.cpu.program, ("a task", "a micro-batch")),
    Cost("shuffled", "B", lambda one: one.shuffled, ("a tuple of A2", "a tuple of J2", *CROSSES)),
    Cost("headers", "B", lambda one: one.header_bytes, CROSSES[:1]),
)


@dataclass(frozen=True)
class Model:
    """One cost, as a sum of terms."""

    cost: Cost
    factors: Mapping[str, float]

    def of(self, at: Setting) -> float:
        """What it says of a setting."""
        return sum(factor * TERMS[name](at) for name, factor in self.factors.items())


def fitted(cost: Cost, runs: Sequence[Measured]) -> Model:
    """The factors that make the least relative errors, none of them negative."""
    measured = np.array([cost.measured(one) for one in runs])
    terms = np.array([[TERMS[name](one.setting) for name in cost.terms] for one in runs]) / measured[:, None]
    return Model(cost, dict(zip(cost.terms, not_negative(terms, np.ones(len(runs))), strict=True)))


def not_negative(a: npt.NDArray[np.float64], b: npt.NDArray[np.float64]) -> list[float]:
    """Least squares without negative factors, by trying all sets of terms: there are few.

    >>> not_negative(np.array([[1.0, 1.0], [1.0, 2.0], [1.0, 3.0]]), np.array([3.0, 2.0, 1.0]))
    [2.0, 0.0]
    """
    best, least = np.zeros(a.shape[1]), float("inf")
    for chosen in range(1, 1 << a.shape[1]):
        some = [place for place in range(a.shape[1]) if chosen >> place & 1]
        found = np.linalg.lstsq(a[:, some], b, rcond=None)[0]
        error = float(((a[:, some] @ found - b) ** 2).sum())
        if (found >= 0).all() and error < least - 1e-12:
            best, least = np.zeros(a.shape[1]), error
            best[some] = found
    return [round(value, 12) for value in best.tolist()]


def errors_left_out(cost: Cost, runs: Sequence[Measured]) -> list[float]:
    """Of every run what a model of the others says of it, relative to what was measured."""
    return [
        fitted(cost, [*runs[:n], *runs[n + 1 :]]).of(one.setting) / cost.measured(one) - 1 for n, one in enumerate(runs)
    ]


def error_beyond(cost: Cost, runs: Sequence[Measured], shards: int) -> list[float]:
    """What a model of runs with fewer shards says of those with so many or more."""
    model = fitted(cost, [one for one in runs if one.setting.shards < shards])
    return [model.of(one.setting) / cost.measured(one) - 1 for one in runs if one.setting.shards >= shards]


CORES = (2, 16, 64, 256, 1000)
PER_CORE = 500_000
"""Tuples of a micro-batch for one core: about a second of work."""
MOST_GROUPS = 256


@dataclass(frozen=True)
class Foreseen:
    """What the model says of a micro-batch on so many cores."""

    cores: int
    shards: int
    partitions: int
    per_tuple: float
    """Microseconds in which tasks occupy a core, for a tuple."""
    useful: float
    """The share of it that tuples need, however few shards there are."""
    shuffled: float
    """Bytes a tuple."""
    headers: float
    """Bytes of all headers."""
    driver: float
    """Seconds of CPU in which the driver plans and launches."""
    files: int
    """Of state, written in a micro-batch."""
    seconds: float
    """The driver first, then all cores."""

    @property
    def rate(self) -> float:
        """Tuples a second."""
        return self.cores * PER_CORE / self.seconds


def foreseen(models: Mapping[str, Model], query: str, cores: int, partitions: int | None = None) -> Foreseen:
    """As many shards as there are cores and may be, and as many partitions in all as cores, unless it is said."""
    shards = min(cores, MOST_GROUPS)
    streams = 1 if query == "A2" else 2
    parts = max(1, (partitions or cores) // streams)
    at = Setting(query, parts, shards, max(DEFAULT_GROUPS, shards), each=0)
    tuples = PER_CORE * cores
    needs = {name: model.factors.get(f"a tuple of {query}", 0.0) * tuples for name, model in models.items()}
    cpu, shuffled, driver = (needs[name] + models[name].of(at) for name in ("cores", "shuffled", "CPU of the driver"))
    # Reading and shards are about half of the work each; neither has more cores than it has tasks.
    seconds = driver + cpu / 2 / min(cores, parts * streams) + cpu / 2 / shards
    return Foreseen(
        cores, shards, parts * streams, cpu / tuples * 1e6, needs["cores"] / cpu, shuffled / tuples,
        models["headers"].of(at), driver, 2 * at.groups, seconds,
    )  # fmt: skip


def draw(models: Mapping[str, Model], file: Path) -> None:
    """Time of cores and shuffled bytes for a tuple, and tuples a second, by cores."""
    from matplotlib.figure import Figure

    figure = Figure(figsize=(10, 3.2), layout="constrained")
    cores = [2, 4, 8, 16, 32, 64, 128, 256, 512, 1000]
    shown: tuple[tuple[str, Callable[[Foreseen], float]], ...] = (
        ("µs of a core a tuple", lambda one: one.per_tuple),
        ("bytes shuffled a tuple", lambda one: one.shuffled),
        ("tuples/s, millions", lambda one: one.rate / 1e6),
    )
    for axes, (title, value) in zip(figure.subplots(1, 3), shown, strict=True):
        for query, color in (("A2", "#0066cc"), ("J2", "#cc6600")):
            for partitions, style in ((None, "-"), (256, "--")):
                line = [foreseen(models, query, count, partitions and min(count, partitions)) for count in cores]
                label = f"{query}, {'as many partitions as cores' if partitions is None else '256 at most'}"
                axes.plot(cores, [value(one) for one in line], style, color=color, label=label)
        axes.set(xscale="log", yscale="log" if value is shown[-1][1] else "linear", xlabel="cores", title=title)
    figure.axes[2].legend(fontsize=7)
    figure.savefig(file, dpi=110)


def main() -> None:
    """Fit, and print."""
    parser = argparse.ArgumentParser(
        prog="python -m benchmarks.cores_model", description=(__doc__ or "").splitlines()[0]
    )
    parser.add_argument("file", type=Path)
    parser.add_argument("--figure", type=Path)
    asked = parser.parse_args()
    everything = read(asked.file)
    runs = [one for one in everything if one.setting.master == "local[2]"]
    models: dict[str, Model] = {}
    for cost in COSTS:
        model = models[cost.name] = fitted(cost, runs)
        left_out = sorted(map(abs, errors_left_out(cost, runs)))
        beyond = [f"{error:+.0%}" for error in error_beyond(cost, runs, 16)]
        print(f"{cost.name}, {cost.unit} a micro-batch")
        for name, factor in model.factors.items():
            print(f"    {factor:12.4g}  {name}")
        print(
            f"    a run left out: median error {left_out[len(left_out) // 2]:.0%}, largest {left_out[-1]:.0%};"
            f" 16 shards from fewer: {', '.join(beyond)}"
        )
    for query in ("A2", "J2"):
        for cores in CORES:
            print(query, row(foreseen(models, query, cores)))
        print(query, row(foreseen(models, query, 1000, 256)))
    if asked.figure:
        draw(models, asked.figure)


def row(one: Foreseen) -> str:
    """What is foreseen, as a line of a table."""
    values: list[Any] = [
        one.cores, one.shards, one.partitions, f"{one.per_tuple:.2f}", f"{one.useful:.0%}", f"{one.shuffled:.0f}",
        f"{one.headers / 1e6:,.1f} MB", f"{one.driver:.2f} s", one.files, f"{one.seconds:.1f} s",
        f"{one.rate / 1e6:.1f} M/s",
    ]  # fmt: skip
    return "| " + " | ".join(map(str, values)) + " |"


if __name__ == "__main__":
    main()
