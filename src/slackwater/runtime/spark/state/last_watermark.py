"""The watermark after a cut, in a small file of the checkpoint, for the tasks that read the next cut.

Invariant: it is a hint, and results do not depend on it. The files of two cuts are kept, so that a cut that is read
again is told the same as the first time.

It costs little to import: Spark starts a process of Python for every source only to ask where it stands.
"""

from __future__ import annotations

from typing import NamedTuple

from slackwater.core.errors import SlackwaterError
from slackwater.core.time import BEFORE_ALL
from slackwater.runtime.spark.store import At, signed, store_at, verified


class Before(NamedTuple):
    """What is known when a cut is read: how many cuts came before it, and the watermark that shards have after them."""

    cuts: int
    watermark: int | None
    """None: shards want tuples, whatever their event times are."""


NOTHING_KNOWN = Before(0, BEFORE_ALL)


def note_watermark(folder: At, now: Before) -> None:
    """What will be known when the next cut is read."""
    store_at(folder).write(_file(now.cuts), signed(now._asdict()).encode())


def known_before(folder: At, cuts: int) -> Before:
    """What is known after so many cuts; where nothing is, or it cannot be read, nothing has been late."""
    try:
        found = Before(**verified(store_at(folder).read(_file(cuts)) or b"", folder))
    except (SlackwaterError, TypeError):
        return Before(cuts, BEFORE_ALL)
    return found if found.cuts == cuts else Before(cuts, BEFORE_ALL)


def _file(cuts: int) -> str:
    return f"watermark.{cuts % 2}.json"
