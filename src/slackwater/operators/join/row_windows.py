"""The window join where some windows count tuples: the last n of a stream, whatever their age.

Invariant: a member of a stream whose window counts is among its n newest tuples in processing order at the moment the
newest member of the result is processed. A late tuple enters no such window and triggers nothing: put in by its event
time it would push a tuple out of every window after it, results that are out already among them.

Tuples of a region stand in processing order, so "among the last n" is a horizon in slots, where a window of time has
one in event time. Event times bound nothing then, and the window of the stream in time is as long as time is.

References: 004 §2.1.2 (count-based windows).
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, fields
from typing import Any

import numpy as np

from slackwater.disorder.run import Run
from slackwater.model.batch import Flags, Words
from slackwater.operators.join.operator import JoinOperator, WindowJoin
from slackwater.operators.join.store import ALL_KEPT

EVER = 2**61
"""The window in time of a stream whose window counts tuples."""
BY_TIME = 0
"""In place of a number of tuples: the window of this stream is one of time."""
FEW = 4096
"""Tuples that wait to be persisted are not looked through before there are so many."""


@dataclass(frozen=True)
class RowJoin(WindowJoin):
    """A join in which `last` says of every stream how many tuples its window holds; BY_TIME where it is one of time."""

    last: tuple[int, ...] = ()

    def __post_init__(self) -> None:
        assert self.graph is None, "windows between pairs of streams are of time"
        assert all(n == BY_TIME or window == EVER for n, window in zip(self.last, self.windows, strict=True))

    @property
    def kept(self) -> Words:
        last = np.array(self.last, np.int64)
        return np.where(last == BY_TIME, ALL_KEPT, last)

    def build(self, encode_text: Callable[[str], int] = lambda text: 0) -> RowJoinOperator:
        return RowJoinOperator(self, encode_text)


def by_rows(join: WindowJoin, last: tuple[int, ...]) -> RowJoin:
    """The same join with windows that count, where `last` has a number of tuples.

    >>> by_rows(WindowJoin((5, 0), (), (), (), (), 2), (BY_TIME, 10)).windows == (5, EVER)
    True
    """
    same: dict[str, Any] = {field.name: getattr(join, field.name) for field in fields(WindowJoin)}
    windows = tuple(EVER if n != BY_TIME else size for n, size in zip(last, join.windows, strict=True))
    return RowJoin(**{**same, "windows": windows}, last=last)


class RowJoinOperator(JoinOperator):
    """The mutable half of `RowJoin`."""

    def __init__(self, spec: RowJoin, encode_text: Callable[[str], int]) -> None:
        super().__init__(spec, encode_text)
        self._counts = np.array([n != BY_TIME for n in spec.last], np.bool_)
        self._last = spec.kept
        self._persisted = np.zeros(spec.streams, np.int64)
        self._waiting, self._look_at = 0, FEW

    def _took_in(self, run: Run, words: Words) -> None:
        self._frontier = max(self._frontier, run.frontier)
        entered = np.flatnonzero(~(run.late & self._counts[run.stream]))
        if len(entered):
            self._fresh.append((int(run.ts.max()), run.stream[entered], words[:, entered]))
            self._waiting += len(entered)
        if self._waiting > self._look_at:
            self._forget_some()

    def _forget_some(self) -> None:
        """Where nothing is ever persisted, what waits to be persisted must not pile up."""
        newest = max(ts for ts, _, _ in self._fresh)
        streams = np.concatenate([stream for _, stream, _ in self._fresh])
        words = np.concatenate([words for _, _, words in self._fresh], axis=1)
        horizons = self._kept_since()
        kept = np.zeros(len(streams), np.bool_)
        for stream in range(self.spec.streams):
            kept |= self._worth_keeping(stream, streams, words, horizons)
        self._fresh.clear()
        self._fresh.append((newest, streams[kept], words[:, kept]))
        self._waiting = int(np.count_nonzero(kept))
        self._look_at = 2 * self._waiting + FEW

    def _worth_keeping(self, stream: int, streams: Words, words: Words, horizons: Words) -> Flags:
        chosen = super()._worth_keeping(stream, streams, words, horizons)
        if self._counts[stream]:
            chosen[np.flatnonzero(chosen)[: -self._last[stream]]] = False
        return chosen

    def _newest_of(self, stream: int, words: Words) -> int:
        """Of a window that counts: the number of the chunk's last tuple among all that were persisted."""
        if not self._counts[stream]:
            return super()._newest_of(stream, words)
        self._persisted[stream] += words.shape[1]
        return int(self._persisted[stream]) - 1

    def _is_over(self, stream: int, newest: int, horizons: Words) -> bool:
        if not self._counts[stream]:
            return super()._is_over(stream, newest, horizons)
        return bool(newest < self._persisted[stream] - self._last[stream])
