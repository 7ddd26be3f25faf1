"""A run: what the disorder stage hands to an operator, in the order the operator must process it.

Invariant: among the tuples of a run that are in time (`ts >= watermark_at_arrival`), event times never go down, within
a run and from run to run. A late tuple stands where it arrived. An operator needs nothing else about disorder.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np

from slackwater.core.batch import TS, Flags, Words
from slackwater.core.time import BEFORE_ALL


class OrderedTuples(NamedTuple):
    """Tuples in processing order, as the loops of a release write them and those of an operator read them."""

    words: Words
    stream: Words
    watermark_at_arrival: Words
    """The watermark each tuple met: it is late iff its event time lies before."""
    clock: Words
    """Ordered release: the largest stream clock when the tuple was emitted. Unordered: when `watermark_at_arrival` was
    reached."""
    emit_time: Words
    """As `clock`, by the arrival times of tuples; without meaning where these are not known."""
    delay: Words
    """How far each tuple was behind its stream's clock when it arrived."""

    @staticmethod
    def of(stream: Words, words: Words, watermark_at_arrival: Words, delay: Words | None = None) -> OrderedTuples:
        """Tuples of which nothing is known of the time they left at."""
        none = np.zeros(len(stream), np.int64)
        return OrderedTuples(words, stream, watermark_at_arrival, none, none, none if delay is None else delay)

    def take(self, index: slice | Words) -> OrderedTuples:
        """The tuples at these places."""
        return OrderedTuples(self.words[:, index], *(column[index] for column in self[1:]))

    def contiguous(self) -> OrderedTuples:
        """The same, with words as compiled code wants to read them."""
        return self._replace(words=np.ascontiguousarray(self.words))


def late_first(tuples: OrderedTuples, epoch: Words) -> OrderedTuples:
    """Of every epoch the late tuples before the others, as they would be if these were waited for. The others stand by
    event time: all of an epoch leaves together, and who looks for what is near in time finds it sooner."""
    ts = tuples.words[TS]
    in_time = ts >= tuples.watermark_at_arrival
    return tuples.take(np.lexsort((np.where(in_time, ts, BEFORE_ALL), epoch)))


def together(parts: Sequence[OrderedTuples]) -> OrderedTuples:
    """The tuples of all parts, one after the other."""
    return OrderedTuples(*(np.concatenate(columns, axis=-1) for columns in zip(*parts, strict=True)))


@dataclass(frozen=True)
class OrderedBatch:
    """Tuples in processing order, and how far time has come."""

    tuples: OrderedTuples
    watermark: int
    """Where the watermark stands after the run."""
    max_ts: int
    """The largest stream clock after the run."""
    now: int
    """When the latest tuple arrived."""
    ended: bool = False

    def __len__(self) -> int:
        return int(self.tuples.words.shape[1])

    def turns(self) -> tuple[OrderedBatch, slice | Words]:
        """The tuples whose turn has come, and where they stand in the run: all of them."""
        return self, slice(len(self))

    def passed(self, ordered: bool) -> Words:
        """How far time has come with every tuple."""
        met = self.watermark_at_arrival
        if ordered:
            met = np.maximum(met, np.where(self.late, met, self.ts))
        return np.asarray(np.maximum.accumulate(met))

    @property
    def words(self) -> Words:
        return self.tuples.words

    @property
    def stream(self) -> Words:
        return self.tuples.stream

    @property
    def watermark_at_arrival(self) -> Words:
        return self.tuples.watermark_at_arrival

    @property
    def clock(self) -> Words:
        return self.tuples.clock

    @property
    def emit_time(self) -> Words:
        return self.tuples.emit_time

    @property
    def delay(self) -> Words:
        return self.tuples.delay

    @property
    def ts(self) -> Words:
        return self.tuples.words[TS]

    @property
    def late(self) -> Flags:
        return np.less(self.ts, self.tuples.watermark_at_arrival)
