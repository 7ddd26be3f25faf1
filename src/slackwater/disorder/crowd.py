"""Clocks that follow the crowd: how far a stream has come, by a vote of what arrived lately.

A stream's clock is the largest event time that the crowd vouches for. A tuple ahead of the crowd says nothing about
time: a wrong clock sends such tuples again and again, steadily or in bursts. So a clock is never moved by a fixed
number of tuples, but only as far as a share of the last arrivals has come along:

    u       the event time that k of the last n arrivals have reached
    limit = u + max(tolerance, 3 (u - w)),    where 2 k of the last n have reached w

- n is the least of 9, 15, 31, 63 that covers a second of the stream: a slow stream is not asked to wait for as many
  tuples as a fast one sends in a moment. k is a majority of the few (5 of 9, 8 of 15), and less of the many (11 of 31,
  16 of 63), where chance has less to say: with one wrong tuple in twenty, no vote goes wrong in weeks.
- u - w is how far the crowd itself is spread, by its rate and by its delays. So in a stream without wrong clocks a
  clock is the largest event time, as the papers have it.
- The tolerance is a second: who is less than that ahead is not told from the others.

A stream that has no clock yet waits for three arrivals that agree, unless other streams are there already. Where it is
known when tuples arrive, one whose event time is near that moment needs no vote: its clock is right.

Invariant: a clock never goes back. In an epoch the vote sees a histogram of its arrivals, so their order does not
matter; in tuple release an epoch is one arrival.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from slackwater.compiled import in_place, inner
from slackwater.disorder.event_times import TUPLES, EventTimes, sort_buckets
from slackwater.model.batch import Words
from slackwater.model.time import BEFORE_ALL, SECOND

RING = 64
MOST = 63
AGAIN = 256
"""A limit is worked out anew after so many arrivals, also where none lies beyond it."""
FEWEST = 3
UNDECIDED = 9
"""Arrivals that must disagree no more, where they lie further apart than `max_ahead`."""
# Places in `Crowd.marks`.
CLOCK, LIMIT, HEARD, ASKED = range(4)


class Crowd(NamedTuple):
    """What arrived lately of every member: of a stream, or of a part of one."""

    ring: Words
    """(members, RING): event times of the last arrivals, or samples of them."""
    clocks: Words
    """(members, RING): the clock when each of them came."""
    marks: Words
    """(members, 4): the clock, the limit, how many arrivals there were, and how many the last vote asked."""
    scratch: Words


def crowd(members: int) -> Crowd:
    """Nobody has been heard."""
    marks = np.zeros((members, 4), np.int64)
    marks[:, [CLOCK, LIMIT]] = BEFORE_ALL
    ring = np.zeros((members, RING), np.int64)
    return Crowd(ring, ring.copy(), marks, np.zeros(RING, np.int64))


def grown(old: Crowd, members: int) -> Crowd:
    """The same with more members."""
    new = crowd(members)
    for before, after in zip(old[:3], new[:3], strict=True):
        after[: len(before)] = before
    return new


def tolerance_of(max_ahead: int) -> int:
    """How far ahead nobody is told from the others."""
    return min(SECOND, max_ahead)


@inner
def voices(n: int) -> int:
    """How many of the last n arrivals must have come along."""
    if n <= 15:
        return (n + 1) // 2
    return 11 if n <= 31 else 16


@inner
def remember(c: Crowd, m: int, t: int) -> None:
    """An arrival of a member, or a sample of several."""
    at = c.marks[m, HEARD] & (RING - 1)
    c.ring[m, at], c.clocks[m, at] = t, c.marks[m, CLOCK]
    c.marks[m, HEARD] += 1


@inner
def asked(c: Crowd, m: int, least: int, tolerance: int) -> int:
    """How many of the last arrivals are asked: at least so many, and as many as cover some time."""
    heard = min(c.marks[m, HEARD], MOST)
    n = 9
    while n < MOST:
        if n >= least:
            if heard <= n:
                break
            before = c.clocks[m, (c.marks[m, HEARD] - n) & (RING - 1)]
            if before != BEFORE_ALL and c.marks[m, CLOCK] - before >= tolerance:
                break
        n = 2 * n + 1 if n > 9 else 15
    return min(n, heard)


@inner
def vote(c: Crowd, m: int, least: int, max_ahead: int, tolerance: int) -> None:
    """Work the limit out anew: how far ahead a tuple may be and still speak for the crowd."""
    n = asked(c, m, least, tolerance)
    c.marks[m, ASKED] = n
    if n < FEWEST:
        return
    last = c.marks[m, HEARD]
    for i in range(n):
        # Arrivals are nearly in order, so inserting one after the other moves little.
        t, at = c.ring[m, (last - n + i) & (RING - 1)], i
        while at > 0 and c.scratch[at - 1] > t:
            c.scratch[at] = c.scratch[at - 1]
            at -= 1
        c.scratch[at] = t
    k = voices(n)
    u, w = c.scratch[n - k], c.scratch[max(0, n - 2 * k)]
    if c.marks[m, CLOCK] == BEFORE_ALL and n < UNDECIDED and u - w > max_ahead:
        return
    c.marks[m, LIMIT] = u + max(tolerance, 3 * (u - w))
    for i in range(n - 1, -1, -1):
        if c.scratch[i] <= c.marks[m, LIMIT]:
            c.marks[m, CLOCK] = max(c.marks[m, CLOCK], c.scratch[i])
            break


@inner
def furthest(c: Crowd) -> int:
    """The largest clock of all."""
    largest = BEFORE_ALL
    for m in range(len(c.marks)):
        largest = max(largest, c.marks[m, CLOCK])
    return largest


@inner
def hear_one(c: Crowd, m: int, t: int, moment: int, max_ahead: int, tolerance: int) -> None:
    """One tuple of a member has come, at a moment where that is known (else BEFORE_ALL)."""
    remember(c, m, t)
    if t > c.marks[m, LIMIT] or c.marks[m, HEARD] & (AGAIN - 1) == 0:
        vote(c, m, 0, max_ahead, tolerance)
    if t <= c.marks[m, LIMIT] or (moment != BEFORE_ALL and abs(moment - t) <= max_ahead):
        c.marks[m, CLOCK] = max(c.marks[m, CLOCK], t)
    elif c.marks[m, CLOCK] == BEFORE_ALL:
        # Where others are, a stream may be at once.
        there = furthest(c)
        if there != BEFORE_ALL and t <= there + tolerance:
            c.marks[m, CLOCK] = t


@inner
def hear_epoch(c: Crowd, m: int, times: EventTimes, moment: int, max_ahead: int, tolerance: int) -> None:
    """The arrivals of a member in an epoch have come, as a histogram."""
    n = times.used[m, TUPLES]
    samples = min(n, MOST)
    scratch, buckets = len(times.used) - 1, sort_buckets(times, m)
    bucket, before = 0, 0
    for j in range(samples):
        rank = (2 * j + 1) * n // (2 * samples)
        while before + times.size[scratch, bucket] <= rank:
            before += times.size[scratch, bucket]
            bucket += 1
        remember(c, m, times.latest[scratch, bucket])
    vote(c, m, samples, max_ahead, tolerance)
    started = c.marks[m, CLOCK] != BEFORE_ALL
    there = furthest(c)
    for b in range(buckets - 1, -1, -1):
        t = times.latest[scratch, b]
        right = moment != BEFORE_ALL and abs(moment - t) <= max_ahead
        starts = not started and there != BEFORE_ALL and t <= there + tolerance
        if t <= c.marks[m, LIMIT] or right or starts:
            c.marks[m, CLOCK] = max(c.marks[m, CLOCK], t)
            break


@in_place
def hear_histogram(c: Crowd, m: int, times: EventTimes, moment: int, max_ahead: int, tolerance: int) -> None:
    """`hear_epoch`, for callers that are not compiled."""
    hear_epoch(c, m, times, moment, max_ahead, tolerance)
