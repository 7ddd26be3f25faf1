"""The window aggregate operator: sliding and tumbling, with and without groups, incremental.

Invariant: a window `[start, end)` is emitted once per group that has tuples in it, when the frontier reaches `end`; a
late tuple counts in every window that was still open when it came, and in no other.

References: 004 §2.1.2, §3.1 (Example 3.1.1), §4.1.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from functools import cached_property

import numpy as np

from slackwater.disorder.run import Run
from slackwater.kernel import Change, changed, decode_json, decode_words, encode_json, encode_words
from slackwater.model.batch import Words
from slackwater.model.time import BEFORE_ALL
from slackwater.operators import sliding as sl
from slackwater.operators.algebra import AggregateSpec, Layout, lower
from slackwater.operators.closing import (
    CLOSED_ALL,
    CLOSED_ONE,
    LET_OUT_BY,
    OF_GROUP,
    OF_KEY,
    WINDOW,
    admit_panes,
    consume,
)
from slackwater.operators.output import Output
from slackwater.operators.partials import program_for
from slackwater.operators.records import NONE
from slackwater.operators.reentry import put_back
from slackwater.operators.tables import Tables
from slackwater.operators.values import LINK, WORD, SortedWindow
from slackwater.windows.panes import Panes, first_open, last_pane, panes

MOST_LINES = 1 << 17
"""Lines per output chunk; a chunk is larger only where one window has more groups than this."""


@dataclass(frozen=True)
class WindowAggregate:
    """Spec: the window, the rows that hold the group keys, the aggregates.

    Output columns: window start, window end, keys, aggregates.
    """

    range: int
    slide: int | None
    keys: tuple[int, ...]
    aggregates: tuple[AggregateSpec, ...]
    rows: int
    """Word rows of an input tuple."""

    @property
    def streams(self) -> int:
        return 1

    @property
    def needs_order(self) -> bool:
        """Aggregates commute, so epoch release may hand tuples over unsorted."""
        return False

    @cached_property
    def grid(self) -> Panes:
        return panes(self.range, self.slide)

    @cached_property
    def layout(self) -> Layout:
        return Layout.of(self.aggregates)

    def build(self) -> AggregateOperator:
        return AggregateOperator(self)


class AggregateOperator:
    """The mutable half of `WindowAggregate`: runs in, closed windows out."""

    def __init__(self, spec: WindowAggregate) -> None:
        self.spec = spec
        self._program = program_for(spec.layout)
        self._key_rows = np.array(spec.keys, np.int64)
        kinds = {a.row: a.kind for a in spec.aggregates if a.holistic}
        self._value_rows = np.array(list(kinds), np.int64)
        self._sorted = {row: SortedWindow(i, kind) for i, (row, kind) in enumerate(kinds.items())}
        self._tables = Tables(len(spec.keys), spec.layout.width, len(kinds))
        self._saved: set[int] = set()
        scalars = self._tables.scalars
        scalars[sl.NEXT] = first_open(spec.grid, BEFORE_ALL)
        scalars[sl.ENTERED] = scalars[sl.FLIP] = last_pane(spec.grid, int(scalars[sl.NEXT]) - 1)

    def process(self, run: Run, ordered: bool) -> Iterator[Output]:
        """Take in a run; yield the windows it closes."""
        t, spec = self._tables, self.spec
        t.make_room(len(run))
        words = np.ascontiguousarray(run.words)
        begin, status, room = 0, -1, 1024
        while status != CLOSED_ALL:
            most = max(room, int(t.scalars[sl.GROUPS]) + (len(run) - begin if t.keys else 1))
            lines = np.empty((most, OF_KEY + t.keys), np.int64)
            state = np.empty((most, t.width), np.int64)
            begin, n, status = consume(
                self._program, spec.grid, self._key_rows, self._value_rows,
                words, words.view(np.float64), run.cutoff, ordered, begin, run.frontier,
                t.partials, t.floats, t.groups, t.group_floats, t.panes, t.buckets, t.values, t.moved, t.scalars,
                lines, state, state.view(np.float64),
            )  # fmt: skip
            if status == CLOSED_ONE:
                self._slide_values()
            else:
                room = min(4 * room, MOST_LINES)
            if n:
                yield self._lowered(lines[:n], state[:n])

    def _slide_values(self) -> None:
        t = self._tables
        half, came, went = len(t.moved) // 2, int(t.scalars[sl.CAME]), int(t.scalars[sl.WENT])
        for window in self._sorted.values():
            window.slide(t.moved[:came], t.moved[half : half + went])
        t.scalars[[sl.CAME, sl.WENT]] = 0

    def _lowered(self, lines: Words, state: Words) -> Output:
        spec = self.spec
        start = lines[:, WINDOW] * spec.grid.slide
        group = np.ascontiguousarray(lines[:, OF_GROUP])
        lowered = [
            self._sorted[a.row].lower(a, group) if a.holistic else lower(a, spec.layout, state) for a in spec.aggregates
        ]
        keys = [np.ascontiguousarray(lines[:, OF_KEY + c]) for c in range(len(spec.keys))]
        return Output(
            start + spec.range,
            (start, start + spec.range, *keys, *lowered),
            np.ascontiguousarray(lines[:, LET_OUT_BY]),
            None,
            len(lines),
        )

    @property
    def retained(self) -> int:
        """Partial aggregates, and values of holistic ones."""
        return int(self._tables.scalars[sl.PARTIALS] + self._tables.scalars[sl.VALUES_KEPT])

    def changes(self) -> list[Change]:
        table = self._tables.partials
        live = np.flatnonzero(table[:, sl.PANE] != sl.NO_PANE)
        pane_of = table[live, sl.PANE]
        touched = set(np.unique(pane_of[table[live, sl.DIRTY] == 1]).tolist())
        present = set(np.unique(pane_of).tolist())
        entries = [changed("aggregate", "next", encode_json({"next": int(self._tables.scalars[sl.NEXT])}))]
        for pane in sorted(touched):
            members = live[pane_of == pane]
            entries.append(changed("pane", str(pane), self._encode_partials(members)))
            if self._sorted:
                entries.append(changed("values", str(pane), self._encode_values(members)))
        for pane in sorted(self._saved - present):
            entries.append(changed("pane", str(pane), None))
            if self._sorted:
                entries.append(changed("values", str(pane), None))
        table[:, sl.DIRTY] = 0
        self._saved = (self._saved & present) | touched
        return entries

    def _encode_partials(self, members: Words) -> bytes:
        t = self._tables
        group = t.partials[members, sl.GROUP]
        columns = {f"k{c}": t.groups[group, sl.KEY + c] for c in range(t.keys)}
        return encode_words(columns | {f"s{c}": t.partials[members, sl.OWN + c] for c in range(t.width)})

    def _encode_values(self, members: Words) -> bytes:
        t = self._tables
        owner, kept = [], []
        for position, e in enumerate(members.tolist()):
            v = int(t.partials[e, sl.VALUES])
            while v != NONE:
                owner.append(position)
                kept.append(v)
                v = int(t.values[v, LINK])
        columns = {"owner": np.array(owner, np.int64)}
        return encode_words(columns | {f"v{h}": t.values[kept, WORD + h] for h in range(t.arguments)})

    def restore(self, entries: list[Change]) -> None:
        """Rebuild the panes; those that had entered the window enter it again."""
        live = {(entry.cell, entry.key): entry.value for entry in entries if entry.value is not None}
        following = int(decode_json(live.pop(("aggregate", "next")))["next"])
        numbers = sorted(int(key) for cell, key in live if cell == "pane")
        for pane in numbers:
            partials = decode_words(live["pane", str(pane)])
            kept = decode_words(live["values", str(pane)]) if self._sorted else {}
            self._restore_pane(pane, partials, kept)
        t = self._tables
        t.scalars[[sl.NEXT, sl.FLIP]] = following, sl.NO_PANE
        admit_panes(
            self._program, t.partials, t.floats, t.groups, t.group_floats, t.panes, t.buckets, t.values, t.moved,
            t.scalars, sl.NO_PANE, last_pane(self.spec.grid, following - 1), bool(self._sorted),
        )  # fmt: skip
        self._slide_values()
        t.partials[:, sl.DIRTY] = 0
        self._saved = set(numbers)

    def _restore_pane(self, pane: int, partials: dict[str, Words], kept: dict[str, Words]) -> None:
        t = self._tables
        count = len(partials["s0"])
        owners = kept.get("owner", np.zeros(0, np.int64))
        t.make_room(max(count, len(owners)))
        keys = np.array([partials[f"k{c}"] for c in range(t.keys)], np.int64).reshape(t.keys, count)
        state = np.stack([partials[f"s{c}"] for c in range(t.width)], axis=1)
        held = np.array([kept[f"v{h}"] for h in range(t.arguments)], np.int64).reshape(t.arguments, len(owners))
        put_back(
            self._program, pane, keys, np.arange(t.keys), np.ascontiguousarray(state),
            owners, held, np.arange(t.arguments),
            t.partials, t.floats, t.groups, t.panes, t.buckets, t.values, t.scalars,
        )  # fmt: skip
