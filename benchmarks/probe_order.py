"""What choosing the order of probes is worth: `python -m benchmarks.probe_order [--tuples N] [--json FILE]`.

Four streams: the first one has a key for each of the others, and one of those is very selective; it stands last in
FROM. The join runs as it is, and with the order of its plan kept for ever. Rows are made.

Invariant: both runs make the same results; the time is that of the process, for the join alone, best of all runs. Work
is what the probes have asked and met, counted for one tuple in eight.
"""

from __future__ import annotations

import argparse
import json
import time
from collections.abc import Callable
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

import numpy as np
from rich.console import Console
from rich.table import Table

from slackwater.core.batch import FIRST_COLUMN, Words
from slackwater.core.time import BEFORE_ALL, MILLISECOND, SECOND
from slackwater.disorder.ordered_batch import OrderedBatch, OrderedTuples
from slackwater.operators.join.adaptive import AdaptiveProbes, cheaper
from slackwater.operators.join.operator import WindowJoin
from slackwater.operators.join.probe_stats import DONE
from slackwater.operators.join.probing import Equality

STREAMS, TUPLES, AT_ONCE, RUNS = 4, 800_000, 1000, 3
KEY = FIRST_COLUMN
WINDOW = 2 * SECOND
"""With 1000 tuples/s in each stream, 2000 tuples a window."""
FEW, MANY = 200, 40_000
"""Keys: ten partners for each tuple in the window of a stream; or a partner for one tuple in twenty."""
SAMPLE = 8


@dataclass(frozen=True)
class Case:
    """Which stream is selective in each half of the input."""

    name: str
    selective: tuple[int, int]


CASES = Case("the last stream is selective", (3, 3)), Case("at half time the second one is instead", (3, 1))


@dataclass(frozen=True)
class Measured:
    """One case in one way; seconds are CPU time."""

    case: str
    way: str
    seconds: float
    us_per_tuple: float
    work_per_tuple: float
    results: int
    switches: int


class CountedProbes(AdaptiveProbes):
    """Adds up the work done before every choice."""

    work = 0

    def choose(self, live: Words) -> bool:
        self.work += int(self.probe_stats.work[DONE])
        return super().choose(live)


def kept(linkage: Any, root: int, now: Any, known: Any) -> Any:
    """The order of the plan, whatever is found."""
    return now


WAYS: dict[str, Callable[..., Any]] = {"order of the plan": kept, "order chosen": cheaper}


def star() -> WindowJoin:
    """Stream 0 has a key for each of the others."""
    equal = tuple(Equality(0, KEY + s - 1, s, KEY) for s in range(1, STREAMS))
    return WindowJoin((WINDOW,) * STREAMS, equal, (), (), ((0, 1),), rows=KEY + STREAMS - 1)


def arrivals(case: Case, tuples: int) -> tuple[Words, Words]:
    """Stream and words of all tuples, in event-time order, streams in turn."""
    random = np.random.default_rng(0)
    number = np.arange(tuples)
    stream = number % STREAMS
    selective = np.array(case.selective)[(number >= tuples // 2).astype(np.int64)]
    words = np.zeros((KEY + STREAMS - 1, tuples), np.int64)
    words[0], words[1] = number * MILLISECOND // STREAMS, number
    for s in range(1, STREAMS):
        drawn = random.integers(0, 1 << 40, tuples) % np.where(selective == s, MANY, FEW)
        words[KEY + s - 1, stream == 0] = drawn[stream == 0]
        words[KEY, stream == s] = drawn[stream == s]
    return stream, words


def measure(case: Case, way: str, tuples: int) -> Measured:
    """Join all tuples, in runs as a runtime makes them."""
    stream, words = arrivals(case, tuples)
    spec, best = star(), float("inf")
    for _ in range(RUNS):
        join = spec.build()
        join.order = CountedProbes(
            spec.linkage(False, in_order=True), np.array(spec.windows), None, False, choose=WAYS[way]
        )
        results, begun = 0, time.process_time()
        for at in range(0, tuples, AT_ONCE):
            run = run_of(stream[at : at + AT_ONCE], words[:, at : at + AT_ONCE])
            results += sum(output.results for output in join.process(run, True))
        best = min(best, time.process_time() - begun)
    work = SAMPLE * (join.order.work + int(join.order.probe_stats.work[DONE])) / tuples
    return Measured(case.name, way, best, 1e6 * best / tuples, work, results, join.order.switches)


def run_of(stream: Words, words: Words) -> OrderedBatch:
    """Tuples that are all in time."""
    return OrderedBatch(OrderedTuples.of(stream, words, np.full(len(stream), BEFORE_ALL)), int(words[0, -1]), 0, 0)


def main() -> int:
    """Run and print."""
    parser = argparse.ArgumentParser(prog="python -m benchmarks.probe_order", description="The order of probes.")
    parser.add_argument("--tuples", type=int, default=TUPLES)
    parser.add_argument("--json", type=Path, metavar="FILE", help="write the figures there too")
    asked = parser.parse_args()
    measure(CASES[0], next(iter(WAYS)), 10_000)  # loads the machine code
    found = [measure(case, way, asked.tuples) for case in CASES for way in WAYS]
    table = Table(title="the order of probes: 4 streams, 2 s windows of 2000 tuples")
    for heading in ("case", "way", "µs a tuple (CPU)", "work a tuple", "results", "routes left"):
        table.add_column(heading)
    for one in found:
        table.add_row(
            one.case,
            one.way,
            f"{one.us_per_tuple:.3f}",
            f"{one.work_per_tuple:.1f}",
            str(one.results),
            str(one.switches),
        )
    Console().print(table)
    if asked.json:
        asked.json.write_text(json.dumps([asdict(one) for one in found], indent=2) + "\n", encoding="utf-8")
    return 0


if __name__ == "__main__":
    raise SystemExit(main())
