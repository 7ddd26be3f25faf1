"""The kernel of a query: release in event-time order, then the operator; with its counts and its meters.

There is no clock guard in it. A `Pipeline` is one behind a guard of its own; queries that run together share one guard,
and are each of them this (`operators.query_set`); a shard on Spark is told by headers what the clocks are. What differs
from query to query is asked of the operator and of the controller through their hooks (`operators.contract`,
`disorder.controllers`).

Invariant (law 4): every tuple counted is, at any time, in exactly one of these places: held by the clock guard or the
release, in time, late, filtered, or rejected as too far ahead; `observe` counts them and the counts add up.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from slackwater.core.batch import ROW, TS, Batch, Words
from slackwater.core.errors import UsageError
from slackwater.core.measured import MeasuredQuality
from slackwater.core.memory import Memory
from slackwater.core.outlook import Outlook
from slackwater.core.rates import Resize
from slackwater.core.state import (
    NO_LATE,
    NOTHING,
    Emission,
    InForce,
    Late,
    Observation,
    StateUpdate,
    by_part,
    decode_json,
    encode_json,
    state_update,
    under,
)
from slackwater.core.time import BEFORE_ALL, LONGEST
from slackwater.core.trade_off import TradeOff
from slackwater.core.wrong_clocks import OddClock
from slackwater.disorder.clock_guard import Guarded
from slackwater.disorder.controllers import SlackController
from slackwater.disorder.cutting import Epochs
from slackwater.disorder.meters import AnswerLog, QualityMeter
from slackwater.disorder.odd_clocks import OddClocks
from slackwater.disorder.ordered_batch import OrderedBatch
from slackwater.disorder.release.release import Release, ReleaseSpec, Watch
from slackwater.operators.contract import Operator, OperatorSpec
from slackwater.operators.learned import Learned
from slackwater.operators.response_time import Responding
from slackwater.operators.stages import Tells
from slackwater.operators.state_size import Weights, plain_weights, state_size

STATE_VERSION = 15
KERNEL, RELEASE, OPERATOR = "kernel", "release", "operator"
"""The cells of its state, beside those of what was learned."""

MakeRelease = Callable[[ReleaseSpec, SlackController], Release]
"""Makes the release of a query: one of its own, or a cursor in a log that it shares."""


@dataclass(frozen=True)
class KernelTerms:
    """What a query asks of its kernel, beside what it computes."""

    epochs: Epochs
    idle_timeout: int | None = None
    idle_after: float | None = None
    max_behind: int = LONGEST
    max_ahead: int = LONGEST
    partition_slots: tuple[int, ...] = ()
    """Per stream, the row that names the partition of a tuple, or NO_PARTITION; empty: no stream has partitions."""
    weights: Weights | None = None
    target: str = ""
    learning_key: str = ""
    automatic_retention: bool = False
    """Whether nobody has stated how long tuples are retained to find out what late ones cost."""


class QueryKernel:
    """Release, stages, operator and meters of one query; somebody else has judged its tuples."""

    def __init__(
        self,
        spec: OperatorSpec,
        operator: Operator,
        controller: SlackController,
        terms: KernelTerms,
        make_release: MakeRelease = Release,
    ) -> None:
        self._spec, self._operator = spec, operator
        epochs = terms.epochs
        self._ordered = not spec.at_once and (epochs.each_tuple or spec.needs_order)
        released = ReleaseSpec(
            spec.streams,
            spec.rows,
            "tuple" if epochs.each_tuple else "epoch",
            spec.needs_order,
            epochs.tuples,
            epochs.span,
            terms.idle_timeout,
            terms.idle_after,
            terms.partition_slots,
            terms.max_behind,
            spec.external_sync,
            spec.at_once,
        )
        self.release = make_release(released, controller)
        self._stages = operator.attach(self.release)
        self._meters = controller.meters(operator, terms.automatic_retention, terms.max_behind)
        self._learned = Learned(controller, self._meters, terms.target, terms.learning_key)
        self._watch = Watch(self.release)
        self._weights = plain_weights(operator.inputs) if terms.weights is None else terms.weights
        self._responding = Responding()
        self._has_arrival_times = False
        self._absorbed: list[Batch] = []
        self.count_unjudged: Callable[[], int] | None = None
        """Counts the tuples that the clock guard has not yet admitted, where one is in front of it."""
        self.tells: Tells | None = None
        """Which tuples are counted here, and handed out if late; None: all of them. Others are copies, which other
        kernels tell of."""
        self._odd_clocks = OddClocks(terms.max_ahead, terms.max_behind)
        self._counts = dict.fromkeys(
            ("tuples", "in_time", "late", "filtered", "ahead", "results", "amended", "history"), 0
        )
        self._had_odd_clocks = False
        """Whether some are persisted."""
        self._in_history = False
        """Whether the tuples at hand are those of a history."""

    def absorb(self, batch: Batch) -> None:
        """Take in tuples, in arrival order."""
        if len(batch):
            self.count_taken(len(batch), batch.arrival_time is not None)
            self._absorbed.append(batch)

    def advance(self, end: bool = False) -> Iterator[Emission]:
        """End the epoch: move clocks, slack and watermark, emit results. With `end`, emit everything."""
        yield from self.take(self._admitted(end), end)

    def _admitted(self, end: bool) -> Guarded:
        """What was absorbed; nobody has to wait."""
        absorbed, self._absorbed = self._absorbed, []
        batch = Batch.concat(absorbed) if absorbed else Batch.of([], self._spec.rows)
        return Guarded(batch, batch.take(NOTHING))

    def take_ahead(self) -> list[Batch]:
        """The tuples that a guard has rejected since the last call."""
        return []

    def count_taken(self, tuples: int, has_arrival_times: bool | None = None) -> None:
        """So many tuples have been taken in; whether it is known when they arrived, where they are at hand."""
        self._counts["tuples"] += tuples
        if has_arrival_times is not None:
            self._has_arrival_times = has_arrival_times

    def take_partials(self, partials: Words, tuples: int) -> None:
        """Tuples in time, all at or after the watermark, as the partial results that they make."""
        self._counts["tuples"] += tuples
        self._counts["in_time"] += tuples
        self._operator.combine_panes(partials)

    def count_judged(self, ahead: int, filtered: int, arrived: Words | None) -> None:
        """So many were rejected as ahead, so many dropped by a filter; when the others arrived, where that is known."""
        self._counts["ahead"] += ahead
        self._counts["filtered"] += filtered
        if arrived is not None:
            self._responding.arrived(arrived)

    def take(self, admitted: Guarded, end: bool = False) -> Iterator[Emission]:
        """Tuples that were admitted, through the release of this query; with `end`, everything held."""
        batch = admitted.batch
        # An epoch without tuples may lie between two pieces of a history.
        if self.release.remembers and not self._in_history and len(batch):
            self._begin_behind_history()
        if admitted.clocks is not None:
            self.release.set_clocks(admitted.clocks)
        filtered = int(len(batch) - np.count_nonzero(batch.passes))
        arrived = None if batch.arrival_time is None else batch.arrival_time[batch.passes]
        self.count_judged(len(admitted.ahead), filtered, arrived)
        if self._stages.note_arrivals(batch):
            yield from self._process(self.release.nothing())
        yield from self.process(self.release.drain(batch, end, admitted.ends))

    def remember(
        self, batch: Batch, reached: Sequence[int], slack: int = 0, now: int | None = None
    ) -> Iterator[Emission]:
        """Tuples of a history that is whole up to these event times, one a stream, as an epoch. Nothing is learned or
        measured: how they come says nothing of delays. The stream that follows begins with at least this slack, where
        it is not stated."""
        self._counts["tuples"] += len(batch)
        told = len(batch) if self.tells is None else np.count_nonzero(self.tells(batch.stream, batch.words))
        self._counts["history"] += int(told)
        self.release.controller.prime(slack)
        self.release.remember(reached, now)
        self._in_history = True
        try:
            silent = replace(batch, reading=np.full(len(batch), BEFORE_ALL))
            yield from self.take(Guarded(silent, batch.take(NOTHING)))
        finally:
            self._in_history = False

    def _begin_behind_history(self) -> None:
        self.release.begin_behind_history()
        for meter in self._meters:
            meter.begin_behind_history(self.watermark, max(self.release.clocks))

    def process(self, runs: Iterable[OrderedBatch]) -> Iterator[Emission]:
        """Runs of the release, as they come."""
        self._watch.begin(self.watermark)
        for run in runs:
            yield from self._process(run)

    def on_processing_time(self, now: int) -> Iterator[Emission]:
        """End an epoch in which nothing arrived: by now streams may have been silent for too long."""
        self._watch.begin(self.watermark)
        yield from self._process(self.release.on_processing_time(now))

    def report_busy_time(self, seconds: float) -> None:
        """Set how long its work took since the last call, as its host measured it."""
        self._stages.report_busy_time(seconds)

    def _process(self, run: OrderedBatch) -> Iterator[Emission]:
        in_epochs = self.release.spec.discipline == "epoch"
        for piece, (top, raw) in enumerate(self._stages.run_stage(run)):
            # All pieces of a run have waited for the same end of an epoch.
            if piece == 0 or not in_epochs:
                self._watch.look(self._stages.heading)
            yield from self._emit(top, raw)

    def _emit(self, run: OrderedBatch, raw: OrderedBatch) -> Iterator[Emission]:
        """Have the operator process a run; `raw` has the raw tuples that it decides to be in time or late."""
        if self._has_arrival_times and not self._in_history:
            self._responding.left(raw.emit_time)
        late = self._late_of(raw)
        for emission in self.emit_results(run):
            yield emission if late is NO_LATE else replace(emission, late=late)
            late = NO_LATE
        if late is not NO_LATE:
            yield Emission(NOTHING, (), NOTHING, None, late, run.ended)
        for meter in self._meters:
            if self._in_history:
                meter.pass_over()
            if self._hears(meter):
                meter.processed(run, raw)

    def _hears(self, meter: QualityMeter) -> bool:
        return meter.hears_history or not self._in_history

    def emit_results(self, run: OrderedBatch) -> Iterator[Emission]:
        """What the operator makes of a run, and nothing else that becomes of it."""
        for output in self._operator.process(run, self._ordered):
            if output.amends:
                self._counts["amended"] += len(output.ts)
                if self._operator.corrects_losses:
                    for meter in filter(self._hears, self._meters):
                        meter.amended(output.ts, run.watermark_at_arrival[output.by])
            else:
                self._counts["results"] += output.results
                for meter in filter(self._hears, self._meters):
                    meter.emitted(output.ts, output.multiplicity, output.by)
            clock, emit_time = output.clock, output.emit_time
            if clock is None:
                clock = np.append(run.clock, run.max_ts)[output.by]
                emit_time = np.append(run.emit_time, run.now)[output.by]
            in_force = self._watch.last
            if self._spec.at_once and not output.at_watermark:
                in_force = in_force.at_once
            yield Emission(
                output.ts, output.columns, clock, output.multiplicity, NO_LATE, run.ended,
                emit_time if self._has_arrival_times else None,
                in_force, output.change, output.version, output.amends, output.expected_error,
            )  # fmt: skip

    def answers_for(self, bound: float) -> AnswerLog | None:
        """A log of its answers that sums do not tell of, for one who judges them elsewhere."""
        return self._operator.answers_for(bound)

    # For a query whose windows somebody else closes, with those of others (`query_set.pane_groups`).

    @property
    def hears_every_tuple(self) -> bool:
        """Whether somebody is told of tuples that are in time."""
        return bool(self._meters) or self._has_arrival_times

    def begin_runs(self) -> None:
        """Runs are about to come."""
        self._watch.begin(self.watermark)

    def look(self) -> None:
        """A run has left the release."""
        self._watch.look(self._stages.watermark)

    def finish_run(self, run: OrderedBatch, left_out: int) -> Iterator[Emission]:
        """All results of a run are emitted; so many tuples in time that belong to it are not in it."""
        self._counts["in_time"] += left_out
        yield from self._emit(run, run)

    def _late_of(self, raw: OrderedBatch) -> Late:
        """The late ones among these tuples; all of them are counted here."""
        late, count = raw.late, len(raw)
        if self.tells is not None:
            told = self.tells(raw.stream, raw.words)
            late, count = late & told, int(np.count_nonzero(told))
        index: Words = np.flatnonzero(late)
        self._counts["late"] += len(index)
        self._counts["in_time"] += count - len(index)
        if not len(index):
            return NO_LATE
        words = raw.words[:, index]
        return Late(raw.stream[index], words[ROW], words[TS], raw.delay[index], raw.watermark_at_arrival[index], words)

    @property
    def watermark(self) -> int:
        """The watermark alone, without the rest of what `observe` collects."""
        return self._stages.watermark

    @property
    def reached(self) -> int:
        """The same, and once the input has ended, as it was before."""
        return self._stages.reached

    @property
    def in_force(self) -> InForce:
        """What the last results had to wait for."""
        return self._watch.last

    def take_resizes(self) -> list[tuple[int, Resize]]:
        """The resizes of windows that follow rates since the last call, each with the number of its node."""
        return [(n, one) for n, log in self._operator.resize_logs() for one in log.take_resizes()]

    def snapshot_delta(self) -> Iterable[StateUpdate]:
        """What to persist since the last call."""
        own = {"version": STATE_VERSION, "remembers": self.release.remembers} | self._learned.terms()
        yield state_update(KERNEL, "version", encode_json(own))
        yield state_update(KERNEL, "counts", encode_json(self._counts))
        if self._find_odd_clocks() or self._had_odd_clocks:
            yield self._odd_clocks.snapshot(KERNEL, "odd_clocks")
            self._had_odd_clocks = True
        yield state_update(KERNEL, "responding", encode_json(self._responding.as_json()))
        yield from self.release.snapshot_delta()
        yield from self._learned.snapshot_delta()
        yield from under(OPERATOR, self._operator.snapshot_delta())

    def restore(self, entries: Iterable[StateUpdate]) -> None:
        """Take over the state that an earlier kernel of the same spec persisted.

        A fresh kernel is given all entries. One that was up to date once is given those that were written or dropped
        since then; it must have persisted everything of its own.
        """
        # Another version may have other namespaces; it is refused by its number.
        parts = by_part(entries)
        before = self._restore_own(parts[KERNEL])
        self.release.restore(parts[RELEASE])
        self._learned.restore(parts, before, self.release)
        self._operator.restore(parts[OPERATOR])

    def _restore_own(self, entries: list[StateUpdate]) -> dict[str, Any]:
        """Version and counts; returns the terms under which this state was persisted."""
        before = self._learned.terms()
        for entry in entries:
            saved = {} if entry.value is None else decode_json(entry.value)
            if entry.key == "version":
                before = saved
                self.release.remembers = saved.get("remembers", False)
                if saved["version"] != STATE_VERSION:
                    raise UsageError(
                        f"this state has format {saved['version']}, and this version reads format {STATE_VERSION};"
                        " go on with the version that wrote it, or use a new checkpoint folder"
                    )
            elif entry.key == "responding":
                self._responding.restore(saved)
            elif entry.key == "odd_clocks":
                self._odd_clocks.restore(entry.value or b"{}")
                self._had_odd_clocks = True
            else:
                self._counts = saved
        return before

    @property
    def unjudged(self) -> int:
        """Tuples taken in that are not yet admitted."""
        waiting = sum(map(len, self._absorbed))
        return waiting if self.count_unjudged is None else waiting + self.count_unjudged()

    def observe(self) -> Observation:
        """Clocks, slack, watermark and counts."""
        release, stages = self.release, self._stages
        return Observation(
            clocks=release.clocks,
            slack=release.slack,
            watermark=self.watermark,
            held=self._held() + stages.pending(self.tells) + self.unjudged,
            state_rows=self._operator.state_rows,
            epochs=release.epochs,
            idle=release.idle_timeouts,
            parts=release.partition_clocks,
            odd_clocks=self._find_odd_clocks(),
            quality=self._measured(),
            ordering=stages.ordering,
            waited=self._responding.average,
            rates=tuple(log.seen() for _, log in self._operator.resize_logs()),
            engines=self._operator.engines,
            memory=self.memory(),
            outlook=self.outlook(),
            **self._counts,
        )

    def _find_odd_clocks(self) -> tuple[OddClock, ...]:
        return self._odd_clocks.look(self.release.state.clock.partitions, self.release.partition_numbers)

    def _held(self) -> int:
        # Where tuples pass at once, none is held, and what is kept of them has no words to tell copies by.
        if self.tells is None or self.release.spec.at_once:
            return self.release.held
        return self.release.state.waiting_told(self.tells)

    def outlook(self) -> Outlook | None:
        """Whether the target can be met, where the controller knows."""
        return self.release.controller.outlook()

    def trade_off(self) -> TradeOff | None:
        """The slack that other targets would ask for, where the controller knows."""
        return self.release.controller.trade_off()

    def memory(self) -> Memory:
        """What the windows hold now, in tuples and bytes; the cost is linear in it."""
        return state_size(self._operator.window_contents(self.watermark), self._weights)

    def _measured(self) -> MeasuredQuality | None:
        measured = (meter.measured() for meter in self._meters)
        found = next((quality for quality in measured if quality is not None), None)
        if found is None or not self._operator.corrects_losses:
            return found
        return replace(found, corrected=float(self._counts["amended"]))
