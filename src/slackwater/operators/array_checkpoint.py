"""Named arrays as entries of persisted state, written only where they changed.

Invariant: what `snapshot_delta` has given so far, applied in order, is exactly the arrays of its last call; so an array
that did not change is not written again, and one that is gone is dropped. A long one is written in blocks, so that a
change in one place does not have all of it written. `restore` may be given all entries or those that changed since: it
puts them on top of what is known, and gives all arrays.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from typing import Any

import numpy as np
import numpy.typing as npt

from slackwater.core.state import StateUpdate, decode_array, encode_array, state_update

Array = npt.NDArray[Any]
BLOCK = 256
"""Items of a block, or of a row where it has more."""


class ArrayCheckpoint:
    """The arrays of one namespace, as they were last persisted.

    >>> kept = ArrayCheckpoint("ledger")
    >>> [entry.key for entry in kept.snapshot_delta({"a": np.zeros(3), "b": np.ones(2), "c": np.zeros(600)})]
    ['a', 'b', 'c', 'c@256', 'c@512']
    >>> later = {"a": np.zeros(3), "c": np.append(np.zeros(256), 1)}
    >>> [(entry.key, entry.value is None) for entry in kept.snapshot_delta(later)]
    [('b', True), ('c@512', True), ('c@256', False)]
    """

    def __init__(self, namespace: str) -> None:
        self._namespace = namespace
        self._known: dict[str, Array] = {}

    def snapshot_delta(self, arrays: Mapping[str, Array]) -> Iterator[StateUpdate]:
        """What to write, now that the arrays are these."""
        for name in [name for name in self._known if name not in arrays]:
            yield from self._dropped(name, _blocks(self._known.pop(name)))
        for name, array in arrays.items():
            before = self._known.get(name)
            if before is not None and _same(before, array):
                continue
            known = {} if before is None else _blocks(before)
            now = _blocks(array)
            yield from self._dropped(name, (begin for begin in known if begin not in now))
            for begin, block in now.items():
                if begin not in known or not _same(known[begin], block):
                    # The shape goes with the value: under one key there is one block, whatever its size.
                    yield state_update(self._namespace, _key(name, begin), encode_array(block))
            self._known[name] = np.array(array)

    def _dropped(self, name: str, begins: Iterable[int]) -> Iterator[StateUpdate]:
        return (state_update(self._namespace, _key(name, begin), None) for begin in begins)

    def restore(self, entries: Iterable[StateUpdate]) -> dict[str, Array]:
        """All arrays, with these entries applied."""
        found: dict[str, dict[int, Array]] = {}
        for entry in entries:
            name, _, begin = entry.key.partition("@")
            if name not in found:
                found[name] = _blocks(self._known[name]) if name in self._known else {}
            found[name].pop(int(begin or 0), None)
            if entry.value is not None:
                found[name][int(begin or 0)] = decode_array(entry.value)
        for name, blocks in found.items():
            self._known.pop(name, None)
            if blocks:
                whole = [blocks[begin] for begin in sorted(blocks)]
                self._known[name] = np.concatenate(whole) if len(whole) > 1 else whole[0]
        return dict(self._known)


def _blocks(array: Array) -> dict[int, Array]:
    """The blocks of an array, by where they begin."""
    if array.size <= BLOCK:
        return {0: array}
    rows = max(1, BLOCK * len(array) // array.size)
    return {begin: array[begin : begin + rows] for begin in range(0, len(array), rows)}


def _key(name: str, begin: int) -> str:
    return f"{name}@{begin}" if begin else name


def _same(before: Array, now: Array) -> bool:
    """Whether two arrays have the same bits."""
    return before.dtype == now.dtype and before.shape == now.shape and before.tobytes() == now.tobytes()
