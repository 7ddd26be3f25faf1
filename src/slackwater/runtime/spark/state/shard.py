"""A shard: one kernel, fed by blocks, and by headers of what the whole stream has seen.

Invariant: clocks come from headers alone, so they are the same in every shard after every epoch. A tuple is admitted
when the clock that headers agreed on has reached it, or nearly; the vote about clocks is held over headers, not tuples.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any, Protocol

import numpy as np
import pyarrow as pa

from slackwater.core.batch import Batch, Words
from slackwater.core.errors import UsageError
from slackwater.core.state import Emission, StateUpdate, decode_json, encode_json, state_update
from slackwater.core.time import BEFORE_ALL
from slackwater.disorder.clock_readings import ClockReadings
from slackwater.disorder.cutting import Epochs
from slackwater.disorder.event_times import of_sampled
from slackwater.disorder.header_guard import HeaderGuard
from slackwater.disorder.meters import Report
from slackwater.observe.delays import DelayTally
from slackwater.observe.imbalance import ShardLoad
from slackwater.observe.report import LatencyUse
from slackwater.observe.value import IdleOptions, QueryProgress, Sample
from slackwater.operators.aggregate.pane_partials import TUPLES, text_keys
from slackwater.operators.query_kernel import QueryKernel
from slackwater.operators.stages import Tells
from slackwater.plan.physical import PhysicalPlan
from slackwater.runtime.driver import Driver, with_results
from slackwater.runtime.kernels import query_for
from slackwater.runtime.side_outputs.collectors import BufferedSideOutput
from slackwater.runtime.side_outputs.rejections import RejectionCounts
from slackwater.runtime.side_outputs.rows import LATE, REJECTED
from slackwater.runtime.spark.exchange.format import read_block
from slackwater.runtime.spark.exchange.partials import PartialsHeader, Within, aggregate_of
from slackwater.runtime.spark.output_schema import ROWS
from slackwater.runtime.spark.state.checkpoint import Targets, difference, is_target
from slackwater.runtime.spark.state.emitters import Emitted
from slackwater.runtime.spark.state.hot_keys import HotKeys
from slackwater.runtime.spark.state.root import secret_of_task
from slackwater.runtime.watching import progress_of
from slackwater.runtime.words_held import words_held
from slackwater.sinks.folder import plain_text
from slackwater.sinks.rows import result_tables
from slackwater.sources.codebook import NAMESPACE, Codebook
from slackwater.sources.encode import AFTER_END, AHEAD, REASONS, SAME_HASH

KEPT = ("shard", "query")
"""Where state has what it depends on."""
PASSED_BY, UNTOLD = "passed_by", "untold"
"""Among the counts of a query that has rested: tuples that came meanwhile, and whether clocks have moved since."""


@dataclass(frozen=True)
class Block:
    """One row of the packed stream."""

    stream: int
    part: int
    header: dict[str, Any]
    block: bytes | None
    rejected_rows: bytes | None = None
    """Rows that could move no clock, on their way out."""
    partials: bytes | None = None
    """Partial results of tuples that are not in the block."""


@dataclass
class Shard:
    """The state of one shard between two micro-batches."""

    plan: PhysicalPlan
    text_rows: tuple[tuple[int, ...], ...]
    fingerprint: str
    codebook: Codebook = field(default_factory=lambda: Codebook(secret_of_task()))
    targets: Targets | None = None
    """What was asked for in the text and what is in force now, where the two may differ."""
    tells: Tells | None = None
    """Of which tuples this shard tells: counts them, and hands out those that are late or rejected; None: of all.
    Others are copies of what another shard tells of."""

    tuples_of: Callable[[Block], bytes | None] | None = None
    """Reads again all tuples that a block was made of, those of its partials too."""

    among_shards: bool = False
    """Whether other shards of the query choose slack with this one."""

    def __post_init__(self) -> None:
        self.kernel = self._new_kernel()
        # Delays are those of the whole stream; what a late tuple costs a join is known to its own shard.
        # Where there are several operators the rows that should reach the top are those of this shard alone.
        self.kernel.release.taught = self.plan.joins and not self.plan.nodes
        self.kernel.tells = self.tells
        self.shares = self.among_shards and self.kernel.release.join_shards()
        """Whether slack is chosen by what all shards report."""
        options = self.plan.options
        self._guard = HeaderGuard(
            len(self.plan.inputs), options.max_ahead, options.max_behind, self.plan.partition_slots
        )
        self.side_output = BufferedSideOutput(self.plan, self.codebook, most=None)
        self._driver = Driver(
            self.kernel, side_output=self.side_output, on_emission=self._emitted, on_epoch=self._drained
        )
        self._ended = False
        self.latency = LatencyUse()
        self.hot_keys = HotKeys(self.plan, self.codebook)
        self.counts: dict[str, int] = {"filtered": 0, "read": 0}
        self.rows = {one.stream.alias: 0 for one in self.plan.inputs}
        """Rows of each stream that were packed, as far as this shard is the one that counts them."""
        self.rejected = RejectionCounts(self.rows)
        self.delays = DelayTally(tuple(self.rows), options.max_ahead)
        """Of the whole streams in this micro-batch, in the one shard that counts their rows."""
        self.late_examples: dict[str, str] = {}
        """A tuple of each stream that came late in this micro-batch, as JSON."""
        self._counts_rows = False
        self._saved = False

    def _new_kernel(self) -> QueryKernel:
        return query_for(self.plan, Epochs(), self.codebook)

    @property
    def learning_key(self) -> str:
        """What must be the same for a report to be understood."""
        return self.plan.learning_key

    def hear(self, reports: Sequence[Report]) -> None:
        """What all shards have reported of the last micro-batch that the query took part in."""
        if self.shares:
            self.kernel.release.hear(reports)

    def report(self) -> Report:
        """What this one has observed since then."""
        return self.kernel.release.report()

    def given(self, query: str, emissions: Iterable[Emission]) -> Iterator[Emitted]:
        """What is emitted as rows of results."""
        for table in result_tables(self.plan, self.codebook, with_results(emissions)):
            if table.num_rows:
                yield Emitted(query, ROWS, rows=plain_text([table])[0])

    def closing(self, query: str) -> Iterator[Emitted]:
        """What a micro-batch that the query takes part in ends with, whether it rests or not."""
        return iter(())

    def on_processing_time(self, now: int) -> Iterator[Emission]:
        """End an epoch in which no stream spoke."""
        self.latency = LatencyUse()
        self.hot_keys.count(None)
        yield from self._driver.on_processing_time(now)

    def epoch(self, blocks: Iterable[Block], now: int | None = None, end: bool = False) -> Iterator[Emission]:
        """Take in one micro-batch, heard at the moment `now` where moments count, and end the epoch.

        With `end`, or where a header says so, the input has ended, and everything that is held is emitted.
        """
        ordered = sorted(blocks, key=lambda block: (block.stream, block.part))
        end = end or any(block.header["end"] for block in ordered)
        moved = self._read_progress(ordered, now)
        own = [self._read(block) for block in ordered if block.block is not None]
        partials = self._take_partials(ordered, own)
        arrived = Batch.concat(own) if own else None
        self.latency, self.late_examples = LatencyUse(), {}
        self.hot_keys.count(arrived, partials)
        if self._ended:
            for batch in own:
                self._turn_away(batch, AFTER_END)
            return
        self._ended = end
        admit, ahead = self._guard.judge(arrived, end)
        if ahead is not None and len(ahead):
            self._turn_away(ahead, AHEAD)
        self.kernel.release.set_clocks(moved)
        self.kernel.count_taken(0, now is not None)
        yield from self._driver.epoch(*([] if admit is None else [told_apart(admit, moved)]), end=end)

    def pass_by(self, blocks: Iterable[Block], now: int | None = None) -> None:
        """A micro-batch that the query rests in: its clocks move, and rows are counted; nothing else is known of it."""
        for block in sorted(blocks, key=lambda block: (block.stream, block.part)):
            self._note_times(block)
            self._count_rows(block)
            usable = block.header["rows"] - sum(block.header["rejected"].values())
            self.counts[PASSED_BY] = self.counts.get(PASSED_BY, 0) + usable
            self.counts[UNTOLD] = 1
        self._guard.clocks(now)
        self.latency = LatencyUse()
        self.hot_keys.count(None)

    def note_late(self, rows: pa.Table) -> None:
        """Late rows of this micro-batch, on their way out."""
        for alias, row in zip(rows.column("stream").to_pylist()[:1], rows.column("row").to_pylist()[:1], strict=True):
            self.late_examples[alias] = row

    def _note_delays(self, block: Block) -> None:
        """How late the tuples of a header came, by the clock before this micro-batch."""
        clock = self.kernel.release.clock_before(block.stream)
        if block.header["counts"] is not None:
            ts, counts = (np.array(column, np.int64) for column in block.header["counts"])
            self.delays.note_counted(block.stream, clock, ts, counts)
            return
        for _, (_, buckets) in block.header["reported"]:
            counts, ts, _ = of_sampled(buckets)
            self.delays.note_counted(block.stream, clock, ts, counts)

    def _note_times(self, block: Block) -> None:
        self.codebook.take_in(pa.array(block.header["partitions"], pa.string()))
        for name, (shift, buckets) in block.header["reported"]:
            self._guard.note(block.stream, name, shift, of_sampled(buckets))

    def _count_rows(self, block: Block) -> None:
        alias = self.plan.inputs[block.stream].stream.alias
        self.rows[alias] += block.header["rows"]
        self.rejected.add(alias, block.header["rejected"])

    def _emitted(self, emission: Emission) -> None:
        self.latency.note(emission)

    def _drained(self) -> None:
        # Metrics tell the slack that is in force; all that ever was would have no end.
        self.kernel.release.slack_log()

    def _read_progress(self, blocks: list[Block], now: int | None) -> ClockReadings:
        """The clocks that all headers together agree on."""
        for block in blocks:
            self._note_times(block)
            self.counts["filtered"] += block.header["filtered"]
            self._count_rows(block)
            if block.header["rows"]:
                self._counts_rows = True
                self._note_delays(block)
            if block.header["counts"] is not None:
                cut, counts = (np.array(column, np.int64) for column in block.header["counts"])
                self.kernel.release.teach(block.stream, cut, counts)
        release = self.kernel.release
        for stream in range(len(self.plan.inputs)):
            # The largest delay is the whole stream's, so a slack that follows it is the same in every shard.
            oldest = self._guard.oldest(stream, release.clock_before(stream))
            if oldest != BEFORE_ALL:
                release.note_oldest(stream, oldest)
        clocks = self._guard.clocks(now)
        if self.counts.pop(UNTOLD, 0):
            # The kernel has not heard of those that moved while the query rested.
            clocks = self._guard.known_clocks()
        return ClockReadings.of(clocks, now)

    def _turn_away(self, batch: Batch, reason: int) -> None:
        """Tuples end as rejected rows."""
        batch = self._told(batch)
        of_stream = np.bincount(batch.stream, minlength=len(self.plan.inputs)).tolist()
        for one, count in zip(self.plan.inputs, of_stream, strict=True):
            self.rejected.add(one.stream.alias, {REASONS[reason]: count})
        self.side_output.add_rejected(batch, reason)

    def _told(self, batch: Batch) -> Batch:
        """Those of these tuples that this shard tells of."""
        return batch if self.tells is None else batch.take(np.flatnonzero(self.tells(batch.stream, batch.words)))

    def _read(self, block: Block) -> Batch:
        assert block.block is not None
        # Tuples that have no identity of their own are numbered, so that one is known again inside of a combination.
        words, clash = read_block(block.block, self.text_rows[block.stream], self.codebook, self.counts["read"])
        self.counts["read"] += words.shape[1]
        if len(words) < self.plan.operator.rows:
            words = np.vstack([words, np.zeros((self.plan.operator.rows - len(words), words.shape[1]), np.int64)])
        n = words.shape[1]
        batch = Batch(np.full(n, block.stream, np.int64), words, np.ones(n, np.bool_))
        if clash.any():
            self._turn_away(batch.take(np.flatnonzero(clash)), SAME_HASH)
            batch = batch.take(np.flatnonzero(~clash))
        return batch

    def _take_partials(self, blocks: list[Block], own: list[Batch]) -> list[Words]:
        """Combine partials whose tuples are all in time and admitted; of others the tuples are added to the own."""
        taken: list[Words] = []
        for block in blocks:
            if block.partials is None:
                continue
            within = PartialsHeader.of_json(block.header["partials"]).within
            in_time = within.first >= self.kernel.watermark and self._guard.reaches(block.stream, within.last)
            aggregate = aggregate_of(self.plan)
            if self._ended or aggregate is None or not in_time:
                own.append(self._read_again(block, within))
                continue
            rows = text_keys(aggregate, self.text_rows[block.stream])
            partials, clash = read_block(block.partials, rows, self.codebook)
            if clash.any():
                own.append(self._read_again(block, within))
                continue
            taken.append(partials)
            self.kernel.take_partials(taken[-1], int(taken[-1][TUPLES].sum()))
        return taken

    def _read_again(self, block: Block, within: Within) -> Batch:
        """The tuples that partials were made of."""
        assert self.tuples_of is not None, "partials are made only of what can be read again"
        batch = self._read(replace(block, block=self.tuples_of(block)))
        return batch.take(np.flatnonzero(within.has(batch.ts)))

    def progress(self, load: ShardLoad, rejected: Mapping[str, str] | None = None) -> QueryProgress:
        """How its part of the query is doing after a micro-batch; `load` says which shard it is and where it ran, and
        `rejected` has a row of each stream that could not be used."""
        known = progress_of(self.plan, self.kernel, self.codebook, names_parts=self._counts_rows)
        waiting = 0 if self._guard.pending is None else len(self._told(self._guard.pending))
        observed = replace(known.observed, filtered=self.counts["filtered"], held=known.observed.held + waiting)
        known = replace(known, observed=observed, resizes=tuple(self.kernel.take_resizes()))
        return with_counts(known, self, load, rejected or {})

    def snapshot_delta(self) -> Iterator[StateUpdate]:
        """What to write to the log of pages after an epoch, whose results have been decoded."""
        if self.codebook.due:
            self.codebook.sweep(words_held(self.kernel, self._guard, self.side_output.pieces))
        if not self._saved:
            yield state_update(*KEPT, self.fingerprint.encode())
            if self.targets is not None:
                yield self.targets.as_update()
            self._saved = True
        saved = {"counts": self.counts, "rows": self.rows, "rejected": self.rejected.by_stream, "ended": self._ended}
        yield state_update("shard", "counts", encode_json(saved))
        for entry in self._guard.snapshot_delta():
            yield StateUpdate(f"guard/{entry.namespace}", entry.key, entry.value)
        yield from self.codebook.snapshot_delta()
        for entry in self.kernel.snapshot_delta():
            yield StateUpdate(f"kernel/{entry.namespace}", entry.key, entry.value)

    def restore(self, entries: Iterable[StateUpdate]) -> None:
        """Take over all state of an earlier run of the same query, or what changed since this shard last ran."""
        guard, kernel, texts = [], [], []
        for entry in entries:
            part, _, namespace = entry.namespace.partition("/")
            if part == "guard":
                guard.append(StateUpdate(namespace, entry.key, entry.value))
            elif part == "kernel":
                kernel.append(StateUpdate(namespace, entry.key, entry.value))
            elif part == NAMESPACE:
                texts.append(entry)
            else:
                self._restore_own(entry)
        self.codebook.restore(texts)
        self._guard.restore(guard)
        self.kernel.restore(kernel)

    def _restore_own(self, entry: StateUpdate) -> None:
        if entry.value is None:
            return
        if entry.key == "query":
            refusal = difference(entry.value.decode(), self.fingerprint)
            if refusal is not None:
                raise UsageError(refusal)
        elif entry.key == "counts":
            saved = decode_json(entry.value)
            # Who knows of an earlier moment may have a count that is gone.
            self.counts.pop(UNTOLD, None)
            self.counts |= saved["counts"]
            self.rows |= saved["rows"]
            self.rejected.by_stream |= saved["rejected"]
            self._ended = saved["ended"]
        elif is_target(entry):
            self._saved = self.targets is None or entry.value == self.targets.as_update().value


class Counts(Protocol):
    """What a shard counts of a query itself."""

    plan: PhysicalPlan
    counts: dict[str, int]
    rows: dict[str, int]
    rejected: RejectionCounts
    latency: LatencyUse
    late_examples: dict[str, str]
    delays: DelayTally
    hot_keys: HotKeys


def with_counts(known: QueryProgress, own: Counts, load: ShardLoad, rejected: Mapping[str, str]) -> QueryProgress:
    """What a kernel knows of a query, with what its shard counts; `rejected` has a row of each stream that could not be
    used."""
    options, examples = own.plan.options, ((LATE, own.late_examples), (REJECTED, rejected))
    return replace(
        known,
        streams={
            alias: replace(
                one,
                rows=own.rows[alias],
                rejected=own.rejected.by_stream[alias],
                samples=tuple(Sample.of(reason, rows[alias]) for reason, rows in examples if alias in rows),
            )
            for alias, one in known.streams.items()
        },
        rejected=own.rejected.by_reason(),
        waiting=own.latency.waiting(),
        idle_options=IdleOptions(options.idle_timeout, options.idle_after),
        delays=own.delays.take(),
        shards=(replace(load, taken=own.hot_keys.taken, keys=own.hot_keys.found),),
        passed_by=own.counts.get(PASSED_BY, 0),
    )


def told_apart(batch: Batch, clocks: ClockReadings) -> Batch:
    """The tuples of an epoch whose clocks are known from elsewhere: they say nothing about time themselves."""
    silent = replace(batch, reading=np.full(len(batch), BEFORE_ALL))
    return silent if clocks.at == BEFORE_ALL else replace(silent, arrival_time=np.full(len(batch), clocks.at))
