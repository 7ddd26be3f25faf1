"""A shard of several queries: one kernel over one ordered log, fed by blocks that have the tuples of all of them.

Invariant: every query is given what its own `Shard` would give it, at the same end of an epoch: clocks come from
headers, the vote about them is held over headers, and what a controller is given of the whole stream is given for the
query's own filter. A query that fails stops alone: the log is settled after all queries have had their turn, so nothing
that is shared is left half done.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Any

import numpy as np
import pyarrow as pa

from slackwater.core.batch import ROW, Batch, Words
from slackwater.core.errors import UsageError
from slackwater.core.state import Emission, StateUpdate, decode_json, encode_json, state_update
from slackwater.core.time import AFTER_ALL, BEFORE_ALL
from slackwater.disorder.cutting import Epochs
from slackwater.disorder.event_times import oldest_within
from slackwater.observe.imbalance import ShardLoad
from slackwater.observe.value import QueryProgress
from slackwater.operators.query_set.domain import Domain
from slackwater.operators.query_set.kernel import FAILED, PAUSED, RUNNING
from slackwater.operators.query_set.member import Member as Hosted
from slackwater.plan.physical import PhysicalPlan
from slackwater.runtime.kernels import QuerySetKernel
from slackwater.runtime.spark.exchange.format import OpenBlock, Reported
from slackwater.runtime.spark.members import Group
from slackwater.runtime.spark.state.checkpoint import Targets
from slackwater.runtime.spark.state.record import QueryRecord
from slackwater.runtime.spark.state.reports import ReportOf, Reports
from slackwater.runtime.spark.state.shard import Block
from slackwater.runtime.spark.workers import secret_of_task
from slackwater.runtime.words_held import words_held
from slackwater.sources.codebook import NAMESPACE, Codebook
from slackwater.sources.encode import AFTER_END, AHEAD, SAME_HASH

OWN, KERNEL = "group", "kernel"
"""The cells of what its queries have in common."""


def _oldest(reported: Sequence[Reported], at: int, earliest: int) -> int:
    """The oldest event time of a filter that is not before `earliest`; or BEFORE_ALL."""
    found = BEFORE_ALL
    for one in reported:
        latest = one.buckets[1]
        oldest = [AFTER_ALL if far is None else t - far for t, far in zip(latest.tolist(), one.behind[at], strict=True)]
        mine = oldest_within(np.stack([latest, latest, np.array(oldest, np.int64)]), earliest)
        found = mine if found == BEFORE_ALL else min(found, mine) if mine != BEFORE_ALL else found
    return found


class SharedShard:
    """The queries of a group in one shard, between two micro-batches."""

    def __init__(self, group: Group, plans: Mapping[str, PhysicalPlan], targets: Mapping[str, Targets]) -> None:
        """`plans` has every query with the target that is in force."""
        self.group, self.codebook = group, Codebook(secret_of_task())
        self.kernel = QuerySetKernel(group.planned(plans), Epochs(), self.codebook, remembers=False)
        ((self._key, self._domain),) = self.kernel.domains.items()
        self.guard = self._domain.clocks.guard
        self.records = {
            one.key: QueryRecord(
                plans[one.key], one.structure, self.codebook, targets[one.key], group.place(one).view.rows
            )
            for one in group.members
        }
        for key in self.records:
            self._prepare(key)
        self._streams = group.streams
        self._read, self._ended = 0, False

    def _prepare(self, key: str) -> None:
        """What differs in a shard, where the whole stream is known by headers alone."""
        hosted, plan = self._member(key), self.records[key].plan
        hosted.query.release.taught = plan.joins and not plan.nodes
        if len(self.group.shards) > 1:
            hosted.query.release.join_shards()
        hosted.query.count_unjudged = lambda: self._pending(hosted)

    def _member(self, key: str) -> Hosted:
        return self._domain.members[key]

    def _pending(self, hosted: Hosted) -> int:
        waiting = self.guard.waiting
        if waiting is None or hosted.status != RUNNING:
            return 0
        return int(np.count_nonzero(self._domain.own(hosted, waiting).passes))

    @property
    def domain(self) -> Domain:
        return self._domain

    @property
    def _running(self) -> list[tuple[QueryRecord, Hosted]]:
        return [(self.records[key], one) for key, one in self._domain.members.items() if one.status == RUNNING]

    # Between two micro-batches.

    def pause(self, key: str) -> None:
        """Pause a query; what waits for a verdict is not for it."""
        self.records[key].pass_by(self._pending(self._member(key)))
        self.kernel.pause(key)

    def resume(self, key: str) -> None:
        self.kernel.resume(key)

    def fail(self, key: str, reason: str) -> None:
        self.kernel.fail(key, UsageError(reason))

    def aim(self, key: str, plan: PhysicalPlan, targets: Targets, entries: Iterable[StateUpdate]) -> None:
        """Another target for a query from now on; `entries` has what is persisted of the group."""
        kernel = [_inner(entry) for entry in entries if entry.namespace.startswith(f"{KERNEL}/")]
        self.kernel.set_target(key, plan.quality, kernel)
        self.records[key].aim(plan, targets)
        self._prepare(key)

    def reads_panes(self, key: str) -> bool:
        """Whether a query is moved on together with others, so that it may still fail when another one has its turn."""
        return self._member(key).reader is not None

    def failure_of(self, key: str) -> str | None:
        """Why a query has failed; None where it has not."""
        status = self.kernel.status(key)
        return status.reason if status.status == FAILED else None

    # Micro-batches.

    def hear(self, key: str, reports: Reports) -> None:
        """Have a query choose its slack by what all of its shards have reported; one that rests does so when it goes
        on."""
        hosted = self._member(key)
        if hosted.status == RUNNING:
            hosted.query.release.hear(reports.heard(key, self.records[key].plan.learning_key))

    def report(self, key: str, label: int, reports: Reports) -> None:
        hosted = self._member(key)
        if hosted.status == RUNNING:
            of = ReportOf(label, key, self.records[key].plan.learning_key)
            reports.note(of, hosted.query.release.report())
        elif hosted.status == PAUSED:
            reports.pass_on(label, key)

    def on_processing_time(self, now: int) -> Iterator[tuple[str, Emission]]:
        for record in self.records.values():
            record.begin()
        yield from self._drained(self.kernel.on_processing_time(now))

    def epoch(self, blocks: Iterable[Block], now: int | None, end: bool) -> Iterator[tuple[str, Emission]]:
        ordered = sorted(blocks, key=lambda block: (block.stream, block.part))
        end = end or any(block.header["end"] for block in ordered)
        for record in self.records.values():
            record.begin()
        self._read_progress(ordered, now)
        arrived, passed = self._arrived(ordered)
        self._count_keys(arrived, passed)
        if self._ended:
            self._turn_away_all(arrived, passed, AFTER_END)
            return
        self._ended = end
        self.kernel.absorb(self._key, arrived, passed)
        for _, one in self._running:
            one.query.count_taken(0, now is not None)
        yield from self._drained(self.kernel.advance_domain(self._key, end))
        for record, one in self._running:
            for own in self.kernel.take_ahead(one.name):
                record.turn_away(own, AHEAD)

    def _drained(self, emissions: Iterator[tuple[str, Emission]]) -> Iterator[tuple[str, Emission]]:
        for key, emission in emissions:
            self.records[key].emitted(emission)
            yield key, emission
        for _, one in self._running:
            # Metrics tell the slack that is in force; all that ever was would have no end.
            one.query.release.slack_log()

    def _read_progress(self, blocks: Sequence[Block], now: int | None) -> None:
        """Set the clocks of the guard to those that all headers agree on, and note for controllers what has come."""
        reported: list[list[Reported]] = [[] for _ in self._streams]
        clocks = self._domain.clocks.release
        for block in blocks:
            self.codebook.encode(pa.array(block.header["partitions"], pa.string()))
            for one in block.header["reported"]:
                self.guard.note(block.stream, one.name, one.shift, one.buckets)
                reported[block.stream].append(one)
            self._note_counts(block, clocks.clock_before(block.stream))
        for s, stream in enumerate(self._streams):
            earliest = clocks.clock_before(s) - self._domain.plan.terms.max_behind
            # The largest delay is the whole stream's, so a slack that follows it is the same in every shard.
            oldest = {number: _oldest(reported[s], at, earliest) for at, number in enumerate(stream.filters)}
            for _, one in self._running:
                mine = oldest[one.place.filters[s]]
                if mine != BEFORE_ALL:
                    one.query.release.note_oldest(s, mine)
        self.guard.move(now)

    def _note_counts(self, block: Block, clock: int) -> None:
        """What a header tells of each query's own tuples."""
        header, stream = block.header, self._streams[block.stream]
        filtered = header["filtered"] or [0] * len(stream.filters)
        usable = header["rows"] - sum(header["rejected"].values())
        learned = dict(zip(stream.learned, header["counts"], strict=True))
        all_of_them = [one.buckets[[1, 0]] for one in header["reported"]] if header["rows"] else ()
        for wanting in stream.wanting:
            record, one = self.records[wanting.key], self._member(wanting.key)
            if one.status not in (RUNNING, PAUSED):
                continue
            record.count_rows(block.stream, header["rows"], header["rejected"])
            if one.status == PAUSED:
                record.pass_by(usable)
                continue
            record.counts["filtered"] += filtered[stream.filters.index(wanting.filter)]
            own = learned.get((wanting.filter, wanting.granularity or 0))
            if header["rows"]:
                for ts, counts in all_of_them if own is None else (own,):
                    record.delays.note_counted(block.stream, clock, ts, counts)
            if own is not None:
                one.query.release.teach(block.stream, *own)

    def _arrived(self, blocks: Sequence[Block]) -> tuple[Batch, Words]:
        """The tuples of blocks as the domain has them, and the filters that they have passed."""
        opened = [
            (one, OpenBlock(one.block, self._streams[one.stream].text_rows, self.codebook))
            for one in blocks
            if one.block is not None
        ]
        sizes = [block.size for _, block in opened]
        stream = np.repeat(np.array([one.stream for one, _ in opened], np.int64), sizes)
        own_rows = [len(self._streams[one.stream].rows) for one, _ in opened]
        flags = max((block.rows - rows for rows, (_, block) in zip(own_rows, opened, strict=True)), default=0)
        words, passed = (np.zeros((n, len(stream)), np.int64) for n in (self._domain.plan.width, flags))
        clash = np.zeros(len(stream), np.bool_)
        # A table of a source that is joined with itself comes several times; its rows are numbered once.
        begins: dict[tuple[str, int], int] = {}
        end = 0
        for rows, (one, block) in zip(own_rows, opened, strict=True):
            begin, end = end, end + block.size
            into = [*words[:rows, begin:end], *passed[: block.rows - rows, begin:end]]
            clash[begin:end] = block.into(into, self._read)
            source = self._streams[one.stream].source
            if self._numbered(source) and not one.header["named"]:
                table = source, one.part
                if table not in begins:
                    begins[table] = self._read
                    self._read += one.header["size"]
                words[ROW, begin:end] += begins[table]
            else:
                self._read += block.size
        arrived = Batch(stream, words, np.ones(len(stream), np.bool_))
        if clash.any():
            at_clash, others = np.flatnonzero(clash), np.flatnonzero(~clash)
            self._turn_away_all(arrived.take(at_clash), passed[:, at_clash], SAME_HASH)
            arrived, passed = arrived.take(others), passed[:, others]
        return arrived, passed

    def _numbered(self, source: str) -> bool:
        return sum(one.source == source for one in self._streams) > 1

    def _count_keys(self, arrived: Batch, passed: Words) -> None:
        places: dict[tuple[int, ...], Words] = {}
        for record, one in self._running:
            filters = one.place.filters
            if filters not in places:
                places[filters] = self._domain.wanted(arrived, passed, filters)
            record.hot_keys.count(arrived, among=places[filters])

    def _turn_away_all(self, arrived: Batch, passed: Words, reason: int) -> None:
        """Tuples that end as rejected rows of whoever wants them."""
        for record, one in self._running:
            mine = arrived.take(self._domain.wanted(arrived, passed, one.place.filters))
            record.turn_away(self._domain.view(one, mine), reason)

    # What is asked.

    @property
    def held(self) -> int:
        """Tuples that are held for all queries together, those that wait for a verdict among them."""
        return self.kernel.log_tuples + self.guard.pending

    def progress(self, key: str, load: ShardLoad, rejected: Mapping[str, str]) -> QueryProgress:
        return self.records[key].progress(self.kernel.query(key), load, rejected)

    # State.

    def snapshot_delta(self) -> Iterator[tuple[str, StateUpdate]]:
        """What to write after a micro-batch, each entry with whose it is: the group's, or a query's."""
        if self.codebook.due:
            pieces = [record.side_output.pieces for record in self.records.values()]
            self.codebook.sweep(words_held(self.kernel, self.guard, pieces))
        shared = {"read": self._read, "ended": self._ended}
        yield self.group.key, state_update(OWN, "counts", encode_json(shared))
        for entry in (*self.codebook.snapshot_delta(),):
            yield self.group.key, entry
        for entry in self.kernel.snapshot_delta():
            yield self.group.key, StateUpdate(f"{KERNEL}/{entry.namespace}", entry.key, entry.value)
        for key, record in self.records.items():
            for entry in record.snapshot_delta():
                yield key, entry

    def restore(self, entries: Iterable[StateUpdate]) -> None:
        """Take over all state of the group that an earlier shard has written."""
        self.kernel.restore(self._taken_over(entries))

    def catch_up(self, entries: Iterable[StateUpdate]) -> bool:
        """Take over what changed since this shard last ran; False where all has to be restored."""
        return self.kernel.catch_up(self._taken_over(entries))

    def _taken_over(self, entries: Iterable[StateUpdate]) -> list[StateUpdate]:
        kernel, texts = [], []
        for entry in entries:
            if entry.namespace == NAMESPACE:
                texts.append(entry)
            elif entry.namespace == OWN:
                saved: dict[str, Any] = decode_json(entry.value or b"{}")
                self._read, self._ended = saved["read"], saved["ended"]
            else:
                kernel.append(_inner(entry))
        self.codebook.restore(texts)
        return kernel


def _inner(entry: StateUpdate) -> StateUpdate:
    return StateUpdate(entry.namespace.removeprefix(f"{KERNEL}/"), entry.key, entry.value)
