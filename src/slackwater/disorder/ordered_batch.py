"""A run: what the disorder stage hands to an operator, in the order the operator must process it.

Invariant: among the tuples of a run that are in time (`ts >= watermark_at_arrival`), event times never go down, within
a run and from run to run. A late tuple stands where it arrived. An operator needs nothing else about disorder.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from slackwater.core.batch import TS, Flags, Words


@dataclass(frozen=True)
class OrderedBatch:
    """Tuples in processing order."""

    stream: Words
    words: Words
    watermark_at_arrival: Words
    """The watermark each tuple met: it is late iff its event time lies before."""
    clock: Words
    """Ordered release: the largest stream clock when the tuple was emitted. Unordered: when `watermark_at_arrival` was
    reached."""
    emit_time: Words
    """As `clock`, by the arrival times of tuples; without meaning where these are not known."""
    delay: Words
    """How far each tuple was behind its stream's clock when it arrived."""
    watermark: int
    """Where the watermark stands after the run."""
    max_ts: int
    """The largest stream clock after the run."""
    now: int
    """When the latest tuple arrived."""
    ended: bool = False

    def __len__(self) -> int:
        return int(self.words.shape[1])

    def turns(self) -> tuple[OrderedBatch, slice | Words]:
        """The tuples whose turn has come, and where they stand in the run: all of them."""
        return self, slice(len(self))

    @property
    def ts(self) -> Words:
        return self.words[TS]

    @property
    def late(self) -> Flags:
        return np.less(self.words[TS], self.watermark_at_arrival)
