"""What a shard knows of one query of a group, beside what the kernel that hosts them all knows of it.

Invariant: counts are those that a shard of the query alone has, as far as they do not come from a kernel; they are
persisted under the key of the query, so they go with it.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import replace

import numpy as np
import pyarrow as pa

from slackwater.core.batch import Batch, Words
from slackwater.core.errors import UsageError
from slackwater.core.state import Emission, StateUpdate, decode_json, encode_json, state_update
from slackwater.observe.delays import DelayTally
from slackwater.observe.imbalance import ShardLoad
from slackwater.observe.report import LatencyUse
from slackwater.observe.value import QueryProgress
from slackwater.operators.query_kernel import QueryKernel
from slackwater.operators.query_set.places import QueryPlace
from slackwater.plan.physical import PhysicalPlan
from slackwater.runtime.side_outputs.collectors import BufferedSideOutput
from slackwater.runtime.side_outputs.rejections import RejectionCounts
from slackwater.runtime.side_outputs.rows import LATE
from slackwater.runtime.spark.members import Member
from slackwater.runtime.spark.state.checkpoint import Targets, difference, is_target
from slackwater.runtime.spark.state.hot_keys import HotKeys
from slackwater.runtime.spark.state.shard import PASSED_BY, with_counts
from slackwater.runtime.watching import progress_of
from slackwater.sources.codebook import Codebook
from slackwater.sources.encode import REASONS


class QueryInGroup:
    """One query of a group in one shard."""

    def __init__(
        self, member: Member, plan: PhysicalPlan, place: QueryPlace, codebook: Codebook, targets: Targets
    ) -> None:
        self.member, self.place, self.targets, self._codebook = member, place, targets, codebook
        self.counts: dict[str, int] = {"filtered": 0}
        self.rows = {one.stream.alias: 0 for one in plan.inputs}
        self.rejected = RejectionCounts(self.rows)
        self.counts_rows = False
        self._saved = False
        self.aim(plan, targets)

    def aim(self, plan: PhysicalPlan, targets: Targets) -> None:
        """The query has this target from now on."""
        self.plan, self._saved = plan, self._saved and targets == self.targets
        self.targets = targets
        self.side_output = BufferedSideOutput(plan, self._codebook, most=None)
        self.hot_keys = HotKeys(plan, self._codebook).seen_by(self.place.view.rows)
        self.delays = DelayTally(tuple(self.rows), plan.options.max_ahead)
        self.begin()

    def begin(self) -> None:
        """A micro-batch begins."""
        self.latency, self.late_examples = LatencyUse(), dict[str, str]()
        self.hot_keys.count(None)
        self._before = (
            dict(self.counts),
            dict(self.rows),
            {name: dict(of) for name, of in self.rejected.by_stream.items()},
        )

    def undo(self) -> None:
        """The query has failed: nothing of this micro-batch counts."""
        self.counts, self.rows, self.rejected.by_stream = self._before
        self.side_output.take_tables()
        self.begin()

    def alias(self, stream: int) -> str:
        """What the query calls a stream."""
        return self.plan.inputs[stream].stream.alias

    def count_rows(self, stream: int, rows: int, rejected: Mapping[str, int]) -> None:
        """Rows of a stream that were packed, as far as this shard is the one that counts them."""
        self.rows[self.alias(stream)] += rows
        self.rejected.add(self.alias(stream), rejected)

    def pass_by(self, rows: int) -> None:
        """So many usable rows came while the query rested."""
        self.counts[PASSED_BY] = self.counts.get(PASSED_BY, 0) + rows

    def turn_away(self, own: Batch, reason: int) -> None:
        """Its own tuples among some that end as rejected rows."""
        own = own.take(np.flatnonzero(own.passes))
        if len(own):
            of_stream = np.bincount(own.stream, minlength=len(self.plan.inputs)).tolist()
            for stream, count in enumerate(of_stream):
                self.rejected.add(self.alias(stream), {REASONS[reason]: count})
            self.side_output.add_rejected(own, reason)

    def count_keys(self, batch: Batch, mine: Words) -> None:
        """Which keys bring many of its own tuples, given their places in a batch of the domain."""
        self.hot_keys.count(batch, among=mine)

    def emitted(self, emission: Emission) -> None:
        """Something leaves the kernel."""
        if len(emission.late.ts):
            self.side_output.add_late(emission.late)
        self.latency.note(emission)

    def tables(self) -> Iterator[tuple[str, pa.Table]]:
        """Late and rejected rows of this micro-batch."""
        for kind, table in self.side_output.take_tables():
            if kind == LATE:
                aliases, rows = (table.column(name).to_pylist()[:1] for name in ("stream", "row"))
                self.late_examples |= dict(zip(aliases, rows, strict=True))
            yield kind, table

    def progress(self, query: QueryKernel, load: ShardLoad, rejected: Mapping[str, str]) -> QueryProgress:
        """How its part of the query is doing after a micro-batch."""
        known = progress_of(self.plan, query, self._codebook, names_parts=self.counts_rows)
        seen = known.observed
        # The kernel also counts tuples that only others want, and what the guard has rejected of them.
        tuples = seen.in_time + seen.late + seen.held
        observed = replace(seen, filtered=self.counts["filtered"], ahead=0, tuples=tuples)
        known = replace(known, observed=observed, resizes=tuple(query.take_resizes()))
        return with_counts(known, self, load, rejected)

    def snapshot_delta(self) -> Iterator[StateUpdate]:
        """What to write after a micro-batch."""
        if not self._saved:
            yield state_update("shard", "query", self.member.structure.encode())
            yield self.targets.as_update()
            self._saved = True
        saved = {"counts": self.counts, "rows": self.rows, "rejected": self.rejected.by_stream}
        yield state_update("shard", "counts", encode_json(saved))

    def restore(self, entries: Iterable[StateUpdate]) -> None:
        """Take over all state, or what changed since."""
        for entry in entries:
            if entry.value is None:
                continue
            if entry.key == "query":
                refusal = difference(entry.value.decode(), self.member.structure)
                if refusal is not None:
                    raise UsageError(refusal)
            elif entry.key == "counts":
                saved = decode_json(entry.value)
                self.counts, self.rows = self.counts | saved["counts"], self.rows | saved["rows"]
                self.rejected.by_stream |= saved["rejected"]
            elif is_target(entry):
                self._saved = entry.value == self.targets.as_update().value
