"""Trials in parallel: two processes, each with its own streams.

Invariant: rows come back in the order of the trials, whatever process ran them; the number of processes changes no
number but the times. Trials that share a search for the clairvoyant constant stay together.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from concurrent.futures import ProcessPoolExecutor, as_completed
from multiprocessing import get_context

from slackwater.experiments.stages import Stage
from slackwater.experiments.sweep import Row, Trial, measure

PROCESSES = 2
TOGETHER = 4
Reported = Callable[[int, int], None]


def run_all(
    trials: Sequence[Trial], processes: int = PROCESSES, reported: Reported = lambda done, of: None
) -> list[Row]:
    """The rows of all trials; `reported` hears how many are done."""
    parts = parts_of(trials)
    rows: dict[int, Row] = {}
    reported(0, len(trials))
    if processes < 2:
        for part in parts:
            rows |= dict(zip(part, measure([trials[i] for i in part]), strict=True))
            reported(len(rows), len(trials))
    else:
        # Spawned, not forked: the parent may hold threads and compiled code that do not survive a fork.
        with ProcessPoolExecutor(processes, mp_context=get_context("spawn")) as pool:
            waiting = {pool.submit(measure, [trials[i] for i in part]): part for part in parts}
            try:
                for done in as_completed(waiting):
                    rows |= dict(zip(waiting[done], done.result(), strict=True))
                    reported(len(rows), len(trials))
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
