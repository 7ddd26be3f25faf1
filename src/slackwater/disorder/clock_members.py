"""Who has a clock: streams, and the parts of streams that have some.

Invariant: streams come first, by their positions; a part keeps the number it got when it was first heard of.
"""

from __future__ import annotations

import numpy as np

from slackwater.core.batch import Batch, Words
from slackwater.disorder.release.state import NO_PARTITION


class Members:
    """Streams and their parts, numbered; streams come first."""

    def __init__(self, streams: int, partition_slots: tuple[int, ...] = ()) -> None:
        self.streams, self._partition_slots = streams, partition_slots
        self._numbers: dict[tuple[int, int], int] = {}

    def __len__(self) -> int:
        return self.streams + len(self._numbers)

    def number(self, stream: int, name: int | None) -> int:
        """The number of a part, or of the stream where it has none."""
        return stream if name is None else self._numbers.setdefault((stream, name), len(self))

    def of(self, batch: Batch) -> Words:
        """The member that each tuple belongs to."""
        if not self._partition_slots:
            return batch.stream
        member = batch.stream.copy()
        for stream, row in enumerate(self._partition_slots):
            mine = np.flatnonzero(batch.stream == stream)
            if row != NO_PARTITION and len(mine):
                names, sequence = np.unique(batch.words[row, mine], return_inverse=True)
                member[mine] = np.array([self.number(stream, name) for name in names.tolist()], np.int64)[sequence]
        return member

    @property
    def names(self) -> list[tuple[int, int]]:
        """Stream and name of every part, in the order of their numbers."""
        return list(self._numbers)

    def restore(self, names: list[tuple[int, int]]) -> None:
        """Take over what `names` gave."""
        self._numbers = {(s, name): self.streams + n for n, (s, name) in enumerate(names)}
