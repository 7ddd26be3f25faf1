"""Filter-Order in epochs: tuples are joined as they arrive, and results are held until the watermark reaches them.

Invariant: results leave in timestamp order, with the epoch in which they would leave if tuples were joined in their
turn; what leaves and what is late is the same.

References: 000 §5.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator

import numpy as np

from slackwater.core.batch import Words
from slackwater.core.results import FILTER, OrderingSeen
from slackwater.core.state import StateUpdate, state_update
from slackwater.disorder.ordered_batch import OrderedBatch
from slackwater.disorder.release.release import Release
from slackwater.operators.join.operator import WindowJoin
from slackwater.operators.join.unordered_join import UnorderedJoin
from slackwater.operators.output import Output
from slackwater.operators.stages import DirectStage, Stages
from slackwater.operators.state_size import RESULTS, WindowContents
from slackwater.published.in_order.hold import HoldBuffer, Made

HELD = "held"


class HoldingJoin(UnorderedJoin):
    """A join on arrival behind which results wait."""

    def __init__(self, spec: WindowJoin, encode_text: Callable[[str], int]) -> None:
        super().__init__(spec, encode_text)
        self._columns = 0 if spec.count_only else len(spec.emit)
        self.hold = HoldBuffer(self._columns)

    def attach(self, release: Release) -> Stages:
        return HoldingStage(release, self)

    def process(self, run: OrderedBatch, ordered: bool) -> Iterator[Output]:
        """Take in a run; yield the results that its epochs have reached."""
        # An epoch ends where the next tuple meets another watermark.
        reached = np.append(run.watermark_at_arrival[1:], run.watermark)
        made = list(super().process(run, ordered))
        words, ts, by = self._taken(made)
        out = self.hold.pass_through(Made(ts, by, words), reached, 0)
        if len(out.ts):
            ways, columns = out.words[0], tuple(out.words[1:])
            weights = ways if self.spec.count_only else None
            yield Output(out.ts, columns, out.by, weights, int(ways.sum()))

    def _taken(self, made: list[Output]) -> tuple[Words, Words, Words]:
        """Results in the order of the tuples that made them: their words, timestamps, and tuples."""
        words = np.zeros((1 + self._columns, sum(len(one.ts) for one in made)), np.int64)
        if not made:
            return words, words[0], words[0]
        words[0] = np.concatenate(
            [np.ones(len(o.ts), np.int64) if o.multiplicity is None else o.multiplicity for o in made]
        )
        for at in range(self._columns):
            words[1 + at] = np.concatenate([one.columns[at] for one in made])
        return words, np.concatenate([one.ts for one in made]), np.concatenate([one.by for one in made])

    def window_contents(self, watermark: int) -> Iterator[WindowContents]:
        yield from super().window_contents(watermark)
        # Of every result its timestamp is kept beside its words.
        yield WindowContents(RESULTS, self.hold.held, self.hold.held * (2 + self._columns))

    @property
    def state_rows(self) -> int:
        return super().state_rows + self.hold.held

    def snapshot_delta(self) -> list[StateUpdate]:
        return [*super().snapshot_delta(), state_update(HELD, "results", self.hold.as_bytes())]

    def restore(self, entries: list[StateUpdate]) -> None:
        for entry in entries:
            if entry.namespace == HELD and entry.value is not None:
                self.hold.restore(entry.value)
        super().restore([entry for entry in entries if entry.namespace != HELD])


class HoldingStage(DirectStage):
    """The stage of such a join, which says how many results wait."""

    def __init__(self, release: Release, join: HoldingJoin) -> None:
        super().__init__(release)
        self._join = join

    @property
    def ordering(self) -> OrderingSeen:
        hold = self._join.hold
        return OrderingSeen(FILTER, FILTER, 0, hold.held, hold.most, None, (), None)
