"""Holistic aggregates over large windows: `python -m benchmarks.holistic [--quick] [--json FILE] [NAME ...]`.

MEDIAN, QUANTILE and COUNT DISTINCT over 5 minutes that slide by 1 s, for 1,000 keys, at 1,000 to 100,000 tuples/s of
event time. A key then has 1, 10 or 100 tuples a slide, and 300 to 30,000 values in a window. With 1 each tuple makes a
row of the answer, which is the hardest. Then values that rise (the worst case of a median), values of which there are
few, keys of which some are frequent, and one group where nearly every tuple closes a window.

Invariant: windows are full before the clock starts. The time is that of the process, through the kernel that a runtime
would host; input is made while the clock stands. Exit code 0 iff every target that was asked about is met.
"""

from __future__ import annotations

import argparse
import json
import time
from collections.abc import Iterator
from dataclasses import asdict, dataclass, replace
from pathlib import Path

import numpy as np
from rich.console import Console
from rich.table import Table

from benchmarks.inputs import BATCH, LATE_SHARE, MAX_DELAY_MS
from benchmarks.running import pipeline_of
from slackwater.core.batch import FIRST_COLUMN, TS, Batch, Words
from slackwater.core.schema import Kind
from slackwater.core.time import MILLISECOND, MINUTE, SECOND
from slackwater.operators.aggregate.algebra import AggregateSpec
from slackwater.operators.aggregate.operator import WindowAggregate
from slackwater.runtime.driver import Driver

KEY, V = FIRST_COLUMN, FIRST_COLUMN + 1
FUNCTIONS = {
    "MEDIAN": AggregateSpec("MEDIAN", V, Kind.FLOAT),
    "QUANTILE": AggregateSpec("QUANTILE", V, Kind.FLOAT, 0.95),
    "COUNT DISTINCT": AggregateSpec("COUNT_DISTINCT", V, Kind.FLOAT),
    "SUM": AggregateSpec("SUM", V, Kind.FLOAT),
}
TARGET = 1e6
TIMED = 3_000_000
"""Tuples at most."""


@dataclass(frozen=True)
class Case:
    """A query over a stream."""

    name: str
    functions: tuple[str, ...]
    rate: int
    """Tuples a second of event time."""
    values: str = "no order"
    keys: int = 1_000
    frequent: bool = False
    """Whether some keys are more frequent than others: the n-th by 1 / n."""
    range: int = 5 * MINUTE
    slide: int = SECOND
    target: float | None = None
    in_hurry: bool = False
    """Whether it is measured in a hurry too."""

    @property
    def spec(self) -> WindowAggregate:
        keys = (KEY,) if self.keys > 1 else ()
        return WindowAggregate(self.range, self.slide, keys, tuple(map(FUNCTIONS.get, self.functions)), V + 1)  # type: ignore[arg-type]


def _cases() -> Iterator[Case]:
    for function in ("MEDIAN", "QUANTILE", "COUNT DISTINCT"):
        for rate in (1_000, 10_000, 100_000):
            name = f"{function} {rate // 1_000}"
            yield Case(name, (function,), rate, target=TARGET, in_hurry=rate == 1_000)
    yield Case("SUM 1", ("SUM",), 1_000)
    yield Case("all 10", tuple(FUNCTIONS), 10_000)
    for rate in (1_000, 10_000):
        yield Case(f"rising {rate // 1_000}", ("MEDIAN",), rate, "rising")
        yield Case(f"few {rate // 1_000}", ("MEDIAN", "COUNT DISTINCT"), rate, "few")
        yield Case(f"frequent {rate // 1_000}", ("MEDIAN", "COUNT DISTINCT"), rate, frequent=True)
    for seconds in (1, 60):
        yield Case(f"one group {seconds}", ("MEDIAN",), 1_000, keys=1, range=seconds * SECOND, slide=MILLISECOND)
    yield Case("one group rising", ("MEDIAN",), 1_000, "rising", keys=1, range=MINUTE, slide=MILLISECOND)


CASES = tuple(_cases())


@dataclass(frozen=True)
class Measured:
    """Tuples and rows of the answer a second, and what stands in state at the end."""

    name: str
    tuples_s: float
    rows_s: float
    state_rows: int
    target: float | None

    @property
    def hit(self) -> bool:
        return self.target is None or self.tuples_s >= self.target


def batches(case: Case, tuples: int) -> Iterator[Batch]:
    """A stream in arrival order, one tuple in ten held back; the same for the same case."""
    random = np.random.default_rng(1)
    share = 1 / np.arange(1, case.keys + 1)
    share = np.cumsum(share / share.sum())
    for begin in range(0, tuples, BATCH):
        number = np.arange(begin, min(begin + BATCH, tuples))
        n = len(number)
        words = np.empty((V + 1, n), np.int64)
        delay = random.integers(0, MAX_DELAY_MS, n) * MILLISECOND * (random.random(n) < LATE_SHARE)
        words[TS], words[1] = number * SECOND // case.rate - delay, number
        words[KEY] = np.searchsorted(share, random.random(n)) if case.frequent else random.integers(0, case.keys, n)
        words[V] = _values(case, number, random).view(np.int64)
        yield Batch(np.zeros(n, np.int64), words, np.ones(n, np.bool_))


def _values(case: Case, number: Words, random: np.random.Generator) -> np.ndarray:
    drawn = random.random(len(number))
    match case.values:
        case "rising":
            return number + drawn
        case "few":
            return np.floor(50 * drawn)
        case _:
            return drawn


def measure(case: Case, timed: int) -> Measured:
    """Fill the windows, then time so many tuples."""
    fill = (case.range + 4 * SECOND) // SECOND * case.rate
    pipeline = pipeline_of(case.spec)
    driver = Driver(pipeline)
    seconds, tuples, results, taken = 0.0, 0, 0, 0
    for batch in batches(case, fill + timed):
        if taken < fill:
            driver.discard(batch)
            results = pipeline.observe().results
        else:
            begin = time.process_time()
            driver.discard(batch)
            seconds += time.process_time() - begin
            tuples += len(batch)
        taken += len(batch)
    seen = pipeline.observe()
    return Measured(case.name, tuples / seconds, (seen.results - results) / seconds, seen.state_rows, case.target)


def as_table(found: list[Measured]) -> Table:
    """For people."""
    table = Table(title="holistic aggregates: 5 minutes sliding by 1 s, 1,000 keys; one core, epoch 1 s, slack 2 s")
    for heading in ("benchmark", "tuples/s", "rows/s", "state rows", "target", ""):
        table.add_column(heading, justify="left" if heading == "benchmark" else "right")
    for one in found:
        target = "" if one.target is None else f"{one.target:,.0f}"
        verdict = "" if one.target is None else "[green]hit[/]" if one.hit else "[red]miss[/]"
        table.add_row(one.name, f"{one.tuples_s:,.0f}", f"{one.rows_s:,.0f}", f"{one.state_rows:,}", target, verdict)
    return table


def main() -> int:
    """Run, print, and say whether all targets were met."""
    parser = argparse.ArgumentParser(prog="python -m benchmarks.holistic", description="Speed of holistic aggregates.")
    parser.add_argument("names", nargs="*", metavar="NAME", help=f"some of: {', '.join(c.name for c in CASES)}")
    parser.add_argument("--quick", action="store_true", help="the hardest rate only, fewer tuples")
    parser.add_argument("--json", type=Path, metavar="FILE", help="write the figures there too")
    asked = parser.parse_args()
    if unknown := set(asked.names) - {c.name for c in CASES}:
        parser.error(f"no such benchmark: {', '.join(sorted(unknown))}")
    console, found = Console(), []
    for case in CASES:
        if case.name in asked.names if asked.names else case.in_hurry or not asked.quick:
            with console.status(case.name):
                measure(replace(case, rate=1_000, range=SECOND), 2 * BATCH)
                found.append(measure(case, min(TIMED, (100 if asked.quick else 1_000) * case.rate)))
    console.print(as_table(found))
    if asked.json:
        asked.json.write_text(json.dumps([asdict(one) for one in found], indent=2) + "\n", encoding="utf-8")
    return 0 if all(one.hit for one in found) else 1


if __name__ == "__main__":
    raise SystemExit(main())
