"""A synopsis of all tuples that an operator has processed: counts by event time and key, in bounded memory for any run.

Event time is cut into a fixed number of buckets. When the run grows longer than they reach, all become twice as wide
and pairs are merged; so every age is covered, as finely as a fixed number of buckets can. What is far older than
anything near it goes into one last bucket of its own, lest a single row dated 1970 make all others coarse. In a bucket
tuples are counted per stream, and also by the hash of the keys that equalities compare with another stream.

Invariant: no tuple can have more partners, among those noted so far, than `bound` says: it counts a whole bucket, and
all keys of a slot, wherever one of them may be a partner.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence, Set
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt

from slackwater.core.batch import TS, Words
from slackwater.core.collections.hash_table import mix
from slackwater.core.jit import in_place, inner
from slackwater.core.schema import NULL_WORD
from slackwater.core.time import AFTER_ALL, BEFORE_ALL

Key = tuple[int, int]
"""A stream, and the row of a key of it."""
SLOTS = 64
CELLS = 1 << 18
FEWEST_BUCKETS, MOST_BUCKETS = 256, 4096
PERSISTED = ("state", "counts", "totals", "since", "until")
"""What makes its state."""
PIECES = 8
"""A bucket is at first this part of the largest window."""
UNUSED = -(2**62)
# Of the state of the buckets: the number of the first one, how wide they are, the largest number in use.
FIRST, WIDTH, LAST = range(3)
# Columns of a step: the partner, and where its links begin and end.
PARTNER, LINKS_BEGIN, LINKS_END = range(3)
VIA_OTHERS = -1
"""The own row of a link that leads to another partner, not to the arriving tuple."""


class Synopsis(NamedTuple):
    """All buckets; the last one has what is older than all others. Arrays by bucket come first."""

    counts: Words
    """(buckets, rows, slots): a row is a stream by the keys that it has in common with another one."""
    totals: Words
    """(buckets, streams)."""
    since: Words
    until: Words
    """(buckets, streams): the event times between which these tuples lie."""
    state: Words
    rows: Words
    """(rows, 3): the stream, and where its keys begin and end."""
    keys: Words
    """Rows of words."""
    steps: Words
    """(streams, streams - 1, 3): in which order partners are counted."""
    links: Words
    """(links, 2): which row of counts bounds the partner, and the arriving tuple's own or VIA_OTHERS."""
    windows: Words
    back: Words
    ahead: Words
    """(streams, streams): how much older and newer than the first a tuple of the second may be."""
    slots: Words
    """Space for the counts of one row."""


def synopsis_of(
    classes: Sequence[Set[Key]], windows: Words, most: Words | None, longest: int = 0
) -> Synopsis:  # fmt: skip
    """An empty synopsis of a join with these classes of equal keys; `most` has the bounds between pairs where windows
    do not say it all, and `longest` says what is too long for a window where they have no end."""
    streams = len(windows)
    rows = _Rows(classes)
    steps, links = _ways(streams, rows)
    cells = len(rows.lines) * SLOTS + 3 * streams
    buckets = max(FEWEST_BUCKETS, min(MOST_BUCKETS, 1 << ((CELLS // cells).bit_length() - 1)))
    back, ahead = np.tile(windows, (streams, 1)), np.tile(windows[:, None], (1, streams))
    if most is not None:
        back, ahead = np.minimum(back, most), np.minimum(ahead, most.T)
    return Synopsis(
        np.zeros((buckets + 1, len(rows.lines), SLOTS), np.int64), np.zeros((buckets + 1, streams), np.int64),
        np.full((buckets + 1, streams), AFTER_ALL), np.full((buckets + 1, streams), BEFORE_ALL),
        np.array([UNUSED, max(1, (longest or int(windows.max())) // PIECES), UNUSED]),
        np.array(rows.lines, np.int64).reshape(-1, 3), np.array(rows.keys, np.int64), steps, links, windows,
        np.ascontiguousarray(back), np.ascontiguousarray(ahead), np.zeros(SLOTS, np.int64),
    )  # fmt: skip


class _Rows:
    """The rows of counts: a stream by the keys that it has in common with another one, all of them together."""

    def __init__(self, classes: Sequence[Set[Key]]) -> None:
        # Where a stream has two rows in a class, one of them is enough for a bound.
        self._places = [dict(sorted(members, reverse=True)) for members in classes]
        self._number: dict[tuple[int, tuple[int, ...]], int] = {}
        self.lines: list[tuple[int, int, int]] = []
        self.keys: list[int] = []

    def shared(self, one: int, other: int) -> tuple[int, ...]:
        """The classes that link two streams."""
        return tuple(c for c, places in enumerate(self._places) if one in places and other in places)

    def of(self, stream: int, classes: tuple[int, ...]) -> int:
        """The row of a stream as these classes see it, made where it is not there yet."""
        if (stream, classes) not in self._number:
            self._number[stream, classes] = len(self.lines)
            begin = len(self.keys)
            self.keys += [self._places[c][stream] for c in classes]
            self.lines.append((stream, begin, len(self.keys)))
        return self._number[stream, classes]


def _ways(streams: int, rows: _Rows) -> tuple[Words, Words]:
    """For every arriving stream the steps to its partners: those that its own keys bound come first."""
    steps = np.zeros((streams, max(0, streams - 1), 3), np.int64)
    links: list[tuple[int, int]] = []
    for root in range(streams):
        bound, rest = [root], [s for s in range(streams) if s != root]
        for d in range(streams - 1):
            stream = min(
                rest, key=lambda s: (not rows.shared(s, root), not any(rows.shared(s, other) for other in bound), s)
            )
            steps[root, d, :LINKS_END] = stream, len(links)
            links += _links(stream, root, bound, rows)
            steps[root, d, LINKS_END] = len(links)
            bound.append(stream)
            rest.remove(stream)
    return steps, np.array(links, np.int64).reshape(-1, 2)


def _links(stream: int, root: int, bound: list[int], rows: _Rows) -> list[tuple[int, int]]:
    """What bounds a stream once others are bound: the slot of the arriving tuple's keys, or the fullest slot."""
    links = []
    for other in bound:
        shared = rows.shared(stream, other)
        if shared:
            links.append((rows.of(stream, shared), rows.of(root, shared) if other == root else VIA_OTHERS))
    return links


@inner
def note_tuple(syn: Synopsis, s: int, words: Words, i: int) -> None:
    """A tuple has been processed."""
    ts = words[TS, i]
    k = ts // syn.state[WIDTH] - syn.state[FIRST]
    if k < 0 or k >= len(syn.totals) - 1:
        k = make_way(syn, ts)
    elif k + syn.state[FIRST] > syn.state[LAST]:
        syn.state[LAST] = k + syn.state[FIRST]
    syn.totals[k, s] += 1
    syn.since[k, s] = min(syn.since[k, s], ts)
    syn.until[k, s] = max(syn.until[k, s], ts)
    for r in range(len(syn.rows)):
        if syn.rows[r, 0] == s:
            slot = slot_of(syn, r, words, i)
            if slot >= 0:
                syn.counts[k, r, slot] += 1


@inner
def slot_of(syn: Synopsis, r: int, words: Words, i: int) -> int:
    """The slot of a tuple in a row of counts; -1 where a key of it is null, and so equal to none."""
    mixed = 0
    for x in range(syn.rows[r, 1], syn.rows[r, 2]):
        key = words[syn.keys[x], i]
        if key == NULL_WORD:
            return -1
        mixed = mix(mixed ^ key)
    return mixed & (SLOTS - 1)


@inner
def make_way(syn: Synopsis, ts: int) -> int:
    """The bucket of an event time that lies outside of all."""
    buckets, state = len(syn.totals) - 1, syn.state
    if state[LAST] == UNUSED:
        state[LAST] = ts // state[WIDTH]
        state[FIRST] = state[LAST] - buckets // 4
        return state[LAST] - state[FIRST]
    if ts // state[WIDTH] < state[FIRST]:
        # As far back as the run is long already there may be buckets; what is older stands by itself.
        if state[LAST] - ts // state[WIDTH] > 2 * buckets:
            return buckets
        while state[LAST] - ts // state[WIDTH] >= buckets:
            widen(syn)
        if ts // state[WIDTH] < state[FIRST]:
            move_up(syn, state[FIRST] - ts // state[WIDTH])
    else:
        while ts // state[WIDTH] - state[FIRST] >= buckets:
            widen(syn)
        state[LAST] = max(state[LAST], ts // state[WIDTH])
    return ts // state[WIDTH] - state[FIRST]


@inner
def widen(syn: Synopsis) -> None:
    """Make buckets twice as wide."""
    buckets, first = len(syn.totals) - 1, syn.state[FIRST]
    done = -1
    for k in range(buckets):
        to = (first + k) // 2 - first // 2
        if to != done:
            if to != k:
                copy(syn, k, to)
            done = to
        else:
            add(syn, k, to)
    for k in range(done + 1, buckets):
        clear(syn, k)
    syn.state[FIRST], syn.state[LAST] = first // 2, syn.state[LAST] // 2
    syn.state[WIDTH] *= 2


@inner
def move_up(syn: Synopsis, by: int) -> None:
    """Make room for so many older buckets; those that would fall off at the other end must be empty."""
    buckets = len(syn.totals) - 1
    for k in range(buckets - 1, by - 1, -1):
        copy(syn, k - by, k)
    for k in range(min(by, buckets)):
        clear(syn, k)
    syn.state[FIRST] -= by


@inner
def copy(syn: Synopsis, k: int, to: int) -> None:
    """Put bucket k in the place of another."""
    for s in range(syn.totals.shape[1]):
        syn.totals[to, s], syn.since[to, s], syn.until[to, s] = syn.totals[k, s], syn.since[k, s], syn.until[k, s]
    for r in range(syn.counts.shape[1]):
        for slot in range(SLOTS):
            syn.counts[to, r, slot] = syn.counts[k, r, slot]


@inner
def add(syn: Synopsis, k: int, to: int) -> None:
    """Put bucket k together with another."""
    for s in range(syn.totals.shape[1]):
        syn.totals[to, s] += syn.totals[k, s]
        syn.since[to, s] = min(syn.since[to, s], syn.since[k, s])
        syn.until[to, s] = max(syn.until[to, s], syn.until[k, s])
    for r in range(syn.counts.shape[1]):
        for slot in range(SLOTS):
            syn.counts[to, r, slot] += syn.counts[k, r, slot]


@inner
def clear(syn: Synopsis, k: int) -> None:
    """Empty bucket k."""
    for s in range(syn.totals.shape[1]):
        syn.totals[k, s], syn.since[k, s], syn.until[k, s] = 0, AFTER_ALL, BEFORE_ALL
    for r in range(syn.counts.shape[1]):
        for slot in range(SLOTS):
            syn.counts[k, r, slot] = 0


@inner
def bound(syn: Synopsis, s: int, words: Words, i: int, known: int) -> tuple[float, float, float, float]:
    """The most results that a tuple can have with those noted so far; of these, the most in which a partner of some
    stream is older than `known` less the window of that stream. Then how many of the latter it has, and how many of the
    others, up to a constant factor: if tuples are spread evenly over their buckets and keys over their slots.
    """
    every, older, expected, newer = 1.0, 0.0, 1.0, 1.0
    ts = words[TS, i]
    for d in range(syn.steps.shape[1]):
        j = syn.steps[s, d, PARTNER]
        low, high = ts - syn.back[s, j], ts + syn.ahead[s, j]
        most, likely = partners(syn, s, d, words, i, low, high)
        if most == 0:
            return 0.0, 0.0, 0.0, 0.0
        some, unlikely = most, likely
        if known - syn.windows[j] <= high:
            some, unlikely = partners(syn, s, d, words, i, low, known - syn.windows[j] - 1)
        # A result has its oldest part in one of the streams so far, or else in this one.
        older = min(older * most + every * some, every * most)
        every *= most
        expected *= likely
        newer *= likely - unlikely
    return every, older, max(0.0, expected - newer), newer


@inner
def partners(syn: Synopsis, s: int, d: int, words: Words, i: int, low: int, high: int) -> tuple[float, float]:
    """Of the stream that step d counts, how many tuples between two event times fit to those bound before: at most,
    and probably."""
    j, width, first, last = syn.steps[s, d, PARTNER], syn.state[WIDTH], syn.state[FIRST], len(syn.totals) - 1
    # Behind the buckets in reach stands the last one, whose tuples may be anywhere before.
    begin = max(0, low // width - first)
    end = max(begin - 1, min(last - 1, high // width - first))
    fewest, likely = 0.0, 0.0
    for at in range(begin, end + 2):
        k = at if at <= end else last
        part = covered(syn, k, j, low, high)
        if part > 0:
            fewest += syn.totals[k, j]
            likely += syn.totals[k, j] * part
    for x in range(syn.steps[s, d, LINKS_BEGIN], syn.steps[s, d, LINKS_END]):
        if fewest == 0:
            break
        r, own = syn.links[x, 0], syn.links[x, 1]
        if own == VIA_OTHERS:
            here, chance = fullest(syn, r, j, low, high, begin, end)
            thinned = chance * likely
        else:
            here, thinned = in_slot(syn, r, j, slot_of(syn, own, words, i), low, high, begin, end)
        if here <= fewest:
            fewest, likely = here, thinned
    return fewest, likely


@inner
def covered(syn: Synopsis, k: int, j: int, low: int, high: int) -> float:
    """The part of a bucket's tuples of a stream that lies between two event times, if they are spread evenly."""
    since, until = syn.since[k, j], syn.until[k, j]
    if since > high or until < low or since > until:
        return 0.0
    if low <= since and until <= high:
        return 1.0
    return (min(until, high) - max(since, low) + 1.0) / (until - since + 1.0)


@inner
def in_slot(
    syn: Synopsis, r: int, j: int, slot: int, low: int, high: int, begin: int, end: int
) -> tuple[float, float]:  # fmt: skip
    """The tuples of a stream in a slot, -1 for none: all of the buckets, and by time."""
    most, likely = 0.0, 0.0
    if slot < 0:
        return most, likely
    last = len(syn.totals) - 1
    for at in range(begin, end + 2):
        k = at if at <= end else last
        part = covered(syn, k, j, low, high)
        if part > 0:
            most += syn.counts[k, r, slot]
            likely += syn.counts[k, r, slot] * part
    return most, likely


@inner
def fullest(syn: Synopsis, r: int, j: int, low: int, high: int, begin: int, end: int) -> tuple[float, float]:
    """The most tuples of a stream that share a slot; and the chance of two to do so."""
    last = len(syn.totals) - 1
    for slot in range(SLOTS):
        syn.slots[slot] = 0
    for at in range(begin, end + 2):
        k = at if at <= end else last
        if covered(syn, k, j, low, high) > 0:
            for slot in range(SLOTS):
                syn.slots[slot] += syn.counts[k, r, slot]
    most, total, squares = 0.0, 0.0, 0.0
    for slot in range(SLOTS):
        most = max(most, float(syn.slots[slot]))
        total += syn.slots[slot]
        squares += float(syn.slots[slot]) ** 2
    return most, squares / total**2 if total > 0 else 0.0


@in_place
def note_all(syn: Synopsis, s: int, words: Words) -> None:
    """Tuples of one stream have been processed."""
    for i in range(words.shape[1]):
        note_tuple(syn, s, words, i)


@in_place
def bounded(syn: Synopsis, s: int, words: Words) -> float:
    """The most results that one tuple can have."""
    return bound(syn, s, words, 0, AFTER_ALL)[0]


def as_arrays(syn: Synopsis) -> dict[str, npt.NDArray[Any]]:
    """All state."""
    return {name: getattr(syn, name) for name in PERSISTED}


def restore(syn: Synopsis, arrays: Mapping[str, npt.NDArray[Any]]) -> None:
    """Take over what `as_arrays` gave."""
    for name in PERSISTED:
        getattr(syn, name)[:] = arrays[name]
