"""What the rate-sizing algorithm costs by itself: the product's own inner functions over the tuples of a stream, with
no join around them.

Invariant: nothing is measured but compiled code that the join calls too, over all tuples, best of several runs.

References: 001 §4.2 (sampling time, algorithm execution time, time to resize the join buffer).
"""

from __future__ import annotations

import time
from collections.abc import Callable
from dataclasses import dataclass

import numpy as np

from slackwater.core.batch import FIRST_COLUMN, Batch, Words
from slackwater.core.jit import in_place
from slackwater.core.time import MAX_TIME
from slackwater.operators.join.count_windows import evict
from slackwater.operators.join.operator import WindowJoin
from slackwater.operators.join.probing import Equality
from slackwater.operators.join.rates import LOGGED, NOW, Sampling, look, no_log, receive, sampling
from slackwater.operators.join.store import WindowStore

RUNS = 5
LEAST = 400_000
"""A stream is gone through again until so many tuples have been, so that a clock can tell."""


@dataclass(frozen=True)
class Overhead:
    """Microseconds."""

    sampling: float
    """A tuple counted by the sampling operator."""
    algorithm: float
    """Deciding on sizes and epsilon, spread over all tuples."""
    evaluation: float
    """The same for one sample."""
    resizing: float
    """Taking tuples out of windows that have become smaller, spread over all tuples."""

    @property
    def per_tuple(self) -> float:
        return self.sampling + self.algorithm + self.resizing


@in_place
def sample_only(taken: Sampling, stream: Words, ts: Words) -> int:
    """Go through a stream as the join does, but for the join; returns how many tuples smaller windows let go."""
    evicted = 0
    for i in range(len(ts)):
        if ts[i] > taken.state[NOW]:
            left, right = taken.sizes[0], taken.sizes[1]
            if look(taken, ts[i], 0):
                evicted += max(0, left - taken.sizes[0]) + max(0, right - taken.sizes[1])
            taken.state[NOW] = ts[i]
        receive(taken, stream[i], ts[i])
    return evicted


def measure(batch: Batch, intervals: tuple[int, ...], slices: int) -> Overhead:
    """The cost of the algorithm on these tuples, which must be in order."""
    never = tuple(MAX_TIME // 2 for _ in intervals)
    counting, _ = _best(lambda: _passes(batch, never, slices))
    deciding, evicted = _best(lambda: _passes(batch, intervals, slices))
    times = max(1, LEAST // len(batch))
    tuples = times * len(batch)
    evaluations = times * max(1, int(batch.ts[-1] - batch.ts[0]) // max(1, max(intervals) // slices))
    algorithm = max(0.0, deciding - counting)
    return Overhead(
        1e6 * counting / tuples, 1e6 * algorithm / tuples, 1e6 * algorithm / evaluations,
        _evicting() * evicted / tuples,
    )  # fmt: skip


def _passes(batch: Batch, intervals: tuple[int, ...], slices: int) -> tuple[float, int]:
    evicted, seconds = 0, 0.0
    for _ in range(max(1, LEAST // len(batch))):
        taken = sampling(intervals, None, slices, False, 100)._replace(log=no_log(len(intervals), len(batch)))
        begun = time.perf_counter()
        evicted += sample_only(taken, batch.stream, batch.ts)
        seconds += time.perf_counter() - begun
        assert taken.state[LOGGED] <= len(batch)
    return seconds, evicted


def _evicting(tuples: int = 100_000) -> float:
    """Microseconds that it takes a window with a hash index to let one tuple go."""
    plan = WindowJoin((0, 0), (Equality(0, FIRST_COLUMN, 1, FIRST_COLUMN),), (), (), (), FIRST_COLUMN + 1).probes()
    words = np.zeros((FIRST_COLUMN + 1, tuples), np.int64)
    words[FIRST_COLUMN] = np.arange(tuples)
    nothing = np.zeros(2, np.int64)

    def once() -> tuple[float, int]:
        store = WindowStore(2, len(words), plan.indexes)
        store.put_back(0, words, nothing)
        begun = time.perf_counter()
        evict(store.windows, 0, 1)
        return time.perf_counter() - begun, 0

    return 1e6 * _best(once)[0] / tuples


def _best(run: Callable[[], tuple[float, int]]) -> tuple[float, int]:
    """The shortest of several runs, after one that compiles."""
    run()
    return min((run() for _ in range(RUNS)), key=lambda measured: measured[0])
