"""What a shard records of one query, beside what its kernel knows of it.

Invariant: the record of a query that shares its shard with others is that of a query alone. It is persisted under the
key of the query, so it goes with it.
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
from slackwater.observe.value import IdleOptions, QueryProgress, Sample
from slackwater.operators.query_kernel import QueryKernel
from slackwater.plan.physical import PhysicalPlan
from slackwater.runtime.side_outputs.collectors import LATE, REJECTED, BufferedSideOutput
from slackwater.runtime.side_outputs.rejections import RejectionCounts
from slackwater.runtime.spark.state.checkpoint import Targets, difference, is_target
from slackwater.runtime.spark.state.hot_keys import HotKeys
from slackwater.runtime.watching import progress_of
from slackwater.sources.codebook import Codebook
from slackwater.sources.encode import REASONS

NAMESPACE = "shard"
KEPT = (NAMESPACE, "query")
"""Where state has what it depends on."""
PASSED_BY = "passed_by"
"""Among the counts of a query that has rested: tuples that came meanwhile."""


class QueryRecord:
    """Of one query in one shard: counts, side outputs, latency, hot keys, and the target that is in force."""

    def __init__(
        self, plan: PhysicalPlan, structure: str, codebook: Codebook, targets: Targets, rows: Words | None = None
    ) -> None:
        """`structure` is what the state depends on; `rows` says, a line each stream, where the tuples of the shard have
        those of the plan, if not in the same places."""
        self._structure, self._codebook, self._view = structure, codebook, rows
        self.targets = targets
        self.counts: dict[str, int] = {"filtered": 0}
        self.rows = {one.stream.alias: 0 for one in plan.inputs}
        """Rows of each stream that were packed, as far as this shard is the one that counts them."""
        self.rejected = RejectionCounts(self.rows)
        self.counts_rows = False
        self._saved = False
        self.aim(plan, targets)

    def aim(self, plan: PhysicalPlan, targets: Targets) -> None:
        """The query has this target from now on."""
        self.plan, self._saved = plan, self._saved and targets == self.targets
        self.targets = targets
        self.side_output = BufferedSideOutput(plan, self._codebook, most=None)
        self.hot_keys = HotKeys(plan, self._codebook)
        if self._view is not None:
            self.hot_keys.seen_by(self._view)
        self.delays = DelayTally(tuple(self.rows), plan.options.max_ahead)
        """Of the whole streams in this micro-batch, in the one shard that counts their rows."""
        self.begin()

    def begin(self) -> None:
        self.latency = LatencyUse()
        self.late_examples: dict[str, str] = {}
        """A tuple of each stream that came late in this micro-batch, as JSON."""
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
        self.counts_rows = self.counts_rows or bool(rows)

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

    def emitted(self, emission: Emission) -> None:
        self.emitted_late(emission)
        self.latency.note(emission)

    def emitted_late(self, emission: Emission) -> None:
        """The late tuples that come with it."""
        if len(emission.late.ts):
            self.side_output.add_late(emission.late)

    def tables(self) -> Iterator[tuple[str, pa.Table]]:
        """Late and rejected rows of this micro-batch."""
        for kind, table in self.side_output.take_tables():
            if kind == LATE:
                aliases, rows = (table.column(name).to_pylist()[:1] for name in ("stream", "row"))
                self.late_examples |= dict(zip(aliases, rows, strict=True))
            yield kind, table

    def progress(self, query: QueryKernel, load: ShardLoad, rejected: Mapping[str, str]) -> QueryProgress:
        """How its part of the query is doing after a micro-batch: what the kernel knows, with what is recorded here.
        `load` says which shard it is and where it ran, `rejected` has a row of each stream that could not be used."""
        known = progress_of(self.plan, query, self._codebook, names_parts=self.counts_rows)
        # The kernel also counts tuples that move clocks alone or that only others want, and what was rejected of them.
        seen = known.observed
        observed = replace(seen, filtered=self.counts["filtered"], ahead=0, tuples=seen.in_time + seen.late + seen.held)
        options, examples = self.plan.options, ((LATE, self.late_examples), (REJECTED, rejected))
        return replace(
            known,
            observed=observed,
            resizes=tuple(query.take_resizes()),
            streams={
                alias: replace(
                    one,
                    rows=self.rows[alias],
                    rejected=self.rejected.by_stream[alias],
                    samples=tuple(Sample.of(reason, rows[alias]) for reason, rows in examples if alias in rows),
                )
                for alias, one in known.streams.items()
            },
            rejected=self.rejected.by_reason(),
            waiting=self.latency.waiting(),
            idle_options=IdleOptions(options.idle_timeout, options.idle_after),
            delays=self.delays.take(),
            shards=(replace(load, taken=self.hot_keys.taken, keys=self.hot_keys.found),),
            passed_by=self.counts.get(PASSED_BY, 0),
        )

    def snapshot_delta(self) -> Iterator[StateUpdate]:
        if not self._saved:
            yield state_update(*KEPT, self._structure.encode())
            yield self.targets.as_update()
            self._saved = True
        saved = {"counts": self.counts, "rows": self.rows, "rejected": self.rejected.by_stream}
        yield state_update(NAMESPACE, "counts", encode_json(saved))

    def restore(self, entries: Iterable[StateUpdate]) -> None:
        for entry in entries:
            if entry.value is None:
                continue
            if (entry.namespace, entry.key) == KEPT:
                refusal = difference(entry.value.decode(), self._structure)
                if refusal is not None:
                    raise UsageError(refusal)
            elif entry.key == "counts":
                saved = decode_json(entry.value)
                self.counts, self.rows = saved["counts"], self.rows | saved["rows"]
                self.rejected.by_stream |= saved["rejected"]
            elif is_target(entry):
                self._saved = entry.value == self.targets.as_update().value
