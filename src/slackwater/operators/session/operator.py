"""Session windows: a window of a key lasts for as long as its tuples follow each other closely.

Invariant: a session is emitted once, in the order of its end, when the watermark has passed that end. A late tuple
counts if it belongs to a session that was open when the watermark it met was reached, or if one of its own would be
open; it makes sessions one that it stands between. So it is all the same which of those that met one watermark comes
first, unless sessions are cut off at a length; and without late tuples nothing depends on how they came.

References: Akidau et al.: The Dataflow Model, VLDB 2015 (windows that are merged); Traub et al.: Scotty, ICDE 2018.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np

from slackwater.core.batch import Words
from slackwater.core.collections.numbering import Numbering
from slackwater.core.collections.records import CHAIN, NONE, grown, table
from slackwater.core.state import StateUpdate
from slackwater.core.time import format_duration
from slackwater.disorder.ordered_batch import OrderedBatch
from slackwater.expressions.text_table import TextTable
from slackwater.operators.aggregate.algebra import AggregateSpec, lower
from slackwater.operators.aggregate.operator import WindowAggregate
from slackwater.operators.aggregate.partials import program_for
from slackwater.operators.array_checkpoint import ArrayCheckpoint
from slackwater.operators.contract import PLAIN, BuildContext, Operator, WithoutKey
from slackwater.operators.output import Output
from slackwater.operators.session import table as st
from slackwater.operators.session.values import KeptValues
from slackwater.operators.state_size import WindowContents

SMALLEST = 256
UNBOUNDED = 2**62
"""The length of a session that may be of any."""


@dataclass(frozen=True)
class SessionAggregate(WindowAggregate):
    """Spec: `range` is the gap, and `most` how long a session may be; None: of any length."""

    most: int | None = None

    @property
    def needs_order(self) -> bool:
        """Tuples in time go to the newest session of their key, and where one is full event times say it."""
        return True

    @property
    def as_panes(self) -> None:
        return None

    @property
    def watched(self) -> None:
        return None

    @property
    def state_identity(self) -> object:
        return super().state_identity, self.most

    @property
    def without_key(self) -> WithoutKey:
        return WithoutKey.NOT

    @property
    def moves(self) -> str:
        """The window, in words.

        >>> SessionAggregate(2_000_000, None, (), (), 2, most=60_000_000).moves
        'sessions with gaps of at most 2 s, at most 1 min long'
        """
        length = "" if self.most is None else f", at most {format_duration(self.most)} long"
        return f"sessions with gaps of at most {format_duration(self.range)}{length}"

    def kept_as(self, one: AggregateSpec) -> str:
        return "all values of each session" if one.holistic else "a partial result per session"

    def build(self, context: BuildContext = PLAIN) -> Operator:
        return self.emitting(SessionOperator(self, context.texts), context)


class SessionOperator(Operator):
    """The mutable half of `SessionAggregate`: the sessions that are open."""

    def __init__(self, spec: SessionAggregate, texts: TextTable | None = None) -> None:
        self.spec = spec
        self._key_rows = np.array(spec.keys, np.int64)
        self._own = st.KEY + len(spec.keys)
        self._program = program_for(spec.layout, texts)
        self._texts = texts
        self._kept = ArrayCheckpoint("sessions")
        self._begin()

    def _begin(self) -> None:
        self._records = table(SMALLEST, self._own + self.spec.layout.width)
        self._heads = np.full(SMALLEST, NONE, np.int64)
        self._counts = np.zeros(2, np.int64)
        self._numbers = Numbering(len(self.spec.keys), nulls=True)
        self._values = KeptValues(self.spec.aggregates)

    @property
    def _now(self) -> st.Sessions:
        most = UNBOUNDED if self.spec.most is None else self.spec.most
        floats = self._records.view(np.float64)
        return st.Sessions(
            self._program, self._records, floats, self._heads, self._counts, self._own, self.spec.range, most
        )

    def process(self, run: OrderedBatch, ordered: bool) -> Iterator[Output]:
        """Take in a run; yield the sessions it closes."""
        passed = run.passed(ordered)
        if len(run):
            self._take_in(run, passed)
        reached = run.watermark if not len(run) else max(run.watermark, int(passed[-1]))
        closed = np.flatnonzero(self._records[:, st.LIVE] == 1)
        ends = self._ends(closed)
        # Sessions of one end leave in the order of their beginning and of their keys, whatever place they have.
        closed, ends = closed[ends < reached], ends[ends < reached]
        keys = self._records[closed, st.KEY : self._own]
        order = np.lexsort((*keys.T[::-1], self._records[closed, st.FIRST], ends))
        if len(order):
            yield self._emitted(closed[order], ends[order], passed)

    def _take_in(self, run: OrderedBatch, passed: Words) -> None:
        words = np.ascontiguousarray(run.words)
        group = self._numbered(words[self._key_rows], len(run))
        self._reserve(len(run))
        came = st.Came(words, words.view(np.float64), self._key_rows, group, passed)
        into, of = np.full(len(self._records), NONE, np.int64), np.empty(len(run), np.int64)
        st.take_in(self._now, came, run.ts < passed, into, of)
        self._values.take_in(of, words)
        st.settle(self._now, into, self._values.of)

    def _emitted(self, closed: Words, ends: Words, passed: Words) -> Output:
        records, spec = self._records, self.spec
        state = np.ascontiguousarray(records[closed, self._own :])
        answers = iter(self._values.answers(closed))
        values = [next(answers) if one.holistic else lower(one, spec.layout, state) for one in spec.aggregates]
        keys = (records[closed, st.KEY + k] for k in range(len(spec.keys)))
        columns = (records[closed, st.FIRST], ends, *keys, *values)
        # The newest hang in front, where they are found at once.
        st.close(self._now, closed[::-1])
        self._forget_keys()
        return Output(ends, columns, np.searchsorted(passed, ends, "right"), None, len(closed), True, True)

    def _ends(self, sessions: Words) -> Words:
        first, last = self._records[sessions, st.FIRST], self._records[sessions, st.LAST]
        ends = last + self.spec.range
        return ends if self.spec.most is None else np.minimum(ends, first + self.spec.most)

    def _numbered(self, keys: Words, rows: int) -> Words:
        """The numbers of keys, for which there is room."""
        group = self._numbers.of(np.ascontiguousarray(keys), rows)
        more = self._numbers.count - len(self._heads)
        if more > 0:
            self._heads = np.concatenate([self._heads, np.full(more + len(self._heads), NONE, np.int64)])
        return group

    def _reserve(self, more: int) -> None:
        size = capacity = len(self._records)
        while capacity < self._counts[st.USED] + more + 1:
            capacity *= 2
        if capacity > size:
            self._records = grown(self._records, capacity, int(self._counts[st.FREE]))
            self._counts[st.FREE] = size

    def _forget_keys(self) -> None:
        """Number the keys of open sessions anew when most that are numbered have none."""
        if self._numbers.count < 4 * int(self._counts[st.USED]) + SMALLEST:
            return
        self._hang_again(np.flatnonzero(self._records[:, st.LIVE] == 1))

    def _hang_again(self, live: Words) -> None:
        self._numbers = Numbering(len(self.spec.keys), nulls=True)
        self._heads = np.full(SMALLEST, NONE, np.int64)
        self._records[live, st.GROUP] = self._numbered(self._records[live, st.KEY : self._own].T, len(live))
        st.hang_all(self._now, live)

    @property
    def state_rows(self) -> int:
        """Open sessions, and values of holistic aggregates."""
        return int(self._counts[st.USED]) + len(self._values)

    def window_contents(self, watermark: int) -> Iterator[WindowContents]:
        """The same, with their words."""
        used, values = int(self._counts[st.USED]), self._values
        words = used * self._records.shape[1] + values.of.size + values.words.size
        yield WindowContents(0, used + len(values), words)

    def snapshot_delta(self) -> list[StateUpdate]:
        live = np.flatnonzero(self._records[:, st.LIVE] == 1)
        # Up to the last that is in use, each at its place: what did not change is not written again.
        kept = self._records[: live.max(initial=-1) + 1].copy()
        kept[kept[:, st.LIVE] == 0] = 0
        kept[:, [CHAIN, st.GROUP, st.OLDER]] = 0
        arrays = {"sessions": kept, "of": self._values.of}
        arrays |= {f"v{at}": words for at, words in enumerate(self._values.words)}
        return list(self._kept.snapshot_delta(arrays))

    def restore(self, entries: list[StateUpdate]) -> None:
        arrays = self._kept.restore(entries)
        self._begin()
        kept = arrays["sessions"]
        self._reserve(len(kept))
        self._records[: len(kept), st.LIVE :] = kept[:, st.LIVE :]
        live = self._records[:, st.LIVE] == 1
        free = np.flatnonzero(~live)
        self._records[free, CHAIN] = np.append(free[1:], NONE)
        self._counts[[st.FREE, st.USED]] = free[0], np.count_nonzero(live)
        self._hang_again(np.flatnonzero(live))
        self._values.of = np.array(arrays["of"], np.int64)
        self._values.words = np.array([arrays[f"v{at}"] for at in range(len(self._values.rows))], np.int64).reshape(
            len(self._values.rows), len(self._values.of)
        )
