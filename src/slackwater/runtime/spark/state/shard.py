"""A shard: one kernel, fed by blocks, and by headers of what the whole stream has seen.

Invariant: clocks come from headers alone, so they are the same in every shard after every epoch. A tuple is admitted
when the clock that headers agreed on has reached it, or nearly; the vote about clocks is held over headers, not tuples.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np
import pyarrow as pa

from slackwater.core.batch import Batch, Words
from slackwater.core.quality import clause
from slackwater.core.state import Emission, StateUpdate, decode_json, encode_json, state_update
from slackwater.core.time import BEFORE_ALL
from slackwater.disorder.clock_guard import ClockGuard
from slackwater.disorder.cutting import Epochs
from slackwater.disorder.meters import Report
from slackwater.observe.imbalance import ShardLoad
from slackwater.observe.value import QueryProgress
from slackwater.operators.aggregate.pane_partials import TUPLES, text_keys
from slackwater.operators.query_kernel import QueryKernel
from slackwater.operators.stages import Tells
from slackwater.plan.physical import PhysicalPlan
from slackwater.runtime.driver import with_results
from slackwater.runtime.kernels import query_for
from slackwater.runtime.spark.control import Message
from slackwater.runtime.spark.exchange.format import OpenBlock, read_block
from slackwater.runtime.spark.exchange.writer import PartialsHeader, Within, aggregate_of
from slackwater.runtime.spark.output_schema import ROWS, Emitted
from slackwater.runtime.spark.state.checkpoint import Targets
from slackwater.runtime.spark.state.record import NAMESPACE as RECORD
from slackwater.runtime.spark.state.record import QueryRecord
from slackwater.runtime.spark.workers import secret_of_task
from slackwater.runtime.words_held import words_held
from slackwater.sinks.folder import plain_text
from slackwater.sinks.rows import result_tables
from slackwater.sources.codebook import NAMESPACE as TEXTS
from slackwater.sources.codebook import Codebook
from slackwater.sources.encode import AFTER_END, AHEAD, SAME_HASH

UNTOLD = "untold"
"""Among the counts of a query that has rested: whether clocks have moved since."""
INPUT = (RECORD, "input")
"""Where state has how many tuples were read, and whether the input has ended."""


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
        self.kernel.count_unjudged = self._pending
        self.shares = self.among_shards and self.kernel.release.join_shards()
        """Whether slack is chosen by what all shards report."""
        options, stated = self.plan.options, clause(self.plan.quality)
        slots = self.plan.partition_slots
        self._guard = ClockGuard(
            len(self.plan.inputs), options.max_ahead, partition_slots=slots, max_behind=options.max_behind
        )
        targets = self.targets or Targets(stated, stated)
        self.record = QueryRecord(self.plan, self.fingerprint, self.codebook, targets)
        self.read = 0
        """Tuples of blocks, which are numbered."""
        self._ended = False

    def _new_kernel(self) -> QueryKernel:
        return query_for(self.plan, Epochs(), self.codebook)

    def _pending(self) -> int:
        return 0 if self._guard.waiting is None else len(self._told(self._guard.waiting))

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
        self.record.begin()
        yield from self._drained(self.kernel.on_processing_time(now))

    def epoch(self, blocks: Iterable[Block], now: int | None = None, end: bool = False) -> Iterator[Emission]:
        """Take in one micro-batch, heard at the moment `now` where moments count, and end the epoch.

        With `end`, or where a header says so, the input has ended, and everything that is held is emitted.
        """
        ordered = sorted(blocks, key=lambda block: (block.stream, block.part))
        end = end or any(block.header["end"] for block in ordered)
        self.record.begin()
        self._read_progress(ordered, now)
        own = [self._read(ordered)]
        partials = self._take_partials(ordered, own)
        arrived = Batch.concat(own)
        self.record.hot_keys.count(arrived, partials)
        if self._ended:
            self._turn_away(arrived, AFTER_END)
            return
        self._ended = end
        guarded = self._guard.admit(arrived, end)
        self._turn_away(guarded.ahead, AHEAD)
        self.kernel.count_taken(0, now is not None)
        yield from self._drained(self.kernel.take(guarded, end))

    def remember(self, blocks: Iterable[Block], pieces: Sequence[Message], now: int | None) -> Iterator[Emission]:
        """Take in one micro-batch of a history. The guard learns nothing of clocks from it: the stream that follows
        begins its clocks anew, where none is behind what was read."""
        ordered = sorted(blocks, key=lambda block: (block.stream, block.part))
        self.record.begin()
        for block in ordered:
            self.record.counts["filtered"] += block.header["filtered"]
            self._count_rows(block)
        arrived = self._read(ordered)
        self.record.hot_keys.count(arrived, [])
        far: list[dict[str, int]] = [dict(one.reached or {}) for one in pieces]
        reached = [max(one[plan.stream.source] for one in far) for plan in self.plan.inputs]
        slack = max(one.slack or 0 for one in pieces)
        for emission in self.kernel.remember(arrived, reached, slack, now):
            self.record.emitted_late(emission)
            yield emission
        self.kernel.release.slack_log()

    def _drained(self, emissions: Iterable[Emission]) -> Iterator[Emission]:
        for emission in emissions:
            self._emitted(emission)
            yield emission
            # It may be large, and the next one is about to be made.
            del emission
        # Metrics tell the slack that is in force; all that ever was would have no end.
        self.kernel.release.slack_log()

    def pass_by(self, blocks: Iterable[Block], now: int | None = None) -> None:
        """A micro-batch that the query rests in: its clocks move, and rows are counted; nothing else is known of it."""
        self.record.begin()
        for block in sorted(blocks, key=lambda block: (block.stream, block.part)):
            self._note_times(block)
            self._count_rows(block)
            self.record.pass_by(block.header["rows"] - sum(block.header["rejected"].values()))
            self.record.counts[UNTOLD] = 1
        self._guard.move(now)

    def _note_delays(self, block: Block) -> None:
        """How late the tuples of a header came, by the clock before this micro-batch."""
        clock = self.kernel.release.clock_before(block.stream)
        counted = block.header["counts"] or [one.buckets[[1, 0]] for one in block.header["reported"]]
        for ts, counts in counted:
            self.record.delays.note_counted(block.stream, clock, ts, counts)

    def _note_times(self, block: Block) -> None:
        self.codebook.take_in(pa.array(block.header["partitions"], pa.string()))
        for one in block.header["reported"]:
            self._guard.note(block.stream, one.name, one.shift, one.buckets)

    def _count_rows(self, block: Block) -> None:
        self.record.count_rows(block.stream, block.header["rows"], block.header["rejected"])

    def _emitted(self, emission: Emission) -> None:
        self.record.emitted(emission)

    def _read_progress(self, blocks: list[Block], now: int | None) -> None:
        """Move the clocks to what all headers together agree on, and let controllers know what has come."""
        release = self.kernel.release
        for block in blocks:
            self._note_times(block)
            self.record.counts["filtered"] += block.header["filtered"]
            self._count_rows(block)
            if block.header["rows"]:
                self._note_delays(block)
            for ts, counts in block.header["counts"]:
                release.teach(block.stream, ts, counts)
        for stream in range(len(self.plan.inputs)):
            # The largest delay is the whole stream's, so a slack that follows it is the same in every shard.
            oldest = self._guard.oldest(stream, release.clock_before(stream))
            if oldest != BEFORE_ALL:
                release.note_oldest(stream, oldest)
        # The kernel has not heard of those that moved while the query rested.
        self._guard.move(now, every=bool(self.record.counts.pop(UNTOLD, 0)))

    def _turn_away(self, batch: Batch, reason: int) -> None:
        """Tuples end as rejected rows."""
        self.record.turn_away(self._told(batch), reason)

    def _told(self, batch: Batch) -> Batch:
        """Those of these tuples that this shard tells of."""
        return batch if self.tells is None else batch.take(np.flatnonzero(self.tells(batch.stream, batch.words)))

    def _read(self, blocks: Iterable[Block]) -> Batch:
        """The tuples of blocks, all read to one place."""
        rows, codebook = self.text_rows, self.codebook
        opened = [
            (one.stream, OpenBlock(one.block, rows[one.stream], codebook)) for one in blocks if one.block is not None
        ]
        sizes = [block.size for _, block in opened]
        stream = np.repeat(np.array([stream for stream, _ in opened], np.int64), sizes)
        words, clash = np.zeros((self.plan.operator.rows, len(stream)), np.int64), np.zeros(len(stream), np.bool_)
        end = 0
        for _, block in opened:
            begin, end = end, end + block.size
            # Tuples that have no identity of their own are numbered, so that one is known again in a combination.
            clash[begin:end] = block.into(words[: block.rows, begin:end], self.read)
            self.read += block.size
        batch = Batch(stream, words, np.ones(len(stream), np.bool_))
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
        batch = self._read([replace(block, block=self.tuples_of(block))])
        return batch.take(np.flatnonzero(within.has(batch.ts)))

    def progress(self, load: ShardLoad, rejected: Mapping[str, str] | None = None) -> QueryProgress:
        """How its part of the query is doing after a micro-batch; `load` says which shard it is and where it ran, and
        `rejected` has a row of each stream that could not be used."""
        return self.record.progress(self.kernel, load, rejected or {})

    def snapshot_delta(self) -> Iterator[StateUpdate]:
        """What to write to the log of pages after an epoch, whose results have been decoded."""
        if self.codebook.due:
            self.codebook.sweep(words_held(self.kernel, self._guard, self.record.side_output.pieces))
        yield from self.record.snapshot_delta()
        yield state_update(*INPUT, encode_json({"read": self.read, "ended": self._ended}))
        yield from self.codebook.snapshot_delta()
        for cell, entries in (("guard", self._guard.snapshot_delta()), ("kernel", self.kernel.snapshot_delta())):
            for entry in entries:
                yield StateUpdate(f"{cell}/{entry.namespace}", entry.key, entry.value)

    def restore(self, entries: Iterable[StateUpdate]) -> None:
        """Take over all state of an earlier run of the same query, or what changed since this shard last ran."""
        cells: defaultdict[str, list[StateUpdate]] = defaultdict(list)
        for entry in entries:
            cell, _, namespace = entry.namespace.partition("/")
            if (cell, entry.key) == INPUT:
                saved = decode_json(entry.value or b"{}")
                self.read, self._ended = saved["read"], saved["ended"]
            else:
                cells[cell].append(StateUpdate(namespace or cell, entry.key, entry.value))
        self.record.restore(cells[RECORD])
        self.codebook.restore(cells[TEXTS])
        self._guard.restore(cells["guard"])
        self.kernel.restore(cells["kernel"])
