"""What judges the target of a query whose last operator runs in an upper fragment: the controller of one shard, which
is given what all shards of the lower fragment have gathered.

Invariant: in every micro-batch it gets what the controller of a single shard would have got, and chooses what
that one would have chosen. The shards below hear the slack at the start of the next micro-batch, which is when a single
shard would use it.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import replace
from typing import Any

import numpy as np

from slackwater.core.batch import Batch
from slackwater.core.quality import RelativeError
from slackwater.core.state import StateUpdate, decode_json, encode_json, state_update
from slackwater.core.time import AFTER_ALL, BEFORE_ALL
from slackwater.disorder.controllers import DelayObservations, Measured
from slackwater.disorder.meters import Report, Watched
from slackwater.disorder.ordered_batch import OrderedBatch, OrderedTuples
from slackwater.disorder.release.release import Release
from slackwater.observe.value import QueryProgress
from slackwater.operators.composed.gathering import SLACK
from slackwater.operators.learned import CONTROLLER, LEDGER, Learned
from slackwater.plan.physical import PhysicalPlan
from slackwater.quality.error.steady import SteadyError
from slackwater.quality.error.windows import ErrorMeter
from slackwater.runtime.spark.exchange.format import read_block
from slackwater.runtime.spark.state.shard import Block
from slackwater.sources.codebook import Codebook

JUDGED_ABOVE = "judged above"
"""In place of a learning key, in reports of slack."""
NAMESPACE, TERMS = "judge", "terms"


def is_of_judge(entry: StateUpdate) -> bool:
    """Whether an entry of a shard's state is one of its judge."""
    return entry.namespace.partition("/")[0] == NAMESPACE


def judge_of(plan: PhysicalPlan) -> Judge | None:
    """The judge of the upper fragment of a query; None where nothing is learned."""
    watched = plan.operator.watched
    if not isinstance(plan.quality, RelativeError) or watched is None:
        return None
    return Judge(plan, plan.quality, watched)


class Judge:
    """The controller of a bound on the error, and its meter."""

    def __init__(self, plan: PhysicalPlan, target: RelativeError, watched: Watched) -> None:
        self._controller = SteadyError(target, plan.options)
        self._controller.watch(watched)
        self._meter = ErrorMeter(self._controller, None)
        self._rows = plan.operator.rows
        self._learned = Learned(self._controller, (self._meter,), plan.target, plan.learning_key)
        self._begins = False

    def take(
        self,
        notes: Sequence[Block],
        late: Batch | None,
        watermark: int,
        header: Mapping[str, Any],
        end: bool,
        codebook: Codebook,
    ) -> None:
        """What the shards below have gathered in a micro-batch, late tuples, the watermark that these met, and what the
        shards say of themselves."""
        controller = self._controller
        if self._begins:
            # With another target before, slack goes on from what is in force, and windows from where the clock was.
            controller.slack, self._begins = header["slack"], False
            self._meter.begin_at(watermark, header["clock"] - header["in_force"]["epoch"])
        for block in notes:
            if block.partials is not None:
                controller.learn_sums(read_block(block.partials, (), codebook)[0])
        behind = [read_block(block.block, (), codebook)[0] for block in notes if block.block is not None]
        if behind:
            words = np.concatenate(behind, axis=1)
            streams = np.zeros(words.shape[1], np.int64)
            controller.learn(DelayObservations(streams, words[:-1], words[-1], words[-1]))
        clock = header["clock"]
        self._meter.processed(*2 * [self._run(late, watermark, header["watermark"], clock)])
        if BEFORE_ALL < clock >= controller.next_adaptation:
            controller.adapt(Measured((clock,), 0, header["slack"]))
        if end:
            self._meter.processed(*2 * [replace(self._run(None, watermark, AFTER_ALL, clock), ended=True)])

    def _run(self, late: Batch | None, met: int, watermark: int, clock: int) -> OrderedBatch:
        batch = Batch.of([], self._rows) if late is None else late
        tuples = OrderedTuples.of(batch.stream, batch.words, np.full(len(batch), met))
        return OrderedBatch(tuples, watermark, clock, BEFORE_ALL)

    def report(self) -> Report:
        """The slack of the next micro-batch."""
        return {SLACK: np.array([self._controller.slack])}

    def added_to(self, progress: QueryProgress) -> QueryProgress:
        """How the shard does, with what is known of the target."""
        controller = self._controller
        observed = replace(progress.observed, quality=controller.measured(), outlook=controller.outlook())
        return replace(progress, observed=observed, trade_off=controller.trade_off())

    def snapshot_delta(self) -> Iterator[StateUpdate]:
        """What to persist since the last call."""
        yield state_update(NAMESPACE, TERMS, encode_json(self._learned.terms()))
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
