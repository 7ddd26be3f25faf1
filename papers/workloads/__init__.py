"""The datasets of the papers, made anew from a seed, and plain streams for experiments and benchmarks.

Invariant: the same name and seed give the same rows on every machine with the same numpy.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import partial

from papers.workloads.delays import Delays
from papers.workloads.drm import drm, two_rates
from papers.workloads.dsyn import dsyn3, dsyn4
from papers.workloads.meteorology import meteorology, nine_products
from papers.workloads.modes import Measured, MeasuredWorkload, Mode, measure, write
from papers.workloads.plugs import smart_plugs
from papers.workloads.single_streams import exponential_stream, uniform_stream
from papers.workloads.stores import store_sales
from papers.workloads.velocities import velocities
from slackwater.workloads import WORKLOADS as SHIPPED
from slackwater.workloads import Workload

WORKLOADS: dict[str, Callable[..., Workload]] = {
    "dsyn3": dsyn3,
    "dsyn4": dsyn4,
    "velocity1": partial(velocities, 1),
    "velocity2": partial(velocities, 2),
    "plugs": smart_plugs,
    "stores": store_sales,
    "meteorology": meteorology,
    "meteorology9": nine_products,
    "drm": drm,
    "rates": two_rates,
    **SHIPPED,
}
"""Every workload by name; each factory takes `seed`, all but the velocities `minutes`, and meteorology `speed`."""

__all__ = [
    "WORKLOADS",
    "Delays",
    "Measured",
    "MeasuredWorkload",
    "Mode",
    "drm",
    "dsyn3",
    "dsyn4",
    "exponential_stream",
    "measure",
    "meteorology",
    "nine_products",
    "smart_plugs",
    "store_sales",
    "two_rates",
    "uniform_stream",
    "velocities",
    "write",
]
