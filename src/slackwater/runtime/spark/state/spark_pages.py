"""Pages in Spark's state store: a map state for the pages, and a value state that says where the shard stands.

Invariant: Spark commits both with the micro-batch, or neither.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from slackwater.runtime.spark.state.pages import FORMAT, Mark, Number, check_format


class SparkPages:
    """The state variables of one key of the stateful operator."""

    def __init__(self, handle: Any) -> None:
        self._pages = handle.getMapState("pages", "epoch long, part int", "value binary")
        self._mark = handle.getValueState("mark", "format int, epoch long, name string")

    def mark(self) -> Mark | None:
        """Where the shard stands; None before its first epoch."""
        found = self._mark.get()
        if found is None:
            return None
        form, epoch, name = found
        check_format(int(form))
        return Mark(int(epoch), str(name))

    def next_epoch(self, before: Mark | None) -> int:
        """Epochs are counted from one."""
        return 1 if before is None else before.epoch + 1

    def all(self) -> Iterator[tuple[Number, bytes]]:
        """All pages."""
        for (epoch, part), (value,) in self._pages.iterator():
            yield (int(epoch), int(part)), bytes(value)

    def get(self, number: Number) -> bytes | None:
        """One page."""
        found = self._pages.getValue(number)
        return None if found is None else bytes(found[0])

    def has(self, number: Number) -> bool:
        """Whether there is a page."""
        return bool(self._pages.containsKey(number))

    def put(self, number: Number, value: bytes) -> None:
        """Add a page."""
        self._pages.updateValue(number, (value,))

    def drop(self, number: Number) -> None:
        """Let go of a page."""
        self._pages.removeKey(number)

    def commit(self, mark: Mark, oldest: int) -> None:
        """Say where the shard stands."""
        self._mark.update((FORMAT, *mark))
