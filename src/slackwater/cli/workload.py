"""`slackwater workload`: a seeded workload into a folder."""

from __future__ import annotations

import inspect
from pathlib import Path

from rich.console import Console
from rich.table import Table

from slackwater.core.errors import UsageError
from slackwater.workloads import EPOCH_MS, WORKLOADS, Workload, measure, write


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


def write_workload(workload: Workload, out: Path, console: Console) -> None:
    """Write it, and say what was made and how it is run."""
    files = write(workload, out)
    if workload.modes:
        console.print(_made(workload))
    streams = " ".join(f"--stream {file.stem}={file}" for file in files if file.suffix == ".parquet")
    print(f"wrote {', '.join(str(file) for file in files)}")
    print(f"run it: slackwater run {out / 'query.sql'} {streams} --out DIR")


def _made(workload: Workload) -> Table:
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
