"""What both clock guards keep: who has a clock, which tuples wait for a verdict, and how votes are persisted.

Invariant: pending tuples come first among those that wait, and only they have evidence; `restore` puts back exactly
what `snapshot_delta` wrote. An entry for waiting tuples is written only when some waited since the last one.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from dataclasses import replace

import numpy as np

from slackwater.core.batch import Batch, Words
from slackwater.core.state import StateUpdate, decode_batch, decode_words, encode_batch, encode_words, state_update
from slackwater.disorder.clock_vote import RINGS, ClockVote
from slackwater.disorder.release.state import NO_PARTITION

# Rows of the evidence: of the arrivals since a tuple was kept back, those that came along and those that did not; and
# whether they were counted in a later epoch than its own.
ALONG, AGAINST, LATER = range(3)
EVIDENCE = ("along", "against", "later")
WAITING = "waiting"


class Members:
    """What has a clock: streams and their parts. Streams come first; a part keeps the number it first got."""

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
                names, which = np.unique(batch.words[row, mine], return_inverse=True)
                member[mine] = np.array([self.number(stream, name) for name in names.tolist()], np.int64)[which]
        return member

    @property
    def names(self) -> list[tuple[int, int]]:
        """Stream and name of every part, in the order of their numbers."""
        return list(self._numbers)

    def restore(self, names: list[tuple[int, int]]) -> None:
        """Take over what `names` gave."""
        self._numbers = {(s, name): self.streams + n for n, (s, name) in enumerate(names)}


class Waiting:
    """Tuples that wait for a verdict, with the evidence about the first of them."""

    def __init__(self, namespace: str) -> None:
        self._namespace = namespace
        self.batch: Batch | None = None
        self.evidence = np.zeros((3, 0), np.int64)
        """Of the pending tuples, which come first; the others have not been judged."""
        self._touched = False

    def __len__(self) -> int:
        return 0 if self.batch is None else len(self.batch)

    def relay(self, change: Callable[[Batch], Words]) -> None:
        """From now on tuples have other rows; what waits is changed."""
        if self.batch is not None:
            self.batch = replace(self.batch, words=change(self.batch))
            self._touched = True

    def replace(self, batch: Batch | None, evidence: Words) -> None:
        """From now on these wait."""
        self._touched = self._touched or self.batch is not None or batch is not None
        self.batch, self.evidence = batch, evidence

    def snapshot_delta(self) -> Iterator[StateUpdate]:
        """What to persist since the last call."""
        if self._touched:
            yield state_update(self._namespace, WAITING, None if self.batch is None else self._encoded(self.batch))
            self._touched = False

    def _encoded(self, batch: Batch) -> bytes:
        judged = self.evidence.shape[1]
        evidence = np.zeros((4, len(batch)), np.int64)
        evidence[:3, :judged], evidence[3, :judged] = self.evidence, 1
        return encode_batch(batch, **dict(zip((*EVIDENCE, "judged"), evidence, strict=True)))

    def restore(self, entries: Iterable[StateUpdate]) -> None:
        """Take over what was persisted; other entries are passed over."""
        for entry in entries:
            if entry.key == WAITING:
                self.batch, self.evidence = None, np.zeros((3, 0), np.int64)
                if entry.value is not None:
                    self.batch, extra = decode_batch(entry.value)
                    self.evidence = np.stack([extra[name] for name in EVIDENCE])[:, extra["judged"] == 1]


def save_rings(namespace: str, **votes: ClockVote) -> Iterator[StateUpdate]:
    """The rings of votes, each vote by its name."""
    for name, one in votes.items():
        for ring in RINGS:
            words = getattr(one, ring).reshape(-1)
            if len(words):
                yield state_update(namespace, f"{name}_{ring}", encode_words({"t": words}))


def restore_rings(entries: Iterable[StateUpdate], **votes: ClockVote) -> None:
    """Take over what `save_rings` wrote; other entries are passed over."""
    rings = {f"{name}_{ring}": getattr(one, ring) for name, one in votes.items() for ring in RINGS}
    for entry in entries:
        if entry.key in rings and entry.value is not None:
            array = rings[entry.key]
            array[:] = decode_words(entry.value)["t"].reshape(array.shape)
