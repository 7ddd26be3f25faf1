"""How a benchmark is run: through the kernel that a runtime would host, on one core; nothing is kept of what comes out.

Invariant: only kernel work is timed; inputs are in memory before the clock starts, and a run that is not counted goes
first.
"""

from __future__ import annotations

import subprocess
import sys
import time
from dataclasses import dataclass

from benchmarks.inputs import Input
from benchmarks.queries import Benchmark, Spec
from slackwater.core.options import Options
from slackwater.core.time import SECOND
from slackwater.disorder.controllers import FixedSlack
from slackwater.operators.pipeline import Epochs, KernelTerms, Pipeline
from slackwater.runtime.driver import Driver

RUNS = 3
SLACK = 2 * SECOND
EPOCH = SECOND
FIRST_TUPLES = 20_000
"""Input of the first query of a new process."""


@dataclass(frozen=True)
class Measured:
    """Seconds of every run over so many tuples."""

    seconds: tuple[float, ...]
    tuples: int

    @property
    def best(self) -> float:
        return min(self.seconds)


def pipeline_of(spec: Spec) -> Pipeline:
    """The kernel of a query, as a runtime hosts it."""
    return Pipeline(spec, spec.build(), FixedSlack(SLACK), KernelTerms(Epochs(span=EPOCH)), Options().max_ahead)


def results_of(spec: Spec, given: Input) -> int:
    """Run a query over all of its input, to the end; returns how many results it emitted."""
    driver = Driver(pipeline_of(spec))
    last = len(given.batches) - 1
    for number, batch in enumerate(given.batches):
        driver.discard(batch, end=number == last)
    return driver.kernel.observe().results


def measure(benchmark: Benchmark, tuples: int, runs: int = RUNS) -> Measured:
    """Warm up on the beginning of the input, then run `runs` times over all of it."""
    given = benchmark.make_input(tuples)
    beginning = given.batches[: max(1, len(given.batches) // 10)]
    results_of(benchmark.spec, Input(beginning, sum(map(len, beginning)), given.rows))
    seconds = []
    for _ in range(runs):
        begin = time.process_time()
        results_of(benchmark.spec, given)
        seconds.append(time.process_time() - begin)
    return Measured(tuple(seconds), given.tuples)


def first_query(benchmark: Benchmark) -> float:
    """Seconds a new process needs to import, run one small query and end; machine code is on disk already."""
    begin = time.perf_counter()
    subprocess.run([sys.executable, "-m", "benchmarks.running", benchmark.name], check=True)
    return time.perf_counter() - begin


def _run_once(name: str) -> None:
    from benchmarks.queries import BENCHMARKS

    (benchmark,) = (b for b in BENCHMARKS if b.name == name)
    results_of(benchmark.spec, benchmark.make_input(FIRST_TUPLES))


if __name__ == "__main__":
    _run_once(sys.argv[1])
