"""The search for the partners of one tuple: what it reads, where it stands, and how the time left for partners shrinks.

Invariant: a step of the search binds one stream; slots hold what has been bound so far, the arriving tuple included.

References: 002 §3.1 (the period).
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from slackwater.core.batch import TS, Floats, Words
from slackwater.core.jit import inner
from slackwater.expressions.lower import MAX_STREAMS
from slackwater.operators.join.probing import STREAM, ProbePlan
from slackwater.operators.join.store import Windows


class Probes(NamedTuple):
    """The arrays of a `ProbePlan`, the windows' sizes, and whether results are only counted.

    Where `paired`, streams i and j are also bound to each other: `ts_i - ts_j <= most[i, j]`. Where `sorted`, windows
    are, by event time.
    """

    steps: Words
    agenda: Words
    due: Words
    leaves: Words
    unasked: Words
    checks: Words
    conditions: Words
    sizes: Words
    count_only: bool
    most: Words
    paired: bool
    sorted: bool
    near: Words
    near_floats: Floats
    """The memory of `near`."""


def probes_of(
    plan: ProbePlan, windows: Words, most: Words | None, count_only: bool, in_time_only: bool = False
) -> Probes:
    """A plan as the loops read it; `most` has the bounds between pairs, where the windows do not say it all.

    `in_time_only`: no late tuple stands in a window, so the tuples of each are sorted by event time.
    """
    paired = most is not None
    bounds = np.zeros((1, 1), np.int64) if most is None else most
    return Probes(
        plan.steps, plan.agenda, plan.due, plan.leaves, plan.unasked, plan.checks, plan.conditions,
        windows, count_only, bounds, paired, in_time_only, plan.near, plan.near.view(np.float64),
    )  # fmt: skip


class Search(NamedTuple):
    """Where the search for one tuple's partners stands: per step, its candidates and the next one to try."""

    candidates: Words
    found: Words
    at: Words
    slots: Words
    """The tuple bound for each stream."""
    multiplicity: Words
    """The product of the factors known before each step."""
    written: Words
    """One number: how many results of a run have been written."""


def search_space(streams: int, slots: int) -> Search:
    """Space for a search in windows that have so many slots in all."""
    found, at, bound, multiplicity = np.zeros((4, MAX_STREAMS), np.int64)
    return Search(
        np.empty((max(1, streams - 1), slots), np.int64), found, at, bound, multiplicity, np.zeros(1, np.int64)
    )


@inner
def period(plan: Probes, w: Windows, root: int, d: int, slots: Words) -> tuple[int, int]:
    """The oldest and the newest event time that fit to all tuples bound before step d; each bound one shrinks it.

    References: 002 §3.1.
    """
    j = plan.steps[root, d, STREAM]
    ts = w.words[TS, slots[root]]
    oldest, newest = ts - plan.most[root, j], ts + plan.most[j, root]
    for e in range(d):
        b = plan.steps[root, e, STREAM]
        ts = w.words[TS, slots[b]]
        oldest, newest = max(oldest, ts - plan.most[b, j]), min(newest, ts + plan.most[j, b])
    return oldest, newest


@inner
def not_newer(w: Windows, found: Words, n: int, newest: int) -> int:
    """Keep the candidates up to an event time; returns how many there are."""
    if n <= 0:
        return n
    kept = 0
    for k in range(n):
        if w.words[TS, found[k]] <= newest:
            found[kept] = found[k]
            kept += 1
    return kept
