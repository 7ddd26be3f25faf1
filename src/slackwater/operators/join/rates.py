"""Sampling: how many tuples of each stream an interval of time holds, and how near in time two of them must be.

Event time is cut into slices. When time moves on beyond the end of a slice, the slices that are over become the sample,
and say for every stream how many tuples its window is to hold, `received * interval / span`, and half the longest
interval between two tuples as the distance in time of a match (epsilon). What differs little from what is in force
changes nothing.

- `slices` = 1: rounds, as published: each sample stands alone, and span is what its event times cover in the stream
  where they cover most (max_timestamp_interval).
- `slices` > 1: the sample is the last interval, moved on by a slice at a time; span is how long the sample was. Where
  more tuples have come since the interval less one slice began than a window holds, it grows at once: so it never
  holds less than that, whatever rates do. An interval shorter than a slice goes by the rate of the slice so far. Too
  large a first guess lets everything match everything, and whatever is above that join would have to live with it for a
  whole sample; so while the first slice lasts, epsilon is looked at early, and again each time twice as much has gone
  by, and that slice is left out as soon as there are two others.

A sample in which nothing came says nothing, nor does a round whose event times cover nothing.

Invariant: what is in force for a tuple hangs on the tuples in time with smaller event times alone, and not on the order
of equal ones, nor on how the input was cut.

References: 001 §2.2, §2.3, Fig. 2.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from slackwater.core.batch import Words
from slackwater.core.jit import inner
from slackwater.core.schema import NULL_WORD
from slackwater.core.time import AFTER_ALL, BEFORE_ALL, MINUTE

FIRST_SIZE = 100
FIRST_WITHIN = 30 * MINUTE
"""Where the paper starts from: a window of 100 tuples, and matches within half an hour."""
BAND = 32
"""A size, or epsilon, is changed by more than one part in so many, or not at all."""
ALL = 2.0**61
"""A window of so many tuples lets go of none."""

EARLY = 32
"""What part of the first slice epsilon is first looked at after."""
MORE = 32
"""A window that grows at once gets room for one part in so many more than it needs."""

# Fields of the state of a sample; OVER: how many slices are over.
WITHIN, SLICE, UNTIL, PEEK, AT, OVER, BEGUN, MAPPED, FIRST_MOMENT, FIRST_TS, NOW, LOGGED = range(12)
STATE_FIELDS = 12
UNKNOWN = NULL_WORD
# Per stream and slice.
RECEIVED, FIRST, LAST = range(3)
# Per stream: event time of its last tuple, and the interval before it, or UNKNOWN; how many tuples have come since its
# interval began, but for the first slice of it.
LATEST, INTERVAL, NEEDED = range(3)
# Columns of a log line; the sizes follow.
SINCE, DISTANCE, SIZES = range(3)


class Sampling(NamedTuple):
    """What the loop of a join reads and writes; `on` is false where windows have the sizes they were given."""

    on: bool
    adapts: bool
    """Whether epsilon is found at run time."""
    by_arrival: bool
    """Whether `asked` is time of arrival, to be mapped to event time once."""
    asked: Words
    """The interval of every stream, as the query has it."""
    kept: Words
    """The same in event time."""
    sizes: Words
    """The windows in force, in tuples."""
    state: Words
    slices: Words
    """Shape (streams, slices, 3)."""
    streams: Words
    """Shape (streams, 3)."""
    log: Words
    """A line for every change."""


def sampling(asked: tuple[int, ...], within: int | None, slices: int, by_arrival: bool, first: int) -> Sampling:
    """A sample that has seen nothing; all windows hold `first` tuples."""
    state = np.zeros(STATE_FIELDS, np.int64)
    state[WITHIN] = FIRST_WITHIN if within is None else within
    state[MAPPED], state[NOW] = not by_arrival, BEFORE_ALL
    # A sample is as long as the longest interval: all streams wait for each other (the barrier).
    state[SLICE] = -(-max(asked) // slices)
    intervals = np.array(asked, np.int64)
    return Sampling(
        True, within is None, by_arrival, intervals, intervals.copy(), np.full(len(asked), first, np.int64), state,
        np.zeros((len(asked), slices, 3), np.int64), np.array([[UNKNOWN, UNKNOWN, 0]] * len(asked), np.int64),
        no_log(len(asked)),
    )  # fmt: skip


def no_sampling(sizes: Words) -> Sampling:
    """Windows of given sizes."""
    none = np.zeros(0, np.int64)
    return Sampling(
        False, False, False, none, none, sizes, none, np.zeros((0, 0, 3), np.int64), np.zeros((0, 3), np.int64),
        no_log(len(sizes)),
    )  # fmt: skip


def no_log(streams: int, lines: int = 1) -> Words:
    """Space for so many changes."""
    return np.zeros((lines, SIZES + streams), np.int64)


@inner
def look(taken: Sampling, ts: int, emit_time: int) -> bool:
    """Time has moved on to that of a tuple about to be processed; tells whether something else is in force from it."""
    state = taken.state
    if not state[MAPPED] and not map_intervals(taken, ts, emit_time):
        return False
    n = taken.slices.shape[1]
    left, right, within = taken.sizes[0], taken.sizes[1], state[WITHIN]
    if not state[BEGUN]:
        state[BEGUN], state[FIRST_TS], state[UNTIL] = 1, ts, ts + state[SLICE]
        state[PEEK] = ts + max(1, state[SLICE] // EARLY) if n > 1 else AFTER_ALL
    elif ts >= state[UNTIL]:
        over = 1 + (ts - state[UNTIL]) // state[SLICE]
        state[UNTIL] += over * state[SLICE]
        state[PEEK] = AFTER_ALL
        # In a silence slices go by that have nothing in them; a round that has nothing in it says nothing.
        for _ in range(min(over - 1, n) if n > 1 else 0):
            next_slice(taken)
        resize(taken)
        next_slice(taken)
    elif ts >= state[PEEK]:
        peeked = state[PEEK]
        while state[PEEK] <= ts:
            peeked, state[PEEK] = state[PEEK], 2 * state[PEEK] - state[FIRST_TS]
        new_distance(taken, peeked - state[FIRST_TS])
    if n > 1:
        grow(taken, ts)
    changed = left != taken.sizes[0] or right != taken.sizes[1] or within != state[WITHIN]
    if changed:
        write_down(taken, ts)
    return changed


@inner
def grow(taken: Sampling, ts: int) -> None:
    """Grow the windows that are too small for what has come."""
    passed = ts - (taken.state[UNTIL] - taken.state[SLICE])
    for s in range(len(taken.sizes)):
        needed, kept = taken.streams[s, NEEDED], taken.kept[s]
        if kept < passed:
            # More of the slice has gone by than the window is to hold: its share of what came.
            needed = int(np.ceil(needed * (kept / passed)))
        if needed > taken.sizes[s]:
            taken.sizes[s] = needed + needed // MORE


@inner
def next_slice(taken: Sampling) -> None:
    """The slice at hand is part of the sample, and a new one begins in the place of the oldest."""
    state, n = taken.state, taken.slices.shape[1]
    state[OVER] += 1
    at = state[AT] = (state[AT] + 1) % n
    for s in range(len(taken.sizes)):
        taken.slices[s, at, RECEIVED] = 0
        taken.streams[s, NEEDED] = 0
        # So many slices, the new one included, lie inside the interval of the stream all the time.
        inside = min(n, state[OVER] + 1, (taken.kept[s] + state[SLICE] - 1) // state[SLICE])
        for back in range(inside):
            taken.streams[s, NEEDED] += taken.slices[s, (at - back) % n, RECEIVED]


@inner
def receive(taken: Sampling, s: int, ts: int) -> None:
    """A tuple has been processed: the sampling operator on its stream counts it."""
    if not taken.state[MAPPED]:
        return
    now, known = taken.slices[s, taken.state[AT]], taken.streams[s]
    if now[RECEIVED] == 0:
        now[FIRST] = ts
    now[RECEIVED] += 1
    now[LAST] = ts
    known[NEEDED] += 1
    if known[LATEST] != UNKNOWN:
        known[INTERVAL] = ts - known[LATEST]
    known[LATEST] = ts


@inner
def resize(taken: Sampling) -> None:
    """Take over what the sample says, where it differs enough."""
    elapsed = in_sample(taken) * taken.state[SLICE]
    span, anything = 0, False
    for s in range(len(taken.sizes)):
        received, first, last = received_in_sample(taken, s)
        if received > 0:
            span, anything = max(span, last - first), True
    if taken.slices.shape[1] > 1:
        span = elapsed if anything else 0
    if span == 0:
        return
    for s in range(len(taken.sizes)):
        received, _, _ = received_in_sample(taken, s)
        # A round whose tuples lie side by side may ask for more than can be counted.
        wanted = max(1, int(np.ceil(min(received * (taken.kept[s] / span), ALL))))
        if abs(wanted - taken.sizes[s]) > taken.sizes[s] // BAND:
            taken.sizes[s] = wanted
    new_distance(taken, elapsed)


@inner
def new_distance(taken: Sampling, elapsed: int) -> None:
    """Half the longest mean interval between tuples of a stream, where it is to be found and differs enough."""
    longest = 0
    for s in range(len(taken.sizes)):
        received, first, last = received_in_sample(taken, s)
        interval = taken.streams[s, INTERVAL]
        if received > 1:
            interval = (last - first) // (received - 1)
        elif interval == UNKNOWN:
            # Two tuples of it have never been heard, so the interval is at least as long as this.
            interval = elapsed
        longest = max(longest, interval)
    within, now = longest // 2, taken.state[WITHIN]
    if taken.adapts and within > 0 and abs(within - now) > now // BAND:
        taken.state[WITHIN] = within


@inner
def in_sample(taken: Sampling) -> int:
    """How many slices the sample has, the one at hand included: all there are, but for the very first."""
    over = taken.state[OVER]
    return min(taken.slices.shape[1], over if over > 1 else over + 1)


@inner
def received_in_sample(taken: Sampling, s: int) -> tuple[int, int, int]:
    """Of a stream in the sample: how many tuples, and the first and last event time."""
    received, first, last = 0, 0, 0
    n, at, sample = taken.slices.shape[1], taken.state[AT], in_sample(taken)
    for back in range(sample):
        one = taken.slices[s, (at - sample + 1 + back) % n]
        if one[RECEIVED] > 0:
            if received == 0:
                first = one[FIRST]
            last = one[LAST]
            received += one[RECEIVED]
    return received, first, last


@inner
def write_down(taken: Sampling, since: int) -> None:
    """What is in force for tuples from here on."""
    line = taken.log[taken.state[LOGGED]]
    line[SINCE] = since
    line[DISTANCE] = taken.state[WITHIN]
    for s in range(len(taken.sizes)):
        line[SIZES + s] = taken.sizes[s]
    taken.state[LOGGED] += 1


@inner
def map_intervals(taken: Sampling, ts: int, emit_time: int) -> bool:
    """Map intervals of arrival to event time: what the event times cover while the longest one passes.

    References: 001 §2.3 (the user states wall-clock time, the first sample maps it).
    """
    state, longest = taken.state, 0
    if not state[BEGUN]:
        state[BEGUN], state[FIRST_MOMENT], state[FIRST_TS] = 1, emit_time, ts
        return False
    for s in range(len(taken.asked)):
        longest = max(longest, taken.asked[s])
    passed = emit_time - state[FIRST_MOMENT]
    if passed < longest or ts == state[FIRST_TS]:
        return False
    pace = (ts - state[FIRST_TS]) / passed
    for s in range(len(taken.asked)):
        taken.kept[s] = max(1, int(taken.asked[s] * pace))
    state[SLICE] = max(1, int(np.ceil(longest * pace / taken.slices.shape[1])))
    state[MAPPED], state[BEGUN] = 1, 0
    return True
