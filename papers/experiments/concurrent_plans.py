"""GQPlan1 to GQPlan3: queries that run together, the filters they share, and the streams they read.

The text of the paper tells how many queries each plan has, over which streams, which of them join (by Table 5.1, whose
joins find a tenth or less without slack), that GQPlan1 and 3 are best served by shared slack and GQPlan2 without, that
GREEDY misses the best one on GQPlan3 by about 200 tuples, that an operator has three children at most, the slide of
windows, and a window of 3 s for Q2 of GQPlan2. Figure 5.7 itself, with conditions, windows and targets, is a picture.
What it shows is chosen here, so that all of the above holds.

- GQPlan1 reads the velocities of all players (23 minutes, largest delay 17 s) with an attribute `a`. Three sums.
- GQPlan2 and GQPlan3 read positions, one stream a team, with attributes `a` and `b`. Sums are over x. Joins are of
  players within 5 m of each other.

Attributes are uniform in 1..100 and independent, so the selectivity of a filter can be read off its condition.

Invariant: a query alone is the same as in its plan: its text has the conditions of all filters on its way.

References: 004 §5.6.1, Fig. 5.7, Table 5.1.
"""

# ruff: noqa: S608 (the queries are texts in our own language, and every name in them is made here)

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from functools import cached_property, lru_cache

import numpy as np
import pyarrow as pa

from papers.chains.subplan import Subplan
from papers.experiments.stages import Stage
from slackwater.workloads import Workload
from slackwater.workloads.workload import Integers, generator

SLIDE_MS = 100
NEAR_M = 5
PERIOD_S = 60
CONFIDENCE = 0.95
_ATTRIBUTES = 71


@dataclass(frozen=True)
class Condition:
    """A filter's condition: an attribute at most, or above, a bound."""

    attribute: str
    above: bool
    bound: int

    @property
    def selectivity(self) -> float:
        return (100 - self.bound if self.above else self.bound) / 100

    def text(self, stream: str) -> str:
        """As part of a query."""
        return f"{stream}.{self.attribute} {'>' if self.above else '<='} {self.bound}"

    def holds(self, table: pa.Table) -> np.ndarray[tuple[int], np.dtype[np.bool_]]:
        """For which rows it is true."""
        column = table[self.attribute].to_numpy()
        return np.asarray(column > self.bound if self.above else column <= self.bound)


def upto(attribute: str, bound: int) -> Condition:
    """An attribute at most a bound."""
    return Condition(attribute, False, bound)


def above(attribute: str, bound: int) -> Condition:
    """An attribute above a bound."""
    return Condition(attribute, True, bound)


@dataclass(frozen=True)
class SharedQuery:
    """One query of a plan: a sum over one stream, or a join of both."""

    name: str
    streams: tuple[str, ...]
    window_s: float
    target: float
    """Largest relative error of a sum, recall of a join."""

    @property
    def joins(self) -> bool:
        return len(self.streams) > 1

    @property
    def clause(self) -> str:
        if self.joins:
            return f"RECALL {self.target:g} OVER {PERIOD_S} SECONDS"
        return f"ERROR {self.target:.6f} CONFIDENCE {CONFIDENCE}"


@dataclass(frozen=True)
class GlobalPlan:
    """Queries over one or two streams, and the trees of their filters."""

    name: str
    workload: str
    value: str
    """What sums add up."""
    trees: Mapping[str, Mapping[str, tuple[str, ...]]]
    conditions: Mapping[str, Condition]
    queries: tuple[SharedQuery, ...]

    @cached_property
    def subplans(self) -> dict[str, Subplan]:
        """One a stream; a query over two streams is a leaf of both."""
        return {stream: Subplan.of(tree, stream) for stream, tree in self.trees.items()}

    def text(self, query: SharedQuery) -> str:
        """The query alone, up to its target."""
        wanted = [
            self.conditions[subplan.names[v]].text(stream)
            for stream, subplan in self.subplans.items() if stream in query.streams
            for v in subplan.path(subplan.number(query.name))[1:-1]
        ]  # fmt: skip
        if query.joins:
            wanted.insert(0, f"dist(s1.x, s1.y, s2.x, s2.y) < {NEAR_M}")
            read = f"SELECT * FROM s1 [{query.window_s:g} SEC], s2 [{query.window_s:g} SEC]"
        else:
            window = f"RANGE {round(1000 * query.window_s)} MILLISECONDS SLIDE {SLIDE_MS} MILLISECONDS"
            read = f"SELECT SUM({self.value}) AS total FROM {query.streams[0]} [{window}]"
        return f"{read} WHERE {' AND '.join(wanted)}" if wanted else read


PLANS = {
    "GQPlan1": GlobalPlan(
        "GQPlan1", "velocity2", "vel",
        {"s": {"s": ("F1", "F2", "F3"), "F1": ("Q1",), "F2": ("Q2",), "F3": ("Q3",)}},
        {"F1": upto("a", 90), "F2": above("a", 20), "F3": upto("a", 70)},
        (
            SharedQuery("Q1", ("s",), 1.0, 0.01),
            SharedQuery("Q2", ("s",), 5.0, 0.02),
            SharedQuery("Q3", ("s",), 0.5, 0.005),
        ),
    ),
    "GQPlan2": GlobalPlan(
        "GQPlan2", "soccer", "x",
        {
            "s1": {"s1": ("F1", "F2", "F3"), "F1": ("Q1",), "F2": ("Q2",), "F3": ("Q3",)},
            "s2": {"s2": ("F4", "F5", "F6"), "F4": ("Q1",), "F5": ("Q2",), "F6": ("Q4",)},
        },
        {
            "F1": upto("a", 30), "F2": above("a", 60), "F3": upto("b", 20),
            "F4": upto("a", 30), "F5": above("a", 60), "F6": upto("b", 25),
        },
        (
            SharedQuery("Q1", ("s1", "s2"), 5.0, 0.99),
            SharedQuery("Q2", ("s1", "s2"), 3.0, 0.95),
            SharedQuery("Q3", ("s1",), 1.0, 0.05),
            SharedQuery("Q4", ("s2",), 2.0, 0.02),
        ),
    ),
    "GQPlan3": GlobalPlan(
        "GQPlan3", "soccer", "x",
        {
            "s1": {
                "s1": ("F1", "F2", "F9"), "F1": ("Q6",), "F2": ("F3", "F4"), "F3": ("Q4",), "F4": ("Q5",),
                "F9": ("Q1",),
            },
            "s2": {
                "s2": ("F5", "F6", "F7"), "F5": ("Q2", "Q4", "F8"), "F8": ("Q3",), "F6": ("Q5",), "F7": ("Q6",),
            },
        },
        {
            "F1": upto("a", 25), "F2": above("a", 10), "F3": upto("b", 20), "F4": above("b", 85),
            "F5": upto("a", 95), "F6": upto("b", 90), "F7": above("b", 15), "F8": upto("b", 90),
            "F9": above("b", 90),
        },
        (
            SharedQuery("Q1", ("s1",), 1.0, 0.05),
            SharedQuery("Q2", ("s2",), 1.0, 0.02),
            SharedQuery("Q3", ("s2",), 5.0, 0.02),
            SharedQuery("Q4", ("s1", "s2"), 3.0, 0.99),
            SharedQuery("Q5", ("s1", "s2"), 2.0, 0.99),
            SharedQuery("Q6", ("s1", "s2"), 2.0, 0.99),
        ),
    ),
}  # fmt: skip


@dataclass(frozen=True)
class QueryStage(Stage):
    """One query of a plan, over the plan's streams."""

    plan: str = ""
    name: str = ""

    @property
    def asked(self) -> SharedQuery:
        return next(query for query in PLANS[self.plan].queries if query.name == self.name)

    @property
    def joins(self) -> bool:
        return self.asked.joins

    @property
    def query(self) -> str:
        return PLANS[self.plan].text(self.asked)

    @property
    def streams(self) -> Workload:
        return _with_attributes(replace(Stage(self.workload, self.seed, self.minutes)))


def stages_of(plan: GlobalPlan, seed: int, minutes: float | None) -> list[QueryStage]:
    """A stage for each query of a plan."""
    return [QueryStage(plan.workload, seed, minutes, plan=plan.name, name=query.name) for query in plan.queries]


@lru_cache(maxsize=2)
def _with_attributes(stage: Stage) -> Workload:
    made = stage.streams
    streams = {
        name: table.append_column("a", pa.array(_uniform(stage.seed, number, 0, table.num_rows))).append_column(
            "b", pa.array(_uniform(stage.seed, number, 1, table.num_rows))
        )
        for number, (name, table) in enumerate(made.streams.items())
    }
    return Workload(made.name, streams, made.query)


def _uniform(seed: int, stream: int, attribute: int, rows: int) -> Integers:
    return generator(seed, _ATTRIBUTES, stream, attribute).integers(1, 101, rows)
