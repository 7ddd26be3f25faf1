"""`slackwater workload`: seeded streams that are out of order into a folder, with a query over them."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

from slackwater.core.errors import UsageError
from slackwater.workloads import WORKLOADS, Workload, write


def make(name: str, seed: int, minutes: float | None) -> Workload:
    """The workload of that name."""
    if name not in WORKLOADS:
        raise UsageError(f"there is no workload '{name}'; there are {', '.join(WORKLOADS)}")
    return WORKLOADS[name](seed=seed, **({} if minutes is None else {"minutes": minutes}))


def write_workload(workload: Workload, out: Path) -> None:
    """Write it, and say how it is run."""
    say_how_to_run(write(workload, out), out)


def say_how_to_run(files: Sequence[Path], out: Path) -> None:
    """Print the files that were written, and the command that runs the query."""
    streams = " ".join(f"--stream {file.stem}={file}" for file in files if file.suffix == ".parquet")
    print(f"wrote {', '.join(str(file) for file in files)}")
    print(f"run it: slackwater run {out / 'query.sql'} {streams} --out DIR")
