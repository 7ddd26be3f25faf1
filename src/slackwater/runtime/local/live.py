"""A running query in this process: a program pushes arrivals into it, and asks it for the next time step.

Invariant: what is pushed together is one epoch, put in order for free; pushes of several threads arrive one after the
other. Every row pushed is counted, and late and rejected ones can be had. The wall clock says which streams are silent.
Results depend on it only where the query asks for arrival times: with an idle timeout, or windows BY ARRIVAL.
"""

from __future__ import annotations

import time as wall
import warnings
from collections.abc import Iterator, Mapping
from dataclasses import replace
from typing import Any

import numpy as np
import pyarrow as pa

from slackwater.core.batch import ROW, TS, Batch, Words
from slackwater.core.errors import DataError, QueryError, UsageError
from slackwater.core.nested import column_at, leaves
from slackwater.core.schema import Kind, kind_of
from slackwater.core.state import NOTHING, Emission
from slackwater.core.time import AFTER_ALL, SECOND
from slackwater.language.bound import BoundQuery, goes_by_arrival
from slackwater.observe.delays import DelayTally
from slackwater.observe.report import Report, RunStatistics
from slackwater.observe.report_view import report_html
from slackwater.observe.value import QueryProgress
from slackwater.operators.pipeline import Epochs, check_epochs
from slackwater.plan.physical import PhysicalPlan
from slackwater.plan.planner import plan as planned
from slackwater.runtime.driver import Driver
from slackwater.runtime.follow import Source
from slackwater.runtime.history import History, are_among, as_history, cut_of, edges_of, id_words
from slackwater.runtime.kernels import kernel_for
from slackwater.runtime.local.answer import Answer
from slackwater.runtime.request.handle import Clock, Handle, Patience
from slackwater.runtime.request.reduction import Chunk
from slackwater.runtime.request.step import Fresh, joined, lines_of
from slackwater.runtime.side_outputs.collectors import BufferedSideOutput
from slackwater.runtime.side_outputs.rejections import RejectedRows, RejectionCounts, counts_by_reason
from slackwater.runtime.watching import EVERY, Publish, Watchable, Watcher, progress_of
from slackwater.runtime.words_held import words_held
from slackwater.sinks.rows import RowMaker
from slackwater.sources.binding import bind_to_tables, left_out
from slackwater.sources.codebook import Codebook
from slackwater.sources.encode import GOOD, IN_HISTORY, encode_time
from slackwater.sources.ingest import Ingested, ingest
from slackwater.sources.lookups import looked_up, without_lookups
from slackwater.sources.refreshing import NO_RELATIONS, Relations
from slackwater.sources.tabular import as_table, as_tables, check_unit, with_types

LARGEST_PIECE = 1000
"""Rows are made of tuples that came at once; of more than so many, none are made just to be shown."""


def live(
    query: str,
    streams: Mapping[str, Any],
    *,
    patience: Patience | None = None,
    keep: str | None = None,
    epochs: Epochs | None = None,
    time: str = "ts",
    time_unit: str = "ms",
    clock: Clock = wall.time,
    history: History | Mapping[str, Any] | None = None,
) -> LiveQuery:
    """Start a query over streams with these columns, each a pyarrow Schema or rows, which are then the first to arrive.

    `patience` says for how long a stream is waited for (see `LiveQuery.next`), `keep` how much of the streams, in event
    time, is kept at hand for the steps without it: by default 10 minutes more than a result reaches back. An epoch is
    one push, unless `epochs` says otherwise. What `slackwater.lookup` gives is a static relation. A `history` is read
    before anything is pushed, as `slackwater.history` says.

    >>> columns = pa.schema([("ts", pa.int64()), ("v", pa.int64())])
    >>> query = live("SELECT a.v AS av, b.v AS bv FROM a [5 s], b [5 s] WITH NO WAIT", {"a": columns, "b": columns})
    >>> query.push("a", pa.table({"ts": [1000, 4000], "v": [1, 4]}))
    >>> query.push("b", pa.table({"ts": [2000, 3000], "v": [2, 3]}))
    >>> step = query.next()
    >>> step.time.second, step.rows.drop_columns(["_ts"]).to_pylist(), step.degraded
    (2, [{'av': 1, 'bv': 2}], False)
    >>> query.close().report["tuples"]
    4
    """
    check_unit(time_unit)
    check_epochs(epochs)
    query, joins = looked_up(query, streams) if isinstance(streams, Mapping) else (query, ())
    pushed = as_tables(without_lookups(streams))
    relations = Relations(joins, streams)
    opened = round(clock() * SECOND)
    tables = {name: relations.widened(name, table, opened) for name, table in pushed.items()}
    bound = bind_to_tables(query, tables, time)
    for column in left_out(bound.query, tables):
        warnings.warn(f"{column} is left out; a query cannot read it", stacklevel=2)
    if bound.explain:
        raise QueryError("EXPLAIN runs nothing; print the plan with `slackwater explain`")
    live = LiveQuery(bound.query, planned(bound.query), epochs or Epochs(), patience, keep, time_unit, clock, relations)
    if history is not None:
        live.remember(as_history(history))
    for name, table in pushed.items():
        if table.num_rows:
            live.push(name, table)
    return live


class LiveQuery(Handle[Emission], Watchable):
    """A query that runs while a program pushes rows into it and asks for steps; `live` makes one."""

    def __init__(
        self,
        query: BoundQuery,
        plan: PhysicalPlan,
        epochs: Epochs,
        patience: Patience | None,
        keep: str | None,
        time_unit: str,
        clock: Clock,
        relations: Relations = NO_RELATIONS,
    ) -> None:
        self._relations = relations
        self._codebook = Codebook()
        self._maker = RowMaker(plan, self._codebook)
        schema = joined([self._maker.empty()]).schema
        super().__init__(
            query,
            plan,
            schema,
            Fresh(lines_of),
            patience=patience,
            keep=keep,
            time_unit=time_unit,
            clock=clock,
            side_output=BufferedSideOutput(plan, self._codebook, on_rejected=self._rejected),
        )
        self._kernel = kernel_for(plan, epochs, self._codebook)
        self._stamps_arrivals = plan.options.idle_timeout is not None or goes_by_arrival(query)
        self._by_wall_clock = plan.options.idle_timeout is not None and not epochs.each_tuple
        self._pushed = dict.fromkeys(self._sources, 0)
        self._unreadable = RejectionCounts(one.stream.alias for one in plan.inputs)
        self._rejected_rows = RejectedRows(plan)
        self._statistics = RunStatistics(plan, self._kernel.release.controller.slack)
        self._driver = Driver(
            self._kernel,
            side_output=self._side_output,
            on_emission=self._statistics.latency.note,
            on_epoch=self._advanced,
            clock=wall.perf_counter,
        )
        self._each_tuple = epochs.each_tuple
        self._latest = 0
        self._answer: Answer | None = None
        self._in_history: dict[str, tuple[int, str | None, Words]] = {}
        """Of sources with a history: before when rows may be in it, the column of ids, and those that are."""

    def watch(self, name: str, publish: Publish, every: float = EVERY) -> Watcher:
        """Publish the progress of this query, under this name, while rows are pushed; see `slackwater.watch`,
        `metrics` and `live_view`."""
        with self._changed:
            watcher = super().watch(name, publish, every)
            if self._closed:
                watcher.end()
            return watcher

    def _tally(self) -> DelayTally:
        return DelayTally([one.stream.alias for one in self._plan.inputs], self._plan.options.max_ahead)

    def progress(self) -> QueryProgress:
        """How it is doing, as a page and metrics show it; delays are those since the last call."""
        with self._changed:
            known = progress_of(self._plan, self._kernel, self._codebook)
            ahead = {"ahead": known.observed.ahead} if known.observed.ahead else {}
            return replace(
                known,
                seconds=self._driver.seconds,
                waiting=self._statistics.latency.causes.so_far,
                rejected=self._unreadable.by_reason() | ahead,
                delays=self._delays_taken(),
            )

    def samples(self, most: int) -> list[tuple[str, str, Any]]:
        """The newest late and rejected rows: stream, reason, row as JSON."""
        with self._changed:
            rows = self._side_output.newest(most, LARGEST_PIECE)
        return [(row["stream"], row["reason"], row["row"]) for row in rows]

    def _source(self) -> Source:
        return Source({"query": self._plan}, watch=self.watch)

    def remember(self, told: History) -> None:
        """Read a history, before anything is pushed."""
        if not self._kernel.release.spec.ends_with_calls:
            raise UsageError("a history is read by epochs that end with a push; leave epochs out")
        past = told.of(list(self._sources))
        parts, newest = [], dict[str, int | None]()
        for source, rows in past.items():
            if rows is not None:
                batch, table = self._taken_from(source, as_table(source, rows), told.until)
                parts.append(batch)
                newest[source] = int(batch.ts.max()) if len(batch) else None
                if told.id is not None:
                    self._in_history[source] = 0, told.id, np.unique(id_words(column_at(table, told.id)))
        whole = Batch.concat(parts)
        whole = whole.take(np.argsort(whole.ts, kind="stable"))
        edges = edges_of(whole.ts, told.rows) if len(whole) else []
        cut = cut_of(told, {source: newest.get(source) for source in past}, edges)
        for source, before in cut.before.items():
            if before is not None:
                _, name, ids = self._in_history.get(source, (0, None, NOTHING))
                self._in_history[source] = before, name, ids
        ends = [*np.searchsorted(whole.ts, edges).tolist(), len(whole)]
        for piece in range(cut.pieces):
            begin, far = 0 if piece == 0 else ends[piece - 1], cut.reached(piece)
            reached = [far[one.stream.source] for one in self._plan.inputs]
            own = whole.take(slice(begin, ends[piece]))
            self._take_over(self._driver.remember(own, reached, told.slack(self._plan.quality)))

    def _taken_from(self, source: str, table: pa.Table, until: int | None) -> tuple[Batch, pa.Table]:
        """The rows of a history as tuples of every alias; what is not before `until` is left to the stream."""
        table = self._relations.widened(source, self._typed(source, table), self._now())
        timed = encode_time(column_at(table, self._plan.inputs[0].stream.schema.time), self._unit)
        if until is not None:
            table = table.filter(pa.array((timed[1] != GOOD) | (timed[0] < until)))
        first, parts = self._pushed[source], []
        for position, one in enumerate(self._plan.inputs):
            if one.stream.source == source:
                self._check_columns(source, table, position)
                taken = ingest(one, table, self._codebook, self._unit, first)
                parts.append(replace(self._good(position, taken, 0), arrival_time=None))
                self._turn_away(source, position, table, taken)
        self._pushed[source] += table.num_rows
        return Batch.concat(parts), table

    def _turn_away(self, source: str, position: int, table: pa.Table, taken: Ingested) -> None:
        """Rows that cannot be used."""
        alias = self._plan.inputs[position].stream.alias
        self._unreadable.add(alias, counts_by_reason(taken.reasons))
        self._side_output.add_unreadable(alias, table, taken.reasons)
        self._rejected_rows.note(source, table, taken.reasons)

    def push(self, stream: str, rows: Any) -> None:
        """Rows of a stream arrive, in this order; from any thread. They are given as in `slackwater.replay`."""
        source = self._known(stream)
        table = as_table(source, rows)
        if not isinstance(rows, pa.Table | pa.RecordBatch):
            table = self._typed(source, table)
        with self._changed:
            self._check()
            if self._closed:
                raise UsageError(f"stream {source}: the query is closed; nothing more can be pushed into it")
            begun = wall.perf_counter()
            self._latest = now = max(self._latest, self._now())
            table = self._relations.widened(source, table, now)
            batch = self._taken_in(source, table, now)
            try:
                if len(batch):
                    self._statistics.begin(int(batch.ts[0]))
                    self._source_clocks.begin(int(batch.ts[0]), now)
                    if self._delays is not None:
                        self._delays.note(batch, self._kernel.release.clocks)
                    self._take_over(self._driver.epoch(batch, since=begun))
                else:
                    self._driver.seconds += wall.perf_counter() - begun
            except Exception as error:
                self._failure = error
                if self._watcher is not None:
                    self._watcher.end(str(error) or type(error).__name__)
                raise
            finally:
                self._tell()
            self._foretell()
            self._weigh()
            self._looked_at()
            if self._codebook.due:
                self._codebook.sweep(words_held(self._kernel, self._fresh, self._side_output.pieces))

    def _foretell(self) -> None:
        """Warn when the target cannot be met, or can be again."""
        news = self._statistics.news(self._kernel.outlook())
        if news is not None:
            warnings.warn(news, stacklevel=3)

    def _weigh(self) -> None:
        """Measure what is in the windows, where enough has come since the last time."""
        self._statistics.note_memory(self._kernel.memory, self._source_clocks.largest, sum(self._pushed.values()))

    def _taken_in(self, source: str, table: pa.Table, now: int) -> Batch:
        """The good rows as tuples; a stream read under two aliases arrives at both, row by row."""
        first = self._pushed[source]
        parts = []
        for position, one in enumerate(self._plan.inputs):
            if one.stream.source == source:
                self._check_columns(source, table, position)
                taken = ingest(one, table, self._codebook, self._unit, first)
                self._mark_known(source, table, taken)
                parts.append(self._good(position, taken, now))
                self._unreadable.add(one.stream.alias, counts_by_reason(taken.reasons))
                self._side_output.add_unreadable(one.stream.alias, table, taken.reasons)
        self._pushed[source] += table.num_rows
        self._rejected_rows.note(source, table, taken.reasons)
        batch = Batch.concat(parts)
        # Under two aliases a row may be readable as one and not as the other: it is kept if it is as either.
        row, at = np.unique(batch.words[ROW], return_index=True)
        passes = np.all([np.isin(row, part.words[ROW, part.passes]) for part in parts], axis=0)
        self._recent.add(source, Chunk(table.take(pa.array(row - first)), batch.ts[at], row, passes, now))
        return batch.take(np.argsort(batch.words[ROW], kind="stable"))

    def _mark_known(self, source: str, table: pa.Table, taken: Ingested) -> None:
        """Rows that are in the history count there."""
        if source in self._in_history:
            before, name, ids = self._in_history[source]
            old = (taken.reasons == GOOD) & (taken.words[TS] < before)
            known = old if name is None else old & are_among(id_words(column_at(table, name)), ids)
            taken.reasons[known] = IN_HISTORY

    def _good(self, position: int, taken: Ingested, now: int) -> Batch:
        good = np.flatnonzero(taken.reasons == GOOD)
        words = np.zeros((self._plan.operator.rows, len(good)), np.int64)
        words[: len(taken.words)] = taken.words[:, good]
        arrival_time = np.full(len(good), now) if self._stamps_arrivals else None
        return Batch(np.full(len(good), position), words, taken.passes[good], arrival_time)

    def _typed(self, source: str, table: pa.Table) -> pa.Table:
        """Rows that do not state their types, in those that the query was opened with, where these hold them."""
        schemas = [one.stream.schema for one in self._plan.inputs if one.stream.source == source]
        if not table.num_columns and not table.num_rows:
            return pa.schema([(field.name, field.arrow) for field in schemas[0].fields]).empty_table()
        wanted = {field.name: field.arrow for one in schemas for field in one.fields if field.name != one.time}
        return with_types(table, wanted)

    def _check_columns(self, source: str, table: pa.Table, position: int) -> None:
        schema, given = self._plan.inputs[position].stream.schema, leaves(table.schema)
        for name in (schema.time, *(name for name, _, _ in self._plan.inputs[position].columns)):
            if name not in given:
                raise DataError(f"stream {source}: the rows pushed have no column '{name}', which the query reads")
            if table.column_names.count(name) > 1:
                raise DataError(f"stream {source}: the rows pushed have two columns called '{name}'")
            found = given[name].type
            if name == schema.time and not pa.types.is_null(found) and kind_of(found) in (None, Kind.BOOL):
                raise DataError(f"stream {source}: column '{name}' of the rows pushed holds {found}, which is no time")
            if name != schema.time and found != schema[name].arrow:
                raise DataError(
                    f"stream {source}: column '{name}' of the rows pushed holds {found}; the query was opened with"
                    f" {schema[name].arrow}. Cast it before it is pushed"
                )

    def _take_over(self, emissions: Iterator[Emission]) -> None:
        """Keep the results of an epoch; those before the watermark are final."""
        for emission in emissions:
            self._fresh.add(emission.ts, emission)
        self._fresh.settle(self._kernel.watermark)

    def _rejected(self, batch: Batch) -> None:
        """No reduced step may take these tuples either."""
        for at, one in enumerate(self._plan.inputs):
            self._recent.reject(one.stream.source, batch.words[ROW, batch.stream == at])

    def _advanced(self) -> None:
        """An epoch has been drained: pass the clocks on to all who go by them."""
        # What is in force is in the report; all that ever was would have no end.
        self._kernel.take_resizes()
        release = self._kernel.release
        for source in self._sources:
            mine = [at for at, one in enumerate(self._plan.inputs) if one.stream.source == source]
            clock = min(release.clocks[at] for at in mine)
            self._source_clocks.note(source, clock, self._latest)
            self._recent.reached(source, max(release.clocks[at] for at in mine))
        self._statistics.note_clocks(release.slack_log(), release.clocks)
        self._recent.forget(self._source_clocks.largest, release.slack)

    def _look(self) -> None:
        """With an idle timeout, a stream may have been silent for too long meanwhile."""
        if self._by_wall_clock:
            self._latest = max(self._latest, self._now())
            self._take_over(self._driver.on_processing_time(self._latest))
            self._looked_at()

    def _table(self, rows: list[Emission]) -> pa.Table:
        return joined([self._maker.table(emission) for emission in rows])

    def _slack(self) -> int:
        return self._kernel.release.slack

    def _repr_html_(self) -> str:
        return report_html(self.report())

    def report(self) -> dict[str, Any]:
        """What the query amounts to so far, as `report.json` of a run has it, and the steps it gave."""
        with self._changed:
            reported = Report(
                self._plan,
                self._statistics,
                controller=self._kernel.release.controller.describe(),
                runtime="live",
                observation=self._kernel.observe(),
                unreadable=self._unreadable.by_reason(),
                seconds=self._driver.seconds,
                in_epochs=not self._each_tuple,
            ).as_json()
            reported |= {
                "steps": self.steps,
                "rows_at_hand": self._recent.rows,
                "side_output_dropped": self._side_output.dropped,
            }
            return reported

    def close(self) -> Answer:
        """End the input: everything held is emitted. The answer has the rows of the freshest time, those that came late
        or were rejected since they were last taken, and the report."""
        with self._changed:
            if self._answer is None:
                self._check()
                self._take_over(self._driver.epoch(end=True))
                self._fresh.settle(AFTER_ALL)
                self._closed = True
                self._tell()
                if self._watcher is not None:
                    self._watcher.end()
                results = [self._table(self._fresh.rows())] if self._fresh.rows() else []
                late, rejected = self._side_output.take_by_stream()
                results = joined([self._schema.empty_table(), *results])
                self._answer = Answer(results, late, rejected, self.report())
            return self._answer
