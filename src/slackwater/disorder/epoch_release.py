"""Epoch release: take in a whole epoch, move the frontier once, let out everything up to it, sorted.

Invariant: after an epoch every tuple taken in with `ts <= frontier` has been let out, and the frontier is
`min(clocks) - K` or where it was before. What arrives inside one epoch is put in order for free. With a K that covers
every delay the results are those of tuple release.

References: the frontier is T-sync of 004 Alg. 3.1 under the Same-K policy (004 Theorem 4.1).
"""

from __future__ import annotations

from slackwater.compiled import in_place, inner
from slackwater.disorder.clocks import follow_largest_delay, hear, mark_idle, moment_of, must_pause, slowest
from slackwater.disorder.held import hold, let_out, pop, promise
from slackwater.disorder.state import (
    EPOCH_CLOCK,
    EPOCH_TUPLES,
    EPOCHS,
    FRONTIER,
    LARGEST,
    NOW,
    SLACK,
    Arrivals,
    Buffers,
    Clockwork,
    Incoming,
    Policy,
    Room,
)
from slackwater.model.batch import TS
from slackwater.model.time import BEFORE_ALL


@in_place
def release_sorted(
    new: Arrivals, begin: int, policy: Policy, clock: Clockwork, held: Buffers, out: Room, n_out: int
) -> tuple[int, int]:
    """Arrivals in, a run out; stops early after the epoch in which the largest clock reached `policy.pause_at`.

    Returns (arrivals consumed, tuples let out).
    """
    n = new.words.shape[1]
    for i in range(begin, n):
        t = new.words[TS, i]
        now = moment_of(clock, new, i)
        delay = hear(clock, new, i, now, False)
        if new.passes[i]:
            if t < clock.scalars[FRONTIER]:
                n_out = pass_on(clock, new, i, delay, out, n_out)
            else:
                hold(clock, held, 0, new, i, delay)
        if epoch_is_full(clock, policy, new, i):
            cutoff = clock.scalars[FRONTIER]
            end_epoch(clock, now, policy)
            n_out = let_out_up_to(clock, clock.scalars[FRONTIER], cutoff, held, out, n_out)
            if must_pause(clock, policy):
                return i + 1, n_out
    return n, n_out


@in_place
def release_unsorted(new: Arrivals, begin: int, policy: Policy, clock: Clockwork, out: Room) -> int:
    """As `release_sorted` for operators that need no order: tuples pass at once, marked with the frontier they met."""
    n = new.words.shape[1]
    closed, closed_at = clock.scalars[EPOCH_CLOCK], clock.scalars[NOW]
    for i in range(begin, n):
        now = moment_of(clock, new, i)
        out.delay[i] = hear(clock, new, i, now, False)
        out.cutoff[i] = clock.scalars[FRONTIER]
        out.clock[i], out.moment[i] = closed, closed_at
        if epoch_is_full(clock, policy, new, i):
            end_epoch(clock, now, policy)
            closed, closed_at = clock.scalars[LARGEST], now
            if must_pause(clock, policy):
                return i + 1
    return n


@in_place
def release_apart(
    new: Arrivals, begin: int, policy: Policy, clock: Clockwork, held: Buffers, out: Room, n_out: int
) -> tuple[int, int]:
    """As `release_sorted` where somebody else synchronizes: tuples pass at once, promises follow when an epoch ends."""
    n = new.words.shape[1]
    for i in range(begin, n):
        now = moment_of(clock, new, i)
        delay = hear(clock, new, i, now, False)
        if new.passes[i]:
            n_out = pass_on(clock, new, i, delay, out, n_out)
        if epoch_is_full(clock, policy, new, i):
            end_epoch(clock, now, policy)
            n_out = promise_all(clock, out, n_out)
            if must_pause(clock, policy):
                return i + 1, n_out
    return n, n_out


@inner
def promise_all(clock: Clockwork, out: Room, n_out: int) -> int:
    """After an epoch: every stream has nothing left that is older than its clock, less the slack.

    In the order of the streams, and also where nothing has moved: whoever hears the promise knows that the epoch ends.
    """
    slow = slowest(clock.clocks, clock.idle)
    for k in range(len(clock.clocks)):
        bound = slow if clock.idle[k] == 1 else clock.clocks[k]
        if bound != BEFORE_ALL:
            n_out = promise(clock, k, bound - clock.scalars[SLACK], out, n_out)
    return n_out


@in_place
def end_silent_epoch(now: int, policy: Policy, clock: Clockwork, held: Buffers, out: Room) -> int:
    """An epoch in which nothing arrived ends at the moment `now`; returns how many tuples are let out."""
    clock.scalars[NOW] = now
    cutoff = clock.scalars[FRONTIER]
    end_epoch(clock, now, policy)
    if policy.apart:
        return promise_all(clock, out, 0)
    return let_out_up_to(clock, clock.scalars[FRONTIER], cutoff, held, out, 0)


@inner
def epoch_is_full(clock: Clockwork, policy: Policy, new: Arrivals, i: int) -> bool:
    """Whether the epoch ends after tuple i: as it says, by count, or by how far the largest clock has come."""
    if len(new.ends) > 0:
        return bool(new.ends[i])
    if policy.ends_here and i == new.words.shape[1] - 1:
        return True
    if policy.epoch_tuples > 0 and clock.scalars[EPOCH_TUPLES] >= policy.epoch_tuples:
        return True
    return policy.epoch_span > 0 and clock.scalars[LARGEST] - clock.scalars[EPOCH_CLOCK] >= policy.epoch_span


@inner
def end_epoch(clock: Clockwork, now: int, policy: Policy) -> None:
    """Choose K, move the frontier, begin the next epoch."""
    if policy.follow:
        follow_largest_delay(clock)
    mark_idle(clock, now, policy.idle_timeout)
    slow = slowest(clock.clocks, clock.idle)
    if slow != BEFORE_ALL:
        clock.scalars[FRONTIER] = max(clock.scalars[FRONTIER], slow - clock.scalars[SLACK])
    for s in range(len(clock.clocks)):
        clock.before[s] = clock.clocks[s]
    clock.scalars[EPOCH_TUPLES] = 0
    clock.scalars[EPOCH_CLOCK] = clock.scalars[LARGEST]
    clock.scalars[EPOCHS] += 1


@inner
def pass_on(clock: Clockwork, new: Arrivals | Incoming, i: int, delay: int, out: Room, n_out: int) -> int:
    """A tuple goes into the run where it arrived; returns the run's new length."""
    for r in range(new.words.shape[0]):
        out.words[r, n_out] = new.words[r, i]
    out.stream[n_out], out.delay[n_out] = new.stream[i], delay
    out.cutoff[n_out], out.clock[n_out] = clock.scalars[FRONTIER], clock.scalars[LARGEST]
    out.moment[n_out] = clock.scalars[NOW]
    return n_out + 1


@in_place
def let_out_up_to(clock: Clockwork, bound: int, cutoff: int, held: Buffers, out: Room, n_out: int) -> int:
    """Move every held tuple with `ts <= bound` into the run, sorted."""
    while held.sizes[0] > 0 and held.ts[0, 0] <= bound:
        n_out = let_out(clock, held, pop(held, 0), cutoff, out, n_out)
    return n_out
