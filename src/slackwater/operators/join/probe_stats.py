"""What the probes of a join have found, counted as they go, for who chooses the next order.

Invariant: counting changes nothing but the counts; where there is nothing to choose, nothing is counted. One tuple in
eight is looked at, so that the others cost nothing.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from slackwater.core.batch import Words
from slackwater.core.jit import inner
from slackwater.operators.join.probing import ProbePlan

# Of a step: how often it was taken, what it met before checks and conditions, how often nothing was left.
ASKED, MET, EMPTY = range(3)
# Of a check or a condition.
TESTED, PASSED = range(2)
# Work since the last choice, and how much of it there is to be before the next one.
DONE, LIMIT = range(2)


class ProbeStats(NamedTuple):
    """Counts by arriving stream and step, by check and by condition, in the places of a `ProbePlan`."""

    steps: Words
    checks: Words
    conditions: Words
    work: Words
    on: bool


def probe_stats_of(plan: ProbePlan, limit: int) -> ProbeStats:
    """Nothing counted yet; with a limit of 0 nothing will be."""
    return ProbeStats(
        np.zeros((*plan.agenda.shape, 3), np.int64),
        np.zeros((len(plan.checks), 2), np.int64),
        np.zeros((len(plan.conditions), 2), np.int64),
        np.array([0, limit], np.int64),
        limit > 0,
    )


@inner
def sampled(i: int) -> bool:
    """Whether what tuple i of a run finds is counted: one in eight, in no step with streams that take turns."""
    return (i * 0x9E3779B1 >> 20) & 7 == 0


@inner
def count_step(probe_stats: ProbeStats, counting: bool, root: int, d: int, met: int, left: int) -> None:
    """A step has met so many tuples, of which so many are left."""
    if counting:
        probe_stats.steps[root, d, ASKED] += 1
        probe_stats.steps[root, d, MET] += met
        probe_stats.steps[root, d, EMPTY] += left == 0
        probe_stats.work[DONE] += 1 + met


@inner
def count_test(counting: bool, tests: Words, t: int, tested: int, passed: int) -> None:
    """A check or a condition was asked about so many tuples."""
    if counting:
        tests[t, TESTED] += tested
        tests[t, PASSED] += passed
