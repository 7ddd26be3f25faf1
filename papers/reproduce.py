"""`slackwater reproduce`: run an experiment, and put what was measured beside what the paper says."""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import dataclass
from math import isfinite
from pathlib import Path
from typing import Any

from rich.console import Console
from rich.table import Table

from papers.experiments.catalogue import EXPERIMENTS, experiment_of
from papers.experiments.experiment import Claim, Experiment, Scale, over_seeds
from papers.experiments.figures import write_figure, write_pictures
from papers.experiments.sweep import PROCESSES, Row, run_all
from slackwater.core.errors import UsageError

AGREES = {True: "yes", False: "NO", None: "-"}
NAMES = {
    "workload": "set", "window_s": "W s", "period_s": "P s", "latency_ms": "latency ms",
    "slack_ms": "slack ms", "phi": "Φ", "phi99": "Φ(.99)", "recall_min": "least recall", "wrong": "wrong sums",
    "least_error": "least error", "largest_error": "largest error", "adaptation_ms": "ms each",
    "adaptation_ms_p50": "median ms", "adaptation_ms_p99": "p99 ms", "adaptation_share": "share of run",
    "service_us": "µs a tuple", "comparisons": "comparisons a tuple", "results": "results",
    "response_s": "response s", "response_fast_s": "of the fast stream", "analysis_s": "analysis s",
    "times_constant": "x constant", "times_schedule": "x schedule", "inside": "low to high",
    "held_results_max": "most results held", "improvement": "improvement", "memory": "kept on average",
}  # fmt: skip


@dataclass(frozen=True)
class Reproduced:
    """An experiment that was run."""

    experiment: Experiment
    scale: Scale
    rows: Sequence[Row]
    claims: Sequence[Claim]
    figure: Path
    pictures: Sequence[Path] = ()

    @property
    def seeds(self) -> list[int]:
        """Those that were run: experiments on time alone need one."""
        return sorted({row["seed"] for row in self.rows})

    def as_json(self) -> dict[str, Any]:
        reported: dict[str, Any] = {
            "id": self.experiment.id,
            "also": list(self.experiment.also),
            "title": self.experiment.title,
            "quick": self.scale.quick,
            "seeds": self.seeds,
            "claims": [claim.as_json() for claim in self.claims],
            "over_seeds": over_seeds(self.rows),
            "rows": list(self.rows),
            "figure": str(self.figure),
            "pictures": [str(path) for path in self.pictures],
        }
        return {key: _plain(value) for key, value in reported.items()}


def reproduce(id_: str | None, list_: bool, quick: bool, out: Path | None, seed: int, json_: bool) -> None:
    """What the command line calls, by the entry point of this package."""
    if list_:
        if json_:
            print(json.dumps(list_as_json(), indent=2))
        else:
            show_list(Console())
        return
    if id_ is None:
        raise UsageError("which experiment? `slackwater reproduce --list` names them")
    done = reproduce_experiment(id_, quick, seed, out, json_)
    if json_:
        print(json.dumps(done.as_json(), indent=2))
    else:
        show(done, Console())


def reproduce_experiment(name: str, quick: bool, seed: int, out: Path | None, quiet: bool) -> Reproduced:
    """Run an experiment and draw its figure; the numbers are written beside it."""
    experiment = experiment_of(name)
    scale = Scale(quick, seed)
    with Console(stderr=True).status(f"{experiment.id}: ...") as status:

        def reported(done: int, of: int) -> None:
            if not quiet:
                status.update(f"{experiment.id}: {done} of {of} trials done")

        rows = experiment.completed(run_all(experiment.trials(scale), 1 if experiment.alone else PROCESSES, reported))
    folder = Path("reproduced", experiment.id) if out is None else out
    figure = write_figure(experiment, rows, folder)
    pictures = write_pictures(experiment, rows, folder)
    reproduced = Reproduced(experiment, scale, rows, experiment.claims(rows), figure, pictures)
    (folder / f"{experiment.id}.json").write_text(json.dumps(reproduced.as_json(), indent=1) + "\n", encoding="utf-8")
    return reproduced


def show(reproduced: Reproduced, console: Console) -> None:
    """The claims with what was measured, then the numbers."""
    experiment = reproduced.experiment
    seeds = ", ".join(map(str, reproduced.seeds))
    console.print(f"[bold]{experiment.title}[/bold]")
    console.print(f"{', '.join((experiment.id, *experiment.also))}; seeds {seeds}", markup=False)
    claims = Table("claim", "measured", "holds", box=None, pad_edge=False)
    for claim in reproduced.claims:
        claims.add_row(claim.says, claim.measured, AGREES[claim.holds])
    console.print(claims)
    console.print()
    numbers = Table(box=None, pad_edge=False)
    parameter = next((row["parameter"] for row in reproduced.rows if row["parameter"]), "value")
    for column in experiment.columns:
        numbers.add_column(
            parameter if column == "value" else NAMES.get(column, column),
            justify="left" if column in ("workload", "way") else "right",
        )
    rows = over_seeds(reproduced.rows)
    for row in rows:
        numbers.add_row(*(_cell(row, column) for column in experiment.columns))
    console.print(numbers)
    for reason in dict.fromkeys(row["refused"] for row in rows if not row["offered"]):
        console.print(f"not offered: {reason}", markup=False, soft_wrap=True)
    for path in (reproduced.figure, *reproduced.pictures):
        console.print(f"figure: {path}", markup=False, soft_wrap=True)


def show_list(console: Console) -> None:
    """The experiments there are."""
    table = Table("id", "also", "shows", box=None, pad_edge=False)
    for experiment in EXPERIMENTS:
        table.add_row(experiment.id, ", ".join(experiment.also), experiment.title)
    console.print(table)


def list_as_json() -> list[dict[str, Any]]:
    """The same as plain data."""
    return [{"id": one.id, "also": list(one.also), "title": one.title} for one in EXPERIMENTS]


def _cell(row: Row, column: str) -> str:
    value = row.get(column)
    if column == "value" and not row["parameter"]:
        return ""
    if value is None:
        return "not offered" if column in ("latency_ms", "adaptation_ms") and not row["offered"] else ""
    if isinstance(value, float):
        return f"{value:.4g}" if abs(value) < 1000 else f"{value:.0f}"
    return str(value)


def _plain(value: Any) -> Any:
    """Numbers that JSON has no word for become null."""
    if isinstance(value, float):
        return value if isfinite(value) else None
    if isinstance(value, dict):
        return {key: _plain(one) for key, one in value.items()}
    if isinstance(value, list | tuple):
        return [_plain(one) for one in value]
    return value
