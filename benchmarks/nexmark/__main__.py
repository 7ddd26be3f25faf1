"""NEXMark over parquet files, by all sides: `python -m benchmarks.nexmark [--events N] [--queries q5 ...]`.

`ours` is `sw.replay` in this process, `spark` the same text on Spark, `judge` DuckDB over all rows, and `flink` Flink
SQL from PyPI in an environment of its own. Rows are compared with those of the judge. Of every side a small run goes
first. Events a second are those of the streams that a query reads: `whole` with the start of the query, `beyond` what
all events cost beyond the small run. CPU seconds are of all processes of a side, compilers included.
"""

from __future__ import annotations

import argparse
import tempfile
from collections.abc import Mapping, Sequence
from contextlib import ExitStack
from functools import partial
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
from rich.console import Console
from rich.table import Table

from benchmarks.nexmark.answers import Compared, compared, true_answer
from benchmarks.nexmark.generator import Events
from benchmarks.nexmark.queries import QUERIES, Query
from benchmarks.nexmark.sides import DELAY_S, Measured, Side, measured, opened

SIDES = ("ours", "judge", "flink", "spark")
Places = Mapping[bool, Sequence[Mapping[str, Path]]]
"""By whether a stream is one file: folders of what is run first, and of what is counted."""
WARM = 5_000
"""Events of the run that is not counted."""


def line(name: str, side: str, share: float, events: int, runs: list[Measured], found: Compared) -> list[str]:
    """What a side did, as cells; `share`, how small the small run was."""
    small, took = runs
    verdict = "yes" if found.equal else f"no: {found.missing:,} missing, {found.wrong:,} wrong"
    whole, more = events / took.seconds, took.seconds - small.seconds
    beyond = f"{events * (1 - share) / more:,.0f}" if more > 0 else "?"
    cells = [name, side, verdict, f"{took.rows.num_rows:,}", f"{whole:,.0f}", beyond]
    return [*cells, f"{took.cpu_seconds:.1f}", f"{took.cpu_seconds - small.cpu_seconds:.1f}", f"{found.recall:.4f}"]


def failed(name: str, side: str, error: Exception) -> list[str]:
    """Why a side has no answer, as cells."""
    return [name, side, str(error).strip().splitlines()[0][:160]]


def raced(
    name: str, query: Query, sides: Mapping[str, Side], tables: Mapping[str, pa.Table], places: Places, judged: bool
) -> list[list[str]]:
    """One query by all sides."""
    title = f"{name}, {query.bound}" if query.bound else name
    events = sum(tables[stream].num_rows for stream in query.streams)
    share = WARM / sum(table.num_rows for table in tables.values())
    few = {stream: table.slice(0, int(share * table.num_rows)) for stream, table in tables.items()}
    judge = [measured(partial(true_answer, query, some)) for some in (few, tables)]
    truth = judge[-1].rows
    lines = [line(title, "judge", share, events, judge, Compared(truth.num_rows, 0, 0))] if judged else []
    for called, side in sides.items():
        try:
            runs = [measured(partial(side.answer, query, folders)) for folders in places[side.one_file]]
            lines.append(line(title, called, share, events, runs, compared(truth, runs[-1].rows)))
        except Exception as error:
            lines.append(failed(title, called, error))
    return lines


def main() -> None:
    """Generate, race, print one table."""
    parser = argparse.ArgumentParser(prog="benchmarks.nexmark", description=__doc__)
    parser.add_argument("--events", type=int, default=500_000)
    parser.add_argument("--rate", type=int, default=10_000, help="events a second of event time")
    parser.add_argument("--disorder", type=int, default=1, help="events that are shuffled with each other")
    parser.add_argument("--files", type=int, default=5, help="of each stream; Spark reads one a micro-batch")
    parser.add_argument("--queries", nargs="*", default=list(QUERIES), choices=QUERIES)
    parser.add_argument("--sides", default=",".join(SIDES))
    parser.add_argument("--target", default=f"WITH DELAY {DELAY_S} SECONDS", help="what ours is asked for")
    parser.add_argument("--flink", type=Path, help="where Flink is, or is installed")
    given = parser.parse_args()
    asked, console = given.sides.split(","), Console(width=120)
    table = Table(title=f"NEXMark, {given.events:,} events at {given.rate:,} a second, disorder {given.disorder}")
    for heading in ("query", "side", "equal"):
        table.add_column(heading)
    for heading in ("rows", "events/s, whole", "beyond", "CPU s, whole", "beyond", "recall"):
        table.add_column(heading, justify="right")
    with tempfile.TemporaryDirectory() as temporary, ExitStack() as stack:
        folder = Path(temporary)
        small = Events(WARM, given.rate, given.disorder).write(folder / "small")
        events = Events(given.events, given.rate, given.disorder)
        files, one = events.write(folder / "files", given.files), events.write(folder / "one")
        tables = {name: pq.read_table(place) for name, place in one.items()}
        named = [name for name in asked if name != "judge"]
        found = {one: opened(one, given.target, given.flink or folder / "flink", console, stack) for one in named}
        sides = {name: side for name, side in found.items() if side is not None}
        for name in given.queries:
            places = {True: [small, one], False: [small, files]}
            for cells in raced(name, QUERIES[name], sides, tables, places, "judge" in asked):
                table.add_row(*cells)
                console.print("  ".join(cells), highlight=False, soft_wrap=True)
    console.print(table)


if __name__ == "__main__":
    main()
