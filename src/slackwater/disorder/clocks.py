"""Stream clocks, and the smallest of them that counts.

Invariant: a clock never goes back. A stream that has parts goes by the smallest of their clocks. A stream silent for
longer than the idle timeout takes the smallest clock of the others until it speaks again; without a timeout it holds
everyone back, as the published algorithms have it.

References: 004 §2.2.1 (local current time, delay, skew, slowest stream).
"""

from __future__ import annotations

from slackwater.core.batch import TS, Words
from slackwater.core.jit import compiled, in_place, inner
from slackwater.core.time import AFTER_ALL, BEFORE_ALL
from slackwater.disorder.release.state import (
    EPOCH_CLOCK,
    EPOCH_TUPLES,
    LARGEST_DELAY,
    MAX_BEHIND,
    MAX_TS,
    NO_PARTITION,
    NOW,
    PARTITION_CLOCK,
    PARTITION_IDLE,
    PARTITION_LAST_ARRIVAL,
    PARTITION_STREAM,
    READ_AT,
    READING,
    READING_PARTITION,
    READING_STREAM,
    SLACK,
    SLACK_CHANGES,
    SLACK_LOG,
    UNTAUGHT,
    Arrivals,
    Clockwork,
    Policy,
)


@inner
def advance_clock(clock: Clockwork, new: Arrivals, i: int, now: int, afresh: bool) -> int:
    """Tuple i arrives: move its stream's clock, note its delay. Returns its delay against the clock as it is now.

    `afresh` says that the tuple is an epoch of its own, so that its delay counts against the clock it has just moved.
    """
    s, t = new.stream[i], new.words[TS, i]
    partition = new.partition[i] if len(new.partition) > 0 else NO_PARTITION
    move_clock(clock, s, partition, new.reading[i] if len(new.reading) > 0 else t, now)
    if afresh:
        clock.before[s] = clock.clocks[s]
    clock.scalars[EPOCH_TUPLES] += 1
    if new.passes[i] and clock.before[s] != BEFORE_ALL:
        behind = max(0, clock.before[s] - t)
        teaches = behind <= clock.scalars[MAX_BEHIND]
        if teaches:
            clock.scalars[LARGEST_DELAY] = max(clock.scalars[LARGEST_DELAY], behind)
        if len(new.behind) > 0:
            new.behind[i] = behind if teaches else UNTAUGHT
            new.needed[i] = max(0, min_clock(clock.before, clock.idle) - t) if teaches else UNTAUGHT
    return max(0, clock.clocks[s] - t)


@inner
def move_clock(clock: Clockwork, s: int, partition: int, reading: int, now: int) -> None:
    """The clock of a stream, or of a partition of it, reads so much; or BEFORE_ALL where nothing is said about it."""
    if clock.scalars[MAX_TS] == BEFORE_ALL:
        clock.scalars[EPOCH_CLOCK] = reading
        for each in range(len(clock.last_arrival)):
            clock.last_arrival[each] = now
    if partition != NO_PARTITION:
        clock.partitions[PARTITION_CLOCK, partition] = max(clock.partitions[PARTITION_CLOCK, partition], reading)
        clock.partitions[PARTITION_LAST_ARRIVAL, partition] = now
        clock.partitions[PARTITION_IDLE, partition] = 0
        rank_partition(clock, s, partition)
        clock.clocks[s] = max(clock.clocks[s], slowest_partition(clock, s))
    else:
        note_gap(clock, s, reading)
        clock.clocks[s] = max(clock.clocks[s], reading)
    clock.scalars[MAX_TS] = max(clock.scalars[MAX_TS], clock.clocks[s])
    clock.scalars[NOW] = now
    clock.last_arrival[s] = now


@inner
def take_readings(clock: Clockwork, now: int) -> int:
    """Clocks are what others have found them to be; returns the moment."""
    for i in range(clock.readings.shape[1]):
        reading, now = clock.readings[READING, i], clock.readings[READ_AT, i]
        if now == BEFORE_ALL:
            now = max(clock.scalars[MAX_TS], reading)
        move_clock(clock, clock.readings[READING_STREAM, i], clock.readings[READING_PARTITION, i], reading, now)
    return now


@inner
def arrival_time_of(clock: Clockwork, new: Arrivals, i: int) -> int:
    """When tuple i arrives; by the clocks where arrival times are not known."""
    if len(new.arrival_time) > 0:
        return new.arrival_time[i]
    return max(clock.scalars[MAX_TS], new.reading[i] if len(new.reading) > 0 else new.words[TS, i])


@inner
def slowest_partition(clock: Clockwork, s: int) -> int:
    """The smallest clock among the parts of a stream that are not idle; the largest where all are.

    A part that most others have left behind by more than `max_behind` has a wrong clock, and is not waited for; only
    where one is so far behind are all looked at.
    """
    n = clock.partitions.shape[1]
    if n > 0 and clock.slowest.shape[1] == 2 * n:
        slowest, latest = clock.slowest[s, 1], clock.slowest[s, 0]
        if slowest == AFTER_ALL:
            return latest
        if slowest == BEFORE_ALL or latest - slowest <= clock.scalars[MAX_BEHIND]:
            return slowest
    beyond = BEFORE_ALL
    while True:
        smallest, max_ts, active = AFTER_ALL, BEFORE_ALL, 0
        for p in range(clock.partitions.shape[1]):
            if clock.partitions[PARTITION_STREAM, p] == s:
                reading = clock.partitions[PARTITION_CLOCK, p]
                max_ts = max(max_ts, reading)
                if clock.partitions[PARTITION_IDLE, p] == 0 and reading >= beyond:
                    smallest = min(smallest, reading)
                    active += 1
        if smallest == AFTER_ALL:
            return max_ts
        if smallest == BEFORE_ALL:
            return smallest
        left_behind = 0
        for p in range(clock.partitions.shape[1]):
            if clock.partitions[PARTITION_STREAM, p] == s and clock.partitions[PARTITION_IDLE, p] == 0:
                left_behind += 1 if clock.partitions[PARTITION_CLOCK, p] - smallest > clock.scalars[MAX_BEHIND] else 0
        if 2 * left_behind <= active:
            return smallest
        beyond = smallest + 1


@inner
def rank_partition(clock: Clockwork, s: int, partition: int) -> None:
    """The clock of a partition has moved, or it has become idle."""
    n = clock.partitions.shape[1]
    if clock.slowest.shape[1] != 2 * n:
        return
    reading, at = clock.partitions[PARTITION_CLOCK, partition], n + partition
    clock.slowest[s, 0] = max(clock.slowest[s, 0], reading)
    clock.slowest[s, at] = reading if clock.partitions[PARTITION_IDLE, partition] == 0 else AFTER_ALL
    while at > 1:
        at >>= 1
        smallest = min(clock.slowest[s, 2 * at], clock.slowest[s, 2 * at + 1])
        if clock.slowest[s, at] == smallest:
            return
        clock.slowest[s, at] = smallest


@in_place
def rank_partitions(clock: Clockwork) -> None:
    """Make the trees of the slowest partitions, which have their size already."""
    n = clock.partitions.shape[1]
    clock.slowest[:] = AFTER_ALL
    clock.slowest[:, 0] = BEFORE_ALL
    for p in range(n):
        s, reading = clock.partitions[PARTITION_STREAM, p], clock.partitions[PARTITION_CLOCK, p]
        clock.slowest[s, 0] = max(clock.slowest[s, 0], reading)
        if clock.partitions[PARTITION_IDLE, p] == 0:
            clock.slowest[s, n + p] = reading
    for s in range(len(clock.slowest)):
        for at in range(n - 1, 0, -1):
            clock.slowest[s, at] = min(clock.slowest[s, 2 * at], clock.slowest[s, 2 * at + 1])


@inner
def note_gap(clock: Clockwork, s: int, reading: int) -> None:
    """A tuple of a stream moves its clock, or says nothing about it: how far does one move it on average?"""
    if reading != BEFORE_ALL and clock.clocks[s] != BEFORE_ALL:
        moved = max(0, reading - clock.clocks[s])
        clock.gaps[s] = 64 * moved if clock.gaps[s] == 0 else clock.gaps[s] + moved - clock.gaps[s] // 64


@inner
def is_left_behind(clock: Clockwork, s: int, after: int) -> bool:
    """Whether the others have left a stream behind by more than so many 64ths of its usual gap."""
    if after == 0 or clock.clocks[s] == BEFORE_ALL or clock.gaps[s] == 0:
        return False
    return 4096.0 * (clock.scalars[MAX_TS] - clock.clocks[s]) > float(after) * clock.gaps[s]


@inner
def mark_idle(clock: Clockwork, now: int, policy: Policy) -> None:
    """Note which streams are silent for longer than the timeout (negative: never), or left behind for too long."""
    timeout = policy.idle_timeout
    if timeout < 0:
        for s in range(len(clock.clocks) if policy.idle_after > 0 else 0):
            left = is_left_behind(clock, s, policy.idle_after)
            clock.timeouts[s] += 1 if left and clock.idle[s] == 0 else 0
            clock.idle[s] = 1 if left else 0
        return
    for p in range(clock.partitions.shape[1]):
        if clock.partitions[PARTITION_IDLE, p] == 0 and now - clock.partitions[PARTITION_LAST_ARRIVAL, p] > timeout:
            clock.partitions[PARTITION_IDLE, p] = 1
            s = clock.partitions[PARTITION_STREAM, p]
            rank_partition(clock, s, p)
            clock.clocks[s] = max(clock.clocks[s], slowest_partition(clock, s))
            clock.scalars[MAX_TS] = max(clock.scalars[MAX_TS], clock.clocks[s])
    for s in range(len(clock.clocks)):
        silent = now - clock.last_arrival[s] > timeout or is_left_behind(clock, s, policy.idle_after)
        if silent and clock.idle[s] == 0:
            clock.timeouts[s] += 1
        clock.idle[s] = 1 if silent else 0


@inner
def min_clock(clocks: Words, idle: Words) -> int:
    """The smallest clock among the streams that are not idle; BEFORE_ALL while one of them has none."""
    smallest = AFTER_ALL
    max_ts = BEFORE_ALL
    for s in range(len(clocks)):
        max_ts = max(max_ts, clocks[s])
        if idle[s] == 0:
            smallest = min(smallest, clocks[s])
    return max_ts if smallest == AFTER_ALL else smallest


@inner
def follow_largest_delay(clock: Clockwork) -> None:
    """Max-K-slack: K is never less than the largest delay seen."""
    if clock.scalars[LARGEST_DELAY] > clock.scalars[SLACK]:
        clock.scalars[SLACK] = clock.scalars[LARGEST_DELAY]
        at = clock.scalars[SLACK_CHANGES]
        clock.slack_log[0, at] = clock.scalars[MAX_TS]
        clock.slack_log[1, at] = clock.scalars[SLACK]
        clock.scalars[SLACK_CHANGES] += 1


@inner
def must_pause(clock: Clockwork, policy: Policy) -> bool:
    """Whether the controller is due, or has changes of K to read."""
    return bool(clock.scalars[MAX_TS] >= policy.pause_at or clock.scalars[SLACK_CHANGES] == SLACK_LOG)


@compiled
def min_clock_now(clocks: Words, idle: Words) -> int:
    """`min_clock`, for callers that are not compiled."""
    return min_clock(clocks, idle)
