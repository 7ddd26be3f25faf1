"""The tables of the aggregate operator, and how they grow between two stretches of compiled code.

Invariant: partials, panes, groups and values keep their numbers when their tables grow, so links stay valid.
"""

from __future__ import annotations

from dataclasses import dataclass, field

import numpy as np

from slackwater.compiled import in_place
from slackwater.model.batch import Words
from slackwater.operators import pane_queue as pq
from slackwater.operators import sliding as sl
from slackwater.operators.partials import Floats
from slackwater.operators.records import NONE, grown, hang, table
from slackwater.operators.values import LINK, value_tables

SMALLEST = 256


@dataclass
class Tables:
    """All state of an aggregate."""

    keys: int
    width: int
    arguments: int
    partials: Words = field(init=False)
    groups: Words = field(init=False)
    panes: Words = field(init=False)
    buckets: Words = field(init=False)
    values: Words = field(init=False)
    moved: Words = field(init=False)
    scalars: Words = field(init=False)

    def __post_init__(self) -> None:
        self.partials = table(SMALLEST, sl.OWN + 2 * self.width)
        self.partials[:, sl.PANE] = sl.NO_PANE
        self.groups = table(SMALLEST, sl.KEY + self.keys + self.width)
        self.panes = table(SMALLEST, pq.FIELDS)
        self.buckets = np.full((3, SMALLEST), NONE, np.int64)
        self.values, self.moved = value_tables(self.arguments, SMALLEST if self.arguments else 1)
        self.scalars = np.zeros(sl.SCALARS, np.int64)
        self.scalars[[sl.WIDTH, sl.KEYS]] = self.width, self.keys

    @property
    def floats(self) -> Floats:
        return self.partials.view(np.float64)

    @property
    def group_floats(self) -> Floats:
        return self.groups.view(np.float64)

    def make_room(self, tuples: int) -> None:
        """Room for this many more tuples, each of which may need a partial, a pane, a group and a value."""
        if wanted := self._too_small(len(self.partials), sl.PARTIALS, tuples):
            size = len(self.partials)
            self.partials = grown(self.partials, wanted, int(self.scalars[sl.FREE_PARTIAL]))
            self.partials[size:, sl.PANE] = sl.NO_PANE
            self.scalars[sl.FREE_PARTIAL] = size
            self._empty_buckets(sl.OF_PARTIALS, wanted)
            _hang_partials(self.partials, self.buckets)
        if wanted := self._too_small(len(self.panes), sl.PANES, tuples):
            self._grow_panes(wanted)
        if wanted := self._too_small(len(self.groups), sl.GROUPS, tuples if self.keys else 1):
            self._grow_groups(wanted)
        if self.arguments and (wanted := self._too_small(len(self.values), sl.VALUES_KEPT, tuples)):
            self._grow_values(wanted)

    def _too_small(self, size: int, used: int, tuples: int) -> int:
        """0 if there is room, else the power of two to grow to."""
        wanted = int(self.scalars[used]) + tuples + 1
        if wanted <= size:
            return 0
        while size < wanted:
            size *= 2
        return size

    def _empty_buckets(self, line: int, capacity: int) -> None:
        """As many empty buckets for a table as it has records now."""
        if capacity > self.buckets.shape[1]:
            old = self.buckets
            self.buckets = np.full((len(old), capacity), NONE, np.int64)
            self.buckets[:, : old.shape[1]] = old
        self.buckets[line] = NONE

    def _grow_panes(self, capacity: int) -> None:
        old, size = self.panes, len(self.panes)
        begin, count = int(self.scalars[sl.INSIDE_BEGIN]), int(self.scalars[sl.INSIDE_COUNT])
        self.panes = grown(old, capacity, int(self.scalars[sl.FREE_PANE]))
        inside = old[(begin + np.arange(count)) % size, pq.RING]
        self.panes[:count, pq.RING] = inside
        self.scalars[[sl.INSIDE_BEGIN, sl.FREE_PANE]] = 0, size
        waiting = old[: int(self.scalars[sl.WAITING]), pq.HEAP]
        self._empty_buckets(sl.OF_PANES, capacity)
        _hang_panes(self.panes, self.buckets, np.concatenate([inside, waiting]))

    def _grow_groups(self, capacity: int) -> None:
        size = len(self.groups)
        used = np.unique(self.partials[self.partials[:, sl.PANE] != sl.NO_PANE, sl.GROUP])
        self.groups = grown(self.groups, capacity, int(self.scalars[sl.FREE_GROUP]))
        self.scalars[sl.FREE_GROUP] = size
        self._empty_buckets(sl.OF_GROUPS, capacity)
        _hang_groups(self.groups, self.buckets, used, self.keys)

    def _grow_values(self, capacity: int) -> None:
        size, half = len(self.values), len(self.moved) // 2
        values, moved = value_tables(self.arguments, capacity)
        values[:size] = self.values
        values[-1, LINK] = self.scalars[sl.FREE_VALUE]
        came, went = int(self.scalars[sl.CAME]), int(self.scalars[sl.WENT])
        moved[:came] = self.moved[:came]
        moved[capacity : capacity + went] = self.moved[half : half + went]
        self.scalars[sl.FREE_VALUE] = size
        self.values, self.moved = values, moved


@in_place
def _hang_partials(partials: Words, buckets: Words) -> None:
    for e in range(len(partials)):
        if partials[e, sl.PANE] != sl.NO_PANE:
            b = sl.partial_bucket(partials, partials[e, sl.PANE], partials[e, sl.GROUP])
            hang(partials, buckets, sl.OF_PARTIALS, b, e)


@in_place
def _hang_panes(panes: Words, buckets: Words, used: Words) -> None:
    for p in used:
        hang(panes, buckets, sl.OF_PANES, pq.bucket_of(panes, panes[p, pq.NUMBER]), p)


@in_place
def _hang_groups(groups: Words, buckets: Words, used: Words, n_keys: int) -> None:
    for g in used:
        hang(groups, buckets, sl.OF_GROUPS, sl.group_bucket(groups, n_keys, g), g)
