"""Epoch release: take in a whole epoch, move the watermark once, emit everything up to it, sorted.

Invariant: after an epoch every tuple taken in with `ts <= watermark` has been emitted, and the watermark is
`min(clocks) - K` or where it was before. Arrivals within one epoch are put in order at no cost in slack. If K covers
every delay, the results are those of tuple release.

References: the watermark is T-sync of 004 Alg. 3.1 under the Same-K policy (004 Theorem 4.1).
"""

from __future__ import annotations

from slackwater.core.batch import TS, Words
from slackwater.core.jit import in_place, inner
from slackwater.core.time import BEFORE_ALL
from slackwater.disorder.clocks import (
    advance_clock,
    arrival_time_of,
    follow_largest_delay,
    mark_idle,
    min_clock,
    must_pause,
    take_readings,
)
from slackwater.disorder.ordered_batch import OrderedTuples
from slackwater.disorder.release.slack_heap import emit, emit_watermark, hold, lay_down, pop
from slackwater.disorder.release.state import (
    EPOCH_CLOCK,
    EPOCH_TUPLES,
    EPOCHS,
    MAX_TS,
    NOW,
    SLACK,
    WATERMARK,
    Arrivals,
    Buffers,
    Clockwork,
    Policy,
)


@in_place
def release_sorted(
    new: Arrivals, begin: int, policy: Policy, clock: Clockwork, held: Buffers, out: OrderedTuples, n_out: int
) -> tuple[int, int]:
    """Arrivals in, a run out; stops early after the epoch in which the largest clock reached `policy.pause_at`.

    Returns (arrivals consumed, tuples emitted).
    """
    n = new.words.shape[1]
    for i in range(begin, n):
        t = new.words[TS, i]
        now = arrival_time_of(clock, new, i)
        delay = advance_clock(clock, new, i, now, False)
        if new.passes[i]:
            if t < clock.scalars[WATERMARK]:
                n_out = pass_on(clock, new, i, delay, out, n_out)
            else:
                hold(clock, held, 0, new, i, delay)
        if epoch_is_full(clock, policy, new, i):
            watermark_at_arrival = clock.scalars[WATERMARK]
            end_epoch(clock, now, policy)
            n_out = release_up_to(clock, clock.scalars[WATERMARK], watermark_at_arrival, held, out, n_out)
            if must_pause(clock, policy):
                return i + 1, n_out
    return n, n_out


@in_place
def take_in_epoch(
    new: Arrivals, policy: Policy, clock: Clockwork, held: Buffers, out: OrderedTuples
) -> tuple[int, int]:
    """All arrivals as one epoch. Late ones pass on, the others are laid down at the end of the heap, to be sorted.

    Returns (tuples emitted, the watermark that the arrivals met).
    """
    n, n_out, watermark_at_arrival, now = new.words.shape[1], 0, clock.scalars[WATERMARK], clock.scalars[NOW]
    for i in range(n):
        now = arrival_time_of(clock, new, i)
        delay = advance_clock(clock, new, i, now, False)
        if new.passes[i]:
            if new.words[TS, i] < watermark_at_arrival:
                n_out = pass_on(clock, new, i, delay, out, n_out)
            else:
                lay_down(clock, held, 0, new, i, delay)
    end_epoch(clock, now, policy)
    return n_out, watermark_at_arrival


@in_place
def emit_first(
    clock: Clockwork, held: Buffers, count: int, watermark_at_arrival: int, out: OrderedTuples, n_out: int
) -> int:
    """Move the first tuples of a sorted heap into the run; the others move up, and stay sorted."""
    for at in range(count):
        n_out = emit(clock, held, held.slot[0, at], watermark_at_arrival, out, n_out)
    left = held.sizes[0] - count
    for at in range(left):
        held.ts[0, at], held.seq[0, at] = held.ts[0, at + count], held.seq[0, at + count]
        held.slot[0, at] = held.slot[0, at + count]
    held.sizes[0] = left
    return n_out


@in_place
def release_unsorted(
    new: Arrivals, begin: int, policy: Policy, clock: Clockwork, out: OrderedTuples, epoch: Words
) -> int:
    """As `release_sorted` for operators that need no order: tuples pass at once, marked with the watermark they met.

    Where results leave with the epoch in which a tuple comes, `epoch` has room for its number, and the clock is the one
    that the epoch ends with.
    """
    n, first = new.words.shape[1], begin
    closed, closed_at = clock.scalars[EPOCH_CLOCK], clock.scalars[NOW]
    for i in range(begin, n):
        if len(epoch) > 0:
            epoch[i] = clock.scalars[EPOCHS]
        now = arrival_time_of(clock, new, i)
        out.delay[i] = advance_clock(clock, new, i, now, False)
        out.watermark_at_arrival[i] = clock.scalars[WATERMARK]
        out.clock[i], out.emit_time[i] = closed, closed_at
        if epoch_is_full(clock, policy, new, i):
            end_epoch(clock, now, policy)
            closed, closed_at = clock.scalars[MAX_TS], clock.scalars[NOW]
            if len(epoch) > 0:
                out.clock[first : i + 1], out.emit_time[first : i + 1] = closed, closed_at
                first = i + 1
            if must_pause(clock, policy):
                return i + 1
    if len(epoch) > 0:
        out.clock[first:n], out.emit_time[first:n] = clock.scalars[MAX_TS], clock.scalars[NOW]
    return n


@in_place
def release_for_external_sync(
    new: Arrivals, begin: int, policy: Policy, clock: Clockwork, held: Buffers, out: OrderedTuples, n_out: int
) -> tuple[int, int]:
    """As `release_sorted` with an external synchronizer: tuples pass at once, watermark events follow when an epoch
    ends."""
    n = new.words.shape[1]
    for i in range(begin, n):
        now = arrival_time_of(clock, new, i)
        delay = advance_clock(clock, new, i, now, False)
        if new.passes[i]:
            n_out = pass_on(clock, new, i, delay, out, n_out)
        if epoch_is_full(clock, policy, new, i):
            end_epoch(clock, now, policy)
            n_out = emit_watermarks(clock, out, n_out)
            if must_pause(clock, policy):
                return i + 1, n_out
    return n, n_out


@inner
def emit_watermarks(clock: Clockwork, out: OrderedTuples, n_out: int) -> int:
    """After an epoch: a watermark event for every stream, its clock minus the slack.

    In the order of the streams, and also if nothing has moved: the event tells the receiver that the epoch ends.
    """
    slow = min_clock(clock.clocks, clock.idle)
    for k in range(len(clock.clocks)):
        bound = slow if clock.idle[k] == 1 else clock.clocks[k]
        if bound != BEFORE_ALL:
            n_out = emit_watermark(clock, k, bound - clock.scalars[SLACK], out, n_out)
    return n_out


@in_place
def end_silent_epoch(now: int, policy: Policy, clock: Clockwork, held: Buffers, out: OrderedTuples) -> int:
    """An epoch in which no tuple arrived ends at `now`; returns how many tuples are emitted."""
    clock.scalars[NOW] = now
    watermark_at_arrival = clock.scalars[WATERMARK]
    end_epoch(clock, now, policy)
    if policy.external_sync:
        return emit_watermarks(clock, out, 0)
    return release_up_to(clock, clock.scalars[WATERMARK], watermark_at_arrival, held, out, 0)


@inner
def epoch_is_full(clock: Clockwork, policy: Policy, new: Arrivals, i: int) -> bool:
    """Whether the epoch ends after tuple i: as it says, by count, or by how far the largest clock has come."""
    if len(new.ends) > 0:
        return bool(new.ends[i])
    if policy.ends_here and i == new.words.shape[1] - 1:
        return True
    if policy.epoch_tuples > 0 and clock.scalars[EPOCH_TUPLES] >= policy.epoch_tuples:
        return True
    return policy.epoch_span > 0 and clock.scalars[MAX_TS] - clock.scalars[EPOCH_CLOCK] >= policy.epoch_span


@inner
def end_epoch(clock: Clockwork, now: int, policy: Policy) -> None:
    """Choose K, move the watermark, begin the next epoch."""
    now = take_readings(clock, now)
    if policy.follow:
        follow_largest_delay(clock)
    mark_idle(clock, now, policy)
    slow = min_clock(clock.clocks, clock.idle)
    if slow != BEFORE_ALL:
        clock.scalars[WATERMARK] = max(clock.scalars[WATERMARK], slow - clock.scalars[SLACK])
    for s in range(len(clock.clocks)):
        clock.before[s] = clock.clocks[s]
    clock.scalars[EPOCH_TUPLES] = 0
    clock.scalars[EPOCH_CLOCK] = clock.scalars[MAX_TS]
    clock.scalars[EPOCHS] += 1


@inner
def pass_on(clock: Clockwork, new: Arrivals | OrderedTuples, i: int, delay: int, out: OrderedTuples, n_out: int) -> int:
    """Append an arrival to the run; returns the run's new length."""
    for r in range(new.words.shape[0]):
        out.words[r, n_out] = new.words[r, i]
    out.stream[n_out], out.delay[n_out] = new.stream[i], delay
    out.watermark_at_arrival[n_out], out.clock[n_out] = clock.scalars[WATERMARK], clock.scalars[MAX_TS]
    out.emit_time[n_out] = clock.scalars[NOW]
    return n_out + 1


@in_place
def release_up_to(
    clock: Clockwork, bound: int, watermark_at_arrival: int, held: Buffers, out: OrderedTuples, n_out: int
) -> int:
    """Move every held tuple with `ts <= bound` into the run, sorted."""
    while held.sizes[0] > 0 and held.ts[0, 0] <= bound:
        n_out = emit(clock, held, pop(held, 0), watermark_at_arrival, out, n_out)
    return n_out
