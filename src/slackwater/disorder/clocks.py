"""Stream clocks, and the smallest of them that counts.

Invariant: a clock never goes back. A stream silent for longer than the idle timeout takes the smallest clock of the
others until it speaks again; without a timeout it holds everyone back, as the published algorithms have it.

References: 004 §2.2.1 (local current time, delay, skew, slowest stream).
"""

from __future__ import annotations

from slackwater.compiled import inner
from slackwater.disorder.state import (
    EPOCH_CLOCK,
    EPOCH_TUPLES,
    LARGEST,
    LARGEST_DELAY,
    NOW,
    SLACK,
    SLACK_CHANGES,
    SLACK_LOG,
    Clockwork,
    Policy,
)
from slackwater.model.batch import Words
from slackwater.model.time import AFTER_ALL, BEFORE_ALL


@inner
def hear(clock: Clockwork, s: int, t: int, now: int, passes: bool) -> int:
    """One tuple arrives: move its stream's clock, note its delay. Returns its delay against the clock as it is now."""
    if clock.scalars[LARGEST] == BEFORE_ALL:
        clock.scalars[EPOCH_CLOCK] = t
        for each in range(len(clock.last_heard)):
            clock.last_heard[each] = now
    clock.clocks[s] = max(clock.clocks[s], t)
    clock.scalars[LARGEST] = max(clock.scalars[LARGEST], t)
    clock.scalars[EPOCH_TUPLES] += 1
    clock.scalars[NOW] = now
    clock.last_heard[s] = now
    if passes and clock.before[s] != BEFORE_ALL:
        clock.scalars[LARGEST_DELAY] = max(clock.scalars[LARGEST_DELAY], clock.before[s] - t)
    return clock.clocks[s] - t


@inner
def mark_idle(clock: Clockwork, now: int, timeout: int) -> None:
    """Note which streams have been silent for longer than the timeout (negative: never)."""
    if timeout < 0:
        return
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
