"""A zoo of disorder: named, seeded ways in which streams go out of order, to be put together and applied to any table.

>>> import numpy as np, pyarrow as pa
>>> from slackwater.workloads import disorder
>>> model = disorder.exponential(mean=0.1) + disorder.bursts(every=30, lasts=2) + disorder.ahead(by=1800, sources=0.02)
>>> table = pa.table({"ts": np.arange(0, 60_000, 20), "source": np.arange(3000) % 50})
>>> arrived = disorder.apply(table, model, seed=1)
>>> arrived.num_rows, int((arrived["ts"].to_numpy() >= 1_800_000).sum())
(3000, 60)

Invariant: the same model, table and seed give the same rows. Lengths of time are seconds.
"""

from __future__ import annotations

from slackwater.workloads.disorder.lateness import (
    ahead,
    behind,
    bursts,
    cycle,
    dated_1970,
    drift,
    duplicates,
    exponential,
    heavy_tail,
    jumps,
    lag,
    offline,
    shift,
    stops,
)
from slackwater.workloads.disorder.model import AddedDelay, Disorder, Sent, apply, apply_to_all, delays, drawn
from slackwater.workloads.disorder.zoo import ZOO, DisorderKind, ZooMember, zoo

__all__ = [
    "ZOO",
    "AddedDelay",
    "Disorder",
    "DisorderKind",
    "Sent",
    "ZooMember",
    "ahead",
    "apply",
    "apply_to_all",
    "behind",
    "bursts",
    "cycle",
    "dated_1970",
    "delays",
    "drawn",
    "drift",
    "duplicates",
    "exponential",
    "heavy_tail",
    "jumps",
    "lag",
    "offline",
    "shift",
    "stops",
    "zoo",
]
