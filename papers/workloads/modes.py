"""Modes: periods in which a stream has one rate and one size of events, as published and as made.

Invariant: what was made is counted by event time alone. A mode lasts from the begin of each of its periods up to, not
including, its end; a mode that never was has rate 0 and mean size 0.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from slackwater import workloads
from slackwater.workloads import EPOCH_MS, Workload

Periods = tuple[tuple[int, int], ...]
"""Begin and end of each, in milliseconds from the start of the workload."""


@dataclass(frozen=True)
class Mode:
    """What a stream is to be like while a mode lasts."""

    stream: str
    name: str
    periods: Periods
    rate: float
    """Events a second of all sources together."""
    size: float
    """Mean bytes of an event."""

    @property
    def seconds(self) -> float:
        """How long it lasts, all periods together."""
        return sum(end - begin for begin, end in self.periods) / 1000


@dataclass(frozen=True)
class MeasuredWorkload(Workload):
    """A workload that is about rates and sizes, with what was published about them."""

    modes: tuple[Mode, ...] = ()


@dataclass(frozen=True)
class Measured:
    """What a stream is like while a mode lasts."""

    mode: Mode
    events: int
    rate: float
    size: float

    def as_json(self) -> dict[str, str | int | float]:
        """What was made and what was to be made, side by side."""
        return {
            "stream": self.mode.stream,
            "mode": self.mode.name,
            "seconds": self.mode.seconds,
            "events": self.events,
            "rate": round(self.rate, 4),
            "published_rate": round(self.mode.rate, 4),
            "bytes": round(self.size, 1),
            "published_bytes": self.mode.size,
        }


def measure(streams: Mapping[str, pa.Table], modes: Iterable[Mode], start: int) -> list[Measured]:
    """Count the events of each mode; `start` is the event time (ms) at which the workload begins.

    >>> table = pa.table({"ts": [1000, 1500, 3100], "size": [10, 30, 99]})
    >>> [made] = measure({"s": table}, [Mode("s", "calm", ((0, 2000),), rate=1.0, size=20.0)], start=1000)
    >>> made.events, made.rate, made.size
    (2, 1.0, 20.0)
    """
    found = []
    for mode in modes:
        table = streams[mode.stream]
        inside = within(table["ts"].to_numpy() - start, mode.periods)
        events = int(inside.sum())
        size = float(table["size"].to_numpy()[inside].mean()) if events else 0.0
        found.append(Measured(mode, events, events / mode.seconds if mode.seconds else 0.0, size))
    return found


def within(moments: npt.NDArray[np.int64], periods: Periods) -> npt.NDArray[np.bool_]:
    """Which moments lie in one of the periods.

    >>> within(np.array([0, 5, 10]), ((5, 10),)).tolist()
    [False, True, False]
    """
    inside = np.zeros(len(moments), np.bool_)
    for begin, end in periods:
        inside |= (begin <= moments) & (moments < end)
    return inside


def write(workload: Workload, folder: str | Path) -> tuple[Path, ...]:
    """Write a workload; `statistics.json` has what was made of each mode beside what was published."""
    written = workloads.write(workload, folder)
    if not isinstance(workload, MeasuredWorkload):
        return written
    path = Path(folder, "statistics.json")
    found = [made.as_json() for made in measure(workload.streams, workload.modes, EPOCH_MS)]
    path.write_text(json.dumps(found, indent=2) + "\n", encoding="utf-8")
    return (*written, path)
