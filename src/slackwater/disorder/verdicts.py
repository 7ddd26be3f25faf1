"""The verdicts of a clock guard on tuples that are ahead: the loops.

Invariant: a tuple is admitted, rejected or pending; of those that come in one epoch the verdicts do not depend on the
order of arrivals.
"""

from __future__ import annotations

import numpy as np

from slackwater.core.batch import Flags, Words
from slackwater.core.jit import compiled, in_place, inner
from slackwater.core.time import AFTER_ALL, BEFORE_ALL
from slackwater.disorder.clock_vote import CLOCK, ClockVote, advance_by_epoch, advance_by_tuple, patience
from slackwater.disorder.cutting import Cutting, end_of_epoch
from slackwater.disorder.event_times import SHIFT, TUPLES, EventTimes, clear, note
from slackwater.disorder.guard_state import AGAINST, ALONG, LATER

CLEARLY = 15
"""Of the epoch in which the input ends, so many times as many must be against a tuple ahead."""
ADMITTED, REJECTED, PENDING = range(3)


@compiled
def judge(
    c: ClockVote, times: EventTimes, cutter: ClockVote, begun: Words, cutting: Cutting, stream: Words, ts: Words,
    member: Words, arrival_time: Words, n_pending: int, seen: int, evidence: Words, end: bool, max_ahead: int,
    tolerance: int, shift: int,
) -> tuple[Words, Words, Flags, Words, Words, int, bool]:  # fmt: skip
    """Judge epoch after epoch; returns (order, reading, ends, rejected, pending, consumed, whether nobody had to
    wait).

    Pending tuples come first, then those of an unfinished epoch, which the cutter has seen.
    """
    n, members = len(ts), len(c.marks)
    order, reading, rejected, pending = (
        np.empty(n, np.int64),
        np.empty(n, np.int64),
        np.empty(n, np.int64),
        np.empty(n, np.int64),
    )
    ends = np.zeros(0 if cutting.each else n, np.bool_)
    for a in range(n_pending):
        pending[a] = a
    counts, last_at = np.zeros((2, members), np.int64), np.full(members, -1, np.int64)
    n_order, n_rejected, begin = 0, 0, n_pending
    straight = n_pending == 0
    while begin < n:
        stop = end_of_epoch(cutting, cutter, begun, stream, ts, arrival_time, begin, seen, end, max_ahead, tolerance)
        if stop < 0:
            break
        # What the end of the input cuts off is no epoch.
        whole = stop <= n
        stop = min(stop, n)
        first = n_order
        if cutting.each:
            # As it mostly is: nobody waits, and nobody need.
            stop = pass_through(
                c, ts, member, arrival_time, begin, n_pending == 0, order, reading, n_order, max_ahead, tolerance
            )
            n_order += stop - begin
            begin = stop
            if begin == n:
                break
            stop = begin + 1
            first = n_order
        else:
            advance_by_arrivals(c, times, ts, member, arrival_time, begin, stop, max_ahead, tolerance, shift)
            if n_pending == 0 and admit_all(c, ts, member, begin, stop, order, reading, n_order, last_at, max_ahead):
                n_order += stop - begin
                if whole:
                    ends[n_order - 1] = True
                begin = stop
                continue
        for i in range(begin, stop):
            m = member[i]
            clock = c.marks[m, CLOCK]
            counts[0 if clock != BEFORE_ALL and ts[i] > clock + max_ahead else 1, m] += 1
        kept = 0
        for a in range(n_pending):
            i = pending[a]
            m = member[i]
            weigh(evidence, i, counts[0, m], counts[1, m], True)
            verdict = verdict_on(c, ts[i], m, evidence, i, False, max_ahead, tolerance)
            if verdict == ADMITTED:
                # Its own time, not the clock's: those admitted together are in time or late as if none had waited.
                order[n_order], reading[n_order] = i, ts[i] if ts[i] <= c.marks[m, CLOCK] else BEFORE_ALL
                n_order += 1
            elif verdict == REJECTED:
                rejected[n_rejected] = i
                n_rejected += 1
            else:
                pending[kept] = i
                kept += 1
        n_pending = kept
        for i in range(begin, stop):
            m = member[i]
            clock = c.marks[m, CLOCK]
            if clock == BEFORE_ALL or ts[i] > clock + max_ahead:
                for row in range(3):
                    evidence[row, i] = 0
                weigh(evidence, i, counts[0, m], counts[1, m] if not cutting.each else 0, False)
                pending[n_pending] = i
                n_pending += 1
                straight = False
                continue
            reading[n_order] = ts[i] if ts[i] <= clock else BEFORE_ALL
            last_at[m] = n_order
            order[n_order] = i
            n_order += 1
        for i in range(begin, stop):
            m = member[i]
            counts[0, m], counts[1, m] = 0, 0
            if last_at[m] >= 0:
                reading[last_at[m]] = c.marks[m, CLOCK]
                last_at[m] = -1
        if n_order > first and not cutting.each and whole:
            ends[n_order - 1] = True
        begin = stop
    if end:
        for a in range(n_pending):
            i = pending[a]
            if verdict_on(c, ts[i], member[i], evidence, i, True, max_ahead, tolerance) == REJECTED:
                rejected[n_rejected] = i
                n_rejected += 1
            else:
                order[n_order], reading[n_order] = i, BEFORE_ALL
                n_order += 1
        n_pending = 0
    if len(ends) > n_order:
        ends = ends[:n_order]
    return (
        order[:n_order],
        reading[:n_order],
        ends,
        rejected[:n_rejected],
        pending[:n_pending].copy(),
        begin,
        straight,
    )


@in_place
def pass_through(
    c: ClockVote, ts: Words, member: Words, arrival_time: Words, begin: int, nobody_waits: bool, order: Words,
    reading: Words,
    n_order: int, max_ahead: int, tolerance: int,
) -> int:  # fmt: skip
    """Tuple release: admit tuples up to the first that is more than `max_ahead` ahead.

    While a tuple is pending, only one is admitted a call. A loop of its own, because the other one has too much in it
    to be fast.
    """
    for i in range(begin, len(ts)):
        m, t = member[i], ts[i]
        advance_by_tuple(c, m, t, arrival_time[i] if len(arrival_time) > 0 else BEFORE_ALL, max_ahead, tolerance)
        if not nobody_waits or c.marks[m, CLOCK] == BEFORE_ALL or t - max_ahead > c.marks[m, CLOCK]:
            return i
        order[n_order], reading[n_order] = i, c.marks[m, CLOCK]
        n_order += 1
    return len(ts)


@in_place
def advance_by_arrivals(
    c: ClockVote, times: EventTimes, ts: Words, member: Words, arrival_time: Words, begin: int, stop: int,
    max_ahead: int, tolerance: int, shift: int,
) -> None:  # fmt: skip
    """An epoch's arrivals: a histogram of each member, and a vote."""
    for m in range(len(c.marks)):
        times.used[m, TUPLES] = -1
    # Arrivals are nearly in order, so those of one bucket mostly come one after the other, and are noted at once.
    last, bucket, count, latest = -1, 0, 0, BEFORE_ALL
    for i in range(begin, stop):
        m, t = member[i], ts[i]
        if m != last or t >> times.used[m, SHIFT] != bucket:
            if count > 0:
                note(times, last, count, latest, AFTER_ALL, 0)
            if times.used[m, TUPLES] < 0:
                clear(times, m, shift)
            last, bucket, count, latest = m, t >> times.used[m, SHIFT], 0, t
        count += 1
        latest = max(latest, t)
    if count > 0:
        note(times, last, count, latest, AFTER_ALL, 0)
    arrived_at = arrival_time[stop - 1] if len(arrival_time) > 0 else BEFORE_ALL
    for m in range(len(c.marks)):
        if times.used[m, TUPLES] > 0:
            advance_by_epoch(c, m, times, arrived_at, max_ahead, tolerance)


@in_place
def admit_all(
    c: ClockVote, ts: Words, member: Words, begin: int, stop: int, order: Words, reading: Words, n_order: int,
    last_at: Words, max_ahead: int,
) -> bool:  # fmt: skip
    """Admit the arrivals of an epoch in their order; False, and nothing is done, where one of them is too far ahead."""
    for i in range(begin, stop):
        clock = c.marks[member[i], CLOCK]
        if clock == BEFORE_ALL or ts[i] > clock + max_ahead:
            last_at[:] = -1
            return False
        at = n_order + i - begin
        order[at], reading[at] = i, ts[i] if ts[i] <= clock else BEFORE_ALL
        last_at[member[i]] = at
    for m in range(len(last_at)):
        if last_at[m] >= 0:
            reading[last_at[m]] = c.marks[m, CLOCK]
            last_at[m] = -1
    return True


@inner
def verdict_on(
    c: ClockVote, t: int, m: int, evidence: Words, at: int, end: bool, max_ahead: int, tolerance: int
) -> int:
    """What becomes of a tuple that is, or would be, kept pending."""
    clock = c.marks[m, CLOCK]
    if clock == BEFORE_ALL:
        return ADMITTED if end else PENDING
    if t <= clock + max_ahead:
        return ADMITTED
    if end:
        # Nothing is spoilt any more; but of the same epoch it is not known what came after it.
        along = evidence[ALONG, at]
        many = 0 if evidence[LATER, at] == 1 else 1 if along == 0 else CLEARLY * (1 + along)
        return REJECTED if evidence[AGAINST, at] > max(many, evidence[ALONG, at]) else ADMITTED
    voted = evidence[LATER, at] == 1 and evidence[AGAINST, at] >= patience(c, m, tolerance)
    return REJECTED if voted else PENDING


@compiled
def verdicts(
    c: ClockVote, ts: Words, member: Words, before: int, evidence: Words, counts: Words, end: bool, max_ahead: int,
    tolerance: int,
) -> Words:  # fmt: skip
    """What becomes of each tuple after an epoch; the first `before` were pending already."""
    found = member.copy()
    for i in range(len(ts)):
        m = member[i]
        weigh(evidence, i, counts[0, m], counts[1, m], i < before)
        found[i] = verdict_on(c, ts[i], m, evidence, i, end, max_ahead, tolerance)
    return found


@inner
def weigh(evidence: Words, at: int, along: int, against: int, later: bool) -> None:
    """Count the arrivals of an epoch for and against a pending tuple; of its own epoch it is one itself."""
    evidence[ALONG, at] += along if later else max(0, along - 1)
    evidence[AGAINST, at] += against
    if later and along + against > 0:
        evidence[LATER, at] = 1
