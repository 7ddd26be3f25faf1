"""Machine code made once, before tests begin: `python -m tests.kit.warm`.

Processes that start together need the same loops at the same time, and each of them would compile them. Here every
loop of weight is compiled by one process, which leaves it on disk for all others.

Invariant: nothing is checked here and nothing depends on it; what it misses is compiled when a test first needs it.
"""

from __future__ import annotations

import os
import sys
import time
from collections.abc import Callable
from multiprocessing import get_context

LISTED = """SELECT key, COUNT(*) AS n, SUM(v) AS total, MEDIAN(v) AS mid FROM a [RANGE 300 MS SLIDE 100 MS]
    GROUP BY key WITH """
JOIN = "SELECT a.key, a.v AS av, b.v AS bv FROM a [RANGE 50 MS], b [RANGE 50 MS] WHERE a.key = b.key WITH "
CHAIN = """SELECT key, COUNT(*) AS n FROM (SELECT a.key AS key FROM a [RANGE 50 MS], b [RANGE 50 MS]
    WHERE a.key = b.key) j [RANGE 200 MS SLIDE 100 MS] GROUP BY key WITH """
QUERIES = {
    "targets of joins": (
        JOIN + "RECALL 0.95 OVER 1 SECOND",
        JOIN + "RECALL 0.95 OVER 1 SECOND OPTIONS (shape = 'binary')",
    ),
    "targets of aggregates": (LISTED + "ERROR 0.05",),
    "targets of chains": (CHAIN + "RECALL 0.9 OVER 1 SECOND", CHAIN + "ERROR 0.05"),
    "eager release": (JOIN + "DELAY 100 MS OPTIONS (ordering = 'filter')",),
    "texts": ("SELECT upper(key) AS k, COUNT(*) AS n FROM a [300 MS] WHERE key LIKE '%1' GROUP BY upper(key)",),
}
GROUPS = (
    "WindowJoinRowWindows",
    "WindowAggregate",
    "WindowJoin",
    "NestedLoop",
    "JoinTree",
    "targets of joins",
    "targets of aggregates",
    "targets of chains",
)
"""What takes longest begins first."""


def groups() -> dict[str, list[Callable[[], None]]]:
    """What to run, in groups that share few loops with each other."""
    from slackwater.operators.join.policy import BY_EVENT_TIME
    from tests.kit.examples import EXAMPLES

    made: dict[str, list[Callable[[], None]]] = {name: [] for name in GROUPS}
    for example in EXAMPLES:
        kind = type(example.spec).__name__ + str(getattr(example.spec, "algorithm", ""))
        policy = getattr(example.spec, "policy", BY_EVENT_TIME)
        kind += "" if policy == BY_EVENT_TIME else type(policy).__name__
        made.setdefault(kind, []).append(lambda spec=example.spec: _drive(spec))  # type: ignore[misc]
    for name, texts in QUERIES.items():
        made.setdefault(name, []).extend(lambda text=text: _replay(text) for text in texts)  # type: ignore[misc]
    return {name: runs for name, runs in made.items() if runs}


def _drive(spec: object) -> None:
    """One spec in epochs and tuple by tuple, with a restart."""
    from slackwater.disorder.controllers import FixedSlack
    from slackwater.operators.pipeline import Epochs
    from tests.kit.drive import pipeline_of
    from tests.kit.examples import KINDS
    from tests.kit.laws import going_on_after_restore_equals_never_stopping as law
    from tests.kit.traces import seeded_trace

    batch = seeded_trace(1, spec.streams, KINDS, tuples=40)  # type: ignore[attr-defined]
    for epochs in (Epochs(), Epochs(each_tuple=True)):
        law(spec, pipeline_of(spec), batch, epochs, [20, 40], 1, lambda: FixedSlack(4))  # type: ignore[arg-type]


def _replay(text: str) -> None:
    """One query over two streams with some late rows, in epochs and tuple by tuple."""
    import numpy as np
    import pyarrow as pa

    import slackwater as sw

    rng = np.random.default_rng(5)
    n, streams = 2000, {}
    for place, name in enumerate("ab"):
        ts = 1_700_000_000_000 + np.arange(n) - np.where(rng.random(n) < 0.1, rng.integers(0, 400, n), 0)
        keys = [f"k{key}" for key in rng.integers(0, 12, n)]
        columns = {"arrival": np.arange(n) * 2 + place, "ts": ts, "key": keys, "v": rng.random(n)}
        if f" {name} [" in text:
            streams[name] = pa.table(columns)
    for epochs in (sw.Epochs(each_tuple=True), sw.Epochs(tuples=500)):
        if not (epochs.tuples and "ordering" in text):
            sw.replay(text, streams, epochs=epochs)


def warm(group: str) -> tuple[str, float]:
    """Run one group; how many seconds it took."""
    begun = time.perf_counter()
    for run in groups()[group]:
        run()
    return group, time.perf_counter() - begun


def main() -> None:
    """All groups, by as many processes as there are cores."""
    begun = time.perf_counter()
    with get_context("spawn").Pool(min(4, os.cpu_count() or 1)) as pool:
        for group, seconds in pool.imap_unordered(warm, groups(), chunksize=1):
            if "-v" in sys.argv:
                print(f"{seconds:6.1f} s  {group}")
    print(f"machine code is ready after {time.perf_counter() - begun:.0f} s")


if __name__ == "__main__":
    main()
