"""Queries of a plan run together: the slacks that each one's controller chose alone, served by one configuration.

First each query runs alone, as any other query; its controller's choices are noted with the clock at which they were
made. Then the same arrivals go through the buffers of a configuration, source by source, and the noted slacks are
reported at the same clocks. By the law of `disorder/sharing/chain.py` each query then gets what it got alone, so its
latency and its answers need not be computed again, but where a lazy trigger had other slacks in force: there it runs
alone once more, with those.

Beside every configuration stands the *ordered log*: a tuple is kept once, until the most patient query that wants it
has had it; an adaptation moves a cursor. What it holds follows from when tuples reached their leaves.

Times are of the processor, of this thread alone, because the machine may do something else as well.

Invariant: at every arrival the log holds no more than the configuration does; a run that finds otherwise fails.

References: 004 §5.6.
"""

from __future__ import annotations

import hashlib
import time
from collections.abc import Callable
from dataclasses import dataclass, field
from functools import lru_cache, partial
from itertools import pairwise
from typing import Any, TypeVar

import numpy as np

from papers.chains.adaptation import NAIVE_REUSE, SMART_REUSE, TRIGGERS, AdaptiveSlack, Trigger
from papers.chains.chain import Out, SharedSlack
from papers.chains.configuration import Configuration
from papers.chains.placement import PLACEMENTS, candidates
from papers.chains.subplan import Demand, Number, Subplan
from papers.experiments.concurrent_plans import PLANS, QueryStage, stages_of
from papers.experiments.concurrent_replay import replayed
from papers.experiments.fulfilment import errors, recalls, share_at_least, share_at_most
from papers.experiments.stages import Stage
from papers.experiments.sweep import Row, Trial
from papers.experiments.trials import Answer, answer, truth
from slackwater.core.batch import Words
from slackwater.core.time import MILLISECOND, SECOND
from slackwater.workloads import EPOCH_MS

R = TypeVar("R")
LOG = "log"
COLD = 20
"""The first adaptations of a run wait for machine code, and are not timed."""
CURSORS = 100_000
Report = tuple[int, int, int]
"""After so many arrivals a leaf reports a slack."""


@dataclass(frozen=True)
class Source:
    """One stream of a plan as its buffers see it."""

    subplan: Subplan
    ts: Words
    passes: Words
    reached: Words
    """[operator, n]: how many of the first n tuples came through it."""
    reports: tuple[Report, ...]
    weight: Words
    """How far the clocks of all streams moved until the next arrival at this one."""

    def selectivity(self, arrived: int) -> list[Number]:
        """As monitored so far."""
        came = self.reached[:, arrived].tolist()
        parents = self.subplan.parents
        return [
            came[v] / came[parents[v]] if v and not self.subplan.is_leaf(v) and came[parents[v]] else 1
            for v in range(len(parents))
        ]


@dataclass
class SourceRun:
    """What came of one source under one method."""

    held: Words
    gone: Words
    """By tuple, the first arrival by which no query waits for it any more; -1 where none ever does."""
    latency: dict[str, list[float]] = field(default_factory=dict)
    computing_us: list[float] = field(default_factory=list)
    adapting_us: list[float] = field(default_factory=list)
    moved: int = 0
    adaptations: int = 0
    suppressed: int = 0
    in_force: list[tuple[int, dict[str, int]]] = field(default_factory=list)
    """From which clock on which slacks, by query."""
    digests: list[str] = field(default_factory=list)

    @property
    def log_held(self) -> Words:
        """How much the ordered log holds after each arrival."""
        came = np.flatnonzero(self.gone >= 0)
        change = np.bincount(came, minlength=len(self.held) + 1)[: len(self.held) + 1]
        left = np.bincount(np.minimum(self.gone[came], len(self.held)), minlength=len(self.held) + 1)
        return np.asarray(np.cumsum(change - left)[:-1])


@lru_cache(maxsize=8)
def alone(stage: QueryStage) -> Answer:
    """The query by itself, with the model of the paper."""
    return answer(stage, stage.asked.clause, "controller = 'model'")


@lru_cache(maxsize=2)
def sources(plan_name: str, seed: int, minutes: float | None) -> dict[str, Source]:
    """All streams of a plan, with what controllers report on the way."""
    plan = PLANS[plan_name]
    stages = stages_of(plan, seed, minutes)
    _warm_up()
    tables = stages[0].streams.streams
    ts = {name: tables[name]["ts"].to_numpy() * MILLISECOND for name in plan.subplans}
    arrival = {name: tables[name]["arrival"].to_numpy() for name in plan.subplans}
    everything = np.argsort(np.concatenate(list(arrival.values())), kind="stable")
    clock = np.maximum.accumulate(np.concatenate(list(ts.values()))[everything])
    ranks = np.argsort(everything, kind="stable")
    found, begin = {}, 0
    for name, subplan in plan.subplans.items():
        mine = ranks[begin : begin + len(ts[name])]
        begin += len(ts[name])
        passes, reached = _filtered(plan_name, name, subplan, tables[name])
        own_clock = np.maximum.accumulate(ts[name])
        reports: list[Report] = []
        for stage in stages:
            if name not in stage.asked.streams:
                continue
            leaf = subplan.number(stage.name)
            for since, slack_ms in alone(stage).slack_over_time:
                at = round(since * SECOND) + EPOCH_MS * MILLISECOND
                if stage.joins:
                    arrived = int(np.searchsorted(mine, np.searchsorted(clock, at), side="right"))
                else:
                    arrived = int(np.searchsorted(own_clock, at)) + 1
                reports.append((min(arrived, len(mine)), leaf, round(slack_ms * MILLISECOND)))
        reports.sort(key=lambda report: report[0])
        weight = np.diff(clock[mine], append=clock[-1])
        found[name] = Source(subplan, ts[name], passes, reached, tuple(reports), weight)
    return found


@lru_cache(maxsize=1)
def _warm_up() -> None:
    """Have everything compiled that an adaptation may call, so that none waits for it."""
    plan = Subplan.of({"v": ("c", "d")}, "v")
    for smart in (True, False):
        slack = SharedSlack(plan, Configuration((0, 3, 9)))
        slack.absorb(np.arange(20, dtype=np.int64), np.zeros(20, np.int64))
        slack.adapt(Configuration((0, 9, 3)), smart)


def _filtered(plan_name: str, stream: str, subplan: Subplan, table: Any) -> tuple[Words, Words]:
    passes = np.zeros(table.num_rows, np.int64)
    through = np.ones((len(subplan.parents), table.num_rows), np.bool_)
    for v in range(1, len(subplan.parents)):
        through[v] = through[subplan.parents[v]]
        if not subplan.is_leaf(v):
            holds = PLANS[plan_name].conditions[subplan.names[v]].holds(table)
            passes |= holds.astype(np.int64) << v
            through[v] &= holds
    return passes, np.hstack((np.zeros((len(through), 1), np.int64), np.cumsum(through, axis=1)))


def run_source(source: Source, placement: str, trigger: str, smart: bool) -> SourceRun:
    """All arrivals of a source through the buffers, adapted as the trigger says."""
    subplan, n = source.subplan, len(source.ts)
    nothing: list[Number] = [0] * len(subplan.parents)
    adaptive = AdaptiveSlack(
        subplan, Demand(source.selectivity(0), nothing), PLACEMENTS[placement], Trigger(TRIGGERS[trigger]), smart
    )
    run = SourceRun(np.zeros(n, np.int64), np.full(n, -1, np.int64))
    outs: list[Out] = []
    at = 0

    def absorb(until: int) -> None:
        nonlocal at
        out, run.held[at:until] = adaptive.slack.absorb(source.ts[at:until], source.passes[at:until])
        outs.append(out)
        np.maximum.at(run.gone, out.position, out.at)
        at = until

    for arrived, leaf, kappa in source.reports:
        if not adaptive.report(leaf, kappa):
            continue
        absorb(arrived)
        configuration, computing = _timed(partial(adaptive.computed, source.selectivity(arrived)))
        moved, adapting = _timed(partial(adaptive.change, configuration))
        run.computing_us.append(computing)
        if moved is None:
            continue
        run.adapting_us.append(adapting)
        if len(run.adapting_us) > COLD:
            adaptive.penalty.learn(moved, adapting)
        run.moved += moved
        out = adaptive.slack.release()
        outs.append(out)
        # What an adaptation releases was there when the last arrival was counted.
        np.maximum.at(run.gone, out.position, out.at + 1)
        in_force = {subplan.names[v]: int(adaptive.in_force[v]) for v in subplan.leaves}
        run.in_force.append((adaptive.slack.clock, in_force))
    absorb(n)
    out = adaptive.slack.finish()
    np.maximum.at(run.gone, out.position, n)
    run.adaptations, run.suppressed = adaptive.adaptations, adaptive.suppressed
    _describe(source, run, outs)
    return run


def _timed(work: Callable[[], R]) -> tuple[R, float]:
    """What work gives, and the microseconds of processor time it took."""
    begun = time.thread_time_ns()
    found = work()
    return found, (time.thread_time_ns() - begun) / 1000


def _describe(source: Source, run: SourceRun, outs: list[Out]) -> None:
    """Latencies by query, a digest of what reached its leaf when, and the check against the log."""
    leaf, position, at = (np.concatenate(columns) for columns in zip(*outs, strict=True))
    clock = np.maximum.accumulate(source.ts)
    for v in source.subplan.leaves:
        mine = leaf == v
        waited = clock[at[mine]] - source.ts[position[mine]]
        run.latency[source.subplan.names[v]] = [float(waited.sum()), float(len(waited))]
        both = np.concatenate((position[mine], at[mine]))
        run.digests.append(hashlib.sha256(both.tobytes()).hexdigest()[:16])
    if (run.log_held > run.held).any():
        raise AssertionError("the log holds more than buffers do")


@dataclass(frozen=True)
class ConcurrentTrial(Trial):
    """A plan under one method: `way` is the placement; a trigger and a way to use buffers again go with it."""

    trigger: str = "eager"
    smart: bool = True
    judged: bool = False
    """Whether answers are held against the truth."""

    @property
    def searched(self) -> bool:
        """Trials of one plan share the runs of its queries, so they stay in one process."""
        return True

    @property
    def described(self) -> Row:
        """What tells this trial from others, beside its way."""
        assert isinstance(self.stage, QueryStage)
        reuse = SMART_REUSE if self.smart else NAIVE_REUSE
        return {"workload": self.stage.plan, "change": reuse, "parameter": self.trigger}

    def measured(self) -> Row:
        """Run all sources."""
        stage = self.stage
        assert isinstance(stage, QueryStage)
        found = sources(stage.plan, stage.seed, stage.minutes)
        runs = {name: run_source(source, self.way, self.trigger, self.smart) for name, source in found.items()}
        row: Row = self.described | {
            "seed": stage.seed, "minutes": stage.minutes, "window_s": None, "way": self.way, "target": None,
            "period_s": 60, "value": 0.0, "offered": True,
            "candidates": int(np.prod([_candidates(source) for source in found.values()])),
            "adaptations": sum(run.adaptations for run in runs.values()),
            "suppressed": sum(run.suppressed for run in runs.values()),
            "moved": sum(run.moved for run in runs.values()),
            "released": [digest for run in runs.values() for digest in run.digests],
        }  # fmt: skip
        row |= _memory(found, runs) | _times(runs)
        row["latency_of"] = _latencies(runs)
        if self.judged:
            row["phi_of"] = {one.name: _fulfilment(one, self.trigger, runs) for one in _stages(stage)}
        return row


def _candidates(source: Source) -> int:
    kappa: list[Number] = list(range(1, len(source.subplan.parents) + 1))
    return sum(1 for _ in candidates(source.subplan, kappa))


def _memory(found: dict[str, Source], runs: dict[str, SourceRun]) -> Row:
    memory = log = 0.0
    for name, source in found.items():
        memory += float(np.average(runs[name].held, weights=source.weight))
        log += float(np.average(runs[name].log_held, weights=source.weight))
    return {"memory": memory, "log_memory": log}


def _times(runs: dict[str, SourceRun]) -> Row:
    computing = [float(np.mean(run.computing_us[COLD:])) for run in runs.values() if len(run.computing_us) > COLD]
    adapting = [one for run in runs.values() for one in run.adapting_us[COLD:]]
    row: Row = {"cursor_us": cursor_us()}
    if computing and adapting:
        row |= {
            # A configuration of the whole plan is one of each source.
            "computing_us": sum(computing),
            "adapting_us": float(np.mean(adapting)),
            "adapting_total_ms": sum(adapting) / 1000,
        }
    return row


@lru_cache(maxsize=1)
def cursor_us() -> float:
    """What it takes to tell a log that a query's slack has changed: its cursor's distance to the clock is written."""
    slack = np.zeros(64, np.int64)

    def move(query: int, kappa: int) -> None:
        slack[query] = kappa

    def many() -> None:
        for number in range(CURSORS):
            move(number & 63, number)

    return _timed(many)[1] / CURSORS


def _latencies(runs: dict[str, SourceRun]) -> dict[str, float]:
    """Milliseconds from a tuple's time to when the source's clock released it, by query, over all its streams."""
    total: dict[str, list[float]] = {}
    for run in runs.values():
        for query, (waited, tuples) in run.latency.items():
            before = total.setdefault(query, [0.0, 0.0])
            total[query] = [before[0] + waited, before[1] + tuples]
    return {query: waited / max(tuples, 1) / MILLISECOND for query, (waited, tuples) in sorted(total.items())}


def _stages(stage: QueryStage) -> list[QueryStage]:
    return stages_of(PLANS[stage.plan], stage.seed, stage.minutes)


def _fulfilment(stage: QueryStage, trigger: str, runs: dict[str, SourceRun]) -> float:
    """How often the query met its target with the slacks in force at its first stream."""
    if trigger == "eager":
        made = alone(stage).by_time
    else:
        first = runs[stage.asked.streams[0]]
        changes = [(clock, slacks[stage.name]) for clock, slacks in first.in_force]
        made = replayed(stage, [changes[0], *(b for a, b in pairwise(changes) if a[1] != b[1])] if changes else [])
    if stage.joins:
        return share_at_least(recalls(made, true_answer(stage), 60)[1], stage.asked.target)
    return share_at_most(errors(made, true_answer(stage)), stage.asked.target)


@lru_cache(maxsize=16)
def true_answer(stage: Stage) -> dict[int, float]:
    """As `truth`, kept for all queries of a plan."""
    return truth(stage)
