"""Tuple release: the published algorithms, arrival by arrival.

A K-slack buffer per stream releases a tuple when `ts + K <= clock`, each time its stream's clock moves. The
synchronizer merges what they release (Alg. 3.1). T-join is the largest event time passed on, and an older tuple is late
(Alg. 4.6).

Invariant: what leaves the synchronizer's buffer leaves in event-time order; only a tuple at or behind T-sync passes
it by.

References: 004 §3.2.1 (Eq. 3.1), Alg. 3.1, Alg. 4.6 lines 2-4; 003 Alg. 1 and 2.
"""

from __future__ import annotations

from slackwater.core.batch import TS
from slackwater.core.jit import in_place, inner
from slackwater.core.time import AFTER_ALL, BEFORE_ALL
from slackwater.disorder.clocks import (
    advance_clock,
    arrival_time_of,
    follow_largest_delay,
    mark_idle,
    min_clock,
    must_pause,
)
from slackwater.disorder.ordered_batch import OrderedTuples
from slackwater.disorder.release.slack_heap import emit, emit_watermark, hold, pop, push
from slackwater.disorder.release.state import (
    EPOCHS,
    MAX_TS,
    NOW,
    SLACK,
    T_SYNC,
    WATERMARK,
    Arrivals,
    Buffers,
    Clockwork,
    Policy,
)


@in_place
def release_each(
    new: Arrivals, begin: int, policy: Policy, clock: Clockwork, held: Buffers, out: OrderedTuples, n_out: int
) -> tuple[int, int]:
    """Arrivals in, a run out. Heaps 0..m-1 are the slack buffers, m..2m-1 the synchronizer's, one per stream."""
    for i in range(begin, new.words.shape[1]):
        _, n_out = take_in(new, i, policy, clock, held, out, n_out)
        if must_pause(clock, policy):
            return i + 1, n_out
    return new.words.shape[1], n_out


@in_place
def pass_each(
    new: Arrivals, begin: int, policy: Policy, clock: Clockwork, held: Buffers, spare: OrderedTuples, out: OrderedTuples
) -> int:
    """As `release_each` for operators that take tuples at once: what is held are event times alone, and every tuple is
    marked with the T-join that it meets when it arrives. Returns how many arrivals are consumed.

    While its stream's clock stands still, a tuple may become late that was in time when it arrived: here it counts as
    in time.
    """
    for i in range(begin, new.words.shape[1]):
        out.watermark_at_arrival[i] = clock.scalars[WATERMARK]
        out.delay[i], _ = take_in(new, i, policy, clock, held, spare, 0)
        out.clock[i], out.emit_time[i] = clock.scalars[MAX_TS], clock.scalars[NOW]
        if must_pause(clock, policy):
            return i + 1
    return new.words.shape[1]


@inner
def take_in(
    new: Arrivals, i: int, policy: Policy, clock: Clockwork, held: Buffers, out: OrderedTuples, n_out: int
) -> tuple[int, int]:
    """One arrival: move clocks, hold it, emit what may leave; returns its delay, and the run's new length."""
    m, s = len(clock.clocks), new.stream[i]
    now = arrival_time_of(clock, new, i)
    before = clock.clocks[s]
    delay = advance_clock(clock, new, i, now, True)
    moved = clock.clocks[s] > before
    clock.scalars[EPOCHS] += 1
    if policy.follow:
        follow_largest_delay(clock)
    mark_idle(clock, now, policy)
    if new.passes[i]:
        hold(clock, held, s, new, i, delay)
    for k in range(m):
        if clock.idle[k] == 1:
            slow = min_clock(clock.clocks, clock.idle)
            n_out = drain_slack(clock, k, slow, policy.external_sync, held, out, n_out)
            if (
                policy.external_sync
                and slow - clock.scalars[SLACK] > clock.promised_watermark[k]
                and slow != BEFORE_ALL
            ):
                n_out = emit_watermark(clock, k, slow - clock.scalars[SLACK], out, n_out)
        elif k == s and moved:
            n_out = drain_slack(clock, k, clock.clocks[k], policy.external_sync, held, out, n_out)
    return delay, n_out


@inner
def drain_slack(
    clock: Clockwork, k: int, now: int, external_sync: bool, held: Buffers, out: OrderedTuples, n_out: int
) -> int:
    """The slack buffer of stream k releases its tuples with `ts + K <= now` to the synchronizer (Eq. 3.1)."""
    m = len(clock.clocks)
    while held.sizes[k] > 0 and held.ts[k, 0] + clock.scalars[SLACK] <= now:
        if external_sync:
            n_out = emit(clock, held, pop(held, k), BEFORE_ALL, out, n_out)
        else:
            n_out = to_synchronizer(clock, k, held, out, n_out)
            n_out = synchronize(clock, m, False, held, out, n_out)
    return n_out


@inner
def to_synchronizer(clock: Clockwork, k: int, held: Buffers, out: OrderedTuples, n_out: int) -> int:
    """Lines 4-5 and 9-10 of Alg. 3.1: buffer the earliest tuple of slack buffer k, or pass it on at once."""
    ts, seq = held.ts[k, 0], held.seq[k, 0]
    slot = pop(held, k)
    if ts <= clock.scalars[T_SYNC]:
        return emit_to_synchronizer(clock, slot, held, out, n_out)
    push(held, len(clock.clocks) + k, ts, seq, slot)
    return n_out


@inner
def synchronize(clock: Clockwork, m: int, drain: bool, held: Buffers, out: OrderedTuples, n_out: int) -> int:
    """Lines 6-8 of Alg. 3.1: while every stream has a tuple here, emit all that have the smallest event time.

    A stream that has none here, but whose watermark says that nothing older comes, is not waited for.
    """
    while True:
        first, bound = -1, AFTER_ALL
        for k in range(m):
            b = m + k
            if held.sizes[b] == 0:
                if not drain and clock.idle[k] == 0:
                    bound = min(bound, clock.promised_watermark[k])
            elif first < 0 or held.ts[b, 0] < held.ts[first, 0]:
                first = b
        if first < 0 or held.ts[first, 0] > bound:
            return n_out
        clock.scalars[T_SYNC] = held.ts[first, 0]
        for b in range(m, 2 * m):
            while held.sizes[b] > 0 and held.ts[b, 0] == clock.scalars[T_SYNC]:
                n_out = emit_to_synchronizer(clock, pop(held, b), held, out, n_out)


@inner
def emit_to_synchronizer(clock: Clockwork, slot: int, held: Buffers, out: OrderedTuples, n_out: int) -> int:
    """Give one tuple to the operator; T-join, kept as the watermark, follows the tuples that are in time."""
    watermark_at_arrival = clock.scalars[WATERMARK]
    clock.scalars[WATERMARK] = max(watermark_at_arrival, held.pool[TS, slot])
    return emit(clock, held, slot, watermark_at_arrival, out, n_out)


@in_place
def drain_all(clock: Clockwork, external_sync: bool, held: Buffers, out: OrderedTuples, n_out: int) -> int:
    """The input has ended: empty the slack buffers into the synchronizer, then the synchronizer in event-time order."""
    m = len(clock.clocks)
    for k in range(m):
        while held.sizes[k] > 0:
            if external_sync:
                n_out = emit(clock, held, pop(held, k), BEFORE_ALL, out, n_out)
            else:
                n_out = to_synchronizer(clock, k, held, out, n_out)
    return synchronize(clock, m, True, held, out, n_out)
