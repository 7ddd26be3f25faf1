"""A local run of a set of queries: one process, recorded arrivals, each source read and encoded once.

    run = LocalQueries(plans, sources, time_unit, epochs)
    for name, table in run.tables():
        ...                              # at least one table a query, unless it failed
    run.runs[name].report(), run.status(name)

`runs` has for every query what a `LocalRun` is to its own: statistics, side outputs, report. One that is given another
target between two tables has it before the next arrivals are taken in.

Invariant: tables, side outputs and counts of a query are those of a `LocalRun` of it alone, with the same epochs. A
query that fails is reported by `status`; the others go on.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import replace

import numpy as np
import pyarrow as pa

from slackwater.core.batch import Batch, Words
from slackwater.core.errors import SlackwaterError, UsageError
from slackwater.core.quality import Quality, completed
from slackwater.core.state import Emission, Observation
from slackwater.core.time import BEFORE_ALL
from slackwater.observe.delays import DelayTally
from slackwater.observe.value import QueryProgress
from slackwater.operators.pipeline import Epochs
from slackwater.operators.query_kernel import QueryKernel
from slackwater.operators.query_set.domain import Domain
from slackwater.operators.query_set.kernel import FAILED, RUNNING, QueryStatus
from slackwater.plan.ordering import check_in_epochs
from slackwater.plan.physical import PhysicalPlan
from slackwater.plan.query_set import QuerySetPlan
from slackwater.runtime.driver import Clock
from slackwater.runtime.kernels import QuerySetKernel
from slackwater.runtime.local.run import BATCH, LARGE
from slackwater.runtime.recorded import RecordedRun, Tick, begin_of, no_tick
from slackwater.runtime.watching import progress_of
from slackwater.sinks.rows import RowMaker, SecondCounts
from slackwater.sources.encode import AHEAD
from slackwater.sources.replay import Replay, check_arrival_times
from slackwater.sources.shared_reading import DomainReplay, SharedReading

Change = Callable[[], None]


class QueryOfSet(RecordedRun):
    """One query of a run of many: its statistics, its side outputs and its report."""

    runtime = "local"

    def __init__(self, name: str, plan: PhysicalPlan, owner: LocalQueries) -> None:
        kernel = owner.kernel.query(name)
        super().__init__(plan, owner.replay_of(plan), kernel.release.controller)
        self.name, self._owner = name, owner
        self.in_epochs = not owner.epochs.each_tuple
        self._maker = None if plan.count_only else RowMaker(plan, owner.reading.codebook)
        self._seconds_counted = SecondCounts()
        self._given = False
        for position, one in enumerate(plan.inputs):
            columns = frozenset(column for column, _, _ in one.columns)
            reasons = owner.reading.ingested[one.stream.source].reasons_for(columns)
            self.side_outputs.add_unreadable(position, reasons)

    @property
    def _kernel(self) -> QueryKernel:
        return self._owner.kernel.query(self.name)

    def warm_up(self) -> None:
        """Nothing: the set is warmed up as one."""

    def tables(self, tick: Tick = no_tick) -> Iterator[pa.Table]:
        raise UsageError("queries of a set give their tables together: LocalQueries.tables()")

    def begin(self, ts: int) -> None:
        self._statistics.begin(ts)

    def emitted(self, emission: Emission) -> pa.Table | None:
        """Note an emission; its results as a table, where there are any."""
        if len(emission.late.ts):
            self.side_outputs.add_late(emission.late)
        self._statistics.latency.note(emission)
        self.resizes += self._kernel.take_resizes()
        if not len(emission.ts):
            return None
        if self._maker is None:
            self._seconds_counted.note(emission)
            return None
        self._given = True
        return self._maker.table(emission)

    def advanced(self, arrivals: int) -> None:
        for batch in self._owner.kernel.take_ahead(self.name):
            self.side_outputs.add_rejected(batch, AHEAD)
        kernel = self._kernel
        self._done += arrivals
        self._statistics.note_clocks(kernel.release.slack_log(), kernel.release.clocks)
        self.resizes += kernel.take_resizes()
        self._note_outlook(kernel.outlook())
        self._statistics.note_memory(kernel.memory, max(kernel.release.clocks), self._done)
        self._looked_at()

    def last_table(self) -> pa.Table | None:
        """The last table: the counts, or an empty one where there were no results."""
        if self._maker is None:
            return self._seconds_counted.table()
        return None if self._given else self._maker.empty()

    def retarget(self, plan: PhysicalPlan) -> None:
        """The query was built anew, with another target."""
        self.plan, self._controller = plan, self._kernel.release.controller
        self._statistics.retarget(plan)

    def _tally(self) -> DelayTally:
        return DelayTally(self._owner.sources_of(self.name), self.plan.options.max_ahead)

    def note_delays(self, batch: Batch) -> None:
        """Count the delays of arrivals of its domain, where the query is watched."""
        if self._delays is not None:
            self._delays.note(batch, self._owner.clocks_of(self.name))

    def known(self) -> QueryProgress:
        """With delays by the names that the query has for its streams."""
        last = progress_of(self.plan, self._kernel, self.replay.codebook)
        found = self._delays_taken()
        streams = [one.stream for one in self.plan.inputs]
        return replace(last, delays={one.alias: found[one.source] for one in streams if one.source in found})

    def set_target(self, target: Quality | str) -> None:
        from slackwater.runtime.targets import settable

        self._owner.set_target(self.name, settable(self.plan, target))

    @property
    def seconds(self) -> float:
        """What the work of all queries took together."""
        return self._owner.seconds

    def observe(self) -> Observation:
        return self._kernel.observe()


class LocalQueries:
    """Drives the kernel of a set over recorded streams."""

    def __init__(
        self,
        plans: Mapping[str, PhysicalPlan],
        sources: Mapping[str, pa.Table],
        time_unit: str,
        epochs: Epochs,
        *,
        arrival_time: str | None = None,
        ranks: Mapping[str, Words] | None = None,
        clock: Clock = time.perf_counter,
        batch: int | None = None,
    ) -> None:
        """`sources`, `time_unit`, `arrival_time` and `ranks` are those of `sources.replay.replay`; `batch` says how
        many arrivals of a domain are taken in at once."""
        self.epochs, self._clock, self._batch = epochs, clock, batch
        self._moments_known = arrival_time is not None
        for name, one in plans.items():
            self._check(name, one)
        self.reading = SharedReading(sources, time_unit, arrival_time, ranks)
        plan = QuerySetPlan.of(plans, self.reading.unencodable(plans.values()))
        failed = self.reading.read(plan)
        self.kernel = QuerySetKernel(plan, epochs, self.reading.codebook)
        self.runs: dict[str, QueryOfSet] = {name: QueryOfSet(name, one, self) for name, one in plans.items()}
        self._replays: dict[str, DomainReplay] = {
            key: self.reading.replay(plan.domains[key]) for key in self.kernel.domains
        }
        self._fail(failed)
        self._changes: list[Change] = []
        self.seconds = 0.0
        """What all epochs took, by the clock."""
        self.interrupted = False

    def replay_of(self, plan: PhysicalPlan) -> Replay:
        """The tables of a query, and how their texts are coded; its arrivals are those of its domain."""
        tables = tuple(self.reading.sources[one.stream.source] for one in plan.inputs)
        nothing = np.zeros(0, np.int64)
        return Replay(nothing, nothing, None, self.notes, (), tables, self.reading.codebook, plan.operator.rows)

    @property
    def notes(self) -> tuple[str, ...]:
        """What is unusual about the order of arrival."""
        return tuple(self.reading.notes)

    def tables(self, tick: Tick = no_tick) -> Iterator[tuple[str, pa.Table]]:
        """The results of each query in its output order, to the end of the input or until interrupted."""
        try:
            while not self.interrupted and (key := self._next()) is not None:
                yield from self._take_in(key)
                tick()
            if not self.interrupted:
                self._apply_changes()
                for key in list(self.kernel.domains):
                    yield from self._epoch(key, 0, end=True)
        except KeyboardInterrupt:
            self.interrupt()
        for name, run in self.runs.items():
            if self.status(name).status != FAILED and (last := run.last_table()) is not None:
                yield name, last

    def interrupt(self) -> None:
        self.interrupted = True
        for run in self.runs.values():
            run.interrupt()

    def _next(self) -> str | None:
        """The domain that has come least far; None where all have been read to the end."""
        self._apply_changes()
        left = [
            (replay.done / len(replay), key)
            for key, replay in self._replays.items()
            if replay.done < len(replay) and key in self.kernel.domains
        ]
        return min(left)[1] if left else None

    def _take_in(self, key: str) -> Iterator[tuple[str, pa.Table]]:
        begun = self._clock()
        domain = self.kernel.domains[key]
        batch, passed = self._replays[key].next(domain.plan, self._batch or self._batch_of(domain))
        first = begin_of(batch.ts, domain.plan.terms.max_behind)
        for name in domain.members:
            self.runs[name].begin(first)
            self.runs[name].note_delays(batch)
        self.kernel.absorb(key, batch, passed)
        self.seconds += self._clock() - begun
        yield from self._epoch(key, len(batch))

    def _batch_of(self, domain: Domain) -> int:
        """As of a single run, where the size of a batch means something; else many arrivals, because every batch has
        work for every query."""
        learns = any(member.query.release.controller.learns for member in domain.members.values())
        cut = self.epochs.each_tuple or self.epochs.tuples or self.epochs.span
        return LARGE if cut and not learns and self._replays[domain.plan.key].arrivals.arrival_time is None else BATCH

    def _epoch(self, key: str, arrivals: int, end: bool = False) -> Iterator[tuple[str, pa.Table]]:
        begun = self._clock()
        for name, emission in self.kernel.advance_domain(key, end):
            table = self._emitted(name, emission)
            if table is not None:
                self.seconds += self._clock() - begun
                yield name, table
                begun = self._clock()
        self.seconds += self._clock() - begun
        for name, member in self.kernel.domains[key].members.items():
            if member.status == RUNNING:
                self.runs[name].advanced(arrivals)

    def _emitted(self, name: str, emission: Emission) -> pa.Table | None:
        try:
            return self.runs[name].emitted(emission)
        except SlackwaterError as error:
            self.kernel.fail(name, error)
            return None

    def sources_of(self, name: str) -> Sequence[str]:
        """The streams that the domain of a query reads, in the order in which it numbers them."""
        return self.kernel.plan.domains[self.kernel.plan.places[name].domain].sources

    def clocks_of(self, name: str) -> Sequence[int]:
        """The clocks of these streams as far as the query knows them."""
        plan = self.runs[name].plan
        known = dict(
            zip((one.stream.source for one in plan.inputs), self.kernel.query(name).release.clocks, strict=True)
        )
        return [known.get(source, BEFORE_ALL) for source in self.sources_of(name)]

    def _check(self, name: str, plan: PhysicalPlan) -> None:
        try:
            check_arrival_times(plan, self._moments_known)
            if not self.epochs.each_tuple:
                check_in_epochs(plan.options)
        except UsageError as error:
            raise UsageError(f"query {name}: {error}") from None

    def set_target(self, name: str, quality: Quality) -> None:
        self.kernel.query(name)
        self._changes.append(lambda: self._set_target(name, quality))

    def _set_target(self, name: str, quality: Quality) -> None:
        self.kernel.set_target(name, completed(quality, self.kernel.plan.queries[name].quality))
        self.runs[name].retarget(self.kernel.plan.queries[name])

    def _apply_changes(self) -> None:
        changes, self._changes = self._changes, []
        for change in changes:
            change()

    def _fail(self, failed: Mapping[str, SlackwaterError]) -> None:
        for name, error in failed.items():
            self.kernel.fail(name, error)

    def status(self, name: str) -> QueryStatus:
        """Whether a query runs, is paused or has failed, and why."""
        return self.kernel.status(name)
