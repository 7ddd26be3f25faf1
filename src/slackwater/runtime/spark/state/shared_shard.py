"""A shard of several queries: one kernel over one ordered log, fed by blocks that have the tuples of all of them.

Invariant: every query is given what its own `Shard` would give it, at the same end of an epoch: clocks come from
headers, the vote about them is held over headers, and what a controller is given of the whole stream is given for the
query's own filter. A query that fails stops alone: the log is settled after all queries have had their turn, so nothing
that is shared is left half done.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import pyarrow as pa

from slackwater.core.batch import ROW, Batch, Flags, Words
from slackwater.core.errors import UsageError
from slackwater.core.state import NOTHING, Emission, StateUpdate, decode_json, encode_json, state_update
from slackwater.core.time import AFTER_ALL, BEFORE_ALL
from slackwater.disorder.clock_guard import Guarded
from slackwater.disorder.clock_readings import ClockReadings
from slackwater.disorder.cutting import Cutting, Epochs
from slackwater.disorder.event_times import oldest_within
from slackwater.disorder.header_guard import HeaderGuard
from slackwater.disorder.sharing.clock_domain import ClockTerms
from slackwater.observe.imbalance import ShardLoad
from slackwater.observe.value import QueryProgress
from slackwater.operators.query_set.domain import Domain
from slackwater.operators.query_set.kernel import FAILED, PAUSED, RUNNING
from slackwater.operators.query_set.member import Member as Hosted
from slackwater.plan.physical import PhysicalPlan
from slackwater.runtime.query_sets import QuerySetKernel
from slackwater.runtime.spark.exchange.format import read_block
from slackwater.runtime.spark.groups import Group
from slackwater.runtime.spark.state.checkpoint import Targets
from slackwater.runtime.spark.state.query_in_group import QueryInGroup
from slackwater.runtime.spark.state.reports import ReportOf, Reports
from slackwater.runtime.spark.state.root import secret_of_task
from slackwater.runtime.spark.state.shard import Block, told_apart
from slackwater.runtime.words_held import words_held
from slackwater.sources.codebook import NAMESPACE, Codebook
from slackwater.sources.encode import AFTER_END, AHEAD, SAME_HASH

OWN, KERNEL = "group", "kernel"
"""The cells of what its queries have in common."""


class GuardByHeaders:
    """The guard of a domain whose clocks come from headers."""

    def __init__(self, terms: ClockTerms, cutting: Cutting) -> None:
        self.headers = HeaderGuard(terms.streams, terms.max_ahead, terms.max_behind, terms.partition_slots)
        self.moved: ClockReadings | None = None
        """The clocks that the headers of this epoch agree on."""

    @property
    def pending(self) -> int:
        """How many tuples wait for their verdict."""
        return 0 if self.headers.pending is None else len(self.headers.pending)

    def admit(self, batch: Batch, end: bool = False) -> Guarded:
        """Judge a batch; the clocks move behind it."""
        moved, nothing = self.moved, batch.take(NOTHING)
        assert moved is not None, "headers come first"
        admit, ahead = self.headers.judge(batch, end)
        return Guarded(
            nothing if admit is None else told_apart(admit, moved), nothing if ahead is None else ahead, None, moved
        )

    def relay(self, change: Callable[[Batch], Words]) -> None:
        """From now on tuples have other rows; what waits is changed."""
        self.headers.relay(change)

    def snapshot_delta(self) -> list[StateUpdate]:
        """What to persist since the last call."""
        return self.headers.snapshot_delta()

    def restore(self, entries: list[StateUpdate]) -> None:
        """Take over persisted state."""
        self.headers.restore(entries)


@dataclass
class _Reported:
    """What the headers of one stream tell of each filter: buckets, and how far the oldest is behind the latest."""

    latest: list[Words]
    behind: list[list[list[int | None]]]

    def oldest(self, at: int, earliest: int) -> int:
        """The oldest event time of a filter that is not before `earliest`; or BEFORE_ALL."""
        found = BEFORE_ALL
        for latest, behind in zip(self.latest, self.behind, strict=True):
            oldest = [AFTER_ALL if far is None else t - far for t, far in zip(latest.tolist(), behind[at], strict=True)]
            one = oldest_within(np.stack([latest, latest, np.array(oldest, np.int64)]), earliest)
            found = one if found == BEFORE_ALL else min(found, one) if one != BEFORE_ALL else found
        return found


class SharedShard:
    """The queries of a group in one shard, between two micro-batches."""

    def __init__(self, group: Group, plans: Mapping[str, PhysicalPlan], targets: Mapping[str, Targets]) -> None:
        """`plans` has every query with the target that is in force."""
        self.group, self.codebook = group, Codebook(secret_of_task())
        self.kernel = QuerySetKernel(
            group.planned(plans), Epochs(), self.codebook, remembers=False, make_guard=self._made_guard
        )
        ((self._key, self._domain),) = self.kernel.domains.items()
        self.in_group = {
            one.key: QueryInGroup(one, plans[one.key], group.place(one), self.codebook, targets[one.key])
            for one in group.members
        }
        for key in self.in_group:
            self._prepare(key)
        self._streams = group.streams
        self._read, self._ended = 0, False

    def _made_guard(self, terms: ClockTerms, cutting: Cutting) -> GuardByHeaders:
        self.guard = GuardByHeaders(terms, cutting)
        return self.guard

    def _prepare(self, key: str) -> None:
        """What differs in a shard, where the whole stream is known by headers alone."""
        hosted, plan = self._member(key), self.in_group[key].plan
        hosted.query.release.taught = plan.joins and not plan.nodes
        if len(self.group.shards) > 1:
            hosted.query.release.join_shards()
        hosted.query.count_unjudged = lambda: self._pending(hosted)

    def _member(self, key: str) -> Hosted:
        return self._domain.members[key]

    def _pending(self, hosted: Hosted) -> int:
        waiting = self.guard.headers.pending
        if waiting is None or hosted.status != RUNNING:
            return 0
        return int(np.count_nonzero(self._domain.own(hosted, waiting).passes))

    @property
    def domain(self) -> Domain:
        """Clocks, log and queries."""
        return self._domain

    @property
    def _running(self) -> list[tuple[QueryInGroup, Hosted]]:
        return [(self.in_group[key], one) for key, one in self._domain.members.items() if one.status == RUNNING]

    # Between two micro-batches.

    def pause(self, key: str) -> None:
        """Pause a query; what waits for a verdict is not for it."""
        self.in_group[key].pass_by(self._pending(self._member(key)))
        self.kernel.pause(key)

    def resume(self, key: str) -> None:
        """Go on with a query that rests."""
        self.kernel.resume(key)

    def fail(self, key: str, reason: str) -> None:
        """A query has failed elsewhere."""
        self.kernel.fail(key, UsageError(reason))

    def aim(self, key: str, plan: PhysicalPlan, targets: Targets, entries: Iterable[StateUpdate]) -> None:
        """Another target for a query from now on; `entries` has what is persisted of the group."""
        kernel = [_inner(entry) for entry in entries if entry.namespace.startswith(f"{KERNEL}/")]
        self.kernel.set_target(key, plan.quality, kernel)
        self.in_group[key].aim(plan, targets)
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
            hosted.query.release.hear(reports.heard(key, self.in_group[key].plan.learning_key))

    def report(self, key: str, label: int, reports: Reports) -> None:
        """What a query has observed here."""
        hosted = self._member(key)
        if hosted.status == RUNNING:
            of = ReportOf(label, key, self.in_group[key].plan.learning_key)
            reports.note(of, hosted.query.release.report())
        elif hosted.status == PAUSED:
            reports.pass_on(label, key)

    def on_processing_time(self, now: int) -> Iterator[tuple[str, Emission]]:
        """End an epoch in which no stream spoke."""
        for one_query in self.in_group.values():
            one_query.begin()
        yield from self._drained(self.kernel.on_processing_time(now))

    def epoch(self, blocks: Iterable[Block], now: int | None, end: bool) -> Iterator[tuple[str, Emission]]:
        """Take in one micro-batch, heard at the moment `now` where moments count, and end the epoch."""
        ordered = sorted(blocks, key=lambda block: (block.stream, block.part))
        end = end or any(block.header["end"] for block in ordered)
        for one_query in self.in_group.values():
            one_query.begin()
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
        for one_query, one in self._running:
            for own in self.kernel.take_ahead(one.name):
                one_query.turn_away(own, AHEAD)

    def _drained(self, emissions: Iterator[tuple[str, Emission]]) -> Iterator[tuple[str, Emission]]:
        for key, emission in emissions:
            self.in_group[key].emitted(emission)
            yield key, emission
        for _, one in self._running:
            # Metrics tell the slack that is in force; all that ever was would have no end.
            one.query.release.slack_log()

    def _read_progress(self, blocks: Sequence[Block], now: int | None) -> None:
        """Set the clocks of the guard to those that all headers agree on, and note for controllers what has come."""
        reported = [_Reported([], []) for _ in self._streams]
        clocks = self._domain.clocks.release
        for block in blocks:
            self.codebook.encode(pa.array(block.header["partitions"], pa.string()))
            for name, (shift, buckets, behind) in block.header["reported"]:
                counts, latest = np.array(buckets, np.int64).reshape(-1, 2).T
                columns = np.stack([counts, latest, np.full(len(latest), AFTER_ALL)])
                self.guard.headers.note(block.stream, name, shift, columns)
                reported[block.stream].latest.append(latest)
                reported[block.stream].behind.append(behind)
            self._note_counts(block, clocks.clock_before(block.stream))
        for s, stream in enumerate(self._streams):
            earliest = clocks.clock_before(s) - self._domain.plan.terms.max_behind
            # The largest delay is the whole stream's, so a slack that follows it is the same in every shard.
            oldest = {number: reported[s].oldest(at, earliest) for at, number in enumerate(stream.filters)}
            for _, one in self._running:
                mine = oldest[one.place.filters[s]]
                if mine != BEFORE_ALL:
                    one.query.release.note_oldest(s, mine)
        self.guard.moved = ClockReadings.of(self.guard.headers.clocks(now), now)

    def _note_counts(self, block: Block, clock: int) -> None:
        """What a header tells of each query's own tuples."""
        header, stream = block.header, self._streams[block.stream]
        filtered = header["filtered"] or [0] * len(stream.filters)
        usable = header["rows"] - sum(header["rejected"].values())
        learned = {
            what: tuple(np.array(column, np.int64) for column in found)
            for what, found in zip(stream.learned, header["counts"], strict=True)
        }
        all_of_them = _all_times(header["reported"]) if header["rows"] else ()
        for wanting in stream.wanting:
            one_query, one = self.in_group[wanting.key], self._member(wanting.key)
            if one.status not in (RUNNING, PAUSED):
                continue
            one_query.count_rows(block.stream, header["rows"], header["rejected"])
            one_query.counts_rows = one_query.counts_rows or bool(header["rows"])
            if one.status == PAUSED:
                one_query.pass_by(usable)
                continue
            one_query.counts["filtered"] += filtered[stream.filters.index(wanting.filter)]
            own = learned.get((wanting.filter, wanting.granularity or 0))
            if header["rows"]:
                for ts, counts in all_of_them if own is None else (own,):
                    one_query.delays.note_counted(block.stream, clock, ts, counts)
            if own is not None:
                one.query.release.teach(block.stream, *own)

    def _arrived(self, blocks: Sequence[Block]) -> tuple[Batch, Words]:
        """The tuples of blocks as the domain has them, and the filters that they have passed."""
        width = self._domain.plan.width
        words: list[Words] = [np.zeros((width, 0), np.int64)]
        bits: list[Words] = []
        stream: list[Words] = [np.zeros(0, np.int64)]
        strange: list[Flags] = [np.zeros(0, np.bool_)]
        # A table of a source that is joined with itself comes several times; its rows are numbered once.
        begins: dict[tuple[str, int], int] = {}
        for block in blocks:
            if block.block is None:
                continue
            of = self._streams[block.stream]
            read, clash = read_block(block.block, of.text_rows, self.codebook, self._read)
            own = read[: len(of.rows)]
            if self._numbered(of.source) and not block.header["named"]:
                table = of.source, block.part
                if table not in begins:
                    begins[table] = self._read
                    self._read += block.header["size"]
                own[ROW] += begins[table]
            else:
                self._read += own.shape[1]
            padded = np.zeros((width, own.shape[1]), np.int64)
            padded[: len(own)] = own
            words.append(padded)
            bits.append(read[len(of.rows) :])
            strange.append(clash)
            stream.append(np.full(own.shape[1], block.stream, np.int64))
        together, count = np.concatenate(words, axis=1), sum(len(one) for one in stream)
        passed = np.zeros((max((len(one) for one in bits), default=0), count), np.int64)
        at = 0
        for one in bits:
            passed[: len(one), at : at + one.shape[1]] = one
            at += one.shape[1]
        arrived, clash = Batch(np.concatenate(stream), together, np.ones(count, np.bool_)), np.concatenate(strange)
        if clash.any():
            at_clash, others = np.flatnonzero(clash), np.flatnonzero(~clash)
            self._turn_away_all(arrived.take(at_clash), passed[:, at_clash], SAME_HASH)
            arrived, passed = arrived.take(others), passed[:, others]
        return arrived, passed

    def _numbered(self, source: str) -> bool:
        return sum(one.source == source for one in self._streams) > 1

    def _count_keys(self, arrived: Batch, passed: Words) -> None:
        places: dict[tuple[int, ...], Words] = {}
        for one_query, one in self._running:
            filters = one.place.filters
            if filters not in places:
                places[filters] = self._domain.wanted(arrived, passed, filters)
            one_query.count_keys(arrived, places[filters])

    def _turn_away_all(self, arrived: Batch, passed: Words, reason: int) -> None:
        """Tuples that end as rejected rows of whoever wants them."""
        for one_query, one in self._running:
            mine = arrived.take(self._domain.wanted(arrived, passed, one.place.filters))
            one_query.turn_away(self._domain.view(one, mine), reason)

    # What is asked.

    @property
    def held(self) -> int:
        """Tuples that are held for all queries together, those that wait for a verdict among them."""
        return self.kernel.log_tuples + self.guard.pending

    def progress(self, key: str, load: ShardLoad, rejected: Mapping[str, str]) -> QueryProgress:
        """How one query is doing."""
        return self.in_group[key].progress(self.kernel.query(key), load, rejected)

    # State.

    def snapshot_delta(self) -> Iterator[tuple[str, StateUpdate]]:
        """What to write after a micro-batch, each entry with whose it is: the group's, or a query's."""
        if self.codebook.due:
            pieces = [one_query.side_output.pieces for one_query in self.in_group.values()]
            self.codebook.sweep(words_held(self.kernel, self.guard, pieces))
        shared = {"read": self._read, "ended": self._ended}
        yield self.group.key, state_update(OWN, "counts", encode_json(shared))
        for entry in (*self.codebook.snapshot_delta(),):
            yield self.group.key, entry
        for entry in self.kernel.snapshot_delta():
            yield self.group.key, StateUpdate(f"{KERNEL}/{entry.namespace}", entry.key, entry.value)
        for key, one_query in self.in_group.items():
            for entry in one_query.snapshot_delta():
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


def _all_times(reported: Sequence[Any]) -> list[tuple[Words, Words]]:
    """Latest times and counts of all buckets."""
    found = [np.array(buckets, np.int64).reshape(-1, 2).T for _, (_, buckets, _) in reported]
    return [(latest, counts) for counts, latest in found]
