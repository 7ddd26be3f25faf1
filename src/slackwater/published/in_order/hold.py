"""The hold buffer: results that are made before their turn, in a min-heap by timestamp.

Invariant: results leave in timestamp order, each when the watermark reaches its timestamp and not before; what leaves
is never older than what left.

References: 000 §5, steps 5 and 6.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from slackwater.core.batch import Words
from slackwater.core.jit import in_place, inner
from slackwater.core.state import decode_words, encode_words
from slackwater.disorder.release import state as st
from slackwater.disorder.release.slack_heap import pop, push

WAYS = 0
"""The row of a held result that says how many results it stands for; its columns follow."""


class Made(NamedTuple):
    """Results: the timestamp of each, the event that made it or emits it, and its words, from WAYS on."""

    ts: Words
    by: Words
    words: Words


class HoldBuffer:
    """Keeps results of so many columns back.

    >>> hold = HoldBuffer(columns=0)
    >>> made = Made(np.array([9, 8]), np.array([0, 1]), np.array([[1, 1]]))
    >>> hold.pass_through(made, reached=np.array([6, 8]), begin=0).ts.tolist(), hold.held
    ([8], 1)
    >>> hold.pass_through(Made(*np.zeros((2, 0), np.int64), np.zeros((1, 0), np.int64)), np.array([10]), 0).ts.tolist()
    [9]
    """

    def __init__(self, columns: int) -> None:
        self._rows = 1 + columns
        self._clear(1024)
        self.most = 0
        """The most that were ever held."""

    def _clear(self, capacity: int) -> None:
        self._clock = st.clockwork(1, 0)
        self._clock.scalars[st.FREE] = capacity
        self._held = st.buffers(1, self._rows, capacity)

    @property
    def held(self) -> int:
        return int(self._held.sizes[0])

    def pass_through(self, made: Made, reached: Words, begin: int) -> Made:
        """Take what events from `begin` on have made; returns what leaves, with the event that emits it.

        `reached` has where the watermark stands after each of these events.
        """
        self._reserve(len(made.ts))
        capacity = len(made.ts) + self.held
        out = Made(
            np.empty(capacity, np.int64),
            np.empty(capacity, np.int64),
            np.empty((self._rows, capacity), np.int64),
        )
        n, most = hold_back(made, reached, begin, self._clock, self._held, out)
        self.most = max(self.most, most)
        return Made(out.ts[:n], out.by[:n], out.words[:, :n])

    def _reserve(self, count: int) -> None:
        if self._clock.scalars[st.FREE] < count:
            capacity = self._held.pool.shape[1]
            self._held = st.grown(self._held, max(2 * capacity, capacity + count), self._clock)

    def as_bytes(self) -> bytes:
        """All that is held."""
        size = self.held
        slots = self._held.slot[0, :size]
        held = {f"w{r}": self._held.pool[r, slots] for r in range(self._rows)}
        return encode_words(held | {"ts": self._held.ts[0, :size]})

    def restore(self, value: bytes) -> None:
        """Hold these, and nothing else."""
        saved = decode_words(value)
        count, most = len(saved["ts"]), self.most
        self._clear(max(1024, 2 * count))
        words = np.stack([saved[f"w{r}"] for r in range(self._rows)])
        never = np.array([int(saved["ts"].min(initial=0)) - 1])
        self.pass_through(Made(saved["ts"], np.zeros(count, np.int64), words), never, 0)
        self.most = max(most, count)


@in_place
def hold_back(
    made: Made, reached: Words, begin: int, clock: st.Clockwork, held: st.Buffers, out: Made
) -> tuple[int, int]:
    """Event by event: hold what it has made, then emit what the watermark has reached (TS-trigger).

    Returns how many results leave, and the most that were held.
    """
    k, n_out, most = 0, 0, held.sizes[0]
    for i in range(len(reached)):
        while k < len(made.ts) and made.by[k] == begin + i:
            if made.ts[k] <= reached[i] and (held.sizes[0] == 0 or held.ts[0, 0] > made.ts[k]):
                for r in range(out.words.shape[0]):
                    out.words[r, n_out] = made.words[r, k]
                out.ts[n_out], out.by[n_out] = made.ts[k], begin + i
                n_out += 1
            else:
                keep(made, k, clock, held)
            k += 1
        while held.sizes[0] > 0 and held.ts[0, 0] <= reached[i]:
            out.ts[n_out], out.by[n_out] = held.ts[0, 0], begin + i
            slot = pop(held, 0)
            for r in range(out.words.shape[0]):
                out.words[r, n_out] = held.pool[r, slot]
            held.free[clock.scalars[st.FREE]] = slot
            clock.scalars[st.FREE] += 1
            n_out += 1
        most = max(most, held.sizes[0])
    return n_out, most


@inner
def keep(made: Made, k: int, clock: st.Clockwork, held: st.Buffers) -> None:
    """Put result k into the heap."""
    clock.scalars[st.FREE] -= 1
    slot = held.free[clock.scalars[st.FREE]]
    for r in range(held.pool.shape[0]):
        held.pool[r, slot] = made.words[r, k]
    push(held, 0, made.ts[k], clock.scalars[st.SEQUENCE], slot)
    clock.scalars[st.SEQUENCE] += 1
