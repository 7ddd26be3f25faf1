"""Seeded workloads: the datasets of the papers, made anew, a zoo of disorder, and inputs for benchmarks.

Invariant: the same name and seed give the same rows on every machine with the same numpy.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import partial

from slackwater.workloads import disorder
from slackwater.workloads.drm import drm, two_rates
from slackwater.workloads.dsyn import dsyn3, dsyn4
from slackwater.workloads.meteorology import meteorology, nine_products
from slackwater.workloads.modes import Measured, Mode, measure
from slackwater.workloads.plugs import smart_plugs
from slackwater.workloads.profiles import Delays
from slackwater.workloads.single_streams import exponential_stream, uniform_stream
from slackwater.workloads.soccer import positions, velocities
from slackwater.workloads.statistics import DisorderStatistics, disorder_statistics
from slackwater.workloads.stores import store_sales
from slackwater.workloads.workload import EPOCH_MS, Workload, write

WORKLOADS: dict[str, Callable[..., Workload]] = {
    "dsyn3": dsyn3,
    "dsyn4": dsyn4,
    "soccer": positions,
    "velocity1": partial(velocities, 1),
    "velocity2": partial(velocities, 2),
    "plugs": smart_plugs,
    "stores": store_sales,
    "meteorology": meteorology,
    "meteorology9": nine_products,
    "drm": drm,
    "rates": two_rates,
    **{f"zoo/{name}": partial(disorder.zoo, name) for name in disorder.ZOO},
}
"""Every workload by name; each factory takes `seed`, all but the velocities `minutes`, and meteorology `speed`."""

__all__ = [
    "EPOCH_MS",
    "WORKLOADS",
    "Delays",
    "DisorderStatistics",
    "Measured",
    "Mode",
    "Workload",
    "disorder",
    "disorder_statistics",
    "drm",
    "dsyn3",
    "dsyn4",
    "exponential_stream",
    "measure",
    "meteorology",
    "nine_products",
    "positions",
    "smart_plugs",
    "store_sales",
    "two_rates",
    "uniform_stream",
    "velocities",
    "write",
]
