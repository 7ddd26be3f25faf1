"""What judges the target of a query whose last operator runs in an upper fragment: the controller of one shard, which
is given what all shards of the lower fragment have gathered.

Invariant: in every micro-batch it gets what the controller of a single shard would have got, and chooses what
that one would have chosen. The shards below hear the slack at the start of the next micro-batch, which is when a single
shard would use it.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import replace
from typing import Any

import numpy as np

from slackwater.core.batch import TS, Batch, Words
from slackwater.core.quality import Recall, RelativeError
from slackwater.core.state import StateUpdate, decode_json, encode_json, state_update
from slackwater.core.time import AFTER_ALL, BEFORE_ALL
from slackwater.disorder.controllers import DelayObservations, Measured, SlackController
from slackwater.disorder.meters import AnswerLog, QualityMeter, Report, Watched
from slackwater.disorder.ordered_batch import OrderedBatch, OrderedTuples
from slackwater.disorder.release.release import Release
from slackwater.observe.value import QueryProgress
from slackwater.operators.composed.error import ComposedError
from slackwater.operators.composed.gathering import SLACK
from slackwater.operators.composed.recall import ComposedRecall
from slackwater.operators.composed.registry import told_of_rows
from slackwater.operators.composed.true_rows import KnownRows, reach_of
from slackwater.operators.contract import OperatorSpec
from slackwater.operators.learned import CONTROLLER, LEDGER, Learned
from slackwater.operators.query_kernel import QueryKernel
from slackwater.plan.fragments import summed
from slackwater.plan.physical import PhysicalPlan
from slackwater.quality.error.steady import SteadyError
from slackwater.quality.error.windows import ErrorMeter
from slackwater.runtime.spark.exchange.format import read_block
from slackwater.runtime.spark.state.shard import Block
from slackwater.sources.codebook import Codebook

JUDGED_ABOVE = "judged above"
"""In place of a learning key, in reports of slack."""
NOTES = 1 << 16
"""In place of an input: what is known of arrivals, for a target that is judged above."""
MADE = NOTES + 1
"""Likewise, sums of the rows that are handed on."""
NAMESPACE, TERMS = "judge", "terms"


def is_of_judge(entry: StateUpdate) -> bool:
    """Whether an entry of a shard's state is one of its judge."""
    return entry.namespace.partition("/")[0] == NAMESPACE


def judge_of(plan: PhysicalPlan, kernel: QueryKernel) -> Judge | None:
    """The judge of the upper fragment of a query, which this kernel runs; None where nothing is learned."""
    watched = plan.operator.watched
    if plan.below is not None and isinstance(plan.quality, Recall | RelativeError):
        return JudgeOfRows(plan, plan.quality, plan.below)
    if not isinstance(plan.quality, RelativeError) or watched is None:
        return None
    return JudgeOfTuples(plan, plan.quality, watched, kernel.answers_for(plan.quality.bound))


class Judge(ABC):
    """The controller of a target, and its meter."""

    def __init__(self, plan: PhysicalPlan, controller: SlackController, meter: QualityMeter) -> None:
        self._controller, self._meter = controller, meter
        self._rows = plan.operator.rows
        self._learned = Learned(controller, (meter,), plan.target, plan.learning_key)
        self._begins = False

    @abstractmethod
    def _learn(self, sums: Words | None, noted: Words | None) -> None:
        """What shards below have gathered: sums, or what is known one by one, with what each needs in the last row."""

    def take(
        self,
        notes: Sequence[Block],
        given: Batch | None,
        watermark: int,
        headers: Sequence[Mapping[str, Any]],
        end: bool,
        codebook: Codebook,
    ) -> None:
        """What the shards below have gathered in a micro-batch, tuples that they hand on, the watermark that these met,
        and what the shards say of themselves; once the kernel has made of them what it makes."""
        controller, header = self._controller, headers[0]
        self._hear_unknown([one["unknown"] for one in headers])
        if self._begins:
            # With another target before, slack goes on from what is in force, and windows from where the clock was.
            controller.slack, self._begins = header["slack"], False
            self._meter.begin_at(watermark, header["clock"] - header["in_force"]["epoch"])
        for block in notes:
            if block.partials is not None:
                sums = read_block(block.partials, (), codebook)[0]
                if block.stream == MADE:
                    self._take_made(sums)
                else:
                    self._learn(sums, None)
        noted = [read_block(block.block, (), codebook)[0] for block in notes if block.block is not None]
        if noted:
            self._learn(None, np.concatenate(noted, axis=1))
        clock = header["clock"]
        self._meter.processed(*2 * [self._run(given, watermark, header["watermark"], clock)])
        if BEFORE_ALL < clock >= controller.next_adaptation:
            controller.adapt(Measured(tuple(header["clocks"]), 0, header["slack"]))
        if end:
            self._meter.processed(*2 * [replace(self._run(None, watermark, AFTER_ALL, clock), ended=True)])

    def _take_made(self, sums: Words) -> None:
        """Rows that were made, as sums."""
        raise NotImplementedError("tuples of a stream are not handed on")

    def _hear_unknown(self, unknown: Sequence[tuple[int, int]]) -> None:  # noqa: B027 - of tuples all are known
        """What the shards below could not find out, each of them since the beginning."""

    def _run(self, given: Batch | None, met: int, watermark: int, clock: int) -> OrderedBatch:
        batch = Batch.of([], self._rows) if given is None else given
        tuples = OrderedTuples.of(batch.stream, batch.words, np.full(len(batch), met))
        return OrderedBatch(tuples, watermark, clock, BEFORE_ALL)

    def report(self) -> Report:
        """The slack of the next micro-batch."""
        return {SLACK: np.array([self._controller.slack])}

    def begin_anew(self) -> None:
        """What was handed on so far was that of a history."""
        self._begins = True

    def added_to(self, progress: QueryProgress) -> QueryProgress:
        """How the shard does, with what is known of the target."""
        controller = self._controller
        observed = replace(progress.observed, quality=self._meter.measured(), outlook=controller.outlook())
        return replace(progress, observed=observed, trade_off=controller.trade_off())

    def snapshot_delta(self) -> Iterator[StateUpdate]:
        """What to persist since the last call."""
        terms = self._learned.terms() | ({"learning_key": None} if self._begins else {})
        yield state_update(NAMESPACE, TERMS, encode_json(terms))
        for entry in self._learned.snapshot_delta():
            yield StateUpdate(f"{NAMESPACE}/{entry.namespace}", entry.key, entry.value)

    def restore(self, entries: Iterable[StateUpdate], release: Release) -> None:
        """Take over what was persisted; `release` says where the query stands."""
        cells: dict[str, list[StateUpdate]] = {CONTROLLER: [], LEDGER: []}
        before = {"learning_key": None, "target": None}
        for entry in entries:
            cell = entry.namespace.partition("/")[2]
            if cell:
                cells[cell].append(StateUpdate(cell, entry.key, entry.value))
            elif entry.value is not None:
                before = decode_json(entry.value)
        self._begins = before["learning_key"] != self._learned.terms()["learning_key"]
        self._learned.restore(cells, before, release)


class JudgeOfTuples(Judge):
    """Of an aggregate of a stream: it is given tuples that came late, and sums of all others; beside them the answers
    that sums do not tell of."""

    _controller: SteadyError

    def __init__(self, plan: PhysicalPlan, target: RelativeError, watched: Watched, answers: AnswerLog | None) -> None:
        controller = SteadyError(target, plan.options)
        controller.watch(watched)
        super().__init__(plan, controller, ErrorMeter(controller, answers))

    def _learn(self, sums: Words | None, noted: Words | None) -> None:
        if sums is not None:
            self._controller.learn_sums(sums)
        if noted is not None:
            streams = np.zeros(noted.shape[1], np.int64)
            self._controller.learn(DelayObservations(streams, noted[:-1], noted[-1], noted[-1]))


class JudgeOfRows(Judge):
    """Of an aggregate above other operators: it is given true rows, and those that were made."""

    _controller: ComposedRecall | ComposedError

    def __init__(self, plan: PhysicalPlan, target: Recall | RelativeError, graph: OperatorSpec) -> None:
        self._known = KnownRows(reach_of(graph, whole=False))
        self._by_sums = summed(plan) is not None
        controller = told_of_rows(target, plan.options, graph, self._known)
        super().__init__(plan, controller, controller.meter)

    def _learn(self, sums: Words | None, noted: Words | None) -> None:
        if sums is not None and isinstance(self._controller, ComposedError):
            self._controller.learn_sums(sums)
        if noted is not None:
            known = noted[:, noted[TS] >= self._known.known_from]
            if known.shape[1]:
                self._controller.learn_rows(known[:-1], known[-1])

    def _hear_unknown(self, unknown: Sequence[tuple[int, int]]) -> None:
        self._known.unknown = sum(tuples for tuples, _ in unknown)
        self._known.most = max(most for _, most in unknown)

    def _take_made(self, sums: Words) -> None:
        assert isinstance(self._controller, ComposedError), "sums tell of no rows"
        self._controller.take_sums(sums)

    def _run(self, given: Batch | None, met: int, watermark: int, clock: int) -> OrderedBatch:
        return super()._run(None if self._by_sums else given, met, watermark, clock)
