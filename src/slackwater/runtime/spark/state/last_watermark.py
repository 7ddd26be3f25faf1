"""The watermark after a cut, in a small file of the checkpoint, for the tasks that read the next cut.

Invariant: it is a hint, and results do not depend on it. The files of two cuts are kept, so that a cut that is read
again is told the same as the first time.

It costs little to import: Spark starts a process of Python for every source only to ask where it stands.
"""

from __future__ import annotations

import json
import os
from pathlib import Path
from typing import NamedTuple

from slackwater.core.time import BEFORE_ALL


class Before(NamedTuple):
    """What is known when a cut is read: how many cuts came before it, and the watermark that shards have after them."""

    cuts: int
    watermark: int | None
    """None: shards want tuples, whatever their event times are."""


NOTHING_KNOWN = Before(0, BEFORE_ALL)


def note_watermark(folder: str, now: Before) -> None:
    """What will be known when the next cut is read."""
    file = _file(folder, now.cuts)
    hidden = file.with_name(f".{file.name}.{os.getpid()}")
    hidden.write_text(json.dumps(now._asdict()))
    hidden.replace(file)


def known_before(folder: str, cuts: int) -> Before:
    """What is known after so many cuts; where nothing is, nothing has been late."""
    try:
        found = Before(**json.loads(_file(folder, cuts).read_text()))
    except (OSError, ValueError, TypeError):
        return Before(cuts, BEFORE_ALL)
    return found if found.cuts == cuts else Before(cuts, BEFORE_ALL)


def _file(folder: str, cuts: int) -> Path:
    return Path(folder, f"watermark.{cuts % 2}.json")
