"""Concurrent queries: memory, computation and adaptation of shared slack, and what becomes of latency and quality.

A row has a method (`way`: where buffers are placed), a trigger (`parameter`) and a way to use buffers again (`change`).
By the law of `disorder/sharing/chain.py` a query gets the same tuples at the same arrivals whatever the method, so
where the paper finds latencies that differ a little between methods, because its threads run beside each other, ours
are equal; a claim checks that they are.

References: 004 Table 5.1, Fig. 5.8 and 5.9 (§5.6.2), Fig. 5.10, Table 5.2 and Fig. 5.11 (§5.6.3).
"""

from __future__ import annotations

from collections.abc import Sequence
from itertools import pairwise

import numpy as np
from matplotlib.axes import Axes
from matplotlib.figure import Figure

from papers.chains.adaptation import NAIVE_REUSE, TRIGGERS
from papers.chains.adaptation import SMART_REUSE as SMART
from papers.chains.placement import PLACEMENTS
from papers.experiments.concurrent_plans import PLANS, QueryStage, stages_of
from papers.experiments.concurrent_runs import LOG, ConcurrentTrial
from papers.experiments.experiment import Claim, Experiment, Scale, over_seeds, pick
from papers.experiments.figures import finish
from papers.experiments.sweep import Row, Trial

NO_WAIT, COMPLETE = "No-K-slack", "Max-K-slack"
QUICK_MINUTES = 2.0
SHARED = ("GQPlan1", "GQPlan3")
COLORS = {
    "UNSHARED": "#888888", "GREEDY": "#c05a00", "OPT": "#1f4e9c", "NAIVE": "#6aa0e8", LOG: "#0b6e4f",
    NO_WAIT: "#888888", COMPLETE: "#8a1c4a",
}  # fmt: skip
PAPER_GREEDY_MORE = 200.0
PAPER_TWICE = (1.5, 2.5)
PAPER_LATENCY_MS = 350.0
FAR = 5.0
"""So many times is taken for far more."""
PAPER_PHI = {False: 0.8, True: 0.9}
"""Of sums, and of joins."""


def _minutes(scale: Scale) -> float | None:
    return QUICK_MINUTES if scale.quick else None


def baseline_trials(scale: Scale) -> list[Trial]:
    """Every query alone, without slack and with all of it."""
    return [
        Trial(stage, way, clause, target=stage.asked.target, parameter=f"{name} {stage.name}")
        for seed in scale.seeds
        for name, plan in PLANS.items()
        for stage in stages_of(plan, seed, _minutes(scale))
        for way, clause in ((NO_WAIT, "NO WAIT"), (COMPLETE, "COMPLETE"))
    ]


def _joins(row: Row) -> bool:
    name, query = row["parameter"].split()
    return next(one.joins for one in PLANS[name].queries if one.name == query)


def baseline_claims(rows: Sequence[Row]) -> list[Claim]:
    """Table 5.1."""
    without, complete = pick(rows, way=NO_WAIT), pick(rows, way=COMPLETE)
    joins = [row["phi"] for row in without if _joins(row)]
    sums = [row["phi"] for row in without if not _joins(row)]
    most = [row["phi"] for row in complete]
    waits = [row["latency_ms"] / 1000 for row in complete]
    quick = [row["latency_ms"] / 1000 for row in without]
    return [
        Claim("No-K-slack: joins meet their recall in 11 % of the periods or less", _between(joins, "{:.1%}"),
              max(joins) <= 0.11),
        Claim("No-K-slack: sums meet their bound in 53 to 94 % of the windows", _between(sums, "{:.1%}"),
              min(sums) >= 0.5 and max(sums) <= 0.97),
        Claim("Max-K-slack: Φ is 99 % or more for every query", _between(most, "{:.2%}"), min(most) >= 0.99),
        Claim("Max-K-slack: latency is 6 to 21 s", _between(waits, "{:.2f} s"), min(waits) >= 6 and max(waits) <= 21),
        Claim("No-K-slack: latency is 0.32 s or less", _between(quick, "{:.2f} s"), max(quick) <= 0.32),
    ]  # fmt: skip


def _between(values: Sequence[float], text: str) -> str:
    return f"{text.format(min(values))} to {text.format(max(values))}"


def draw_baselines(figure: Figure, rows: Sequence[Row]) -> None:
    """Latency and fulfilment of both, a pair of bars a query."""
    for axes, key, label in zip(figure.subplots(2, 1), ("latency_ms", "phi"), ("latency (ms)", "Φ"), strict=True):
        grouped = over_seeds(rows)
        names = list(dict.fromkeys(row["parameter"] for row in grouped))
        values = {
            way: [next(row[key] for row in pick(grouped, way=way, parameter=name)) for name in names]
            for way in (NO_WAIT, COMPLETE)
        }
        _bars(axes, names, values)
        finish(axes, "", "query", label, legend=True)


def _bars(axes: Axes, names: Sequence[str], values: dict[str, list[float]]) -> None:
    width = 0.8 / len(values)
    for number, (label, heights) in enumerate(values.items()):
        places = np.arange(len(names)) + (number - (len(values) - 1) / 2) * width
        axes.bar(places, heights, width, label=label, color=COLORS.get(label))
    axes.set_xticks(range(len(names)), list(names))


def placement_trials(scale: Scale) -> list[Trial]:
    """Every placement on every plan, adapted eagerly, with smart reuse."""
    return [
        ConcurrentTrial(QueryStage(plan.workload, seed, _minutes(scale), plan=name), way, judged=True)
        for seed in scale.seeds
        for name, plan in PLANS.items()
        for way in PLACEMENTS
    ]


def _mean(rows: Sequence[Row], key: str, **wanted: object) -> float:
    return float(np.mean([row[key] for row in pick(rows, **wanted)]))


def placement_claims(rows: Sequence[Row]) -> list[Claim]:
    """§5.6.2, and what the log is held to."""
    found = _computing_claims(rows) + _memory_claims(rows)
    spread = [
        abs(row["latency_of"][query] - other["latency_of"][query])
        for row in pick(rows, way="OPT")
        for other in pick(rows, way="UNSHARED", workload=row["workload"]) if other["seed"] == row["seed"]
        for query in row["latency_of"]
    ]  # fmt: skip
    says = "the latency of OPT is at most 0.35 s above that of UNSHARED, for every query"
    found.append(Claim(says, f"at most {max(spread):.3f} ms apart", max(spread) <= PAPER_LATENCY_MS))
    same = {
        (row["workload"], row["seed"]): {tuple(other["released"]) for other in rows
                                         if (other["workload"], other["seed"]) == (row["workload"], row["seed"])}
        for row in rows
    }  # fmt: skip
    says = "ours: every query gets the same tuples at the same arrivals, whatever the placement"
    differ = sum(len(kinds) > 1 for kinds in same.values())
    found.append(Claim(says, f"in {len(same) - differ} of {len(same)} plans and seeds", differ == 0))
    return found + quality_claims(pick(rows, way="OPT"))


def _computing_claims(rows: Sequence[Row]) -> list[Claim]:
    times = {(name, way): _mean(rows, "computing_us", workload=name, way=way) for name in PLANS for way in PLACEMENTS}
    more = max(times[name, "OPT"] / times[name, "GREEDY"] for name in PLANS)
    less = {name: times[name, "NAIVE"] / times[name, "OPT"] for name in PLANS}
    by_size = sorted(PLANS, key=lambda name: float(_mean(rows, "candidates", workload=name)))
    grows = all(
        times[a, way] <= 1.1 * times[b, way] for a, b in pairwise(by_size) for way in ("GREEDY", "OPT", "NAIVE")
    )
    sizes = ", ".join(f"{name} {_mean(rows, 'candidates', workload=name):.0f}" for name in by_size)
    told = {way: ", ".join(f"{times[name, way]:.0f}" for name in by_size) for way in ("GREEDY", "OPT", "NAIVE")}
    return [
        Claim("computing OPT costs little more than GREEDY", f"at most {more:.2f} times", more <= 1.5),
        Claim("GREEDY and OPT take far less than NAIVE where there are many candidates",
              f"NAIVE / OPT: {', '.join(f'{name} {ratio:.1f}' for name, ratio in less.items())}",
              less[by_size[-1]] >= 2),
        Claim("computation grows with the number of candidates",
              f"{sizes}: {'; '.join(f'{way} {text} µs' for way, text in told.items())}", grows),
    ]  # fmt: skip


def _memory_claims(rows: Sequence[Row]) -> list[Claim]:
    memory = {(name, way): _mean(rows, "memory", workload=name, way=way) for name in PLANS for way in PLACEMENTS}
    log = {name: _mean(rows, "log_memory", workload=name, way="OPT") for name in PLANS}
    best = max(memory[name, "OPT"] / min(memory[name, way] for way in PLACEMENTS) for name in PLANS)
    unshared = memory["GQPlan2", "UNSHARED"] / memory["GQPlan2", "OPT"]
    more = memory["GQPlan3", "GREEDY"] - memory["GQPlan3", "OPT"]
    twice = memory["GQPlan3", "UNSHARED"] / memory["GQPlan3", "OPT"]
    saves = {name: 1 - memory[name, "OPT"] / memory[name, "UNSHARED"] for name in SHARED}
    kept = ", ".join(f"{name} {log[name]:.0f} of {memory[name, 'OPT']:.0f}" for name in PLANS)
    return [
        Claim("OPT always finds the configuration of least memory", f"at most {best:.3f} times the least measured",
              best <= 1.01),
        Claim("GQPlan1 and 3: shared slack needs less memory",
              ", ".join(f"{name} {share:.0%} less" for name, share in saves.items()), min(saves.values()) > 0),
        Claim("GQPlan2: unshared slack is optimal", f"UNSHARED / OPT {unshared:.3f}", abs(unshared - 1) <= 0.01),
        Claim("GQPlan3: GREEDY holds about 200 tuples more than OPT", f"{more:.0f}",
              PAPER_GREEDY_MORE / 2 <= more <= PAPER_GREEDY_MORE * 2),
        Claim("GQPlan3: UNSHARED holds about twice as much as OPT", f"{twice:.2f} times",
              PAPER_TWICE[0] <= twice <= PAPER_TWICE[1]),
        Claim("ours: the log never holds more than OPT, at any arrival", f"on average {kept}",
              all(log[name] <= memory[name, "OPT"] for name in PLANS)),
    ]  # fmt: skip


def quality_claims(rows: Sequence[Row]) -> list[Claim]:
    """Fulfilment of sums and of joins."""
    found = []
    for joins, what in ((False, "sums"), (True, "joins")):
        phi = [
            row["phi_of"][query.name]
            for row in rows if "phi_of" in row
            for query in PLANS[row["workload"]].queries if query.joins == joins
        ]  # fmt: skip
        says = f"Φ is {PAPER_PHI[joins]:.0%} or more for {what}"
        told = _between(phi, "{:.1%}") if phi else "not judged"
        found.append(Claim(says, told, min(phi) >= PAPER_PHI[joins] if phi else None))
    return found


def draw_placements(figure: Figure, rows: Sequence[Row]) -> None:
    """Computation and memory by plan, latency and fulfilment by query."""
    (top_left, top_right), (left, right) = figure.subplots(2, 2)
    names = list(PLANS)
    computed = {way: [_mean(rows, "computing_us", workload=name, way=way) for name in names] for way in PLACEMENTS}
    _bars(top_left, names, {way: times for way, times in computed.items() if way != "UNSHARED"})
    finish(top_left, "computing a configuration (Fig. 5.8a)", "", "µs", legend=True)
    held = {way: [_mean(rows, "memory", workload=name, way=way) for name in names] for way in PLACEMENTS}
    held[LOG] = [_mean(rows, "log_memory", workload=name, way="OPT") for name in names]
    _bars(top_right, names, held)
    finish(top_right, "memory (Fig. 5.8b)", "", "tuples held on average", legend=True)
    for axes, key, title, label in (
        (left, "latency_of", "latency (Fig. 5.9a)", "ms"), (right, "phi_of", "fulfilment (Fig. 5.9b)", "Φ"),
    ):  # fmt: skip
        _by_query(axes, key, {way: pick(rows, way=way) for way in PLACEMENTS})
        finish(axes, title, "", label, legend=True)


def _by_query(axes: Axes, key: str, series: dict[str, list[Row]]) -> None:
    queries = [(name, query.name) for name, plan in PLANS.items() for query in plan.queries]
    values = {
        label: [float(np.mean([row[key][query] for row in pick(rows, workload=name)])) for name, query in queries]
        for label, rows in series.items() if rows and all(key in row for row in rows)
    }  # fmt: skip
    _bars(axes, [f"{name[-1]}.{query}" for name, query in queries], values)


def adaptation_trials(scale: Scale) -> list[Trial]:
    """UNSHARED by every trigger; OPT by every trigger and with both ways to use buffers again."""
    return [
        ConcurrentTrial(
            QueryStage(plan.workload, seed, _minutes(scale), plan=name), way, trigger=trigger, smart=smart,
            judged=way == "OPT" and smart,
        )
        for seed in scale.seeds
        for name, plan in PLANS.items()
        for way, smart in (("UNSHARED", True), ("OPT", True), ("OPT", False))
        for trigger in TRIGGERS
    ]  # fmt: skip


def adaptation_claims(rows: Sequence[Row]) -> list[Claim]:
    """§5.6.3, and what the log is held to."""
    shared = {
        (name, reuse, trigger):
            _mean(rows, "adapting_total_ms", workload=name, way="OPT", change=reuse, parameter=trigger)
        for name in PLANS for reuse in (SMART, NAIVE_REUSE) for trigger in TRIGGERS
    }  # fmt: skip
    unshared = {name: _mean(rows, "adapting_us", workload=name, way="UNSHARED", parameter="eager") for name in PLANS}
    once = {
        name: _mean(rows, "adapting_us", workload=name, way="OPT", change=SMART, parameter="eager") for name in PLANS
    }
    ordered = all(
        shared[name, reuse, "lazy"] < shared[name, reuse, "0.5-lazy"] < shared[name, reuse, "eager"]
        for name in PLANS for reuse in (SMART, NAIVE_REUSE)
    )  # fmt: skip
    naive = {name: shared[name, NAIVE_REUSE, "eager"] / shared[name, SMART, "eager"] for name in PLANS}
    both = {
        name: once[name] + _mean(rows, "computing_us", workload=name, way="OPT", change=SMART, parameter="eager")
        for name in PLANS
    }
    cursor = float(np.mean([row["cursor_us"] for row in rows]))
    least = min(min(once.values()), min(unshared.values())) / cursor
    per_plan = ", ".join(f"{name} {unshared[name]:.0f} and {once[name]:.0f} µs" for name in PLANS)
    latency = {
        (row["workload"], row["seed"], row["parameter"], row["change"]): row["latency_of"]
        for row in pick(rows, way="OPT")
    }
    apart = max(
        abs(latency[name, seed, trigger, SMART][query] - latency[name, seed, trigger, NAIVE_REUSE][query])
        for name, seed, trigger, reuse in latency if reuse == SMART
        for query in latency[name, seed, trigger, reuse]
    )  # fmt: skip
    return [
        Claim("an adaptation takes far less unshared (0.7 µs) than shared (36 to 179 µs)", per_plan,
              all(FAR * unshared[name] < once[name] for name in PLANS)),
        Claim("total adaptation time: lazy < 0.5-lazy < eager", "; ".join(
            f"{name} " + " < ".join(f"{shared[name, SMART, trigger]:.1f}" for trigger in ("lazy", "0.5-lazy", "eager"))
            for name in PLANS) + " ms (smart)", ordered),
        Claim("naive reuse takes longer than smart reuse, most of all on GQPlan1 and 3",
              ", ".join(f"{name} {ratio:.2f} times" for name, ratio in naive.items()),
              all(naive[name] > 1 for name in SHARED)),
        Claim("OPT and an adaptation with smart reuse take less than 1 ms together, on average",
              ", ".join(f"{name} {took:.0f} µs" for name, took in both.items()), max(both.values()) < 1000),
        Claim("naive reuse has a higher latency than smart reuse", f"at most {apart:.3f} ms apart", apart > 0),
        Claim("ours: moving the log's cursor takes at least ten times less than any adaptation",
              f"{cursor:.2f} µs, {least:.0f} times less", least >= 10),
        *quality_claims(pick(rows, way="OPT", change=SMART)),
    ]  # fmt: skip


def draw_adaptations(figure: Figure, rows: Sequence[Row]) -> None:
    """Total time by plan and trigger, time of one adaptation, latency and fulfilment by query."""
    (top_left, top_right), (left, right) = figure.subplots(2, 2)
    kinds = {"UNSHARED": ("UNSHARED", SMART), "OPT, smart": ("OPT", SMART), "OPT, naive": ("OPT", NAIVE_REUSE)}
    places = [(name, trigger) for name in PLANS for trigger in TRIGGERS]
    for axes, key, title, label in (
        (top_left, "adapting_total_ms", "all adaptations (Fig. 5.10)", "ms (log)"),
        (top_right, "adapting_us", "one adaptation (Table 5.2)", "µs (log)"),
    ):
        values = {
            kind: [
                _mean(rows, key, workload=name, way=way, change=reuse, parameter=trigger) for name, trigger in places
            ]
            for kind, (way, reuse) in kinds.items()
        }
        _bars(axes, [f"{name[-1]} {trigger}" for name, trigger in places], values)
        axes.set_yscale("log")
        finish(axes, title, "plan and trigger", label, legend=True)
    by_trigger = {trigger: pick(rows, way="OPT", change=SMART, parameter=trigger) for trigger in TRIGGERS}
    for axes, key, title, label in (
        (left, "latency_of", "latency (Fig. 5.11a)", "ms"), (right, "phi_of", "fulfilment (Fig. 5.11b)", "Φ"),
    ):  # fmt: skip
        _by_query(axes, key, by_trigger)
        finish(axes, title, "", label, legend=True)


BASELINES = Experiment(
    "004-table5.1",
    "Queries that run together: without slack, and with all of it",
    baseline_trials,
    baseline_claims,
    draw_baselines,
    ("parameter", "way", "latency_ms", "phi"),
)
BY_PLACEMENT = Experiment(
    "004-fig5.8",
    "Shared slack by placement: computation, memory, latency, fulfilment",
    placement_trials,
    placement_claims,
    draw_placements,
    ("workload", "way", "candidates", "computing_us", "memory", "log_memory", "adaptations"),
    also=("004-fig5.9",),
    size=(14.0, 9.0),
)
BY_ADAPTATION = Experiment(
    "004-table5.2",
    "Shared slack by trigger and reuse: what adaptations take",
    adaptation_trials,
    adaptation_claims,
    draw_adaptations,
    (
        "workload",
        "way",
        "change",
        "parameter",
        "adaptations",
        "suppressed",
        "moved",
        "adapting_us",
        "adapting_total_ms",
    ),
    also=("004-fig5.10", "004-fig5.11"),
    size=(14.0, 9.0),
)
