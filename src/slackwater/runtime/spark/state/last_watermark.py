"""The watermarks of queries after a cut, in small files of the checkpoint, for the tasks that read the next cut.

Invariant: they are hints, and results do not depend on them. The files of two cuts are kept, so that a cut that is read
again is told the same as the first time.

It costs little to import: Spark starts a process of Python for every source only to ask where it stands.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import NamedTuple

from slackwater.core.errors import SlackwaterError
from slackwater.core.time import BEFORE_ALL
from slackwater.runtime.spark.store import At, signed, store_at, verified

HINTS = "hints"
"""The folder of these files, beside the state of shards."""


class Before(NamedTuple):
    """What is known when a cut is read: how many cuts came before it, and the watermark that the shards of some queries
    have after them, by the keys of these."""

    cuts: int
    watermarks: Mapping[str, int | None]
    """None: shards want tuples, whatever their event times are."""

    def watermark(self, keys: Iterable[str]) -> int | None:
        """The lowest of these queries; where nothing is known, nothing has been late."""
        found = [self.watermarks.get(key, BEFORE_ALL) for key in keys]
        return None if None in found else min((one for one in found if one is not None), default=BEFORE_ALL)


NOTHING_KNOWN = Before(0, {})


def note_watermark(folder: At, key: str, cuts: int, watermark: int | None) -> None:
    """What will be known of a query when the next cut is read."""
    store_at(folder, HINTS).write(_file(key, cuts), signed({"cuts": cuts, "watermark": watermark}).encode())


def known_before(folder: At, cuts: int, keys: Iterable[str]) -> Before:
    """What is known of queries after so many cuts; a file that is not there, or cannot be read, tells nothing."""
    known: dict[str, int | None] = {}
    store = store_at(folder, HINTS)
    for key in keys:
        try:
            found = verified(store.read(_file(key, cuts)) or b"", key)
            if found["cuts"] == cuts:
                known[key] = found["watermark"]
        except (SlackwaterError, KeyError):
            continue
    return Before(cuts, known)


def _file(key: str, cuts: int) -> str:
    return f"{key}.{cuts % 2}.json"
