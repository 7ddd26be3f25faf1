"""The core benchmarks: `python -m benchmarks.core [--quick] [--json FILE] [NAME ...]`.

Invariant: exit code 0 iff every target that was asked about is met.
"""

from __future__ import annotations

import argparse
import json
from collections.abc import Iterator
from pathlib import Path

from rich.console import Console

from benchmarks.queries import BENCHMARKS, Benchmark
from benchmarks.reporting import Line, as_json, as_table, first_line, flat_line, speed_line
from benchmarks.running import RUNS, first_query, measure

SHORT, LONG = 1_000_000, 10_000_000


def lines_for(benchmark: Benchmark, quick: bool) -> Iterator[Line]:
    """Speed; and unless in a hurry, flatness and the first query of a new process."""
    yield speed_line(benchmark, measure(benchmark, benchmark.quick if quick else benchmark.tuples))
    if quick:
        return
    if benchmark.flat:
        yield flat_line(benchmark, measure(benchmark, SHORT), measure(benchmark, LONG))
    yield first_line(benchmark, tuple(first_query(benchmark) for _ in range(RUNS)))


def main() -> int:
    """Run, print, and say whether all targets were met."""
    parser = argparse.ArgumentParser(
        prog="python -m benchmarks.core", description="Speed of the kernels against targets."
    )
    parser.add_argument("names", nargs="*", metavar="NAME", help=f"some of: {', '.join(b.name for b in BENCHMARKS)}")
    parser.add_argument("--quick", action="store_true", help="small inputs, speed only")
    parser.add_argument("--json", type=Path, metavar="FILE", help="write the figures there too")
    asked = parser.parse_args()
    unknown = set(asked.names) - {b.name for b in BENCHMARKS}
    if unknown:
        parser.error(f"no such benchmark: {', '.join(sorted(unknown))}")
    console = Console()
    lines: list[Line] = []
    for benchmark in BENCHMARKS:
        if not asked.names or benchmark.name in asked.names:
            with console.status(f"{benchmark.name}: {benchmark.says}"):
                lines += lines_for(benchmark, asked.quick)
    console.print(as_table(lines))
    if asked.json:
        asked.json.write_text(json.dumps(as_json(lines), indent=2) + "\n", encoding="utf-8")
    return 0 if all(line.hit for line in lines) else 1


if __name__ == "__main__":
    raise SystemExit(main())
