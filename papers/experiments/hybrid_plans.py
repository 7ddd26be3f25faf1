"""Q1 to Q6 at rising rates: the plan that is chosen, beside all others.

For each query and rate every placement of its operators is run over the same full windows (`hybrid_runs`), so the best
one is known by measurement. Told are the plan that the optimizer chose, what it was estimated to take and what it took,
the best placement, all operators on the row engine and all on the column engine. Throughput is how many tuples of the
stream, loads and others, are taken in for a second of the processor, with windows as they are at that rate.

Filters are judged when tuples arrive, before any window, in every plan: a tuple that no window wants is not kept. So
the plan with all operators in the database has its filters outside, which is what the paper calls the hybrid plan of Q1
and Q2; its pure plan of the database would have to keep every tuple twice.

Without the feasibility check the plan of least utilisation is taken whether or not it keeps up. With operators that
take turns on one core, as in a shard, that is the same plan, so the check is compared as published, with a core for
every operator; beyond the rates that are measured, by estimates.

References: 004 Fig. 6.6, 6.7 (§6.4.2), Fig. 6.8 (§6.4.3).
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import lru_cache
from typing import Any

import numpy as np
from matplotlib.figure import Figure

from papers.experiments.experiment import Claim, Experiment, Scale, pick
from papers.experiments.figures import finish, logarithmic
from papers.experiments.hybrid_runs import Columns, FullWindows, MeasuredPlacement, chosen, exhausted
from papers.experiments.stages import Stage
from papers.experiments.sweep import Row, Trial
from papers.workloads.plug_queries import HOLISTIC_PLUG_QUERIES, PLUG_QUERIES
from papers.workloads.plugs import LOAD, smart_plugs
from slackwater.operators.instant.fragments import COLUMN, ROW
from slackwater.plan.placement.costs import load_costs
from slackwater.plan.placement.place import Placed, place

RATES = (1000.0, 5000.0, 10_000.0, 20_000.0, 40_000.0)
"""Tuples a second of the stream; every other one is a load."""
BEYOND = (100_000.0, 300_000.0, 1_000_000.0, 3_000_000.0)
"""Rates whose windows are not filled; plans are estimated there."""
LOADS = 0.5
ORIGINAL_S = 300.0
NEAR, ENOUGH, CASES = 1.15, 27, 30
MUCH = 1.5
EXHAUSTIVE = "all placements"
COLUMNS = ("parameter", "value", "in_database", "estimated_ms", "chosen_ms", "best_ms", "ratio", "row_ms", "column_ms",
           "throughput", "row_throughput", "column_throughput")  # fmt: skip


@lru_cache(maxsize=1)
def loads() -> Columns:
    """Five minutes of loads, which are replayed again and again at other rates."""
    table = smart_plugs(0, ORIGINAL_S / 60).streams["plugs"]
    kept = table["property"].to_numpy() == LOAD
    columns = {name: table[name].to_numpy()[kept] for name in ("house", "household", "plug", "value")}
    return {name: one if one.dtype.kind == "f" else one.astype(np.int64) for name, one in columns.items()}


def replayed(begin: int, end: int) -> Columns:
    """Loads by number, from the first again after the last."""
    recorded = loads()
    at = np.arange(begin, end) % len(recorded["value"])
    return {name: one[at] for name, one in recorded.items()}


@lru_cache(maxsize=1)
def windows_of(query: str, rate: float) -> FullWindows:
    """A query over windows that are full at a rate."""
    table = smart_plugs(0, 0.02, 3).streams["plugs"]
    text = (PLUG_QUERIES | HOLISTIC_PLUG_QUERIES)[query]
    return FullWindows(text, "plugs", table, replayed, LOADS * rate)


@dataclass(frozen=True)
class PlanTrial(Trial):
    """One query at one rate, in all placements."""

    def measured(self) -> Row:
        """Fill the windows, choose a plan, and measure them all."""
        windows = windows_of(self.parameter, self.value)
        placed = chosen(windows)
        found = exhausted(windows, placed)
        return _row(self) | _numbers(found, placed, self.value)


def _row(trial: Trial) -> Row:
    return {
        "workload": trial.stage.workload, "seed": trial.stage.seed, "minutes": None, "window_s": None, "change": "",
        "way": trial.way, "target": None, "period_s": trial.period_s, "parameter": trial.parameter,
        "value": trial.value, "offered": True,
    }  # fmt: skip


def _numbers(found: Sequence[MeasuredPlacement], placed: Placed, rate: float) -> Row:
    n = len(placed.placement)
    by = {one.placement: one for one in found}
    mine, best = by[placed.placement], min(found, key=lambda one: one.taken.cpu)
    row, column = by[(ROW,) * n], by[(COLUMN,) * n]
    seconds = {"chosen": mine.taken, "best": best.taken, "row": row.taken, "column": column.taken}
    return {
        "plan": mine.short, "best_plan": best.short, "in_database": placed.placement.count(COLUMN), "operators": n,
        "estimated_ms": 1e3 * mine.estimated, "ratio": mine.taken.cpu / best.taken.cpu,
        "feasible": placed.feasible, "holds": placed.holds * rate,
        **{f"{name}_ms": 1e3 * taken.cpu for name, taken in seconds.items()},
        **{f"{name}_wall_ms": 1e3 * taken.wall for name, taken in seconds.items()},
        "throughput": rate / mine.taken.cpu, "row_throughput": rate / row.taken.cpu,
        "column_throughput": rate / column.taken.cpu,
        "placements": [[one.short, 1e3 * one.estimated, 1e3 * one.taken.cpu, 1e3 * one.taken.wall] for one in found],
    }  # fmt: skip


def trials(scale: Scale) -> list[Trial]:
    """Five rates for each query."""
    rates = RATES[:2] if scale.quick else RATES
    return [
        PlanTrial(Stage("plugs", scale.seed), EXHAUSTIVE, parameter=query, value=rate)
        for query in PLUG_QUERIES
        for rate in rates
    ]


def claims(rows: Sequence[Row]) -> list[Claim]:
    """What the paper says of its queries, and what is asked of the optimizer here."""
    found = [near_the_best(rows, ENOUGH, CASES), estimates(rows)]
    for query in PLUG_QUERIES:
        found.append(_beside_pure(query, pick(rows, parameter=query)))
    better = [row for row in rows if min(row["row_ms"], row["column_ms"]) >= MUCH * row["chosen_ms"]]
    queries = sorted({row["parameter"] for row in better})
    found.append(
        Claim(
            f"ours: hybrid plans take {MUCH} times less than both pure ones for two queries",
            f"for {', '.join(queries) or 'none'}; {_why(rows)}",
            len(queries) >= 2,
        )
    )
    return found


def near_the_best(rows: Sequence[Row], enough: int, cases: int) -> Claim:
    """Whether the chosen plan is about as good as the best one, in so many cases."""
    near = [row for row in rows if row["ratio"] <= NEAR]
    worst = max(rows, key=lambda row: float(row["ratio"]))
    said = f"{worst['parameter']} at {worst['value']:,.0f} tuples/s: {worst['ratio']:.2f} times"
    return Claim(
        f"ours: the chosen plan takes at most {NEAR} times the best of all, in {enough} cases of {cases}",
        f"{len(near)} of {len(rows)}; worst {said}",
        None if len(rows) < cases else len(near) >= enough,
    )


def estimates(rows: Sequence[Row]) -> Claim:
    """What all placements were estimated to take, over what they took."""
    ratios = np.array([estimated / cpu for row in rows for _, estimated, cpu, _ in row["placements"]])
    low, middle, high = np.quantile(ratios, (0.1, 0.5, 0.9))
    told = f"of {len(ratios)} placements 0.1, 0.5 and 0.9 quantile: {low:.2f}, {middle:.2f}, {high:.2f}"
    return Claim("estimated over measured cost", told, None)


def _beside_pure(query: str, rows: Sequence[Row]) -> Claim:
    """The chosen plan beside the pure ones, at the highest rate."""
    last = max(rows, key=lambda row: float(row["value"]))
    row, column = (last[f"{engine}_ms"] / last["chosen_ms"] for engine in (ROW, COLUMN))
    published = {
        "q1": "8 times the throughput of all in the row engine; filters there, the rest in the database",
        "q2": "8 times the throughput of all in the row engine; filters there, the rest in the database",
        "q3": "aggregates in the database, joins in the row engine from 20 k tuples/s on; better than either pure plan",
        "q4": "as Q3, with less to gain",
        "q5": "from 10 k tuples/s on all in the row engine",
        "q6": "only aggregates in the database from 20 k tuples/s on; better than either pure plan",
    }[query]
    told = (
        f"{last['in_database']} of {last['operators']} operators in the database ({last['plan']});"
        f" {row:.2f} times all row, {column:.2f} times all column"
    )
    holds = last["in_database"] == 0 if query == "q5" else last["in_database"] > 0 and row > 1
    return Claim(f"{query.upper()}: {published}", told, holds)


def _why(rows: Sequence[Row]) -> str:
    """How the engines compare, for whoever asks why."""
    ratio = [row["column_ms"] / row["row_ms"] for row in rows]
    pure = sum(row["best_plan"] == "r" * row["operators"] for row in rows)
    return (
        f"all row is the best of all placements in {pure} of {len(rows)} cases, and takes {min(ratio):.1f} to"
        f" {max(ratio):.1f} times less than all column"
    )


def draw_throughput(panel: Any, query: str, rows: Sequence[Row]) -> None:
    """What the chosen plan of a query and the pure ones take in for a second of the processor."""
    mine = sorted(pick(rows, parameter=query), key=lambda row: float(row["value"]))
    rates = [row["value"] for row in mine]
    for key, label, style in (
        ("throughput", "chosen", {"marker": "o", "linewidth": 2.2}),
        ("row_throughput", "all row", {"marker": "s", "linestyle": "--"}),
        ("column_throughput", "all column", {"marker": "^", "linestyle": "--"}),
    ):
        panel.plot(rates, [row[key] for row in mine], label=label, **style)
    logarithmic(panel)
    finish(panel, query.upper(), "tuples/s of the stream", "tuples for a second of the processor", legend=True)


def draw(figure: Figure, rows: Sequence[Row]) -> None:
    """Throughput of the chosen plan and of the pure ones; and estimates beside measurements."""
    axes = figure.subplots(2, 4).ravel()
    for panel, query in zip(axes, PLUG_QUERIES, strict=False):
        draw_throughput(panel, query, rows)
    last = axes[6]
    for query in PLUG_QUERIES:
        points = [(cpu, est) for row in pick(rows, parameter=query) for _, est, cpu, _ in row["placements"]]
        last.plot(*zip(*points, strict=True), ".", markersize=3, label=query.upper())
    ends = last.get_xlim()
    last.plot(ends, ends, color="#888888", linewidth=1)
    last.set_xscale("log")
    logarithmic(last)
    finish(last, "all placements", "measured ms", "estimated ms", legend=True)
    axes[7].set_axis_off()


@dataclass(frozen=True)
class CheckTrial(Trial):
    """One query at one rate, with and without the feasibility check."""

    def measured(self) -> Row:
        """Plans with a core for every operator; measured where windows can be filled."""
        rate = self.value if self.value in RATES else RATES[-1]
        windows, costs = windows_of(self.parameter, rate), load_costs()
        statistics = replace(windows.statistics, rates={0: LOADS * self.value})
        plans = {
            name: place(windows.stated, statistics, costs, feasibility=check, one_core=False)
            for name, check in (("with", True), ("without", False))
        }
        row = _row(self) | {"same": float(plans["with"].placement == plans["without"].placement)}
        for name, one in plans.items():
            row[f"{name}_plan"] = "".join(engine[0] for engine in one.placement)
            row[f"{name}_bottleneck"], row[f"{name}_utilisation"] = one.cost.bottleneck, one.cost.utilisation
            if self.value in RATES:
                row[f"{name}_ms"] = 1e3 * windows.measured(one.relation, one.placement).cpu
        return row


def check_trials(scale: Scale) -> list[Trial]:
    """The published rates, and rates at which plans no longer keep up."""
    rates = (*RATES[:2], *BEYOND) if scale.quick else (*RATES, *BEYOND)
    return [
        CheckTrial(Stage("plugs", scale.seed), "feasibility check", parameter=query, value=rate)
        for query in PLUG_QUERIES
        for rate in rates
    ]


def check_claims(rows: Sequence[Row]) -> list[Claim]:
    """Where the check matters."""
    found = []
    for query in PLUG_QUERIES:
        mine = sorted(pick(rows, parameter=query), key=lambda row: float(row["value"]))
        published = query in ("q1", "q2", "q5")
        differ = [row for row in mine if not row["same"]]
        says = (
            "the same plans without the check" if published else "other plans without the check from 20 k tuples/s on"
        )
        first = min((row["value"] for row in mine if row["with_bottleneck"] > 1), default=None)
        limit = (
            "every rate has a plan that keeps up" if first is None else f"none keeps up from {first:,.0f} tuples/s on"
        )
        rates = ", ".join(f"{row['value']:,.0f}" for row in differ)
        told = f"other plans at {rates} tuples/s" if differ else "the same plans"
        holds = (not differ) if published else any(row["value"] >= 20_000 for row in differ)
        found.append(Claim(f"{query.upper()}: {says}", f"{told}; {limit}", holds))
    return found


def draw_check(figure: Figure, rows: Sequence[Row]) -> None:
    """The bottleneck of both plans."""
    axes = figure.subplots(2, 3).ravel()
    for panel, query in zip(axes, PLUG_QUERIES, strict=True):
        mine = sorted(pick(rows, parameter=query), key=lambda row: float(row["value"]))
        for name, style in (("with", {"marker": "o"}), ("without", {"marker": "x", "linestyle": "--"})):
            panel.plot(
                [row["value"] for row in mine], [row[f"{name}_bottleneck"] for row in mine], label=f"{name} the check",
                **style,
            )  # fmt: skip
        panel.axhline(1.0, color="#b00020", linestyle="--", linewidth=1, label="no longer keeps up")
        panel.set_xscale("log")
        logarithmic(panel)
        finish(panel, query.upper(), "tuples/s of the stream", "bottleneck, seconds a second", legend=True)


PLANS = Experiment(
    "004-fig6.6", "Q1 to Q6 at rising rates: the chosen plan beside all others", trials, claims, draw, COLUMNS,
    also=("004-fig6.7",), size=(16.0, 8.0), alone=True,
)  # fmt: skip
CHECK = Experiment(
    "004-fig6.8", "Q1 to Q6 with and without the feasibility check", check_trials, check_claims, draw_check,
    ("parameter", "value", "same", "with_bottleneck", "without_bottleneck", "with_ms", "without_ms"), size=(13.0, 7.5),
    alone=True,
)  # fmt: skip
