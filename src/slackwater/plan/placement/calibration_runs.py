"""A plan of a calibration, run by the operator that runs queries over instantaneous windows.

Windows are filled at one stroke: the watermark is moved on first, so that the tuples of the past are late, enter the
windows, and no instant of the past is computed for them. Then some slides are run and timed.

Invariant: tuples are made before the clock starts, and are the same on every run.
"""

from __future__ import annotations

import time
from statistics import median

import numpy as np

from slackwater.core.batch import Words
from slackwater.core.time import BEFORE_ALL, SECOND
from slackwater.disorder.ordered_batch import OrderedBatch, OrderedTuples
from slackwater.expressions.relational import scans
from slackwater.operators.contract import Operator
from slackwater.operators.instant.spec import InstantRelation
from slackwater.plan.placement.calibration import SEVEN, PlanToRun

SLIDES = 4
"""Slides that are timed, after one that is not."""
_KEY, _VALUE, _FURTHER, _WIDTH = 2, 3, 4, 6
_PLACES = {"k": _KEY, "v": _VALUE, "l": _FURTHER, "m": _FURTHER + 1}


def _tuples(plan: PlanToRun, begin: int, seconds: int, rng: np.random.Generator) -> tuple[Words, Words]:
    """Streams and words of the tuples of some seconds, in order of event time."""
    streams = len(plan.statistics.rates)
    n = int(plan.rate) * streams * seconds
    words = np.empty((_WIDTH, n), np.int64)
    words[0] = begin * SECOND + np.sort(rng.integers(0, seconds * SECOND, n))
    words[1] = np.arange(n)
    words[_KEY] = rng.integers(0, plan.keys, n)
    words[_VALUE] = rng.random(n).view(np.int64)
    words[_FURTHER], words[_FURTHER + 1] = words[_KEY] // SEVEN, words[_KEY] % SEVEN
    return rng.integers(0, streams, n), words


def _run(stream: Words, words: Words, met: int, watermark: int) -> OrderedBatch:
    return OrderedBatch(OrderedTuples.of(stream, words, np.full(words.shape[1], met)), watermark, 0, 0)


def operator_of(plan: PlanToRun) -> Operator:
    """The operator that runs a plan."""
    read = {window.stream: window.columns for window in scans(plan.relation)}
    places = tuple(
        tuple((column.name, _PLACES[column.name]) for column in read[stream])
        for stream in sorted(plan.statistics.rates)
    )
    return InstantRelation(plan.relation, SECOND, places, _WIDTH, plan.placement).build()


def runs_of(plan: PlanToRun) -> list[OrderedBatch]:
    """Two runs that fill the windows, then one for each slide."""
    rng = np.random.default_rng(7)
    longest = max(window.range for window in scans(plan.relation)) // SECOND
    full = longest * SECOND
    stream, words = _tuples(plan, 0, longest, rng)
    runs = [_run(stream[-1:], words[:, -1:], BEFORE_ALL, full), _run(stream[:-1], words[:, :-1], full, full)]
    for second in range(longest, longest + SLIDES + 1):
        runs.append(_run(*_tuples(plan, second, 1, rng), second * SECOND, (second + 1) * SECOND))
    return runs


def run_plan(plan: PlanToRun) -> float:
    """Seconds of the processor for the tuples of one second, once the windows are full."""
    operator, taken = operator_of(plan), []
    for run in runs_of(plan):
        begun = time.process_time()
        for _ in operator.process(run, False):
            pass
        taken.append(time.process_time() - begun)
    return median(taken[-SLIDES:])
