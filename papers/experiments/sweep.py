"""Trials of a sweep become rows: one flat record of numbers each, made in two processes, each with its own streams.

Invariant: a way of waiting that this version refuses gives a row too, marked as not offered and with the reason, so a
table shows what is missing. A clairvoyant trial names no clause; its constant is searched for. Rows come back in the
order of the trials, whatever process ran them; the number of processes changes no number but the times. Trials that
share a search for the clairvoyant constant stay together.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from concurrent.futures import ProcessPoolExecutor, as_completed
from dataclasses import dataclass
from functools import lru_cache
from multiprocessing import get_context
from typing import Any

import numpy as np

from papers.experiments.fulfilment import ENOUGH, errors, least_slack, recalls, share_at_least, share_at_most
from papers.experiments.stages import Stage
from papers.experiments.trials import Answer, answer, truth
from slackwater.core.errors import QueryError, UsageError
from slackwater.workloads import EPOCH_MS

PROCESSES = 2
TOGETHER = 4
OnProgress = Callable[[int, int], None]
Row = dict[str, Any]
CLAIRVOYANT = "clairvoyant"
COLD = 5
"""The first adaptations of a run wait for machine code to be loaded, and are not timed."""
LEVELS = (0.0001, 0.001, 0.01, 0.05, 0.1)
"""Errors at which the distribution is told."""


@dataclass(frozen=True)
class Trial:
    """One line of a sweep."""

    stage: Stage
    way: str
    clause: str = ""
    options: str = ""
    target: float | None = None
    """Recall or relative error asked for."""
    period_s: int = 60
    parameter: str = ""
    value: float = 0.0
    series: bool = False
    """Whether recall and slack over time go into the row."""

    @property
    def searched(self) -> bool:
        return self.way == CLAIRVOYANT

    def measured(self) -> Row:
        """Run the trial."""
        return _row(self)


def measure(trials: Sequence[Trial]) -> list[Row]:
    """Run trials one after the other."""
    return [trial.measured() for trial in trials]


def _row(trial: Trial) -> Row:
    stage = trial.stage
    row: Row = {
        "workload": stage.workload, "seed": stage.seed, "minutes": stage.minutes, "window_s": stage.window_s,
        "change": stage.change, "way": trial.way, "target": trial.target, "period_s": trial.period_s,
        "parameter": trial.parameter, "value": trial.value, "offered": True,
    }  # fmt: skip
    try:
        found = _searched(trial) if trial.searched else answer(stage, trial.clause, trial.options)
    except (UsageError, QueryError) as error:
        return row | {"offered": False, "refused": str(error).split("\n")[0]}
    row |= {"latency_ms": found.latency_ms, "slack_ms": found.slack_ms, "seconds": found.report["seconds"]}
    timed = found.adaptation_ms[COLD:]
    if timed:
        row |= {
            "adaptations": len(timed),
            "adaptation_ms": float(np.mean(timed)),
            "adaptation_ms_p50": float(np.median(timed)),
            "adaptation_ms_p99": float(np.quantile(timed, 0.99)),
            "adaptation_share": (sum(timed) + found.learning_ms) / 1000 / max(found.report["seconds"], 1e-9),
        }
    return row | (_of_join(trial, found) if stage.joins else _of_aggregate(trial, found))


def _searched(trial: Trial) -> Answer:
    least = least_slack(lambda slack: _fulfilment(trial, constant(trial.stage, slack)) >= ENOUGH)
    if least is None:
        raise UsageError("no constant slack of two minutes or less is enough")
    return constant(trial.stage, least)


@lru_cache(maxsize=128)
def constant(stage: Stage, slack_ms: int) -> Answer:
    """The answer with a fixed slack; kept, because searches for different targets ask for the same ones."""
    return answer(stage, f"DELAY {slack_ms} MILLISECONDS" if slack_ms else "NO WAIT")


def _fulfilment(trial: Trial, found: Answer) -> float:
    assert trial.target is not None
    if trial.stage.joins:
        return share_at_least(recalls(found.by_time, truth(trial.stage), trial.period_s)[1], trial.target)
    return share_at_most(errors(found.by_time, truth(trial.stage)), trial.target)


def _of_join(trial: Trial, found: Answer) -> Row:
    ends, recall = recalls(found.by_time, truth(trial.stage), trial.period_s)
    if not len(recall):
        return {"measurements": 0}
    row: Row = {
        "measurements": len(recall),
        "recall": float(recall.mean()),
        "recall_min": float(recall.min()),
    }
    if trial.target is not None:
        row["phi"] = share_at_least(recall, trial.target)
        row["phi99"] = share_at_least(recall, 0.99 * trial.target)
    if trial.series:
        since = (ends - EPOCH_MS / 1000).round(3).tolist()
        row["recall_over_time"] = list(zip(since, recall.round(6).tolist(), strict=True))
        row["slack_over_time"] = found.slack_over_time
    return row


def _of_aggregate(trial: Trial, found: Answer) -> Row:
    error = errors(found.by_time, truth(trial.stage))
    wrong = error[error > 1e-9]
    row: Row = {
        "measurements": len(error),
        "wrong": len(wrong),
        "least_error": float(wrong.min()) if len(wrong) else 0.0,
        "largest_error": float(error.max()) if len(error) else 0.0,
        "share_within": {f"{level:g}": share_at_most(error, level) for level in LEVELS},
    }
    if trial.target is not None:
        row["phi"] = share_at_most(error, trial.target)
    if trial.series:
        shown = np.logspace(-4, 0, 41)
        row["error_distribution"] = [(float(x), share_at_most(error, float(x))) for x in shown]
    return row


def run_all(
    trials: Sequence[Trial], processes: int = PROCESSES, on_progress: OnProgress = lambda done, of: None
) -> list[Row]:
    """The rows of all trials; `on_progress` is called with how many are done, and of how many."""
    parts = parts_of(trials)
    rows: dict[int, Row] = {}
    on_progress(0, len(trials))
    if processes < 2:
        for part in parts:
            rows |= dict(zip(part, measure([trials[i] for i in part]), strict=True))
            on_progress(len(rows), len(trials))
    else:
        # Spawned, not forked: the parent may hold threads and compiled code that do not survive a fork.
        with ProcessPoolExecutor(processes, mp_context=get_context("spawn")) as pool:
            waiting = {pool.submit(measure, [trials[i] for i in part]): part for part in parts}
            try:
                for done in as_completed(waiting):
                    rows |= dict(zip(waiting[done], done.result(), strict=True))
                    on_progress(len(rows), len(trials))
            except BaseException:
                pool.shutdown(wait=False, cancel_futures=True)
                raise
    return [rows[i] for i in range(len(trials))]


def parts_of(trials: Sequence[Trial]) -> list[list[int]]:
    """Which trials go to a process together: those over the same streams, searches all at once and others by four."""
    searches: dict[Stage, list[int]] = {}
    others: dict[Stage, list[int]] = {}
    for i, trial in enumerate(trials):
        (searches if trial.searched else others).setdefault(trial.stage, []).append(i)
    parts = []
    for stage in dict.fromkeys(trial.stage for trial in trials):
        if stage in searches:
            parts.append(searches[stage])
        mine = others.get(stage, [])
        parts += [mine[i : i + TOGETHER] for i in range(0, len(mine), TOGETHER)]
    return parts
