"""Seeded streams that are out of order, to try queries on: the game of the demo, and a zoo of disorder.

Invariant: the same name and seed give the same rows on every machine with the same numpy.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import partial

from slackwater.workloads import disorder
from slackwater.workloads.soccer import positions
from slackwater.workloads.workload import EPOCH_MS, DisorderStatistics, Workload, disorder_statistics, write

WORKLOADS: dict[str, Callable[..., Workload]] = {
    "soccer": positions,
    **{f"zoo/{name}": partial(disorder.zoo, name) for name in disorder.ZOO},
}
"""Every workload by name; each factory takes `seed` and `minutes`."""

__all__ = [
    "EPOCH_MS",
    "WORKLOADS",
    "DisorderStatistics",
    "Workload",
    "disorder",
    "disorder_statistics",
    "positions",
    "write",
]
