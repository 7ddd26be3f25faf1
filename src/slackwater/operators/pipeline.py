"""A query as one kernel: admission, then release in event-time order, then the operator.

Invariant (law 4): every tuple absorbed is, at any moment, in exactly one of these places: waiting in admission or
release, in time, late, filtered, or rejected as ahead of all evidence; `observe` counts them and the counts add up.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass, replace
from numbers import Integral
from typing import Any

import numpy as np

from slackwater.disorder.clock_guard import ClockGuard
from slackwater.disorder.controllers import Foreseeing, LedgerReader, Measuring, SlackController
from slackwater.disorder.cutting import Cutting
from slackwater.disorder.eager import Events
from slackwater.disorder.ordered_batch import OrderedBatch
from slackwater.disorder.quality.error_windows import WindowWatcher
from slackwater.disorder.quality.published_recall import Profiled
from slackwater.disorder.quality.tree_productivity import TreeProductivity
from slackwater.disorder.release import Release, ReleaseSpec
from slackwater.disorder.slack_in_force import Watch
from slackwater.kernel import (
    NO_LATE,
    NOTHING,
    Emission,
    Late,
    Observation,
    StateUpdate,
    decode_json,
    encode_json,
    state_update,
)
from slackwater.model.batch import ROW, TS, Batch, Words
from slackwater.model.errors import UsageError
from slackwater.model.measured import MeasuredQuality
from slackwater.model.memory import Memory
from slackwater.model.outlook import Outlook
from slackwater.model.rates import Resize
from slackwater.model.time import LONGEST, format_duration
from slackwater.operators.aggregate import AggregateOperator
from slackwater.operators.array_checkpoint import ArrayCheckpoint
from slackwater.operators.composed.row_following import RowFollower
from slackwater.operators.contract import Operator, OperatorSpec
from slackwater.operators.graph_operator import GraphOperator
from slackwater.operators.join.join_ledger import JoinLedger
from slackwater.operators.join.operator import JoinOperator
from slackwater.operators.join.rate_windows import RateJoinOperator
from slackwater.operators.join.tree_operator import TreeOperator
from slackwater.operators.ordering.operator import OrderedOperator
from slackwater.operators.ordering.tree import OrderedTree
from slackwater.operators.response_time import Responding
from slackwater.operators.state_size import Weights, plain_weights, state_size

STATE_VERSION = 8
MOST_TUPLES = 10**12
"""No epoch waits for more."""
MOST_BUCKETS = 4096
"""The ledger of a join tell about so many stretches of time apart."""


@dataclass(frozen=True)
class Epochs:
    """How a runtime cuts time: tuple release, or epochs of n tuples, of a span of event time, or as the caller says."""

    each_tuple: bool = False
    tuples: int = 0
    span: int = 0

    def __post_init__(self) -> None:
        if not isinstance(self.tuples, Integral) or not isinstance(self.span, Integral):
            raise UsageError("an epoch is a whole number of tuples, or of microseconds")
        if not 0 <= self.tuples <= MOST_TUPLES:
            raise UsageError(f"an epoch of {self.tuples:,} tuples: there are 1 to {MOST_TUPLES:,}")
        if not 0 <= self.span <= LONGEST:
            raise UsageError(f"an epoch of {format_duration(self.span)}: it lasts {format_duration(LONGEST)} at most")


def check_epochs(epochs: object) -> None:
    """Refuse what does not say how time is cut."""
    if epochs is not None and not isinstance(epochs, Epochs):
        raise UsageError(
            f"epochs: a {type(epochs).__name__} is none; write slackwater.Epochs(tuples=1000), for example"
        )


class Pipeline:
    """The kernel a runtime hosts."""

    def __init__(
        self,
        spec: OperatorSpec,
        operator: Operator,
        controller: SlackController,
        epochs: Epochs,
        max_ahead: int,
        idle_timeout: int | None = None,
        partition_slots: tuple[int, ...] = (),
        weights: Weights | None = None,
        target: str = "",
        learning_key: str = "",
        max_behind: int = LONGEST,
        idle_after: float | None = None,
        automatic_retention: bool = False,
    ) -> None:
        self._spec, self._operator = spec, operator
        self._target, self._learning_key = target, learning_key
        """What is asked for, and what a controller must agree in to go on with what this one has learned."""
        self._graph = operator if isinstance(operator, GraphOperator) else None
        self._ordering = operator if isinstance(operator, OrderedOperator | OrderedTree) else None
        every: list[Any] = [operator] if self._graph is None else list(self._graph.operators)
        self._following_rates = [(n, one) for n, one in enumerate(every) if isinstance(one, RateJoinOperator)]
        discipline = ReleaseSpec(
            spec.streams,
            spec.rows,
            "tuple" if epochs.each_tuple else "epoch",
            spec.needs_order,
            epochs.tuples,
            epochs.span,
            idle_timeout,
            idle_after,
            partition_slots,
            max_behind,
            external_sync=self._graph is not None,
        )
        if self._graph is not None:
            self._graph.attach(discipline)
        self._ordered = epochs.each_tuple or spec.needs_order
        self._ledger: JoinLedger | None = None
        if isinstance(controller, LedgerReader) and isinstance(operator, JoinOperator | TreeOperator | OrderedOperator):
            span = controller.memory + 2 * controller.retention + 2 * max(operator.spec.windows)
            width = max(controller.interval, span // MOST_BUCKETS)
            buckets = max(MOST_BUCKETS, 1 << (span // width + 64).bit_length())
            self._ledger = operator.open_ledger(
                controller.retention, width, buckets, controller.target, automatic_retention
            )
            controller.ledger = self._ledger
            if isinstance(controller, Foreseeing):
                self._ledger.far = (controller.outlook().cap, max_behind)
        if isinstance(controller, Profiled) and self._graph is not None:
            controller.profiler = TreeProductivity.in_place_of(controller.profiler)
        self._profiler = controller.profiler if isinstance(controller, Profiled) else None
        if isinstance(controller, WindowWatcher) and isinstance(operator, AggregateOperator):
            controller.watch(operator.spec.watched)
        nodes = [tuple(range(spec.streams))] if self._graph is None else self._graph.inputs
        self._weights = plain_weights(nodes) if weights is None else weights
        self._measuring: Measuring | None = None
        if isinstance(controller, Measuring) and isinstance(operator, AggregateOperator):
            self._measuring = controller
        self._follower = controller if isinstance(controller, RowFollower) else None
        self._foresees = controller if isinstance(controller, Foreseeing) else None
        cutting = Cutting(epochs.each_tuple, epochs.tuples, epochs.span)
        self._clock_guard = ClockGuard(spec.streams, max_ahead, cutting, partition_slots)
        self.release = Release(discipline, controller)
        self._watch = Watch(self.release)
        if isinstance(operator, OrderedOperator):
            operator.follow(self.release)
        self._learned, self._ledger_checkpoint = ArrayCheckpoint("controller"), ArrayCheckpoint("ledger")
        self._waiting: list[Batch] = []
        self._has_arrival_times = False
        self._responding = Responding()
        self._ahead: list[Batch] = []
        self._counts = {"tuples": 0, "in_time": 0, "late": 0, "filtered": 0, "ahead": 0, "results": 0}

    def absorb(self, batch: Batch) -> None:
        if len(batch):
            self._counts["tuples"] += len(batch)
            self._has_arrival_times = batch.arrival_time is not None
            self._waiting.append(batch)

    def advance(self, end: bool = False) -> Iterator[Emission]:
        batch = Batch.concat(self._waiting) if self._waiting else Batch.of([], self._spec.rows)
        self._waiting = []
        admitted = self._clock_guard.admit(batch, end)
        if len(admitted.ahead):
            self._ahead.append(admitted.ahead)
            self._counts["ahead"] += len(admitted.ahead)
        passes = admitted.batch.passes
        self._counts["filtered"] += int(len(admitted.batch) - np.count_nonzero(passes))
        if admitted.batch.arrival_time is not None:
            self._responding.arrived(admitted.batch.arrival_time[passes])
        if self._ordering is not None:
            self._ordering.strategy.arrival_time(admitted.batch)
            if self._ordering.decide():
                yield from self._process(self.release.nothing())
        self._watch.begin(self.watermark)
        for run in self.release.drain(admitted.batch, end, admitted.ends):
            yield from self._process(run)

    def report_busy_time(self, seconds: float) -> None:
        """Whoever hosts this kernel has measured what its work took since the last time."""
        if self._ordering is not None:
            self._ordering.strategy.load.report_busy_time(seconds)

    def on_processing_time(self, now: int) -> Iterator[Emission]:
        """End an epoch in which nothing arrived: at this moment streams may have been silent for too long."""
        self._watch.begin(self.watermark)
        yield from self._process(self.release.on_processing_time(now))

    def _process(self, run: OrderedBatch) -> Iterator[Emission]:
        behind = self._graph or self._ordering
        if behind is None:
            self._watch.look(self.release.watermark)
            yield from self._make(run, run)
        else:
            for top, decided in behind.run_stage(run):
                self._watch.look(behind.watermark)
                yield from self._make(top, decided)

    def _make(self, run: OrderedBatch, decided: OrderedBatch) -> Iterator[Emission]:
        """Have the operator process a run; `decided` has the raw tuples whose fate is known now, which may be
        others."""
        if self._has_arrival_times:
            self._responding.left(decided.emit_time)
        is_late = decided.late
        n_late = int(np.count_nonzero(is_late))
        self._counts["late"] += n_late
        self._counts["in_time"] += len(decided) - n_late
        late = _late_of(decided, np.flatnonzero(is_late)) if n_late else NO_LATE
        reported = False
        made = None if self._profiler is None else np.zeros(len(run) + 1)
        for output in self._operator.process(run, self._ordered):
            self._counts["results"] += output.results
            if self._ledger is not None:
                self._ledger.made(output.ts, output.multiplicity)
            if self._follower is not None:
                self._follower.made(output.ts)
            if made is not None:
                made += np.bincount(output.by, output.multiplicity, len(run) + 1)
            clock, emit_time = output.clock, output.emit_time
            if clock is None:
                clock = np.append(run.clock, run.max_ts)[output.by]
                emit_time = np.append(run.emit_time, run.now)[output.by]
            yield Emission(
                output.ts, output.columns, clock, output.multiplicity, NO_LATE if reported else late, run.ended,
                emit_time if self._has_arrival_times else None, self._watch.last,
            )  # fmt: skip
            reported = True
        if not reported and n_late:
            yield Emission(NOTHING, (), NOTHING, None, late, run.ended)
        if self._ledger is not None:
            self._ledger.take(decided)
        if self._measuring is not None:
            self._measuring.observe_batch(decided)
        if self._follower is not None:
            self._follower.reached_top(run)
        if self._profiler is not None and made is not None:
            if isinstance(run, Events):
                self._profiler.note(run.take(run.turn), made[run.turn], decided)
            else:
                self._profiler.note(run, made[:-1], decided)

    @property
    def watermark(self) -> int:
        """Where the watermark stands, without all else that `observe` asks for."""
        behind = self._graph or self._ordering
        return self.release.watermark if behind is None else behind.watermark

    def take_ahead(self) -> list[Batch]:
        """The tuples rejected since the last call."""
        ahead, self._ahead = self._ahead, []
        return ahead

    def take_resizes(self) -> list[tuple[int, Resize]]:
        """The resizes of windows that follow rates since the last call, each with the number of its node."""
        return [(n, one) for n, join in self._following_rates for one in join.take_resizes()]

    def snapshot_delta(self) -> Iterable[StateUpdate]:
        own = {"version": STATE_VERSION, "target": self._target, "learning_key": self._learning_key}
        yield state_update("kernel", "version", encode_json(own))
        yield state_update("kernel", "counts", encode_json(self._counts))
        yield state_update("kernel", "responding", encode_json(self._responding.as_json()))
        yield from self._clock_guard.snapshot_delta()
        yield from self.release.snapshot_delta()
        yield from self._learned.snapshot_delta(self.release.controller.as_arrays())
        yield from self._ledger_checkpoint.snapshot_delta({} if self._ledger is None else self._ledger.as_arrays())
        yield from (
            replace(entry, namespace=f"operator/{entry.namespace}") for entry in self._operator.snapshot_delta()
        )

    def restore(self, entries: Iterable[StateUpdate]) -> None:
        parts: dict[str, list[StateUpdate]] = {
            name: [] for name in ("kernel", "admission", "release", "operator", "controller", "ledger")
        }
        for entry in entries:
            part, _, namespace = entry.namespace.partition("/")
            parts[part].append(replace(entry, namespace=namespace or part))
        before: dict[str, Any] = {"target": self._target, "learning_key": self._learning_key}
        for entry in parts["kernel"]:
            if entry.key == "version" and entry.value is not None:
                before = decode_json(entry.value)
                version = before["version"]
                if version != STATE_VERSION:
                    raise ValueError(f"this state has format {version}, and this version reads format {STATE_VERSION}")
            elif entry.key == "responding" and entry.value is not None:
                self._responding.restore(decode_json(entry.value))
            elif entry.value is not None:
                self._counts = decode_json(entry.value)
        self._clock_guard.restore(parts["admission"])
        stated = self.release.controller.slack
        self.release.restore(parts["release"])
        learned, booked = self._learned.restore(parts["controller"]), self._ledger_checkpoint.restore(parts["ledger"])
        if before["learning_key"] == self._learning_key:
            if parts["controller"]:
                self.release.controller.restore(learned)
            if self._ledger is not None and parts["ledger"]:
                self._ledger.restore(booked, same_target=before["target"] == self._target)
        else:
            # Another target is asked for now. One that learns goes on from the slack in force; a stated slack is what
            # it says.
            if not (self.release.controller.learns or self.release.controller.follows_largest_delay):
                self.release.controller.slack = stated
            if self._ledger is not None:
                self._ledger.begin_at(self.release.watermark)
            if self._follower is not None:
                self._follower.begin_at(max(self.release.clocks))
        self._operator.restore(parts["operator"])

    def observe(self) -> Observation:
        behind = self._graph or self._ordering
        return Observation(
            clocks=self.release.clocks,
            slack=self.release.slack,
            watermark=self.watermark,
            held=self.release.held
            + (0 if behind is None else behind.held)
            + self._clock_guard.pending
            + sum(map(len, self._waiting)),
            state_rows=self._operator.state_rows,
            epochs=self.release.epochs,
            idle=self.release.idle_timeouts,
            parts=self.release.partition_clocks,
            quality=self._measured(),
            ordering=None if self._ordering is None else self._ordering.seen(),
            waited=self._responding.average,
            rates=tuple(join.seen() for _, join in self._following_rates),
            memory=self.memory(),
            outlook=self.outlook(),
            **self._counts,
        )

    def outlook(self) -> Outlook | None:
        """Whether the target can be met, where the controller knows."""
        return None if self._foresees is None else self._foresees.outlook()

    def memory(self) -> Memory:
        """What stands in the windows now, and what it weighs; costs as much as there is."""
        return state_size(self._operator.window_contents(self.watermark), self._weights)

    def _measured(self) -> MeasuredQuality | None:
        if self._ledger is not None:
            return self._ledger.measured()
        if self._follower is not None:
            return self._follower.measured()
        return None if self._measuring is None else self._measuring.measured()


def _late_of(run: OrderedBatch, index: Words) -> Late:
    words = run.words[:, index]
    return Late(run.stream[index], words[ROW], words[TS], run.delay[index], run.watermark_at_arrival[index], words)
