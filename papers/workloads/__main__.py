"""Write a dataset of the papers into a folder: `python -m papers.workloads dsyn3 --out dsyn3`."""

from __future__ import annotations

import inspect
import sys
from pathlib import Path
from typing import Annotated

import typer
from rich.console import Console
from rich.table import Table

from papers.workloads import WORKLOADS, MeasuredWorkload, measure, write
from slackwater.cli.app import say_how_to_run
from slackwater.core.errors import SlackwaterError, UsageError
from slackwater.workloads import EPOCH_MS, Workload


def make(name: str, seed: int, minutes: float | None, speed: float | None) -> Workload:
    """The workload of that name; a parameter that it does not have is refused."""
    if name not in WORKLOADS:
        raise UsageError(f"there is no workload '{name}'; there are {', '.join(WORKLOADS)}")
    takes = inspect.signature(WORKLOADS[name]).parameters
    given = {key: value for key, value in (("minutes", minutes), ("speed", speed)) if value is not None}
    if minutes is not None and "minutes" not in takes:
        raise UsageError(f"workload {name} has the published length only; leave --minutes out")
    if speed is not None and "speed" not in takes:
        raise UsageError(f"workload {name} has the published rates only; leave --speed out")
    return WORKLOADS[name](seed=seed, **given)


def write_workload(
    name: Annotated[str, typer.Argument(help=f"{', '.join(WORKLOADS)}.")],
    out: Annotated[Path, typer.Option("--out", help="Folder for the streams and the query.")],
    seed: Annotated[int, typer.Option("--seed", min=0, help="The same seed makes the same streams.")] = 0,
    minutes: Annotated[float | None, typer.Option("--minutes", help="Shorter or longer than published.")] = None,
    speed: Annotated[
        float | None, typer.Option("--speed", help="Meteorology: how many times faster than in reality [8].")
    ] = None,
) -> None:
    """Write a dataset of the papers: one parquet file per stream, and its query."""
    workload = make(name, seed, minutes, speed)
    files = write(workload, out)
    if isinstance(workload, MeasuredWorkload):
        Console().print(_made(workload))
    say_how_to_run(files, out)


def _made(workload: MeasuredWorkload) -> Table:
    table = Table(box=None, pad_edge=False)
    table.add_column("stream")
    table.add_column("mode")
    for heading in ("minutes", "events", "events/s", "published", "bytes", "published"):
        table.add_column(heading, justify="right")
    for made in measure(workload.streams, workload.modes, EPOCH_MS):
        mode = made.mode
        table.add_row(
            mode.stream,
            mode.name,
            f"{mode.seconds / 60:g}",
            f"{made.events:,}",
            f"{made.rate:.4g}",
            f"{mode.rate:.4g}",
            f"{made.size:,.0f}",
            f"{mode.size:,.0f}",
        )
    return table


if __name__ == "__main__":
    try:
        typer.run(write_workload)
    except SlackwaterError as error:
        sys.exit(f"error: {error}")
