"""Release: the two disciplines behind one interface. Arrivals go in, ordered batches (runs) come out.

Invariant: every tuple taken in leaves in exactly one run, as in time or late, or is filtered; all streams
share one K. A `Watch` only observes and is not persisted: after a restart it starts again with the next epoch.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Literal

import numpy as np

from slackwater.core.batch import Batch, Flags, Words
from slackwater.core.state import NOTHING, NOTHING_IN_FORCE, InForce, StateUpdate
from slackwater.core.time import AFTER_ALL, BEFORE_ALL, LONGEST
from slackwater.core.wrong_clocks import PartitionClock
from slackwater.disorder.clock_readings import ClockReadings
from slackwater.disorder.clocks import min_clock_now, rank_partitions
from slackwater.disorder.controllers import DelayObservations, Measured, SlackController
from slackwater.disorder.meters import Report
from slackwater.disorder.ordered_batch import OrderedBatch, OrderedTuples, late_first
from slackwater.disorder.release import state as st
from slackwater.disorder.release.epoch import (
    emit_first,
    end_silent_epoch,
    release_for_external_sync,
    release_sorted,
    release_unsorted,
    release_up_to,
    take_in_epoch,
)
from slackwater.disorder.release.stage_state import StageState
from slackwater.disorder.release.tuple import drain_all, pass_each, release_each

FEW_TIMES = 8
"""An epoch is sorted at once if those held are less than so many times its arrivals."""


@dataclass(frozen=True)
class ReleaseSpec:
    """How tuples are emitted.

    `epoch_tuples` or `epoch_span` (microseconds of the largest clock) cut epochs; with neither, each call ends one.
    """

    streams: int
    rows: int
    discipline: Literal["tuple", "epoch"] = "epoch"
    sorted: bool = True
    """False: the operator commutes, so epoch release may pass tuples on as they arrive, marked with the watermark."""
    epoch_tuples: int = 0
    epoch_span: int = 0
    idle_timeout: int | None = None
    idle_after: float | None = None
    """A stream that is behind the others by more than this many of its usual gaps is not waited for."""
    partition_slots: tuple[int, ...] = ()
    """Per stream, the row that names the partition of a tuple, or NO_PARTITION; empty: no stream has partitions."""
    max_behind: int = LONGEST
    """A tuple further behind its stream's clock teaches nothing about delays."""
    external_sync: bool = False
    """True: only slack is applied here. Runs hold tuples as they leave their stream's slack, and watermark events,
    for synchronizers elsewhere to put in order."""
    at_once: bool = False
    """True: tuples pass as they arrive, marked with the watermark that they would have met. Those of an epoch that are
    late pass before its others, as they do where order is waited for."""

    @property
    def heaps(self) -> int:
        """Tuple release: slack buffers 0 to m-1, and those of the synchronizer, m to 2m-1."""
        return 2 * self.streams if self.discipline == "tuple" else 1

    @property
    def held_rows(self) -> int:
        """Word rows of what is held: where tuples pass at once, event times that tell where the watermark stands."""
        return 1 if self.at_once else self.rows

    @property
    def ends_with_calls(self) -> bool:
        """Whether every call ends an epoch; then what waits lies behind the watermark, and can be persisted piece by
        piece."""
        return self.discipline == "epoch" and self.epoch_tuples == 0 and self.epoch_span == 0


class Release:
    """The disorder stage of one query.

    >>> from slackwater.disorder.controllers import FixedSlack
    >>> release = Release(ReleaseSpec(streams=1, rows=2, discipline="tuple"), FixedSlack(1))
    >>> arrivals = Batch.of([(0, t) for t in (1, 4, 3, 5, 7, 8, 6, 9)])
    >>> [run.ts.tolist() for run in release.drain(arrivals)]
    [[1, 3, 4, 5, 7, 6, 8]]
    """

    def __init__(self, spec: ReleaseSpec, controller: SlackController) -> None:
        self.spec, self.controller = spec, controller
        self.state = StageState(
            spec.streams, spec.held_rows, spec.heaps, spec.ends_with_calls, controller.slack, spec.max_behind
        )
        self._slack_log: list[tuple[int, int]] = []
        self.taught = False
        """True: the controller learns by `teach` from the whole stream, not from the tuples that come here."""
        self._among_shards = False
        self.remembers = False
        """Whether tuples are those of a history, or were so far: how these come says nothing of delays."""
        self.partition_numbers: dict[tuple[int, int], int] = {}

    @property
    def _clock(self) -> st.Clockwork:
        return self.state.clock

    @property
    def _unsorted(self) -> bool:
        return self.spec.at_once or (self.spec.discipline == "epoch" and not self.spec.sorted)

    def drain(self, batch: Batch, end: bool = False, ends: Flags | None = None) -> Iterator[OrderedBatch]:
        """Take in arrivals; yield what may be processed now. With `end`, everything.

        `ends` says after which tuples an epoch ends; without it, the spec does.
        """
        learns = self.controller.learns and not self.taught and not self.remembers
        new = st.arrivals(batch, NOTHING if self.remembers else self.partitions_of(batch), learns, ends)
        begin, reached = 0, self.watermark
        if not len(batch) and self.is_told:
            run = self.on_processing_time(int(self._clock.scalars[st.NOW]))
            if self._tells(run, reached):
                yield run
            self._consult_controller()
        while begin < len(batch):
            first = begin
            begin, run = self._segment(batch, new, begin)
            if learns:
                self.controller.learn(_arrived(batch, new, first, begin))
            if self._tells(run, reached):
                yield run
            reached = run.watermark
            # Only now the controller knows what became of these tuples.
            self._consult_controller()
        self.forget_clocks()
        if end:
            yield self._flush()

    def _tells(self, run: OrderedBatch, reached: int) -> bool:
        """Whether an operator must know of a run: rows may leave by the watermark alone."""
        return len(run) > 0 or self._unsorted or run.watermark > reached

    def partitions_of(self, batch: Batch) -> Words:
        """The number of the partition that each arrival belongs to; a new partition gets the next number."""
        if not self.spec.partition_slots:
            return NOTHING
        rows = np.array(self.spec.partition_slots)[batch.stream]
        return self._numbered_partitions(batch.stream, batch.words[rows, np.arange(len(batch))])

    def _numbered_partitions(self, streams: Words, named: Words) -> Words:
        """The numbers of partitions by their streams and names; NO_PARTITION where a stream has none."""
        partition = np.full(len(streams), st.NO_PARTITION, np.int64)
        for stream, row in enumerate(self.spec.partition_slots):
            mine = np.flatnonzero(streams == stream)
            if row != st.NO_PARTITION:
                names, which = np.unique(named[mine], return_inverse=True)
                numbers = self.partition_numbers
                known = [numbers.setdefault((stream, name), len(numbers)) for name in names.tolist()]
                partition[mine] = np.array(known, np.int64)[which]
                fresh = np.full((st.PARTITION_ROWS, len(numbers) - self._clock.partitions.shape[1]), BEFORE_ALL)
                fresh[st.PARTITION_STREAM], fresh[st.PARTITION_IDLE] = stream, 0
                if fresh.shape[1]:
                    self.state.clock = self._clock._replace(partitions=np.hstack([self._clock.partitions, fresh]))
        self._rank()
        return partition

    def set_clocks(self, readings: ClockReadings) -> None:
        """Take these clocks over when the next epoch ends, whether tuples come or not."""
        assert self.spec.ends_with_calls, "clocks are set when an epoch ends"
        partition = self._numbered_partitions(readings.stream, readings.partition)
        moment = np.full(len(readings.stream), readings.at)
        told = np.stack([readings.stream, partition, readings.reading, moment])
        self.state.clock = self._clock._replace(readings=told)

    def remember(self, reached: Sequence[int], now: int | None) -> None:
        """The next epoch has tuples of a history, which is whole up to these event times, one a stream. Its partitions
        say nothing of those that will come."""
        assert self.spec.ends_with_calls, "a history is taken in by epochs"
        self.remembers = True
        streams = len(reached)
        moment = np.full(streams, BEFORE_ALL if now is None else now)
        told = np.stack([np.arange(streams), np.full(streams, st.NO_PARTITION), np.array(reached, np.int64), moment])
        self.state.clock = self._clock._replace(readings=told)

    def begin_behind_history(self) -> None:
        """From now on arrivals say how late they are, and how far apart."""
        self.remembers = False
        self._clock.gaps[:] = 0
        self._clock.scalars[st.LARGEST_DELAY] = 0

    @property
    def is_told(self) -> bool:
        """Whether clocks are to be taken over."""
        return self._clock.readings.shape[1] > 0

    def forget_clocks(self) -> None:
        """They have been taken over."""
        if self.is_told:
            self.state.clock = self._clock._replace(readings=np.zeros((st.READING_ROWS, 0), np.int64))

    def _rank(self) -> None:
        """Make the trees of the slowest partitions anew, where there are others than before."""
        size = 2 * self._clock.partitions.shape[1]
        if self._clock.slowest.shape[1] != size:
            slowest = np.empty((len(self._clock.clocks), size), np.int64)
            self.state.clock = self._clock._replace(slowest=slowest)
            rank_partitions(self._clock)

    def on_processing_time(self, now: int) -> OrderedBatch:
        """End an epoch in which nothing arrived, at this time by the clock of arrival times."""
        out = st.output_buffer(self.held + self.spec.streams, self.spec.rows)
        self._rank()
        n = end_silent_epoch(now, self.policy(), self._clock, self.state.buffers, out)
        return self.state.run(out, n)

    def begin_at(self, other: Release) -> int:
        """Begin with the clocks of another release of the same streams, one epoch before they were there; returns the
        moment at which they were."""
        theirs = other.state.clock
        self.state.clock = self._clock._replace(partitions=theirs.partitions.copy(), slowest=theirs.slowest.copy())
        for name in ("clocks", "before", "last_arrival", "idle", "timeouts", "gaps"):
            getattr(self._clock, name)[:] = getattr(theirs, name)
        for at in (st.MAX_TS, st.NOW, st.EPOCH_CLOCK, st.EPOCHS):
            self._clock.scalars[at] = theirs.scalars[at]
        self._clock.scalars[st.EPOCHS] -= 1
        self.partition_numbers = dict(other.partition_numbers)
        return int(theirs.scalars[st.NOW])

    def nothing(self) -> OrderedBatch:
        """A run without tuples, which carries the clocks."""
        return self.state.run(st.output_buffer(0, self.spec.rows), 0)

    def policy(self) -> st.Policy:
        """When an epoch ends and what is chosen then, as compiled code reads it."""
        spec, controller = self.spec, self.controller
        self._clock.scalars[st.SLACK] = controller.slack
        idle = -1 if spec.idle_timeout is None else spec.idle_timeout
        after = 0 if spec.idle_after is None else round(64 * spec.idle_after)
        explicit = spec.epoch_tuples == 0 and spec.epoch_span == 0
        return st.Policy(
            spec.epoch_tuples, spec.epoch_span, explicit, controller.follows_largest_delay, idle, after,
            controller.next_adaptation, spec.external_sync,
        )  # fmt: skip

    def _segment(self, batch: Batch, new: st.Arrivals, begin: int) -> tuple[int, OrderedBatch]:
        """Arrivals up to the controller's next adaptation."""
        clock, spec, policy = self._clock, self.spec, self.policy()
        count = len(batch) - begin
        if self._unsorted:
            out = st.output_buffer(len(batch), 0)
            if spec.discipline == "tuple":
                self.state.reserve(count)
                times = new._replace(words=new.words[:1])
                spare = st.output_buffer(self.held_times + count, 1)
                stop = pass_each(times, begin, policy, clock, self.state.buffers, spare, out)
            else:
                epoch = np.empty(len(batch) if spec.at_once else 0, np.int64)
                stop = release_unsorted(new, begin, policy, clock, out, epoch)
                if spec.at_once:
                    return stop, self._passing(batch, begin, stop, out, epoch)
            return stop, self._passing(batch, begin, stop, out)
        self.state.reserve(count)
        watermarks = (
            spec.streams * (1 if policy.ends_here and policy.idle_timeout < 0 and policy.idle_after == 0 else count)
            if spec.external_sync
            else 0
        )
        out = st.output_buffer(self.held + count + watermarks, spec.rows)
        if begin == 0 and self._sorts(new, policy):
            return count, self.state.run(out, self._epoch_at_once(new, policy, out))
        in_epochs = release_for_external_sync if spec.external_sync else release_sorted
        loop = release_each if spec.discipline == "tuple" else in_epochs
        stop, n = loop(new, begin, policy, clock, self.state.buffers, out, 0)
        return stop, self.state.run(out, n)

    def _sorts(self, new: st.Arrivals, policy: st.Policy) -> bool:
        """Whether these arrivals are one epoch, and not few beside those held: then sorting costs less than a heap."""
        if self.spec.discipline != "epoch" or self.spec.external_sync or not policy.ends_here:
            return False
        count = new.words.shape[1]
        one = len(new.ends) == 0 or (bool(new.ends[-1]) and not new.ends[:-1].any())
        return one and FEW_TIMES * count > self.held

    def _epoch_at_once(self, new: st.Arrivals, policy: st.Policy, out: OrderedTuples) -> int:
        """As `release_sorted`; returns how many tuples are emitted."""
        clock, held = self._clock, self.state.buffers
        n, watermark_at_arrival = take_in_epoch(new, policy, clock, held, out)
        size = int(held.sizes[0])
        # A sorted array is a heap as it stands.
        order = np.lexsort((held.seq[0, :size], held.ts[0, :size]))
        for column in (held.ts, held.seq, held.slot):
            column[0, :size] = column[0, order]
        count = int(np.searchsorted(held.ts[0, :size], clock.scalars[st.WATERMARK], side="right"))
        return emit_first(clock, held, count, watermark_at_arrival, out, n)

    def _passing(
        self, batch: Batch, begin: int, stop: int, out: OrderedTuples, epoch: Words | None = None
    ) -> OrderedBatch:
        """Arrivals as they came; where their epochs are known, of each the late ones first."""
        scalars = self._clock.scalars
        index: slice | Words = slice(begin, stop)
        passes = batch.passes[begin:stop]
        if not passes.all():
            # Those that only move clocks often come last; then the others need not be copied.
            first = int(passes.argmin())
            index = slice(begin, begin + first) if not passes[first:].any() else begin + np.flatnonzero(passes)
        tuples = out._replace(words=batch.words, stream=batch.stream).take(index)
        if epoch is not None:
            tuples = late_first(tuples, epoch[index])
        return OrderedBatch(tuples, int(scalars[st.WATERMARK]), int(scalars[st.MAX_TS]), int(scalars[st.NOW]))

    def _consult_controller(self) -> None:
        scalars = self._clock.scalars
        slack = int(scalars[st.SLACK])
        changes = int(scalars[st.SLACK_CHANGES])
        self._slack_log += [(int(c), int(k)) for c, k in self._clock.slack_log[:, :changes].T]
        scalars[st.SLACK_CHANGES] = 0
        if self.controller.follows_largest_delay:
            self.controller.slack = slack
        if not self._among_shards and not self.remembers:
            self._adapt()

    def _adapt(self) -> None:
        """Have the controller choose anew, if that is due."""
        max_ts, now = int(self._clock.scalars[st.MAX_TS]), self._measured()
        if BEFORE_ALL < max_ts >= self.controller.next_adaptation:
            self.controller.adapt(now)
            if self.controller.slack != now.slack:
                self._slack_log.append((max_ts, self.controller.slack))

    def _measured(self) -> Measured:
        scalars = self._clock.scalars
        return Measured(self.clocks, int(scalars[st.LARGEST_DELAY]), int(scalars[st.SLACK]))

    def join_shards(self) -> bool:
        """Several shards have one slack: from now on it is chosen when an epoch begins, by what all of them have
        reported of the last one (`hear`), where the controller can do that. Whether it can."""
        self._among_shards = self.controller.join_shards(self.taught)
        return self._among_shards

    def report(self) -> Report:
        """What other shards are to know of the epoch that has ended."""
        return self.controller.report(self._measured()) if self._among_shards and not self.remembers else {}

    def hear(self, reports: Sequence[Report]) -> None:
        """What all shards have observed in the last epoch: the slack of the next follows from it."""
        if self._among_shards and not self.remembers:
            self.controller.hear(reports)
            self._adapt()

    def _flush(self) -> OrderedBatch:
        self.state.ended = True
        if self._unsorted:
            return self.state.run(st.output_buffer(0, self.spec.rows), 0, ended=True)
        out = st.output_buffer(self.held, self.spec.rows)
        if self.spec.discipline == "tuple":
            n = drain_all(self._clock, self.spec.external_sync, self.state.buffers, out, 0)
        else:
            n = release_up_to(
                self._clock, AFTER_ALL, int(self._clock.scalars[st.WATERMARK]), self.state.buffers, out, 0
            )
        return self.state.run(out, n, ended=True)

    def clock_before(self, stream: int) -> int:
        """The clock of a stream when the epoch began."""
        return int(self._clock.before[stream])

    def note_oldest(self, stream: int, oldest: int) -> None:
        """Another shard has seen a tuple this old in the epoch that is about to end."""
        before = int(self._clock.before[stream])
        if before != BEFORE_ALL:
            scalars = self._clock.scalars
            scalars[st.LARGEST_DELAY] = max(int(scalars[st.LARGEST_DELAY]), before - oldest)

    def teach(self, stream: int, ts: Words, counts: Words) -> None:
        """This many tuples of the whole stream have come in the epoch that is about to end, to all shards."""
        own, all_of_them = int(self._clock.before[stream]), min_clock_now(self._clock.before, self._clock.idle)
        if own != BEFORE_ALL:
            teaches = own - ts <= self.spec.max_behind
            ts, counts = ts[teaches], counts[teaches]
        behind, needed = (np.repeat(_behind(clock, ts), counts) for clock in (own, all_of_them))
        words = np.repeat(ts, counts)[np.newaxis]
        self.controller.learn(DelayObservations(np.full(words.shape[1], stream), words, behind, needed))

    @property
    def held(self) -> int:
        """Tuples in slack buffers and synchronizer."""
        return 0 if self.spec.at_once else self.state.waiting

    @property
    def held_times(self) -> int:
        """Event times that are held, of tuples that wait or have passed at once."""
        return self.state.waiting

    @property
    def clocks(self) -> tuple[int, ...]:
        return tuple(self._clock.clocks.tolist())

    @property
    def slack(self) -> int:
        return int(self._clock.scalars[st.SLACK])

    @property
    def watermark(self) -> int:
        return self.state.watermark

    @property
    def epochs(self) -> int:
        return int(self._clock.scalars[st.EPOCHS])

    @property
    def epoch_clock(self) -> int:
        """The largest clock when the latest epoch ended."""
        return int(self._clock.scalars[st.EPOCH_CLOCK])

    @property
    def idle_timeouts(self) -> tuple[int, ...]:
        """How often each stream was taken out by the idle timeout."""
        return tuple(self._clock.timeouts.tolist())

    @property
    def partition_clocks(self) -> tuple[PartitionClock, ...]:
        """The clock of every partition of every stream."""
        clocks = self._clock.partitions[st.PARTITION_CLOCK].tolist()
        return tuple(PartitionClock(s, name, clocks[n]) for (s, name), n in self.partition_numbers.items())

    def slack_log(self) -> list[tuple[int, int]]:
        """Changes of K since the last call, as (largest clock, K from there on)."""
        log, self._slack_log = self._slack_log, []
        return log

    def snapshot_delta(self) -> list[StateUpdate]:
        """What to persist since the last call."""
        return self.state.snapshot_delta({"slack": self.controller.slack, "part_names": list(self.partition_numbers)})

    def restore(self, entries: list[StateUpdate]) -> None:
        """Take over persisted state, including the slack in force."""
        saved = self.state.restore(entries)
        if saved:
            self.controller.slack = saved["slack"]
            self.partition_numbers = {(s, name): number for number, (s, name) in enumerate(saved["part_names"])}


def _behind(clock: int, ts: Words) -> Words:
    return np.maximum(0, clock - ts) if clock != BEFORE_ALL else np.zeros(len(ts), np.int64)


def _arrived(batch: Batch, new: st.Arrivals, begin: int, end: int) -> DelayObservations:
    passing: slice | Words = slice(begin, end)
    teaching = batch.passes[begin:end] & (new.behind[begin:end] != st.UNTAUGHT)
    if not teaching.all():
        passing = begin + np.flatnonzero(teaching)
    return DelayObservations(batch.stream[passing], batch.words[:, passing], new.behind[passing], new.needed[passing])


class Watch:
    """Observes a release before and after it emits a run."""

    def __init__(self, release: Release) -> None:
        self._release = release
        self._epochs, self._clock, self._watermark = 0, BEFORE_ALL, BEFORE_ALL
        self.last = NOTHING_IN_FORCE

    def begin(self, watermark: int) -> None:
        """Called before arrivals are released, with the watermark of the query."""
        self._epochs, self._clock, self._watermark = self._release.epochs, self._release.epoch_clock, watermark

    def look(self, watermark: int) -> None:
        """Note what is in force for the run that was just emitted; what the end of the input emits counts like the last
        run before it."""
        release = self._release
        if watermark == AFTER_ALL:
            return
        in_epochs = release.spec.discipline == "epoch"
        clock = release.epoch_clock if in_epochs else max(release.clocks)
        lag = AFTER_ALL if watermark == BEFORE_ALL else clock - watermark
        if not in_epochs:
            self.last = InForce(release.slack, lag)
            return
        passed = max(1, release.epochs - self._epochs)
        # Before the first epoch there is no clock to measure it from: it took as long as anything waited for it.
        begun = BEFORE_ALL not in (self._clock, self._watermark)
        length = (clock - self._clock) // passed if begun else AFTER_ALL
        moved = (watermark - self._watermark) // passed if begun else AFTER_ALL
        # The watermark of a single stream is always its slack behind the clock.
        known = passed == 1 or release.spec.streams == 1
        self.last = InForce(release.slack, lag, length, moved, known)
        self.begin(watermark)
