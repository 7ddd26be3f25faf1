"""Where a mixture of both engines wins: correlated aggregates that need all values of a group.

A median or a distinct count over a join is computed anew at every instant. The database is faster at that than the row
engine, and slower at the join below, whose keys the row engine has numbered when tuples arrived. So the best plan has
the aggregate in the database, and everything below it by kernels. None of Q1 to Q6 has such an aggregate.

Invariant: as in `hybrid_plans`: every placement is run over the same full windows.

References: 004 §6.4.2, the comparison with pure plans, for two queries of our own.
"""

from __future__ import annotations

from collections.abc import Sequence

from matplotlib.figure import Figure

from papers.experiments.experiment import Claim, Experiment, Scale, pick
from papers.experiments.hybrid_plans import (
    COLUMNS,
    EXHAUSTIVE,
    MUCH,
    PlanTrial,
    draw_throughput,
    estimates,
    near_the_best,
)
from papers.experiments.stages import Stage
from papers.experiments.sweep import Row, Trial
from papers.workloads.plug_queries import HOLISTIC_PLUG_QUERIES
from slackwater.operators.instant.fragments import COLUMN, ROW

RATES = (1000.0, 5000.0, 20_000.0)


def trials(scale: Scale) -> list[Trial]:
    """Three rates for each query."""
    return [
        PlanTrial(Stage("plugs", scale.seed), EXHAUSTIVE, parameter=query, value=rate)
        for query in HOLISTIC_PLUG_QUERIES
        for rate in (RATES[:1] if scale.quick else RATES)
    ]


def claims(rows: Sequence[Row]) -> list[Claim]:
    """The chosen plan beside the best one, and beside the pure ones."""
    cases = len(HOLISTIC_PLUG_QUERIES) * len(RATES)
    return [near_the_best(rows, cases, cases), estimates(rows)] + [
        _beside_pure(query, engine, pick(rows, parameter=query))
        for query in HOLISTIC_PLUG_QUERIES
        for engine in (ROW, COLUMN)
    ]


def _beside_pure(query: str, engine: str, rows: Sequence[Row]) -> Claim:
    times = [row[f"{engine}_ms"] / row["chosen_ms"] for row in rows]
    plans = ", ".join(sorted({row["plan"] for row in rows}))
    return Claim(
        f"ours: for the {query} a mixture takes {MUCH} times less than all {engine}",
        f"{min(times):.2f} to {max(times):.2f} times less ({plans})",
        min(times) >= MUCH,
    )


def draw(figure: Figure, rows: Sequence[Row]) -> None:
    """Throughput of the chosen plan and of the pure ones."""
    for panel, query in zip(figure.subplots(1, len(HOLISTIC_PLUG_QUERIES)), HOLISTIC_PLUG_QUERIES, strict=True):
        draw_throughput(panel, query, rows)


HOLISTIC = Experiment(
    "hybrid-holistic", "Correlated medians and distinct counts: the chosen plan beside all others", trials, claims,
    draw, COLUMNS, size=(11.0, 4.5), alone=True,
)  # fmt: skip
