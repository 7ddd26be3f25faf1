"""The tables of the aggregate operator: how they grow between two calls of compiled code, and are filled again.

Invariant: partials, panes, groups and values keep their numbers when their tables grow, so links stay valid. A pane put
back has the partials and values it was persisted with, and waits to enter the window.
"""

from __future__ import annotations

from collections.abc import Sequence
from math import isqrt

import numpy as np

from slackwater.core.batch import Words
from slackwater.core.collections.records import NONE, grown, hang, table
from slackwater.core.collections.segments import segments, with_room
from slackwater.core.jit import in_place
from slackwater.operators.aggregate import state as st
from slackwater.operators.aggregate.algebra import AggregateSpec
from slackwater.operators.aggregate.holistic_values import (
    DIFFERENT_WORDS,
    DISTINCT,
    NEAR_AT,
    hang_different,
    holistic_of,
    keep,
)
from slackwater.operators.aggregate.near_rank import ROOTS
from slackwater.operators.aggregate.sliding import group_bucket, group_of, new_partial, partial_bucket
from slackwater.operators.aggregate.window_loop import add_to_pane, pane_bucket

SMALLEST = 256
USUAL_WIDTH = 16


class GrowingTables:
    """The state of one aggregate; `now` is what compiled code works on until the next growth."""

    def __init__(self, program: Words, keys: int, width: int, aggregates: Sequence[AggregateSpec]) -> None:
        self.keys, self.width = keys, width
        self.value_rows, arguments, asked, holistic_words = holistic_of(aggregates, st.KEY + keys + width, width)
        self.arguments = len(arguments)
        self.answers = sum(one.words for one in aggregates if one.holistic)
        """Words that are written of each window and group beside a partial result."""
        self._gathers = any(one.function != "COUNT_DISTINCT" for one in aggregates if one.holistic)
        self.quantiles = int(np.sum(asked[:, NEAR_AT] != NONE))
        self._counted = int(np.sum(arguments[:, DISTINCT]))
        partials = table(SMALLEST, st.OWN + 2 * width)
        partials[:, st.PANE] = st.NO_PANE
        groups = table(SMALLEST, st.KEY + keys + width + holistic_words)
        self.scalars = np.zeros(st.SCALARS, np.int64)
        self.scalars[[st.WIDTH, st.KEYS]] = width, keys
        self.now = st.Tables(
            program=program,
            partials=partials,
            floats=partials.view(np.float64),
            groups=groups,
            group_floats=groups.view(np.float64),
            panes=table(SMALLEST, st.PANE_FIELDS),
            buckets=np.full((3, SMALLEST), NONE, np.int64),
            arguments=arguments,
            asked=asked,
            blocks=table(SMALLEST, st.WORD + self.arguments * st.BLOCK),
            near=segments(),
            gathered=np.zeros(0, np.int64),
            different=table(SMALLEST, DIFFERENT_WORDS),
            different_buckets=np.full((1, SMALLEST), NONE, np.int64),
            scalars=self.scalars,
        )

    @property
    def wide(self) -> int:
        """How often the words of a usual partial are in one of these: so many fewer are handled at once."""
        return -(-self.width // USUAL_WIDTH)

    def reserve(self, tuples: int) -> None:
        """Space for this many more tuples, each of which may need a partial, a pane, a group and a value."""
        if wanted := self._too_small(self.now.partials, st.PARTIALS, tuples):
            self._grow_partials(wanted)
        if wanted := self._too_small(self.now.panes, st.PANES, tuples):
            self._grow_panes(wanted)
        if wanted := self._too_small(self.now.groups, st.GROUPS, tuples if self.keys else 1):
            self._grow_groups(wanted)
        if self.arguments:
            self._reserve_values(tuples)

    @property
    def words_in_use(self) -> int:
        """What partials and values take. Segments near quantiles are short, how short depends on what came before."""
        t, used = self.now, self.scalars
        records = (t.partials, st.PARTIALS), (t.blocks, st.BLOCKS), (t.different, st.DIFFERENT)
        return sum(int(used[count]) * table.shape[1] for table, count in records)

    def encoded(self, partials: Words) -> dict[str, Words]:
        """Columns of partials to persist: their keys, and their own states."""
        t, group = self.now, self.now.partials[partials, st.GROUP]
        columns = {f"k{c}": t.groups[group, st.KEY + c] for c in range(self.keys)}
        return columns | {f"s{c}": t.partials[partials, st.OWN + c] for c in range(self.width)}

    def decoded(self, saved: dict[str, Words]) -> tuple[Words, Words]:
        """The inverse: keys, of shape (keys, partials), and states, of shape (partials, words)."""
        keys = np.array([saved[f"k{c}"] for c in range(self.keys)], np.int64).reshape(self.keys, len(saved["s0"]))
        return keys, np.ascontiguousarray(np.stack([saved[f"s{c}"] for c in range(self.width)], axis=1))

    def _too_small(self, records: Words, used: int, tuples: int) -> int:
        """0 if there is room, else the power of two to grow to."""
        size = len(records)
        wanted = int(self.scalars[used]) + tuples + 1
        if wanted <= size:
            return 0
        while size < wanted:
            size *= 2
        return size

    def _empty_buckets(self, line: int, capacity: int) -> None:
        """As many empty buckets for a table as it has records now."""
        old = self.now.buckets
        if capacity > old.shape[1]:
            larger = np.full((len(old), capacity), NONE, np.int64)
            larger[:, : old.shape[1]] = old
            self.now = self.now._replace(buckets=larger)
        self.now.buckets[line] = NONE

    def _grow_partials(self, capacity: int) -> None:
        size = len(self.now.partials)
        partials = grown(self.now.partials, capacity, int(self.scalars[st.FREE_PARTIAL]))
        partials[size:, st.PANE] = st.NO_PANE
        self.scalars[st.FREE_PARTIAL] = size
        self.now = self.now._replace(partials=partials, floats=partials.view(np.float64))
        self._empty_buckets(st.OF_PARTIALS, capacity)
        _hang_partials(self.now)

    def _grow_panes(self, capacity: int) -> None:
        old, size = self.now.panes, len(self.now.panes)
        begin, count = int(self.scalars[st.INSIDE_BEGIN]), int(self.scalars[st.INSIDE_COUNT])
        panes = grown(old, capacity, int(self.scalars[st.FREE_PANE]))
        inside = old[(begin + np.arange(count)) % size, st.RING]
        panes[:count, st.RING] = inside
        self.scalars[[st.INSIDE_BEGIN, st.FREE_PANE]] = 0, size
        waiting = old[: int(self.scalars[st.WAITING]), st.HEAP]
        self.now = self.now._replace(panes=panes)
        self._empty_buckets(st.OF_PANES, capacity)
        _hang_panes(self.now, np.concatenate([inside, waiting]))

    def _grow_groups(self, capacity: int) -> None:
        size, partials = len(self.now.groups), self.now.partials
        used = np.unique(partials[partials[:, st.PANE] != st.NO_PANE, st.GROUP])
        groups = grown(self.now.groups, capacity, int(self.scalars[st.FREE_GROUP]))
        self.scalars[st.FREE_GROUP] = size
        self.now = self.now._replace(groups=groups, group_floats=groups.view(np.float64))
        self._empty_buckets(st.OF_GROUPS, capacity)
        _hang_groups(self.now, used)

    def _reserve_values(self, tuples: int) -> None:
        if wanted := self._too_small(self.now.blocks, st.BLOCKS, tuples):
            size = len(self.now.blocks)
            blocks = grown(self.now.blocks, wanted, int(self.scalars[st.FREE_BLOCK]))
            self.scalars[st.FREE_BLOCK] = size
            self.now = self.now._replace(blocks=blocks)
        kept = int(self.scalars[st.VALUES_KEPT])
        if self._counted:
            # What has not entered the window yet may do so before there is room for more.
            self._reserve_different((kept - int(self.scalars[st.VALUES_INSIDE]) + tuples) * self._counted)
        if self.quantiles:
            values, groups = kept + tuples, int(self.scalars[st.GROUPS]) + tuples
            # Of all ways to share values among groups, equal shares have the largest sum of roots. A segment that does
            # not last grows up to half of its values.
            longer = (2 * ROOTS * isqrt(values * groups) + values // 2) * self.quantiles
            self.now = self.now._replace(near=with_room(self.now.near, tuples * self.quantiles, longer))
        if self._gathers and kept + tuples > len(self.now.gathered):
            self.now = self.now._replace(gathered=np.empty(2 * (kept + tuples), np.int64))

    def _reserve_different(self, values: int) -> None:
        if wanted := self._too_small(self.now.different, st.DIFFERENT, values):
            size = len(self.now.different)
            different = grown(self.now.different, wanted, int(self.scalars[st.FREE_DIFFERENT]))
            self.scalars[st.FREE_DIFFERENT] = size
            buckets = np.full((1, wanted), NONE, np.int64)
            self.now = self.now._replace(different=different, different_buckets=buckets)
            hang_different(self.now)


@in_place
def _hang_partials(t: st.Tables) -> None:
    for e in range(len(t.partials)):
        if t.partials[e, st.PANE] != st.NO_PANE:
            b = partial_bucket(t, t.partials[e, st.PANE], t.partials[e, st.GROUP])
            hang(t.partials, t.buckets, st.OF_PARTIALS, b, e)


@in_place
def _hang_panes(t: st.Tables, used: Words) -> None:
    for p in used:
        hang(t.panes, t.buckets, st.OF_PANES, pane_bucket(t, t.panes[p, st.NUMBER]), p)


@in_place
def _hang_groups(t: st.Tables, used: Words) -> None:
    for g in used:
        hang(t.groups, t.buckets, st.OF_GROUPS, group_bucket(t, g), g)


@in_place
def put_back(
    t: st.Tables, pane: int, keys: Words, key_rows: Words, state: Words, owners: Words, held: Words, value_rows: Words
) -> None:
    """Make the partials of one pane as they were, each with the values it owned."""
    v = 0
    for p in range(len(state)):
        g = group_of(t, keys, key_rows, p)
        e = new_partial(t, pane, g)
        add_to_pane(t, pane, e, False)
        for c in range(state.shape[1]):
            t.partials[e, st.OWN + c] = state[p, c]
        while v < len(owners) and owners[v] == p:
            keep(t, e, held, value_rows, v)
            v += 1
