"""What Spark's state store keeps of one shard: its entries, and a log of which entries every epoch touched.

Invariant: two marks are equal only if the state behind them is: a mark is made anew by every write, so a shard that a
failed attempt left behind is never taken for an up-to-date one. The log reaches back `REMEMBERED` epochs.
"""

from __future__ import annotations

import json
import secrets
from collections.abc import Iterable
from typing import Any, NamedTuple

from slackwater.core.state import StateUpdate

FORMAT = 2
REMEMBERED = 64


class Mark(NamedTuple):
    """A moment in the life of a shard: how many epochs were written, and the name of the last write."""

    epoch: int
    name: str


class ShardStore:
    """The state variables of one key of the stateful operator."""

    def __init__(self, handle: Any) -> None:
        self._entries = handle.getMapState("entries", "cell string, key string", "value binary")
        self._log = handle.getMapState("log", "epoch long", "name string, places string")
        self._mark = handle.getValueState("mark", "format int, epoch long, name string")
        self._read = self._written = 0

    def mark(self) -> Mark | None:
        """Where the shard stands; None before its first epoch."""
        found = self._mark.get()
        if found is None:
            return None
        form, epoch, name = found
        if form != FORMAT:
            raise ValueError(
                f"the checkpoint has state of format {form}, and this version of slackwater reads format {FORMAT};"
                " go on with the version that wrote it, or use a new checkpoint folder"
            )
        return Mark(int(epoch), str(name))

    def everything(self) -> list[StateUpdate]:
        """All entries, for a worker that does not know the shard."""
        return [
            self._came(StateUpdate(namespace, key, bytes(value)))
            for (namespace, key), (value,) in self._entries.iterator()
        ]

    def between(self, then: Mark, now: Mark) -> list[StateUpdate] | None:
        """What was written or dropped after a mark, as it is now; None where the log cannot tell."""
        if then == now:
            return []
        if then.epoch >= now.epoch or self._name_of(then.epoch) != then.name:
            return None
        touched: dict[tuple[str, str], None] = {}
        for epoch in range(then.epoch + 1, now.epoch + 1):
            touched |= dict.fromkeys((namespace, key) for namespace, key in json.loads(self._log.getValue((epoch,))[1]))
        return [self._came(StateUpdate(*place, self._value(place))) for place in touched]

    def _name_of(self, epoch: int) -> str | None:
        return str(self._log.getValue((epoch,))[0]) if self._log.containsKey((epoch,)) else None

    def _value(self, place: tuple[str, str]) -> bytes | None:
        found = self._entries.getValue(place)
        return None if found is None else bytes(found[0])

    def _came(self, change: StateUpdate) -> StateUpdate:
        self._read += len(change.value or b"")
        return change

    def write(self, before: Mark | None, snapshot_delta: Iterable[StateUpdate]) -> Mark:
        """Persist the epoch that follows a mark."""
        mark = Mark(1 if before is None else before.epoch + 1, secrets.token_hex(8))
        places = []
        for change in snapshot_delta:
            place = (change.namespace, change.key)
            places.append(place)
            if change.value is not None:
                self._entries.updateValue(place, (change.value,))
                self._written += len(change.value)
            elif self._entries.containsKey(place):
                self._entries.removeKey(place)
        self._log.updateValue((mark.epoch,), (mark.name, json.dumps(places)))
        if self._log.containsKey((mark.epoch - REMEMBERED,)):
            self._log.removeKey((mark.epoch - REMEMBERED,))
        self._mark.update((FORMAT, *mark))
        return mark

    def traffic(self) -> dict[str, int]:
        """Bytes of state read and written since the last call."""
        reported = {"state_read": self._read, "state_written": self._written}
        self._read = self._written = 0
        return reported
