"""The core benchmarks: `python -m benchmarks.core [--quick] [--base COMMIT] [--json FILE] [NAME ...]`.

Every kernel, and every whole run, is run in turns with that of the base: the last tag, or the commit that the file BASE
names. What looks slower is measured again in new processes, and the second figure counts.

Invariant: exit code 0 iff nothing that was asked about is slower than at the base, and every target is met.
"""

from __future__ import annotations

import argparse
import json
from collections.abc import Iterator
from contextlib import ExitStack, closing
from dataclasses import dataclass
from pathlib import Path

from rich.console import Console

from benchmarks.comparing import Judgement, measured
from benchmarks.queries import BENCHMARKS, Benchmark, Job
from benchmarks.reporting import Line, as_json, as_table, first_line, flat_line, speed_line
from benchmarks.running import RUNS, first_query, measure
from benchmarks.side import WHOLE_RUNS
from benchmarks.trees import TREE, NoBaseError, Side, base_name, base_tree

SHORT, LONG = 1_000_000, 10_000_000
REPLAYED = tuple(
    Job(name, "sw.replay of tables, epochs of 1 s", tuples, "tuples", None)
    for name, (_, _, _, tuples, _) in WHOLE_RUNS.items()
)
"""Whole runs; the processes that run them make their inputs."""


@dataclass(frozen=True)
class Compared:
    """What a kernel did in one run, and the seconds of all runs; those of the base where it has the kernel."""

    done: dict[str, int]
    now: list[float]
    base: list[float]
    judged: Judgement | None


def compared(job: Job, base: Path | None) -> Compared:
    """Run a kernel in processes of both trees."""
    with ExitStack() as processes:
        now = processes.enter_context(closing(Side(TREE)))
        done = now.open(job.name, job.tuples) | {"tuples": job.tuples}
        other = None if base is None else processes.enter_context(closing(Side(base)))
        if other is None or job.name not in other.ask("names"):
            return Compared(done, [now.run() for _ in range(RUNS)], [], None)
        other.open(job.name, job.tuples)
        judged, before, after = measured(other.run, now.run)
        return Compared(done, after, before, judged)


def lines_for(job: Job, base: Path | None, quick: bool) -> Iterator[Line]:
    """Speed beside the base; and unless in a hurry, flatness and the first query of a new process."""
    found = compared(job, base)
    if found.judged is not None and found.judged.slower:
        found = compared(job, base)
    yield speed_line(job, found.done, found.now, found.base, found.judged)
    if quick or not isinstance(job, Benchmark):
        return
    if job.flat:
        yield flat_line(job, measure(job, SHORT), measure(job, LONG))
    yield first_line(job, tuple(first_query(job) for _ in range(RUNS)))


def main() -> int:
    """Run, print, and say whether nothing is slower and all targets are met."""
    jobs: tuple[Job, ...] = BENCHMARKS + REPLAYED
    parser = argparse.ArgumentParser(
        prog="python -m benchmarks.core", description="Speed of the kernels beside another state of the code."
    )
    parser.add_argument("names", nargs="*", metavar="NAME", help=f"some of: {', '.join(b.name for b in jobs)}")
    parser.add_argument("--quick", action="store_true", help="speed only")
    parser.add_argument("--base", metavar="COMMIT", help="compare with this one")
    parser.add_argument("--json", type=Path, metavar="FILE", help="write the figures there too")
    asked = parser.parse_args()
    unknown = set(asked.names) - {b.name for b in jobs}
    if unknown:
        parser.error(f"no such benchmark: {', '.join(sorted(unknown))}")
    console = Console()
    base: Path | None = None
    try:
        name = asked.base or base_name()
        base = base_tree(name)
        console.print(f"base: {name}, in {base}")
    except NoBaseError as error:
        console.print(f"compared with nothing: {error}")
    lines: list[Line] = []
    for job in jobs:
        if not asked.names or job.name in asked.names:
            with console.status(f"{job.name}: {job.says}"):
                lines += lines_for(job, base, asked.quick)
    console.print(as_table(lines))
    if asked.json:
        asked.json.write_text(json.dumps(as_json(lines), indent=2) + "\n", encoding="utf-8")
    return 0 if all(line.hit for line in lines) else 1


if __name__ == "__main__":
    raise SystemExit(main())
