"""How long it takes to place operators, and how many plans are looked at.

Joins of 2, 5 and 8 windows after the model of Q4 (Table 6.1), and Q1 to Q6 (Table 6.2). Phase one is given the join as
it is written, left to right. Plans are counted without early pruning of plans that cannot keep up, with a core for each
operator, as in the paper. How many plans are left by pruning hangs on the shape of the join that phase one hands over:
the paper's counts are those of a join of (three windows) with (two windows), to which the others are joined one by one.
All shapes of these joins cost the same on the row engine by our costs, so ours stays as it was written; both are told.

Times are seconds of the processor, the median of ten runs. The paper's count without pruning of 15 operators, 327168,
is a misprint of 2^15 = 32768.

References: 004 Table 6.1, Table 6.2 (§6.4.1).
"""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from statistics import median

import numpy as np
from matplotlib.figure import Figure

from papers.experiments.experiment import Claim, Experiment, Scale, over_seeds, pick
from papers.experiments.figures import finish, logarithmic
from papers.experiments.hybrid_queries import QUERIES, plug_statistics, windows_joined
from papers.experiments.stages import Stage
from papers.experiments.sweep import Row, Trial
from slackwater.expressions.relational import Relation, operators
from slackwater.plan.placement.costs import Costs
from slackwater.plan.placement.engine_search import best_engines
from slackwater.plan.placement.phase_one import best_tree
from slackwater.plan.placement.place import operator_costs
from slackwater.plan.placement.plan_cost import Objective

AS_PUBLISHED, AS_CHOSEN = "published shape", "our shape"
RATE = 2000.0
RUNS = 10
WINDOWS = (2, 5, 8)
PAPER_EXAMINED = {2: 11, 5: 312, 8: 8411}
PAPER_OPERATORS = {2: 6, 5: 15, 8: 24}
PAPER_MS = {2: (0.9, 12.3), 5: (68.5, 908.6), 8: (100.5, 61335.5)}
PAPER_QUERY_MS = {"Q1": (1.3, 7.7), "Q2": (1.3, 7.5), "Q3": (0.87, 11.4), "Q4": (0.86, 10.8), "Q5": (22.5, 1.3),
                  "Q6": (5.2, 58.9)}  # fmt: skip
SECOND_MS = 1000.0
COLUMNS = ("parameter", "way", "operators", "unpruned", "examined", "phase_one_ms", "phase_two_ms", "paper_ms")
OBJECTIVE = Objective(one_core=False)


def _timed(work: Callable[[], object]) -> float:
    """Milliseconds of the processor, the median of some runs; the first one is not counted."""
    work()
    taken = []
    for _ in range(RUNS):
        begun = time.process_time()
        work()
        taken.append(1000 * (time.process_time() - begun))
    return float(median(taken))


@dataclass(frozen=True)
class OptimizerTrial(Trial):
    """One tree, optimized."""

    def tree(self) -> Relation:
        """As it is written, or in the shape of the paper."""
        return QUERIES[self.parameter] if self.parameter in QUERIES else windows_joined(int(self.value))

    @property
    def described(self) -> Row:
        """What is found out of the tree alone."""
        written, costs = self.tree(), Costs()
        statistics = plug_statistics(written, RATE)
        if self.way == AS_PUBLISHED:
            found: Relation = windows_joined(int(self.value), bushy=True)
        else:
            found = best_tree(written, statistics, costs, OBJECTIVE)
        n = len(operators(found))
        placed = best_engines(operator_costs(found, statistics, costs), OBJECTIVE, early=False)
        published = PAPER_QUERY_MS.get(self.parameter) or PAPER_MS[int(self.value)]
        return {
            "operators": n, "unpruned": 2**n, "examined": placed.examined, "exact": placed.exact,
            "paper_ms": sum(published),
            "phase_one_ms": _timed(lambda: best_tree(written, statistics, costs, OBJECTIVE)),
            "phase_two_ms": _timed(
                lambda: best_engines(operator_costs(found, statistics, costs), OBJECTIVE, early=False)
            ),
        }  # fmt: skip

    def measured(self) -> Row:
        """Optimize it some times."""
        return {
            "workload": self.stage.workload, "seed": self.stage.seed, "minutes": None, "window_s": None, "change": "",
            "way": self.way, "target": None, "period_s": self.period_s, "parameter": self.parameter,
            "value": self.value, "offered": True, **self.described,
        }  # fmt: skip


def join_trials(scale: Scale) -> list[Trial]:
    """Joins of windows, in both shapes. Nothing is left to chance; seeds are further runs."""
    return [
        OptimizerTrial(Stage("plugs", seed), way, parameter=f"{m}-way join", value=m)
        for seed in scale.seeds
        for m in WINDOWS
        for way in (AS_PUBLISHED, AS_CHOSEN)
    ]


def query_trials(scale: Scale) -> list[Trial]:
    """Q1 to Q6."""
    return [
        OptimizerTrial(Stage("plugs", seed), AS_CHOSEN, parameter=name) for seed in scale.seeds for name in QUERIES
    ]  # fmt: skip


def join_claims(rows: Sequence[Row]) -> list[Claim]:
    """Table 6.1."""
    found = []
    for m in WINDOWS:
        (row, *_), (ours, *_) = (pick(rows, way=way, value=m) for way in (AS_PUBLISHED, AS_CHOSEN))
        n, examined = PAPER_OPERATORS[m], PAPER_EXAMINED[m]
        says = f"{m}-way join: {n} operators, {2**n} plans without pruning, {examined} with it"
        told = f"{row['operators']}, {row['unpruned']}, {row['examined']}; in our own shape {ours['examined']}"
        found.append(Claim(says, told, (row["operators"], row["examined"]) == (n, examined)))
    for m in WINDOWS:
        taken = max(_total(row) for row in pick(rows, value=m))
        says = f"{m}-way join: optimized in {sum(PAPER_MS[m]):,.1f} ms"
        found.append(Claim(says, f"{taken:.1f} ms", taken <= sum(PAPER_MS[m])))
    taken = max(_total(row) for row in pick(rows, value=8))
    found.append(Claim("ours: the 8-way join is optimized in less than a second", f"{taken:.0f} ms", taken < SECOND_MS))
    return found


def _total(row: Row) -> float:
    return float(row["phase_one_ms"] + row["phase_two_ms"])


def query_claims(rows: Sequence[Row]) -> list[Claim]:
    """Table 6.2."""
    found = []
    for name, published in PAPER_QUERY_MS.items():
        taken = max(_total(row) for row in pick(rows, parameter=name))
        (row, *_) = pick(rows, parameter=name)
        told = f"{taken:.1f} ms, {row['examined']} plans"
        found.append(Claim(f"{name}: optimized in {sum(published):.1f} ms", told, taken <= sum(published)))
    return found


def draw(figure: Figure, rows: Sequence[Row]) -> None:
    """Times of both phases, with the paper's beside them."""
    axes = figure.subplots(1, 1)
    grouped = over_seeds(rows)
    names = list(dict.fromkeys(row["parameter"] for row in grouped))
    bars = {
        "phase one": [pick(grouped, parameter=name)[0]["phase_one_ms"] for name in names],
        "phase two": [pick(grouped, parameter=name)[0]["phase_two_ms"] for name in names],
        "both, in the paper": [pick(grouped, parameter=name)[0]["paper_ms"] for name in names],
    }
    for number, (label, heights) in enumerate(bars.items()):
        axes.bar(np.arange(len(names)) + 0.27 * (number - 1), heights, 0.25, label=label)
    axes.set_xticks(range(len(names)), names)
    logarithmic(axes)
    finish(axes, "", "query", "ms", legend=True)


JOINS = Experiment(
    "004-table6.1", "Placing operators: joins of 2, 5 and 8 windows", join_trials, join_claims, draw, COLUMNS
)
QUERIES_1_TO_6 = Experiment("004-table6.2", "Placing operators: Q1 to Q6", query_trials, query_claims, draw, COLUMNS)
