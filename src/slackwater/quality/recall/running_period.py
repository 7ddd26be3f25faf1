"""The period that is running: what it has lost already, and what it would lose if what is going on lasted.

Invariant: `run[k]` is what slack k would have lost in the run of intervals, up to now, that each lose more than is
allowed; `late[k]` is how many tuples that is known from. An interval that loses less halves both, so that one quiet
second does not end what goes on, and a burst is soon forgotten here.

What has lasted for some time is taken to last as long again. So slack k is too short as soon as

    lost by the slack in force in the last three quarters of a period + run[k]  >  what a period may lose

At a sudden change half of what is left of the allowance is spent before that holds, and the period can still keep its
target. A short burst does not get that far, nor do a few late tuples: `run` counts at its lower confidence bound.

Where delays keep growing, what was enough for the last interval is too little for the next one. So what they grow by
in the next intervals is added.
"""

from __future__ import annotations

from collections.abc import Mapping
from math import exp
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt

from slackwater.core.batch import Floats, Words
from slackwater.core.jit import in_place, inner
from slackwater.quality.recall.loss_curves import JoinShape, bin_of, curve_of, top_of
from slackwater.quality.recall.loss_history import LossHistory, Past

CONFIDENT = 2.0
"""Standard deviations by which a loss must be known."""
LEAST_RATE = 0.3
"""What may be lost in a period that is spoilt already, as a share of what is allowed."""
AHEAD = 3
"""Intervals for which growth is reckoned with: to choose is one, to emit what was held another."""
GROWN = 5
"""Intervals over which growth is looked for."""

BY_SLACK = ("run", "late", "faded")


class Running(NamedTuple):
    """By slack: what the run at hand would have lost, in tuples, and the late tuples in it. By interval: two rings."""

    run: Floats
    late: Floats
    lost: Floats
    """What the slack in force has lost in the last intervals, in tuples."""
    tuples: Floats
    recent: Floats
    """By slack: what it would have lost lately, in tuples; an interval counts half as much as the next one. The last
    place has the tuples themselves."""
    faded: Floats
    """By slack: tuples that needed it; what is older counts less."""
    levels: Words
    """The slack that would have been enough for each of the last intervals, the newest first."""
    far: Floats
    """What the cap would have lost in the newest interval, in tuples, if tuples beyond it were like all others."""


class Scratch(NamedTuple):
    """Space to reckon in."""

    shares: Floats
    integrals: Floats
    curve: Floats


@inner
def note(
    shape: JoinShape, counts: Words, work: Scratch, past: Past, newest: int, running: Running, at: int,
    in_force: int, cap: int, worth: float, allowed: float, decayed_histogram: float,
) -> None:  # fmt: skip
    """Put an interval into the past and into the running period.

    What even the slack at place `cap` would lose counts with its `worth`.
    """
    top, streams = top_of(counts), counts.shape[0]
    n = 0
    for s in range(streams):
        for k in range(top + 1):
            n += counts[s, k]
    running.lost[at] = running.far[0] = 0.0
    running.tuples[at] = n
    for k in range(len(running.run)):
        running.recent[k] *= 0.5
        running.faded[k] *= decayed_histogram
    running.recent[-1] *= 0.5
    running.recent[-1] += n
    if n == 0:
        return
    curve = work.curve
    curve_of(shape, counts, top, work.shares, work.integrals, curve)
    if cap <= top:
        far = curve[cap]
        running.far[0] = far * n
        for k in range(top + 1):
            curve[k] -= (1.0 - worth) * min(curve[k], far)
    past.tuples[newest] += n
    level = beyond = 0
    for k in range(top, -1, -1):
        past.loss[k, newest] += np.float32(curve[k] * n)
        running.recent[k] += curve[k] * n
        if curve[k] > allowed:
            running.run[k] += curve[k] * n
            running.late[k] += beyond
            level = max(level, k + 1)
        else:
            running.run[k] *= 0.5
            running.late[k] *= 0.5
        for s in range(streams):
            beyond += counts[s, k]
            running.faded[k] += counts[s, k]
            counts[s, k] = 0
    for k in range(top + 1, len(running.run)):
        running.run[k] *= 0.5
        running.late[k] *= 0.5
    for i in range(GROWN - 1, 0, -1):
        running.levels[i] = running.levels[i - 1]
    running.levels[0] = shape.slacks[level]
    k = bin_of(shape.slacks, in_force)
    if shape.slacks[k] > in_force:
        k -= 1
    if k <= top:
        running.lost[at] = curve[k] * n


@inner
def surely_lost(running: Running, k: int) -> float:
    """What the run at hand has lost at least under slack k, in tuples."""
    late = running.late[k]
    if late <= CONFIDENT * CONFIDENT:
        return 0.0
    return float(running.run[k]) * (1.0 - CONFIDENT / late**0.5)


@inner
def least_for_now(shape: JoinShape, running: Running, at: int, seen: int, first: int, allowed: float) -> int:
    """The least slack, from `first` on, with which the running period may still keep its target; microseconds.

    `at` is the place of the newest interval in the rings, and `seen` how many there have been.
    """
    size = len(running.tuples)
    used = min(seen, size)
    back = max(1, min(seen, size - size // 4))
    lost = tuples = 0.0
    for i in range(used):
        tuples += running.tuples[(at - i) % size]
        if i < back:
            lost += running.lost[(at - i) % size]
    mean = tuples / max(used, 1)
    left = max(allowed * mean * size - lost, 2 * allowed * mean)
    if surely_lost(running, first) <= left:
        return int(shape.slacks[first])
    # What is left may be spent in the rest of a period that comes; a spoilt period is to be over soon.
    rest = allowed * mean * (size - back)
    share = min(max((allowed * mean * size - lost) / rest, LEAST_RATE), 1.0) if rest > 0 else 0.0
    k = first
    while k < len(running.run) - 1 and running.recent[k] > share * allowed * running.recent[-1]:
        k += 1
    return int(shape.slacks[k]) + AHEAD * growth(running.levels)


@inner
def growth(levels: Words) -> int:
    """By how much the slack that is enough grows from one interval to the next; 0 where it does not keep growing.

    Levels are some percent apart, so slow growth is only seen over more intervals.
    """
    found = 0
    for i in range(1, len(levels)):
        if levels[i] > levels[i - 1]:
            break
        if i >= 2:
            found = max(found, (levels[0] - levels[i]) // i)
    return found


@in_place
def take_in(
    counts: Words, newest: int, at: int, seen: int, in_force: int, first: int, cap: int, worth: float, allowed: float,
    decayed_histogram: float, *arrays: Any,
) -> int:  # fmt: skip
    """Put an interval that has ended into the past and into the running period, and begin another one.

    Returns what `least_for_now` says then.
    Arrays are those of the shape, the scratch, the past and the running period: named tuples take longer to unpack than
    all of this.
    """
    shape, work = JoinShape(*arrays[:3]), Scratch(*arrays[3:6])
    past, running = Past(*arrays[6:10]), Running(*arrays[10:])
    note(shape, counts, work, past, newest, running, at, in_force, cap, worth, allowed, decayed_histogram)
    return least_for_now(shape, running, at, seen, first, allowed)


@in_place
def least_now(at: int, seen: int, first: int, allowed: float, *arrays: Any) -> int:
    """As `least_for_now`."""
    return least_for_now(JoinShape(*arrays[:3]), Running(*arrays[3:]), at, seen, first, allowed)


@in_place
def quantile(faded: Floats, slacks: Words, share: float) -> int:
    """The slack that this share of the tuples did not need more than."""
    total = 0.0
    for k in range(len(faded)):
        total += faded[k]
    upto, k = faded[0], 0
    while k < len(faded) - 1 and upto < share * total:
        k += 1
        upto += faded[k]
    return int(slacks[k])


class RunningPeriod:
    """The last intervals of a query, as many as a period has."""

    def __init__(self, shape: JoinShape, intervals: int, memory: int, cap: int) -> None:
        bins, streams, size = len(shape.slacks), len(shape.windows), max(4, intervals)
        self._shape, self._cap = shape, cap
        self.worth = 1.0
        """What the losses count that even the slack at place `cap` has."""
        self._work = Scratch(np.zeros((streams, bins)), np.zeros((streams + 1, bins)), np.zeros(bins))
        self._state = Running(
            np.zeros(bins), np.zeros(bins), np.zeros(size), np.zeros(size), np.zeros(bins + 1), np.zeros(bins),
            np.zeros(GROWN, np.int64), np.zeros(1),
        )  # fmt: skip
        self._seen = 0
        self._decayed_histogram = exp(-1 / (memory * size))

    def take_in(
        self, counts: Words, past: LossHistory, in_force: int, first: int, allowed: float, passed: int = 1
    ) -> tuple[float, float, int]:
        """Put the tuples of an interval, by the slack that they needed, into the past and into the running period.

        So many intervals have passed, with nothing in all of them but the last. Returns what the slack in force has
        lost, by the model and in tuples, how many tuples there were, and what `least` says of `first`.
        """
        size = len(self._state.lost)
        for _ in range(min(passed - 1, size)):
            self._seen += 1
            self._state.lost[self._seen % size] = self._state.tuples[self._seen % size] = 0.0
        self._seen += 1
        at = self._seen % size
        least = take_in(
            counts, past.sequence, at, self._seen, in_force, first, self._cap, self.worth, allowed,
            self._decayed_histogram,
            *self._shape, *self._work, *past.ring, *self._state,
        )  # fmt: skip
        return float(self._state.lost[at]), float(self._state.tuples[at]), least

    @property
    def far(self) -> float:
        """What the cap would have lost in the newest interval, in tuples, if tuples beyond it were like all others."""
        return float(self._state.far[0])

    def least(self, first: int, allowed: float) -> int:
        """The least slack, from the one at this place on, that is enough for what is going on; microseconds."""
        at = self._seen % len(self._state.lost)
        return least_now(at, self._seen, first, allowed, *self._shape, *self._state)

    def quantile(self, share: float) -> int:
        """The slack that this share of the tuples did not need more than; microseconds."""
        return quantile(self._state.faded, self._shape.slacks, share)

    def as_arrays(self) -> dict[str, npt.NDArray[Any]]:
        """All state, by slack as far as anything is known of it."""
        state = self._state._asdict()
        by_slack = np.array([state.pop(name) for name in BY_SLACK])
        recent = state.pop("recent")
        known = np.flatnonzero(by_slack.any(axis=0) | (recent[:-1] != 0))
        upto = int(known[-1]) + 1 if len(known) else 1
        return state | {
            "by_slack": np.vstack([by_slack, recent[:-1]])[:, :upto],
            "seen": np.array([self._seen]),
            "worth": np.array([self.worth]),
            "recent_tuples": recent[-1:],
        }

    def restore(self, arrays: Mapping[str, npt.NDArray[Any]]) -> None:
        """Take over what `as_arrays` of another one, made with the same arguments, gave."""
        state, by_slack = self._state, arrays["by_slack"]
        for name in ("lost", "tuples", "levels", "far"):
            getattr(state, name)[:] = arrays[name]
        for name, line in zip((*BY_SLACK, "recent"), by_slack, strict=True):
            getattr(state, name)[:] = 0
            getattr(state, name)[: len(line)] = line
        state.recent[-1] = arrays["recent_tuples"][0]
        self._seen, self.worth = int(arrays["seen"][0]), float(arrays["worth"][0])
