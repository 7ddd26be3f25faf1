"""In which order a new tuple goes through the other streams, and what is asked of a tuple there.

The order is that of FROM, beginning behind the tuple's own stream: B is followed by C, D, E and A. Equalities are
closed into classes, so a tuple is compared with the first bound stream of each class that it is in; a residual
condition is asked as soon as all its streams are bound. Where streams are joined pairwise, the order goes on with the
first stream that has a window to one that is bound.

Invariant: every class and every condition is applied on the way to a result.

References: 002 §3.1 and Fig. 2; §5.2.1.
"""

from __future__ import annotations

from itertools import product
from typing import NamedTuple

import numpy as np

from slackwater.core.batch import Words
from slackwater.operators.join.probing import Equality, classes_of
from slackwater.published.wjoin.approaches import Filter

# Columns of a step; the period is `EARLIER` before and `LATER` after the tuple of `BESIDE`, or all that are bound.
STREAM, CHECK_BEGIN, CHECK_END, COND_BEGIN, COND_END, EARLIER, LATER, BESIDE = range(8)


class Steps(NamedTuple):
    """Steps by way and arriving stream (shape (ways, streams, streams - 1, 8)), and what they refer to."""

    steps: Words
    checks: Words
    """(row of the tuple looked at, bound stream, its row) triples."""
    conditions: Words
    most: Words
    """The windows that a whole combination is asked for (shape (alternatives, streams, streams))."""
    union: bool
    """Whether every way has an alternative of its own, and gives what no way before it has."""
    count_only: bool
    clean_every: int


def plan_steps(
    streams: int,
    equalities: tuple[Equality, ...],
    conditions: tuple[frozenset[int], ...],
    filters: Filter,
    count_only: bool,
    clean_every: int,
) -> Steps:
    """The steps of every arriving stream; `conditions` names the streams that each residual condition reads.

    >>> on_k = Equality(0, 2, 1, 2), Equality(1, 2, 2, 2)
    >>> plan_steps(3, on_k, (), Filter((5,) * 3, (5,) * 3), False, 0).steps[0, 1, :, STREAM].tolist()
    [2, 0]
    """
    classes = classes_of(equalities)
    lines: list[list[int]] = []
    checks: list[tuple[int, int, int]] = []
    order: list[int] = []
    for way, root in product(range(filters.ways), range(streams)):
        bound, waiting = [root], [(root + step) % streams for step in range(1, streams)]
        while waiting:
            stream = filters.next_stream(way, waiting, bound)
            waiting.remove(stream)
            period = filters.period(way, stream, bound)
            line = [stream, len(checks), 0, len(order), 0, period.earlier, period.later, period.beside]
            for members in classes:
                checks += _checks(members, stream, bound)
            line[CHECK_END] = len(checks)
            reached = {*bound, stream}
            order += [c for c, reads in enumerate(conditions) if stream in reads and reads <= reached]
            line[COND_END] = len(order)
            lines.append(line)
            bound.append(stream)
    return Steps(
        np.array(lines, np.int64).reshape(filters.ways, streams, streams - 1, BESIDE + 1),
        np.array(checks, np.int64).reshape(-1, 3),
        np.array(order, np.int64),
        np.array(filters.refined, np.int64).reshape(-1, streams, streams),
        bool(filters.legs),
        count_only,
        clean_every,
    )


def _checks(members: set[tuple[int, int]], stream: int, bound: list[int]) -> list[tuple[int, int, int]]:
    """What a class asks of a tuple: to agree with the first stream of the class that is bound, in all their rows."""
    first = next((s for s in bound if any(s == other for other, _ in members)), None)
    own = sorted(row for s, row in members if s == stream)
    return [(row, s, there) for row in own for s, there in sorted(members) if s == first]


def key_of_all(streams: int, equalities: tuple[Equality, ...]) -> tuple[int, ...] | None:
    """A row of every stream such that all of them are equal in a result; None where there is no such key.

    >>> key_of_all(3, (Equality(0, 2, 1, 3), Equality(1, 3, 2, 4)))
    (2, 3, 4)
    >>> key_of_all(3, (Equality(0, 2, 1, 3), Equality(1, 2, 2, 4)))
    """
    for members in classes_of(equalities):
        rows = dict(sorted(members, reverse=True))
        if len(rows) == streams:
            return tuple(rows[s] for s in range(streams))
    return None
