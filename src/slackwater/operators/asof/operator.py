"""The mutable half of an as-of join: tuples that wait for the watermark, and the last version of every key.

Invariant: a tuple that asks leaves when the watermark has passed it, so rows leave in the order of time. A version can
be seen by what asks at or after its own time (after it, where it must be older), and at or after the watermark that it
met: what lies before has been answered.
"""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np

from slackwater.core.batch import TS, Flags, Words
from slackwater.core.state import StateUpdate
from slackwater.disorder.meters import LedgerTerms
from slackwater.disorder.ordered_batch import OrderedBatch
from slackwater.expressions.compile import Filter, compile_filter
from slackwater.operators.array_checkpoint import ArrayCheckpoint
from slackwater.operators.asof.answered import CAME_BEFORE, Turned
from slackwater.operators.asof.ledger import AsOfLedger
from slackwater.operators.asof.spec import LEFT, RIGHT, AsOfJoin
from slackwater.operators.asof.versions import NOTHING_FOUND, Versions
from slackwater.operators.contract import BuildContext, Operator
from slackwater.operators.output import Output
from slackwater.operators.state_size import WindowContents


class AsOfOperator(Operator):
    """Answers every tuple of the first stream by the last version of its key."""

    spec: AsOfJoin

    def __init__(self, spec: AsOfJoin, context: BuildContext) -> None:
        self.spec = spec
        self._keep = self._wanted(context)
        self._waiting: Words = np.zeros((spec.rows, 0), np.int64)
        """Tuples of both streams that the watermark has not passed."""
        self._of: Words = np.zeros(0, np.int64)
        """The stream of each."""
        self._versions = Versions(len(spec.keys), spec.carried, spec.within)
        self._kept = ArrayCheckpoint("asof")
        self._sides = [np.array(rows, np.int64) for rows in (spec.shard_rows or ((), ()))]
        self._ledger: AsOfLedger | None = None

    def ledger_for(self, terms: LedgerTerms) -> AsOfLedger:
        self._ledger = AsOfLedger(self.spec, self._rows, terms)
        return self._ledger

    def _wanted(self, context: BuildContext) -> Filter | None:
        if not self.spec.kept:
            return None
        places = {name: at for at, name in enumerate(self.spec.names)}
        return compile_filter(self.spec.kept, lambda stream, name: places[stream, name], context.encode_text)

    def process(self, run: OrderedBatch, ordered: bool) -> Iterator[Output]:
        """Take in a run; answer what the watermark has passed."""
        words, asks, seen_from, place = self._turn(run)
        keys = np.where(asks, words[self._sides[LEFT]], words[self._sides[RIGHT]])
        ages, answers = self._versions.walk(words, keys, asks, seen_from)
        self._versions.expire(run.watermark)
        asked = np.flatnonzero(asks)
        asked = asked[np.argsort(words[TS, asked], kind="stable")]
        columns, leave = self._rows(words[:, asked], ages[asked] >= 0, answers[:, asked])
        left, ts = asked[leave], words[TS, asked[leave]]
        if len(ts):
            by = np.searchsorted(run.passed(ordered), ts, "right")
            yield Output(ts, tuple(columns[:, leave]), by, None, len(ts), at_watermark=True, inclusive=True)
        if self._followed:
            gone = np.zeros(len(asks), np.bool_)
            gone[left] = True
            late = np.zeros(len(asks), np.bool_)
            came = place != CAME_BEFORE
            late[came] = run.late[place[came]]
            turned = Turned(words, asks, late, place, seen_from, ages, answers, gone).and_then(self._late(run))
            if self._ledger is not None:
                self._ledger.turned = turned
            yield from self._corrections(turned, run)

    def _turn(self, run: OrderedBatch) -> tuple[Words, Flags, Words, Words]:
        """Whose turn has come: words, whether each is of the first stream, from when a version is seen, and where it
        stands in the run."""
        comes = np.flatnonzero(~run.late | (run.stream == RIGHT))
        words = np.hstack([self._waiting, run.words[: self.spec.rows, comes]])
        of = np.concatenate([self._of, run.stream[comes]])
        met = np.concatenate([self._waiting[TS], run.watermark_at_arrival[comes]])
        place = np.concatenate([np.full(len(self._of), CAME_BEFORE), comes])
        asks = of == LEFT
        seen_from = np.maximum(words[TS] + np.where(asks, 0, self.spec.strict), met)
        # A version that can be seen from the watermark on is seen by all that has not been answered.
        turn = seen_from < run.watermark + ~asks
        self._waiting, self._of = np.ascontiguousarray(words[:, ~turn]), of[~turn]
        return words[:, turn], asks[turn], seen_from[turn], place[turn]

    def _late(self, run: OrderedBatch) -> Turned:
        """The tuples of the first stream that came too late to be answered."""
        place = np.flatnonzero(run.late & (run.stream == LEFT))
        yes, no = np.ones(len(place), np.bool_), np.zeros(len(place), np.bool_)
        none = np.full(len(place), NOTHING_FOUND)
        nothing = np.zeros((len(self.spec.carried), len(place)), np.int64)
        return Turned(run.words[: self.spec.rows, place], yes, yes, place, run.ts[place], none, nothing, no)

    def _rows(self, words: Words, found: Flags, answers: Words) -> tuple[Words, Flags]:
        """The columns of the rows that tuples have with these versions; and which of these rows leave."""
        places = {row: at for at, row in enumerate(self.spec.carried)}
        columns = np.empty((len(self.spec.emit), len(found)), np.int64)
        for line, (stream, row), null in zip(columns, self.spec.emit, self.spec.nulls, strict=True):
            line[:] = words[row] if stream == LEFT else np.where(found, answers[places[row]], null)
        leave = found | self.spec.outer
        if self._keep is not None and len(leave):
            leave &= self._keep(columns, columns.view(np.float64), len(leave))
        return columns, leave

    @property
    def _followed(self) -> bool:
        """Whether anything is to be known of answers once they have left."""
        return self._ledger is not None

    def _corrections(self, turned: Turned, run: OrderedBatch) -> Iterator[Output]:
        """What follows of what late tuples change."""
        return iter(())

    @property
    def state_rows(self) -> int:
        """Tuples that wait, and versions."""
        return len(self._of) + len(self._versions)

    def window_contents(self, watermark: int) -> Iterator[WindowContents]:
        """What waits of both streams; the versions stand with the second."""
        asking, versions = np.flatnonzero(self._of == LEFT), len(self._versions)
        coming, width = len(self._of) - len(asking), len(self.spec.keys) + 1 + len(self.spec.carried)
        yield WindowContents(LEFT, len(asking), len(asking) * self.spec.rows)
        yield WindowContents(RIGHT, coming + versions, coming * self.spec.rows + versions * width)

    def snapshot_delta(self) -> list[StateUpdate]:
        return list(self._kept.snapshot_delta(self._arrays()))

    def _arrays(self) -> dict[str, Words]:
        return {"waiting": self._waiting.T, "of": self._of, "versions": self._versions.table}

    def restore(self, entries: list[StateUpdate]) -> None:
        arrays = self._kept.restore(entries)
        if arrays:
            self._take_over(arrays)

    def _take_over(self, arrays: dict[str, Words]) -> None:
        self._waiting, self._of = np.ascontiguousarray(arrays["waiting"].T), arrays["of"]
        self._versions.table = arrays["versions"]
        if self._ledger is not None:
            self._ledger.begin_with(self._versions.table)
