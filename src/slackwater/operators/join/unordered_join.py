"""A join whose results leave as their last member arrives, or with what late tuples add to them.

Every tuple that comes is combined with all that came before it, whichever of them is the newest. Let the watermark
stand at T when it comes. In time it makes all its results. Late, it makes on arrival those that are newer than T: their
newest member is in time, and in event-time order would come after it. As corrections it makes those that are at most
`correctable` older than T, which nobody else makes.

Invariant: on arrival, results are those of `JoinOperator` over the same tuples with the same watermarks, as a set; in
order, they are those of `JoinOperator`, and with corrections those of a join that waits for `correctable` longer.

References: 000 §5, steps 3 to 5, without the hold buffer.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import NamedTuple

import numpy as np

from slackwater.core.batch import TS, Words
from slackwater.core.emitting import INSERT
from slackwater.core.jit import in_place, inner
from slackwater.core.time import BEFORE_ALL, LONGEST
from slackwater.disorder.ordered_batch import OrderedBatch, OrderedTuples
from slackwater.expressions.compile import refine_listed_at
from slackwater.operators.join.arrival import ArrivalProbe
from slackwater.operators.join.eager_probe import LEAST, Lines, combine, drop_expired
from slackwater.operators.join.loop import PASSES_BY, PROBES, nothing_after, place_probe_insert
from slackwater.operators.join.operator import AT_ONCE, JoinOperator, WindowJoin
from slackwater.operators.join.persisted import PersistedTuples
from slackwater.operators.join.probe_steps import Refine
from slackwater.operators.join.search import Probes, Search
from slackwater.operators.join.store import Windows, insert, place
from slackwater.operators.join.unordered_probe import Reach
from slackwater.operators.output import Output


class Coming(NamedTuple):
    """What the loop works on."""

    refine_listed: Refine
    plan: Probes
    w: Windows
    search: Search
    reach: Reach
    found: Lines
    reaches: int
    """For how much longer than windows say a tuple enters."""
    late_since: int
    """From where on results of a late tuple are wanted, against the watermark that it met."""


@in_place
def meet_any(
    condition: int, plan: Probes, new: OrderedTuples, begin: int, w: Windows, search: Search, reach: Reach,
    found: Lines, reaches: int, late_since: int,
) -> tuple[int, int]:  # fmt: skip
    """Take tuples from `begin` on, until their end or until one's results have no room; returns (tuples, status)."""
    job = Coming(refine_listed_at(condition), plan, w, search, reach, found, reaches, late_since)
    return place_probe_insert(place, insert, admit, combine, nothing_after, job, new, begin)


@inner
def admit(job: Coming, new: OrderedTuples, i: int) -> int:
    """A tuple enters and probes while it may have results that are wanted."""
    ts, watermark = new.words[TS, i], new.watermark_at_arrival[i]
    if ts < watermark - job.reaches - job.plan.sizes[new.stream[i]]:
        return PASSES_BY
    drop_expired(job.w, job.plan, watermark - job.reaches)
    job.found.state[LEAST] = watermark + job.late_since if ts < watermark else BEFORE_ALL
    return PROBES


class UnorderedJoin(JoinOperator):
    """The mutable half of a `WindowJoin` whose results do not all leave in turn."""

    def __init__(self, spec: WindowJoin, encode_text: Callable[[str], int]) -> None:
        super().__init__(spec, encode_text)
        self._probe = ArrivalProbe(spec, self._condition, spec.count_only, spec.rows)
        self._store = self._probe.store
        self._persisted = PersistedTuples(spec.rows, self._store, self._eviction)
        self._reaches = spec.leaving.reaches
        self._late_since = 1 if spec.leaving.on_arrival else -self._reaches
        self._enters_since = self._reaches
        if spec.streams == 1 and spec.leaving.on_arrival:
            # A selection has no results that another tuple could have made.
            self._enters_since, self._late_since = LONGEST, -LONGEST

    def process(self, run: OrderedBatch, ordered: bool) -> Iterator[Output]:
        """Take in a run; yield its results, and those of late tuples as corrections where it is asked for them."""
        tuples = run.tuples.contiguous()
        for first in range(0, len(run), AT_ONCE):
            piece = slice(first, min(first + AT_ONCE, len(run)))
            self._store.reserve(np.bincount(run.stream[piece], minlength=self.spec.streams), self._horizons())
            for _, _, found in self._probe.combine(tuples.take(piece).contiguous(), self._step):
                if len(found.ts):
                    yield from self._outputs(run, found, first + found.by)
        self._took_in(run, tuples.words)

    def _step(
        self, condition: int, plan: Probes, new: OrderedTuples, begin: int, w: Windows, search: Search, reach: Reach,
        found: Lines,
    ) -> tuple[int, int]:  # fmt: skip
        return meet_any(condition, plan, new, begin, w, search, reach, found, self._enters_since, self._late_since)

    def _outputs(self, run: OrderedBatch, found: Lines, by: Words) -> Iterator[Output]:
        late = run.late[by]
        if self.spec.leaving.on_arrival or not late.any():
            yield self._made(found, slice(None), by)
            return
        in_time, corrected = np.flatnonzero(~late), np.flatnonzero(late)
        if len(in_time):
            yield self._made(found, in_time, by[in_time])
        yield self._made(found, corrected, by[corrected], amends=True)

    def _made(self, found: Lines, of: slice | Words, by: Words, amends: bool = False) -> Output:
        ts = found.ts[of].copy()
        if self.spec.count_only:
            ways = found.multiplicity[of].astype(np.int64)
            return Output(ts, (), by, ways, int(ways.sum()), amends=amends)
        columns = tuple(self._words[row, found.slots[stream, of]] for stream, row in self.spec.emit)
        change = np.full(len(ts), INSERT) if amends else None
        return Output(ts, columns, by, None, len(ts), change=change, amends=amends)

    @property
    def corrects_losses(self) -> bool:
        return self.spec.leaving.correctable is not None

    def _horizons(self) -> Words:
        return np.maximum(self._watermark, BEFORE_ALL) - self._windows - self._reaches

    def _in_force_since(self, watermark: int) -> Words:
        return super()._in_force_since(watermark) - self._reaches
