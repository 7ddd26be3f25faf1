"""The ledgers of all shards of a query as one: what each has booked in an epoch is added up in every shard.

Invariant: once the reports of an epoch are heard, the sums are the same in all shards, and they are those of one ledger
that had seen all of them. What this shard has booked since then is not in them yet.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
import numpy.typing as npt

from slackwater.core.batch import Floats, Words
from slackwater.core.collections import ring
from slackwater.core.state import in_blocks, out_of_blocks
from slackwater.disorder.controllers import Ledger, Report
from slackwater.disorder.meters import ResultBuckets

BLOCK = 256
"""Buckets that are persisted together."""
BUCKET, MADE, LOST, FAR = "bucket", "made", "lost", "far"
"""What a report has: numbers of buckets, and what came to them; results of all, and those lost to far tuples."""


class SharedLedger:
    """The sum of the ledgers of all shards; `own` is that of this one."""

    def __init__(self, own: Ledger) -> None:
        self._own = own
        size = len(own.buckets.number)
        self._number, self._made, self._lost = ring.ring(size), np.zeros(size), np.zeros(size)
        self._far = np.zeros(2)
        self._begin()

    def _begin(self) -> None:
        """An epoch begins: what this shard has booked so far is reported."""
        number, made, lost, _ = self._own.buckets
        self._before = number.copy(), made.copy(), lost.copy()
        self._far_before = np.array(self._own.lost_to_far() or (0.0, 0.0))

    @property
    def buckets(self) -> ResultBuckets:
        """The sums."""
        return ResultBuckets(self._number, self._made, self._lost, self._own.buckets.width)

    def report(self) -> Report:
        """What this shard has booked since the last reports were heard."""
        number, made, lost, _ = self._own.buckets
        then, made_then, lost_then = self._before
        same = number == then
        made = np.where(same, made - made_then, made)
        lost = np.where(same, lost - lost_then, lost)
        at = np.flatnonzero((made != 0) | (lost != 0))
        far = np.array(self._own.lost_to_far() or (0.0, 0.0)) - self._far_before
        return {BUCKET: number[at], MADE: made[at], LOST: lost[at], FAR: far}

    def hear(self, reports: Sequence[Report]) -> None:
        """Add up what all shards have booked."""
        for one in reports:
            bucket = one[BUCKET]
            place = bucket % len(self._number)
            turned = self._number[place] < bucket
            self._number[place[turned]] = bucket[turned]
            self._made[place[turned]] = self._lost[place[turned]] = 0.0
            has = self._number[place] == bucket
            self._made[place[has]] += one[MADE][has]
            self._lost[place[has]] += one[LOST][has]
            self._far += one[FAR]
        self._begin()

    def between(self, edges: Words) -> tuple[Floats, Floats]:
        """Made and lost between each edge and the next."""
        return ring.sums_between(self._number, edges // self._own.buckets.width, self._made, self._lost)

    def lost_to_far(self) -> tuple[float, float] | None:
        """All results so far, and those of them lost to tuples that no slack allowed would have kept in time."""
        return None if self._own.lost_to_far() is None else (float(self._far[0]), float(self._far[1]))

    def as_arrays(self) -> dict[str, npt.NDArray[Any]]:
        """All state but that of this shard's own ledger."""
        found: dict[str, npt.NDArray[Any]] = {FAR: self._far.copy()}
        for name, array in (("number", self._number), (MADE, self._made), (LOST, self._lost)):
            found |= in_blocks(name, array, BLOCK)
        return found

    def restore(self, arrays: Mapping[str, npt.NDArray[Any]]) -> None:
        """Take over what `as_arrays` gave. What the own ledger has then is known when the next reports are heard."""
        self._far[:] = arrays[FAR]
        for name, array in (("number", self._number), (MADE, self._made), (LOST, self._lost)):
            out_of_blocks(name, array, BLOCK, arrays)
