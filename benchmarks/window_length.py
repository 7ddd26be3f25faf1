"""What a tuple of an equi-join costs as windows grow: `python -m benchmarks.window_length [--json FILE]`.

Two streams, or six, of 1000 tuples/s each, with windows of 1 s to 10 minutes; keys grow along, so that a tuple always
finds five partners in a window (one, where six streams give rows). A join that went through windows would cost 600
times as much at the end.

Invariant: windows are full before the clock starts; one whole window is timed, and 600,000 tuples at least, so that
what is done rarely is in it. The time is that of the process, through the kernel that a runtime would host.
"""

from __future__ import annotations

import argparse
import json
import time
from dataclasses import asdict, dataclass
from pathlib import Path

from rich.console import Console
from rich.table import Table

from benchmarks.inputs import Input, streams_of_keys
from benchmarks.queries import many_way_join
from benchmarks.reporting import FLAT_WITHIN
from benchmarks.running import pipeline_of
from slackwater.core.time import SECOND
from slackwater.operators.join.operator import WindowJoin
from slackwater.runtime.driver import Driver

WINDOWS_S = (1, 10, 60, 600)
RATE, TIMED, RUNS = 1000, 600_000, 2
PARTNERS = {("counted", 2): 5, ("rows", 2): 5, ("counted", 6): 5, ("rows", 6): 1}
"""Tuples of one key in a window, by what comes out and the number of streams."""


@dataclass(frozen=True)
class Cost:
    """One window length; nanoseconds of CPU time a tuple."""

    what: str
    streams: int
    window_s: int
    ns: float
    results_per_tuple: float


def measure(spec: WindowJoin, given: Input, timed: int) -> tuple[float, float]:
    """Nanoseconds and results a tuple, over the last batches."""
    best, made = float("inf"), 0
    for _ in range(RUNS):
        pipeline = pipeline_of(spec)
        driver = Driver(pipeline)
        begin, before, left = 0.0, 0, given.tuples
        for batch in given.batches:
            if left <= timed and not begin:
                timed, begin, before = left, time.process_time(), pipeline.observe().results
            left -= len(batch)
            driver.discard(batch)
        best, made = min(best, time.process_time() - begin), pipeline.observe().results - before
    return 1e9 * best / timed, made / timed


def costs(what: str, streams: int) -> list[Cost]:
    """All window lengths."""
    found = []
    for window_s in WINDOWS_S:
        keys = RATE * window_s // PARTNERS[what, streams]
        spec = many_way_join(streams, count_only=what == "counted", window=window_s * SECOND)
        timed = max(TIMED, streams * RATE * window_s)
        given = streams_of_keys(streams * RATE * (window_s + 4) + timed, streams, keys)
        found.append(Cost(what, streams, window_s, *measure(spec, given, timed)))
    return found


def main() -> int:
    """Run and print; exit code 0 iff the longest window costs about as much as the shortest."""
    parser = argparse.ArgumentParser(prog="python -m benchmarks.window_length", description="Cost by window length.")
    parser.add_argument("--json", type=Path, metavar="FILE", help="write the figures there too")
    asked = parser.parse_args()
    table = Table(title="CPU time of a tuple (ns) by window length, equi-join, 1000 tuples/s a stream")
    for heading in ("streams", "what", "results a tuple", *(f"{w} s" for w in WINDOWS_S), "longest / shortest"):
        table.add_column(heading, justify="right")
    every: list[Cost] = []
    flat = True
    for what, streams in PARTNERS:
        found = costs(what, streams)
        ratio = found[-1].ns / found[0].ns
        flat &= ratio <= FLAT_WITHIN
        shown = (f"{one.ns:.0f}" for one in found)
        table.add_row(str(streams), what, f"{found[-1].results_per_tuple:.1f}", *shown, f"{ratio:.2f}")
        every += found
    Console().print(table)
    if asked.json:
        asked.json.write_text(json.dumps([asdict(one) for one in every], indent=2) + "\n", encoding="utf-8")
    return 0 if flat else 1


if __name__ == "__main__":
    raise SystemExit(main())
