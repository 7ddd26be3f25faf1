"""Lines that are persisted in chunks: what came since the last time is one, and is written once.

Invariant: a line belongs to the chunk in which it was written last, or to none. A chunk to which no line belongs any
more is dropped, so what is persisted is at most what came in the epochs of which something is left.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable

import numpy as np
import numpy.typing as npt

from slackwater.core.batch import Words
from slackwater.core.state import StateUpdate, decode_words, state_update

Numbers = npt.NDArray[np.int32]
FRESH = -1
"""In place of the number of a chunk: the line has to be written."""


def read(entries: Iterable[StateUpdate]) -> tuple[list[dict[str, Words]], Numbers]:
    """The columns of every persisted chunk, oldest first, and the number of the chunk of every line."""
    there = [(int(one.key), decode_words(one.value)) for one in sorted(entries, key=_number) if one.value]
    chunks = [columns for _, columns in there]
    lengths = [len(next(iter(columns.values()))) for columns in chunks]
    return chunks, np.repeat(np.array([number for number, _ in there], np.int32), np.array(lengths, np.int64))


class Chunks:
    """The numbers of all chunks that are persisted."""

    def __init__(self, namespace: str) -> None:
        self._namespace = namespace
        self._known: list[int] = []
        self.next = 0
        """The number of the next chunk. It is persisted by whoever has the chunks: two workers that make the same of
        the same must write the same chunks, also where nothing is left of those before."""

    def take_over(self, keys: Iterable[str], following: int = 0) -> None:
        """Chunks that an earlier kernel has persisted, and the number of the one that follows."""
        self._known = sorted(map(int, keys))
        self.next = max(following, *(one + 1 for one in self._known)) if self._known else following

    def persisted(self, chunk: Numbers, encode: Callable[[npt.NDArray[np.intp]], bytes]) -> list[StateUpdate]:
        """What is persisted of lines in these chunks, of which none is FRESH."""
        numbers = np.unique(chunk).tolist()
        return [state_update(self._namespace, str(one), encode(np.flatnonzero(chunk == one))) for one in numbers]

    def delta(self, chunk: Numbers, encode: Callable[[npt.NDArray[np.intp]], bytes]) -> list[StateUpdate]:
        """What to persist of lines in these chunks: those that are FRESH, as `encode` writes them, become one."""
        left = set(np.unique(chunk).tolist())
        entries = [state_update(self._namespace, str(one), None) for one in self._known if one not in left]
        self._known = [one for one in self._known if one in left]
        fresh = np.flatnonzero(chunk == FRESH)
        if len(fresh):
            entries.append(state_update(self._namespace, str(self.next), encode(fresh)))
            chunk[fresh] = self.next
            self._known.append(self.next)
            self.next += 1
        return entries

    def gone(self) -> list[StateUpdate]:
        """Nothing is held any more, and nothing will be."""
        entries = [state_update(self._namespace, str(one), None) for one in self._known]
        self._known = []
        return entries


def _number(entry: StateUpdate) -> int:
    return int(entry.key)
