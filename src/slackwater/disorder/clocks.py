"""Stream clocks, and the smallest of them that counts.

Invariant: a clock never goes back. A stream that has parts goes by the smallest of their clocks. A stream silent for
longer than the idle timeout takes the smallest clock of the others until it speaks again; without a timeout it holds
everyone back, as the published algorithms have it.

References: 004 §2.2.1 (local current time, delay, skew, slowest stream).
"""

from __future__ import annotations

from slackwater.compiled import compiled, inner
from slackwater.disorder.state import (
    EPOCH_CLOCK,
    EPOCH_TUPLES,
    LARGEST,
    LARGEST_DELAY,
    MAX_BEHIND,
    NOW,
    PART_CLOCK,
    PART_HEARD,
    PART_IDLE,
    PART_STREAM,
    SLACK,
    SLACK_CHANGES,
    SLACK_LOG,
    UNTAUGHT,
    Arrivals,
    Clockwork,
    Policy,
)
from slackwater.model.batch import TS, Words
from slackwater.model.time import AFTER_ALL, BEFORE_ALL


@inner
def hear(clock: Clockwork, new: Arrivals, i: int, now: int, afresh: bool) -> int:
    """Tuple i arrives: move its stream's clock, note its delay. Returns its delay against the clock as it is now.

    `afresh` says that the tuple is an epoch of its own, so that its delay counts against the clock it has just moved.
    """
    s, t = new.stream[i], new.words[TS, i]
    reading = new.reading[i] if len(new.reading) > 0 else t
    if clock.scalars[LARGEST] == BEFORE_ALL:
        clock.scalars[EPOCH_CLOCK] = reading
        for each in range(len(clock.last_heard)):
            clock.last_heard[each] = now
    if len(new.part) > 0 and new.part[i] >= 0:
        part = new.part[i]
        clock.parts[PART_CLOCK, part] = max(clock.parts[PART_CLOCK, part], reading)
        clock.parts[PART_HEARD, part] = now
        clock.parts[PART_IDLE, part] = 0
        clock.clocks[s] = max(clock.clocks[s], slowest_part(clock, s))
    else:
        clock.clocks[s] = max(clock.clocks[s], reading)
    if afresh:
        clock.before[s] = clock.clocks[s]
    clock.scalars[LARGEST] = max(clock.scalars[LARGEST], clock.clocks[s])
    clock.scalars[EPOCH_TUPLES] += 1
    clock.scalars[NOW] = now
    clock.last_heard[s] = now
    if new.passes[i] and clock.before[s] != BEFORE_ALL:
        behind = max(0, clock.before[s] - t)
        teaches = behind <= clock.scalars[MAX_BEHIND]
        if teaches:
            clock.scalars[LARGEST_DELAY] = max(clock.scalars[LARGEST_DELAY], behind)
        if len(new.behind) > 0:
            new.behind[i] = behind if teaches else UNTAUGHT
            new.needed[i] = max(0, slowest(clock.before, clock.idle) - t) if teaches else UNTAUGHT
    return max(0, clock.clocks[s] - t)


@inner
def moment_of(clock: Clockwork, new: Arrivals, i: int) -> int:
    """When tuple i arrives; by the clocks where arrival times are not known."""
    if len(new.heard) > 0:
        return new.heard[i]
    return max(clock.scalars[LARGEST], new.reading[i] if len(new.reading) > 0 else new.words[TS, i])


@inner
def slowest_part(clock: Clockwork, s: int) -> int:
    """The smallest clock among the parts of a stream that are not idle; the largest where all are.

    A part that most others have left behind by more than `max_behind` has a wrong clock, and is not waited for.
    """
    beyond = BEFORE_ALL
    while True:
        smallest, largest, active = AFTER_ALL, BEFORE_ALL, 0
        for p in range(clock.parts.shape[1]):
            if clock.parts[PART_STREAM, p] == s:
                reading = clock.parts[PART_CLOCK, p]
                largest = max(largest, reading)
                if clock.parts[PART_IDLE, p] == 0 and reading >= beyond:
                    smallest = min(smallest, reading)
                    active += 1
        if smallest == AFTER_ALL:
            return largest
        if smallest == BEFORE_ALL:
            return smallest
        left_behind = 0
        for p in range(clock.parts.shape[1]):
            if clock.parts[PART_STREAM, p] == s and clock.parts[PART_IDLE, p] == 0:
                left_behind += 1 if clock.parts[PART_CLOCK, p] - smallest > clock.scalars[MAX_BEHIND] else 0
        if 2 * left_behind <= active:
            return smallest
        beyond = smallest + 1


@inner
def mark_idle(clock: Clockwork, now: int, timeout: int) -> None:
    """Note which streams have been silent for longer than the timeout (negative: never)."""
    if timeout < 0:
        return
    for p in range(clock.parts.shape[1]):
        if clock.parts[PART_IDLE, p] == 0 and now - clock.parts[PART_HEARD, p] > timeout:
            clock.parts[PART_IDLE, p] = 1
            s = clock.parts[PART_STREAM, p]
            clock.clocks[s] = max(clock.clocks[s], slowest_part(clock, s))
            clock.scalars[LARGEST] = max(clock.scalars[LARGEST], clock.clocks[s])
    for s in range(len(clock.clocks)):
        silent = now - clock.last_heard[s] > timeout
        if silent and clock.idle[s] == 0:
            clock.timeouts[s] += 1
        clock.idle[s] = 1 if silent else 0


@inner
def slowest(clocks: Words, idle: Words) -> int:
    """The smallest clock among the streams that are not idle; BEFORE_ALL while one of them has none."""
    smallest = AFTER_ALL
    largest = BEFORE_ALL
    for s in range(len(clocks)):
        largest = max(largest, clocks[s])
        if idle[s] == 0:
            smallest = min(smallest, clocks[s])
    return largest if smallest == AFTER_ALL else smallest


@inner
def follow_largest_delay(clock: Clockwork) -> None:
    """Max-K-slack: K is never less than the largest delay seen."""
    if clock.scalars[LARGEST_DELAY] > clock.scalars[SLACK]:
        clock.scalars[SLACK] = clock.scalars[LARGEST_DELAY]
        at = clock.scalars[SLACK_CHANGES]
        clock.slack_log[0, at] = clock.scalars[LARGEST]
        clock.slack_log[1, at] = clock.scalars[SLACK]
        clock.scalars[SLACK_CHANGES] += 1


@inner
def must_pause(clock: Clockwork, policy: Policy) -> bool:
    """Whether the controller is due, or has changes of K to read."""
    return bool(clock.scalars[LARGEST] >= policy.pause_at or clock.scalars[SLACK_CHANGES] == SLACK_LOG)


@compiled
def slowest_now(clocks: Words, idle: Words) -> int:
    """`slowest`, for callers that are not compiled."""
    return slowest(clocks, idle)
