"""One side of a comparison: runs kernels of the tree that PYTHONPATH names, as often as it is asked to.

A line in, a line of JSON out: `origin`, the file of the package; `names`; `open TUPLES NAME` makes the input, runs
once, and says how many results and pairs there were; `run` says the CPU seconds of one more run.

Invariant: kernels are those that the tree has in its own `benchmarks.queries`; whole runs are public calls alone. So
this file serves trees of any age.
"""

from __future__ import annotations

import json
import sys
import time
import warnings
from collections.abc import Callable

import numpy as np
import pyarrow as pa

Run = Callable[[], int]
"""Runs once over all of an input; returns how many results there were."""
WHOLE_RUNS = {
    "replay sum": ("s", 10_000, 1, 1_000_000, "SELECT SUM(v) AS total FROM s [RANGE 1 SECOND SLIDE 100 MS]"),
    "replay sum by key": (
        "s", 10_000, 1000, 400_000,
        "SELECT key, SUM(v) AS total FROM s [RANGE 1 SECOND SLIDE 100 MS] GROUP BY key",
    ),
    "replay 2-way join": (
        "ab", 1_000, 1000, 400_000,
        "SELECT a.key, a.v, b.v AS w FROM a [RANGE 5 SECONDS], b [RANGE 5 SECONDS] WHERE a.key = b.key",
    ),
    "replay 3-way join": (
        "abc", 1_000, 1000, 60_000,
        "SELECT a.key, a.v, c.v AS w FROM a [RANGE 5 SECONDS], b [RANGE 5 SECONDS], c [RANGE 5 SECONDS]"
        " WHERE a.key = b.key AND b.key = c.key",
    ),
    "replay distance join": (
        "ab", 330, 1, 40_000,
        "SELECT a.v, b.v AS w FROM a [RANGE 5 SECONDS], b [RANGE 5 SECONDS] WHERE dist(a.x, a.y, b.x, b.y) < 5",
    ),
}  # fmt: skip
"""Queries that `sw.replay` answers in epochs of a second: streams, tuples a second of each, keys, tuples, text."""
SLACK = "WITH DELAY 2 SECONDS"


def origin() -> str:
    """The file of the package that is imported."""
    import slackwater

    return slackwater.__file__


def names() -> list[str]:
    """All that this tree can run."""
    from benchmarks.queries import BENCHMARKS

    return [one.name for one in BENCHMARKS] + list(WHOLE_RUNS)


def opened(name: str, tuples: int) -> tuple[Run, int]:
    """A run over so many tuples, which are in memory, and how many pairs it checks, where that is its measure."""
    if name in WHOLE_RUNS:
        return whole_run(name, tuples), 0
    from benchmarks.queries import BENCHMARKS
    from benchmarks.running import results_of

    benchmark = next(one for one in BENCHMARKS if one.name == name)
    given = benchmark.make_input(tuples)
    pairs = results_of(benchmark.pairs, given) if benchmark.pairs else 0
    return lambda: results_of(benchmark.spec, given), pairs


def whole_run(name: str, tuples: int) -> Run:
    """A query over tables, from their columns to the table of its results."""
    import slackwater as sw

    streams, rate, keys, _, query = WHOLE_RUNS[name]
    tables = {name: stream(tuples // len(streams), rate, keys, seed) for seed, name in enumerate(streams)}
    epochs = sw.Epochs(span=1_000_000)
    return lambda: sw.replay(f"{query} {SLACK}", tables, epochs=epochs).results.num_rows


def stream(tuples: int, rate: int, keys: int, seed: int) -> pa.Table:
    """Event times at a steady rate; one tuple in ten is held back, by at most 1.5 s."""
    rng = np.random.default_rng(seed)
    ts = np.arange(tuples) * 1000 // rate
    arrival = ts * 1000 + np.arange(tuples) % 1000
    held_back = rng.random(tuples) < 0.1
    arrival[held_back] += rng.integers(0, 1_500_000, int(held_back.sum()))
    columns = {"ts": ts, "arrival": arrival, "key": rng.integers(0, keys, tuples)}
    columns |= {name: rng.random(tuples) * 100 for name in ("v", "x", "y")}
    return pa.table(columns).take(np.argsort(arrival, kind="stable"))


def answered(line: str) -> object:
    """What a line asks for."""
    global _run
    word, _, rest = line.strip().partition(" ")
    if word == "origin":
        return origin()
    if word == "names":
        return names()
    if word == "open":
        tuples, _, name = rest.partition(" ")
        _run, pairs = opened(name, int(tuples))
        return {"results": _run(), "pairs": pairs}
    begin = time.process_time()
    _run()
    return time.process_time() - begin


_run: Run

if __name__ == "__main__":
    warnings.simplefilter("ignore")
    for asked in sys.stdin:
        print(json.dumps(answered(asked)), flush=True)
