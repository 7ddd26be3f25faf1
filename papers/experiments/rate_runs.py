"""A query whose windows follow rates, watched while it runs: sizes, distances and memory at every tick.

Invariant: what runs is the product's kernel, planned from the text of a query; it is asked what it holds between two
arrivals, and nothing is added to it.

References: 001 section 4.
"""

from __future__ import annotations

import time
from collections.abc import Mapping
from dataclasses import dataclass, field
from functools import lru_cache

import numpy as np
import pyarrow as pa

from papers.experiments.recorded_streams import WEATHER, recorded
from papers.experiments.sweep import Row, Trial
from papers.workloads import WORKLOADS
from slackwater.core.batch import Batch
from slackwater.core.memory import Memory
from slackwater.core.rates import Resize
from slackwater.core.time import SECOND
from slackwater.operators.pipeline import Epochs
from slackwater.plan.physical import PhysicalPlan
from slackwater.plan.planner import plan
from slackwater.runtime.driver import Driver
from slackwater.runtime.kernels import kernel_for
from slackwater.runtime.local.run import BATCH
from slackwater.sources.binding import bind_to_tables
from slackwater.sources.replay import Replay, replay
from slackwater.workloads import Workload

EVERYTHING = 1 << 20
"""Arrivals are taken at one go, and cut here."""
WARM_UP = 512
TIMED = 3
"""How often a run is timed; the best counts."""
SETTLED_S = 20.0
"""The paper looks at windows once the first two samples are over."""


@dataclass
class Watched:
    """What was seen, tick by tick."""

    seconds: list[float] = field(default_factory=list)
    """Since the first event."""
    sizes: list[tuple[tuple[int, ...], ...]] = field(default_factory=list)
    """Per join, the windows in force."""
    within: list[tuple[float, ...]] = field(default_factory=list)
    """Per join, epsilon in seconds."""
    memory: list[Memory] = field(default_factory=list)
    resizes: list[tuple[int, Resize]] = field(default_factory=list)
    results: int = 0
    late: int = 0
    tuples: int = 0
    begun: int = 0
    """The first event time."""
    cost_s: float = 0.0
    """What the kernel takes for all of the input in large batches, with nobody watching."""


def watch(text: str, streams: Mapping[str, pa.Table], every_s: float, count_only: bool = False) -> Watched:
    """Run a query over recorded streams, and look at it every so many seconds of event time."""
    physical = plan(bind_to_tables(text, streams, "ts").query, count_only=count_only)
    arrivals = replay(physical, streams, "ms")
    batch = Batch.concat(list(arrivals.batches(EVERYTHING)))
    for part in (slice(0, WARM_UP), slice(0, 0)):
        # The first kernel has everything compiled, and is thrown away.
        kernel = kernel_for(physical, Epochs(each_tuple=True), arrivals.codebook)
        driver = Driver(kernel)
        driver.discard(batch.take(part))
        kernel.observe()
    clock = np.maximum.accumulate(batch.ts)
    ticks = np.arange(clock[0], clock[-1] + 1, round(every_s * SECOND))
    cuts = [*np.searchsorted(clock, ticks[1:]).tolist(), len(batch)]
    seen = Watched()
    begin, seen.begun = 0, int(clock[0])
    for tick, end in zip(ticks.tolist(), cuts, strict=True):
        driver.discard(batch.take(slice(begin, end)))
        now = kernel.observe()
        seen.seconds.append((tick - seen.begun) / SECOND + every_s)
        seen.sizes.append(tuple(one.sizes for one in now.rates))
        seen.within.append(tuple(one.within / SECOND for one in now.rates))
        assert now.memory is not None, "a join holds something"
        seen.memory.append(now.memory)
        seen.resizes += kernel.take_resizes()
        begin = end
    driver.discard(end=True)
    seen.resizes += kernel.take_resizes()
    now = kernel.observe()
    seen.results, seen.late, seen.tuples = now.results, now.late, now.tuples
    seen.cost_s = min(_cost(physical, arrivals) for _ in range(TIMED))
    return seen


def _cost(physical: PhysicalPlan, arrivals: Replay) -> float:
    """Seconds that a kernel takes for everything."""
    kernel = kernel_for(physical, Epochs(each_tuple=True), arrivals.codebook)
    driver = Driver(kernel, clock=time.perf_counter)
    for batch in arrivals.batches(BATCH):
        driver.discard(batch)
    return driver.seconds


@lru_cache(maxsize=2)
def streams_of(name: str, seed: int, minutes: float | None) -> Workload:
    """The streams and queries of a stage."""
    if name in WEATHER:
        return recorded(name)
    return WORKLOADS[name](seed=seed) if minutes is None else WORKLOADS[name](seed=seed, minutes=minutes)


@dataclass(frozen=True)
class RateTrial(Trial):
    """One query over one workload, watched."""

    query: str = "rates"
    """A further query of the workload, by name; or where `text` is given, what it is called."""
    text: str = ""
    every_s: float = 1.0
    count_only: bool = False

    def streams(self) -> Workload:
        return streams_of(self.stage.workload, self.stage.seed, self.stage.minutes)

    def asked(self) -> str:
        """The text that is run: how much events weigh is told by the streams."""
        text = self.text or self.streams().further[self.query].rsplit("WITH COMPLETE", 1)[0]
        options = ", ".join(filter(None, ("size_by = 'size'" * self._weighed(), self.options)))
        return f"{text} WITH {self.clause or 'COMPLETE'}" + (f" OPTIONS ({options})" if options else "")

    def _weighed(self) -> bool:
        return all("size" in table.column_names for table in self.streams().streams.values())

    def watched(self) -> Watched:
        return watch(self.asked(), self.streams().streams, self.every_s, self.count_only)

    def head(self) -> Row:
        """What rows of one experiment have in common."""
        return {
            "workload": self.stage.workload, "seed": self.stage.seed, "minutes": self.stage.minutes, "window_s": None,
            "change": self.query, "way": self.way, "target": None, "period_s": self.period_s,
            "parameter": self.parameter, "value": self.value, "offered": True,
        }  # fmt: skip

    def measured(self) -> Row:
        """The row of this trial."""
        seen = self.watched()
        return self.head() | summary(seen) | extremes(seen) | series(seen)


def summary(seen: Watched) -> Row:
    """What a run came to, as numbers."""
    weighed = [one.query for one in seen.memory]
    return {
        "tuples": seen.tuples, "late": seen.late, "results": seen.results,
        "resident": float(np.mean([one.tuples for one in weighed])),
        "resident_peak": max(one.tuples for one in weighed),
        "mb": float(np.mean([one.bytes for one in weighed])) / 1e6,
        "mb_peak": max(one.bytes for one in weighed) / 1e6,
        "cost_us": 1e6 * seen.cost_s / max(1, seen.tuples),
    }  # fmt: skip


def extremes(seen: Watched) -> Row:
    """The smallest and the largest size that was in force in each window, once they have settled."""
    settled = seen.begun + SETTLED_S * SECOND
    found: dict[tuple[int, int], list[int]] = {}
    for node, one in seen.resizes:
        for window, size in enumerate(one.sizes):
            if one.at >= settled:
                found.setdefault((node, window), []).append(size)
    places = sorted(found)
    return {
        "least_sizes": [min(found[place]) for place in places],
        "most_sizes": [max(found[place]) for place in places],
    }


def series(seen: Watched) -> Row:
    """The same over time, for figures."""
    return {
        "seconds": seen.seconds,
        "sizes": [[size for join in sizes for size in join] for sizes in seen.sizes],
        "within": [list(within) for within in seen.within],
        "resident_over_time": [one.query.tuples for one in seen.memory],
        "mb_over_time": [round(one.query.bytes / 1e6, 3) for one in seen.memory],
    }


def over_time(row: Row, key: str, begin: float = 0.0, end: float = np.inf, window: int | None = None) -> list[float]:
    """The values of a series from one second to another; of sizes, those of one window."""
    lines = zip(row["seconds"], row[key], strict=True)
    return [one if window is None else one[window] for second, one in lines if begin <= second < end]


def mean_of(row: Row, key: str, begin: float = 0.0, end: float = np.inf, window: int | None = None) -> float:
    """Their average.

    >>> mean_of({"seconds": [1.0, 2.0], "sizes": [[5, 1], [7, 3]]}, "sizes", window=1)
    2.0
    """
    return float(np.mean(over_time(row, key, begin, end, window)))
