"""What a trial runs over: a seeded workload or a recording, its query without a target, and how it is emitted.

In a changed workload something happens at minute 5: all delays grow, the rate grows, or one tuple comes a minute late.

Invariant: a stage is plain data, so that it travels to a worker process, and the same stage gives the same streams
there. Streams and truth are made once in a process and kept for the next trial. Before a change the streams are those
of the unchanged workload, and the change touches all streams at the same moment. A D_syn tuple arrives at a clock that
is known, so its delay is that clock minus its event time.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import lru_cache

import numpy as np
import pyarrow as pa

from papers.experiments.recorded_streams import RECORDINGS, WEATHER, recorded
from papers.workloads import WORKLOADS
from slackwater.core.errors import UsageError
from slackwater.core.time import MILLISECOND
from slackwater.operators.pipeline import Epochs
from slackwater.workloads import EPOCH_MS, Workload
from slackwater.workloads.workload import Integers

CHANGE_MINUTE = 5.0
STEP_MS = 10
STRAGGLER_MS = 60_000
CHANGES = ("delays x10", "rate x10", "straggler")
UNCHANGED = "unchanged"
VELOCITIES = ("velocity1", "velocity2")
"""They are made in their published length only."""
PUBLISHED_RANGE = "RANGE 5 SECONDS"
"""In the query of a velocity workload."""
FIRST_MINUTE = 5


@dataclass(frozen=True)
class Stage:
    """A workload of so many minutes (None: as published), with a change on the way where one is named."""

    workload: str
    seed: int = 0
    minutes: float | None = None
    window_s: float | None = None
    """Aggregates: the size of the window, every 0.1 s."""
    change: str = ""
    epoch_ms: int = 0
    """Epoch release each time the largest clock has come so far; 0: tuple release, as in the papers."""
    further: str = ""
    """Which of the workload's further queries is asked, where it is not the first one."""

    @property
    def epochs(self) -> Epochs:
        return Epochs(span=self.epoch_ms * MILLISECOND) if self.epoch_ms else Epochs(each_tuple=True)

    @property
    def joins(self) -> bool:
        return self.workload not in VELOCITIES and self.further != "sum"

    @property
    def query(self) -> str:
        """The query up to its target."""
        made = _streams(self)
        query = (made.further[self.further] if self.further else made.query).split("WITH")[0].strip()
        if self.window_s is None:
            return query
        return query.replace(PUBLISHED_RANGE, f"RANGE {round(1000 * self.window_s)} MILLISECONDS")

    @property
    def streams(self) -> Workload:
        return _streams(self)


def _streams(stage: Stage) -> Workload:
    return _made(stage.workload, stage.seed, stage.minutes, stage.change)


@lru_cache(maxsize=2)
def _made(name: str, seed: int, minutes: float | None, change: str) -> Workload:
    if name in RECORDINGS | WEATHER:
        return recorded(name)
    if change:
        return changed(name, seed, minutes or 15.0, change)
    if minutes is None:
        return WORKLOADS[name](seed=seed)
    if name in VELOCITIES:
        return _part(WORKLOADS[name](seed=seed), minutes)
    return WORKLOADS[name](seed=seed, minutes=minutes)


def _part(workload: Workload, minutes: float) -> Workload:
    """So many minutes from the fifth on: the large delays of the first velocity stream are in its second half."""
    streams = {}
    for name, table in workload.streams.items():
        clock = np.maximum.accumulate(table["ts"].to_numpy()) - EPOCH_MS
        begin, end = np.searchsorted(clock, [FIRST_MINUTE * 60_000, (FIRST_MINUTE + minutes) * 60_000])
        streams[name] = table.slice(int(begin), int(end - begin))
    return Workload(workload.name, streams, workload.query)


def changed(name: str, seed: int, minutes: float, change: str) -> Workload:
    """A D_syn workload of so many minutes with a change on the way."""
    if change not in (*CHANGES, UNCHANGED) or not name.startswith("dsyn"):
        raise UsageError(f"there is no change '{change}' of {name}")
    generated = minutes
    if change == "rate x10":
        generated = CHANGE_MINUTE + 10 * max(0.0, minutes - CHANGE_MINUTE)
    workload = WORKLOADS[name](seed=seed, minutes=generated)
    streams = {
        stream: _with_times(table, _event_times(table["ts"].to_numpy(), change, first=number == 0))
        for number, (stream, table) in enumerate(workload.streams.items())
    }
    return Workload(workload.name, streams, workload.query)


def _event_times(ts: Integers, change: str, first: bool) -> Integers:
    since_start = STEP_MS * np.arange(1, len(ts) + 1, dtype=np.int64)
    delay = EPOCH_MS + since_start - ts
    at = round(CHANGE_MINUTE * 60_000)
    after = since_start > at
    if change == "delays x10":
        delay = np.where(after, 10 * delay, delay)
    elif change == "rate x10":
        since_start = np.where(after, at + (since_start - at) // 10, since_start)
    elif change == "straggler" and first and after.any():
        delay[int(after.argmax())] = STRAGGLER_MS
    return EPOCH_MS + since_start - delay


def _with_times(table: pa.Table, ts: Integers) -> pa.Table:
    return table.set_column(table.column_names.index("ts"), "ts", pa.array(ts))
