"""Named arrays as entries of persisted state, written only where they changed.

Invariant: what `snapshot_delta` has given so far, applied in order, is exactly the arrays of its last call; so an array
that did not change is not written again, and one that is gone is dropped. `restore` may be given all entries or those
that changed since: it puts them on top of what is known, and gives all arrays.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from typing import Any

import numpy as np
import numpy.typing as npt

from slackwater.core.state import StateUpdate, decode_array, encode_array, state_update

Array = npt.NDArray[Any]


class ArrayCheckpoint:
    """The arrays of one namespace, as they were last persisted.

    >>> kept = ArrayCheckpoint("ledger")
    >>> [entry.key for entry in kept.snapshot_delta({"a": np.zeros(3), "b": np.ones(2)})]
    ['a', 'b']
    >>> [(entry.key, entry.value is None) for entry in kept.snapshot_delta({"a": np.zeros(3)})]
    [('b', True)]
    """

    def __init__(self, namespace: str) -> None:
        self._namespace = namespace
        self._known: dict[str, Array] = {}

    def snapshot_delta(self, arrays: Mapping[str, Array]) -> Iterator[StateUpdate]:
        """What to write, now that the arrays are these."""
        for name in [name for name in self._known if name not in arrays]:
            del self._known[name]
            yield state_update(self._namespace, name, None)
        for name, array in arrays.items():
            if name in self._known and _same(self._known[name], array):
                continue
            self._known[name] = np.array(array)
            # The shape goes with the value: under one key there is one array, whatever its size.
            yield state_update(self._namespace, name, encode_array(array))

    def restore(self, entries: Iterable[StateUpdate]) -> dict[str, Array]:
        """All arrays, with these entries applied."""
        for entry in entries:
            if entry.value is None:
                self._known.pop(entry.key, None)
            else:
                self._known[entry.key] = decode_array(entry.value)
        return dict(self._known)


def _same(before: Array, now: Array) -> bool:
    """Whether two arrays have the same bits."""
    return before.dtype == now.dtype and before.shape == now.shape and before.tobytes() == now.tobytes()
