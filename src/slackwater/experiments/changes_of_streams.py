"""Streams in which something happens at minute 5: all delays grow, the rate grows, or one tuple comes a minute late.

Invariant: before the change the streams are those of the unchanged workload, and the change touches all streams at the
same moment. A D_syn tuple arrives at a clock that is known, so its delay is that clock minus its event time.
"""

from __future__ import annotations

import numpy as np
import pyarrow as pa

from slackwater.core.errors import UsageError
from slackwater.workloads import EPOCH_MS, WORKLOADS, Workload
from slackwater.workloads.workload import Integers

CHANGE_MINUTE = 5.0
STEP_MS = 10
STRAGGLER_MS = 60_000
CHANGES = ("delays x10", "rate x10", "straggler")
UNCHANGED = "unchanged"


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
