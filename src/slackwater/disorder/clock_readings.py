"""Clocks as they are known from elsewhere: by headers, or by the watermark of a fragment below.

Invariant: with these a release moves its clocks at the end of an epoch as tuples would that read the same.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace

import numpy as np

from slackwater.core.batch import Batch, Words
from slackwater.core.schema import NULL_WORD
from slackwater.core.time import BEFORE_ALL


@dataclass(frozen=True)
class ClockReadings:
    """What the clocks of streams, or of partitions of them, read."""

    stream: Words
    partition: Words
    """The name of each partition; of no meaning where the stream has none."""
    reading: Words
    at: int = BEFORE_ALL
    """The moment, where moments count."""

    def heard(self, batch: Batch) -> Batch:
        """Tuples of the epoch, as saying nothing about time themselves."""
        silent = replace(batch, reading=np.full(len(batch), BEFORE_ALL))
        return silent if self.at == BEFORE_ALL else replace(silent, arrival_time=np.full(len(batch), self.at))

    @staticmethod
    def of(clocks: Sequence[tuple[int, int | None, int]], now: int | None) -> ClockReadings:
        """Clocks as (stream, partition, clock), heard at this moment where moments count.

        >>> ClockReadings.of([(1, None, 30)], now=None).reading.tolist()
        [30]
        """
        known = [(stream, NULL_WORD if name is None else name, clock) for stream, name, clock in clocks]
        stream, partition, reading = np.array(known, np.int64).reshape(-1, 3).T.copy()
        return ClockReadings(stream, partition, reading, BEFORE_ALL if now is None else now)
