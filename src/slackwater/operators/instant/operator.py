"""The operator of queries over instantaneous windows: ordered batches in, the answers of the instants passed out.

Invariant: the instants up to the watermark have been answered, in order, each from the tuples that came before the
watermark reached it; so results do not depend on how a stream is cut into batches. The tuples in windows are the state;
all else is made again from them. So the plan can change between two instants: no state moves, and results stay as they
are.

References: 004 §2.1.2, §6.2.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace

import numpy as np

from slackwater.core.batch import TS, Words
from slackwater.core.engines import EnginesSeen
from slackwater.core.state import (
    WINDOW,
    StateUpdate,
    decode_json,
    decode_words,
    encode_json,
    encode_words,
    state_update,
)
from slackwater.core.time import AFTER_ALL, BEFORE_ALL
from slackwater.core.values import as_json, of_json
from slackwater.disorder.ordered_batch import OrderedBatch
from slackwater.operators.contract import PLAIN, BuildContext, Operator
from slackwater.operators.instant.adapting import Adapting, Running
from slackwater.operators.instant.blocks import Block, gathered
from slackwater.operators.instant.column_engine import ColumnFragment, ReadWhereKept
from slackwater.operators.instant.fragments import COLUMN, ROW
from slackwater.operators.instant.row_engine import Instant, Node, compiled_rows
from slackwater.operators.instant.spec import InstantRelation
from slackwater.operators.instant.table_statistics import rates_at, take_statistics
from slackwater.operators.instant.windows import Windows
from slackwater.operators.output import Output, joined
from slackwater.operators.state_size import WindowContents

MOST_LINES = 1 << 16
"""Lines at which an output is yielded; it is larger by at most the answer of one instant."""


class InstantOperator(Operator):
    """The mutable half of `InstantRelation`."""

    spec: InstantRelation

    def __init__(self, spec: InstantRelation, context: BuildContext = PLAIN) -> None:
        self.spec, self._context = spec, context
        self.windows = Windows(spec, context)
        self._fragments = self._built_all()
        self._adapting = Adapting()
        self._lines = [
            np.array([dict(places)[column.name] for column in spec.scan(stream).columns], np.int64)
            for stream, places in enumerate(spec.places)
        ]
        self._passed = BEFORE_ALL
        """All instants up to here have been answered."""
        self._fresh: list[tuple[int, Words]] = []
        self._chunks: dict[str, tuple[int, int]] = {}
        self._next = 0
        """The number of the next chunks, the same in every worker."""

    def _built_all(self) -> list[Node]:
        return [self._built(number) for number in range(len(self.spec.fragments))]

    def _built(self, number: int) -> Node:
        """A fragment on its engine."""
        fragments, context = self.spec.fragments, self._context
        fragment = fragments[number]
        if fragment.engine == COLUMN:
            return ColumnFragment(fragment.relation, fragments, self.windows, context)
        if fragment.by_row and number < len(fragments) - 1:
            return ReadWhereKept(fragment.relation)
        return compiled_rows(fragment.relation, self.windows, context)

    def process(self, run: OrderedBatch, ordered: bool) -> Iterator[Output]:
        """Take in a run; yield the answers of the instants that the watermark passes."""
        met = run.watermark_at_arrival
        reached = np.maximum.accumulate(np.maximum(met, run.ts) if ordered else met)
        cuts = (np.flatnonzero(np.diff(met // self.spec.slide)) + 1).tolist() if len(run) else []
        waiting: list[Output] = []
        for begin, end in zip([0, *cuts], [*cuts, len(run)], strict=True):
            if begin < end:
                waiting += self._answer(int(met[begin]), reached)
                self._take(run, begin, end)
        for output in self._answer(run.watermark, reached):
            waiting.append(output)
            if sum(one.results for one in waiting) >= MOST_LINES:
                yield joined(waiting)
                waiting = []
        if waiting:
            yield joined(waiting)

    def _take(self, run: OrderedBatch, begin: int, end: int) -> None:
        """Tuples that all came before the same instants."""
        ts, met = run.ts[begin:end], run.watermark_at_arrival[begin:end]
        slide = self.spec.slide
        next_instant = (np.maximum(ts, met) // slide + 1) * slide
        stream = run.stream[begin:end]
        for s in range(self.spec.streams):
            mine = (stream == s) & (next_instant - self.windows.ranges[s] <= ts)
            at = np.flatnonzero(mine)
            if len(at):
                when = ts[at]
                words = run.words[:, begin:end][np.ix_(self._lines[s], at)]
                self.windows.append(s, when, words, met[at])
                self._fresh.append((s, np.vstack([when, words])))

    def _answer(self, watermark: int, reached: Words) -> Iterator[Output]:
        """The instants up to the watermark; `reached` is where each tuple of the run has brought it."""
        if watermark <= self._passed:
            return
        slide = self.spec.slide
        if watermark // slide > self._passed // slide:
            at = (self._passed // slide + 1) * slide
            self._adapt(at)
            self.windows.advance(watermark)
            while at <= watermark:
                first = self._first_inside(at)
                if first >= at:
                    # Nothing stands in any window before that tuple enters one.
                    if first == AFTER_ALL:
                        break
                    at = (first // slide + 1) * slide
                    continue
                rows = self._rows_at(at)
                if rows.n:
                    yield self._output(at, rows, int(np.searchsorted(reached, at)))
                at += slide
            self.windows.expire((watermark // slide + 1) * slide)
        self._passed = watermark

    def _adapt(self, at: int) -> None:
        """Before an instant is answered: see whether another plan would be better, where it is time for that."""
        planner, spec = self.spec.planner, self.spec
        if planner is None or self._first_inside(at) >= at:
            return
        if self._adapting.is_due(lambda: rates_at(spec.as_stated, self.windows.tuples, at)):
            statistics = take_statistics(spec.as_stated, self.windows.tuples, at, self._context)
            better = planner.better_plan(spec.as_stated, spec.slide, (spec.relation, spec.placed), statistics)
            self._adapting.note(statistics, better is not None)
            if better is not None:
                self.change(better)

    def change(self, running: Running) -> None:
        """Go on with another plan. Tuples stay in their windows; what the plan keeps of them is made of them."""
        relation, placement = running
        self.spec = replace(self.spec, relation=relation, placement=placement, stated=self.spec.as_stated)
        self.windows.begin_change()
        self._fragments = self._built_all()
        self.windows.end_change(self._passed)

    @property
    def engines(self) -> EnginesSeen:
        row = self.spec.placed.count(ROW)
        return EnginesSeen(row, len(self.spec.placed) - row, self._adapting.changed, self._adapting.counted)

    def _first_inside(self, at: int) -> int:
        """The oldest event time that the windows of an instant reach back to, or the next after it."""
        stores = zip(self.windows.tuples, self.windows.ranges, strict=True)
        return min(store.first_from(at - size) for store, size in stores)

    def _rows_at(self, at: int) -> Block:
        given: list[Block] = []
        for fragment in self._fragments:
            given.append(gathered(fragment.blocks(Instant(at, given)), fragment.columns))
        return given[-1]

    def _output(self, at: int, rows: Block, by: int) -> Output:
        start, end = (np.full(rows.n, moment, np.int64) for moment in (at - self.spec.range, at))
        # A view would keep a whole window alive for as long as the results are.
        columns = (row.copy() for row in rows.rows[: len(self.spec.relation.columns)])
        return Output(end, (start, end, *columns), np.full(rows.n, by, np.int64), None, rows.n, at_watermark=True)

    @property
    def state_rows(self) -> int:
        """Tuples in windows."""
        return sum(self._live())

    def window_contents(self, watermark: int) -> Iterator[WindowContents]:
        for stream, count in enumerate(self._live()):
            yield WindowContents(stream, count, count * (1 + self.windows.tuples[stream].columns))

    def _live(self) -> list[int]:
        return [store.count(self._horizon(stream), AFTER_ALL) for stream, store in enumerate(self.windows.tuples)]

    def _horizon(self, stream: int) -> int:
        """No window of an instant to come reaches further back."""
        return (self._passed // self.spec.slide + 1) * self.spec.slide - self.windows.ranges[stream]

    def snapshot_delta(self) -> list[StateUpdate]:
        """New tuples as one chunk per stream; chunks whose tuples have all expired are dropped."""
        entries = [state_update("instant", "passed", encode_json({"passed": self._passed, "next": self._next + 1}))]
        if self.spec.planner is not None:
            entries.append(state_update("instant", "adapting", encode_json(as_json(self._adapting))))
        for key, (stream, newest) in list(self._chunks.items()):
            if newest < self._horizon(stream):
                del self._chunks[key]
                entries.append(state_update(WINDOW, key, None))
        for stream in range(self.spec.streams):
            parts = [words for s, words in self._fresh if s == stream]
            words = np.concatenate(parts, axis=1) if parts else np.zeros((1, 0), np.int64)
            words = words[:, words[TS] >= self._horizon(stream)]
            if words.shape[1]:
                key = f"{stream}-{self._next}"
                self._chunks[key] = (stream, int(words[TS].max()))
                entries.append(state_update(WINDOW, key, encode_words({f"w{r}": row for r, row in enumerate(words)})))
        self._fresh.clear()
        self._next += 1
        return entries

    def restore(self, entries: list[StateUpdate]) -> None:
        """Tuples go back into their windows, oldest chunk first, and what stands on them is made again."""
        chunks: dict[tuple[int, int], bytes] = {}
        for entry in entries:
            if entry.namespace == "instant" and entry.value is not None:
                saved = decode_json(entry.value)
                if entry.key == "adapting":
                    self._adapting = of_json(Adapting, saved)
                else:
                    self._passed, self._next = saved["passed"], saved.get("next", 0)
            elif entry.value is None:
                self._chunks.pop(entry.key, None)
            else:
                stream, epoch = map(int, entry.key.split("-"))
                chunks[epoch, stream] = entry.value
        for (epoch, stream), value in sorted(chunks.items()):
            columns = decode_words(value)
            words = np.stack([columns[f"w{r}"] for r in range(len(columns))])
            self._chunks[f"{stream}-{epoch}"] = (stream, int(words[TS].max()))
            self.windows.tuples[stream].append(words[TS], words[1:])
        self.windows.expire((self._passed // self.spec.slide + 1) * self.spec.slide)
        self._resume_plan()
        self.windows.make_again(self._passed)

    def _resume_plan(self) -> None:
        """Go on with the plan that was in force, where it was another than the one that was stated."""
        planner, spec, statistics = self.spec.planner, self.spec, self._adapting.in_force
        if planner is not None and statistics is not None and statistics.is_of(spec.as_stated):
            self.change(planner.plan_for(spec.as_stated, spec.slide, statistics))
