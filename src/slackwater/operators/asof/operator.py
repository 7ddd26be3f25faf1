"""The mutable half of an as-of join: tuples that wait for the watermark, and the last version of every key.

Invariant: a tuple that asks leaves when the watermark has passed it, so rows leave in the order of time. A version can
be seen by what asks at or after its own time (after it, where it must be older), and at or after the watermark that it
met: what lies before has been answered.
"""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np

from slackwater.core.batch import TS, Words
from slackwater.core.state import StateUpdate
from slackwater.disorder.ordered_batch import OrderedBatch
from slackwater.expressions.compile import Filter, compile_filter
from slackwater.operators.array_checkpoint import ArrayCheckpoint
from slackwater.operators.asof.spec import LEFT, RIGHT, AsOfJoin
from slackwater.operators.asof.versions import Versions
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

    def _wanted(self, context: BuildContext) -> Filter | None:
        if not self.spec.kept:
            return None
        places = {name: at for at, name in enumerate(self.spec.names)}
        return compile_filter(self.spec.kept, lambda stream, name: places[stream, name], context.encode_text)

    def process(self, run: OrderedBatch, ordered: bool) -> Iterator[Output]:
        """Take in a run; answer what the watermark has passed."""
        spec, comes = self.spec, np.flatnonzero(~run.late | (run.stream == RIGHT))
        words = np.hstack([self._waiting, run.words[: spec.rows, comes]])
        of = np.concatenate([self._of, run.stream[comes]])
        met = np.concatenate([self._waiting[TS], run.watermark_at_arrival[comes]])
        asks = of == LEFT
        seen_from = np.maximum(words[TS] + np.where(asks, 0, spec.strict), met)
        # A version that can be seen from the watermark on is seen by all that has not been answered.
        turn = seen_from < run.watermark + ~asks
        self._waiting, self._of = np.ascontiguousarray(words[:, ~turn]), of[~turn]
        words, asks, seen_from = words[:, turn], asks[turn], seen_from[turn]
        sides = [np.array(rows, np.int64) for rows in (spec.shard_rows or ((), ()))]
        keys = np.where(asks, words[sides[LEFT]], words[sides[RIGHT]])
        found, answers = self._versions.walk(words, keys, asks, seen_from)
        self._versions.expire(run.watermark)
        leaves = np.flatnonzero(asks if spec.outer else asks & found)
        leaves = leaves[np.argsort(words[TS, leaves], kind="stable")]
        ts = words[TS, leaves]
        columns = self._columns(words[:, leaves], found[leaves], answers[:, leaves])
        if self._keep is not None and len(ts):
            lines = np.stack(columns)
            wanted = np.flatnonzero(self._keep(lines, lines.view(np.float64), len(ts)))
            ts, columns = ts[wanted], tuple(column[wanted] for column in columns)
        if len(ts):
            yield Output(ts, columns, np.searchsorted(run.passed(ordered), ts, "right"), None, len(ts))

    def _columns(self, words: Words, found: np.ndarray, answers: Words) -> tuple[Words, ...]:
        places = {row: at for at, row in enumerate(self.spec.carried)}
        return tuple(
            words[row] if stream == LEFT else np.where(found, answers[places[row]], null)
            for (stream, row), null in zip(self.spec.emit, self.spec.nulls, strict=True)
        )

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
        arrays = {"waiting": self._waiting.T, "of": self._of, "versions": self._versions.table}
        return list(self._kept.snapshot_delta(arrays))

    def restore(self, entries: list[StateUpdate]) -> None:
        arrays = self._kept.restore(entries)
        if arrays:
            self._waiting, self._of = np.ascontiguousarray(arrays["waiting"].T), arrays["of"]
            self._versions.table = arrays["versions"]
