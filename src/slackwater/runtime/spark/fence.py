"""One driver on a checkpoint: who starts a query leaves a note, and who finds a later note than its own stops.

Two drivers on one checkpoint would plan different micro-batches under one number. A note is a file whose number is one
more than that of the last. It is created only where there is none of that name, so of two who start at the same time
one has the later note. A driver whose note is the last one, whose process lives on this machine, and whose query has
not ended is not replaced: the second start is refused. Of other machines that cannot be known, since a driver that has
died leaves its note. There the second start goes on, and the first driver stops with its next micro-batch.

Invariant: only the driver with the last note begins a micro-batch.
"""

from __future__ import annotations

import os
import secrets
import socket
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any

from pyspark.sql import DataFrame
from pyspark.sql.streaming.query import StreamingQuery
from pyspark.sql.streaming.readwriter import DataStreamWriter

from slackwater.core.errors import SlackwaterError, UsageError
from slackwater.runtime.spark.store import Listed, Store, signed, verified

SOON = 10.0
"""Seconds in which two that write a note of one name on a store that cannot refuse the second have done so."""
OWNERS = "owners"
"""The folder of notes, beside the state of shards."""


class Fence:
    """The notes of one checkpoint, as one driver writes and checks them; without a store there are none."""

    def __init__(self, store: Store | None) -> None:
        self._store = store
        self._name = secrets.token_hex(8)
        """Tells the note from one of the same number, which a store that cannot promise otherwise may have let in."""
        self._mine: str | None = None
        self._known: tuple[float, Listed] | None = None
        """The note as it was found to be its own, and when that was."""

    @contextmanager
    def held(self) -> Iterator[None]:
        """Inside, a query is made ready; where that fails, others may start."""
        self.take()
        try:
            yield
        except BaseException:
            self.release()
            raise

    def started(self, writer: DataStreamWriter) -> StreamingQuery:
        """Start what a writer describes, as the one driver on its checkpoint."""
        with self.held():
            query = writer.start()
        self._release_after(query)
        return query

    def guarding(self, each: Callable[[DataFrame, int], None]) -> Callable[[DataFrame, int], None]:
        """What takes the rows of a micro-batch, as long as no other driver has started."""

        def take(frame: DataFrame, number: int) -> None:
            self.check()
            each(frame, number)

        return take

    def take(self) -> None:
        """Write the last note; refused while a process of this machine runs the query."""
        while self._store is not None:
            names = self._store.names(OWNERS)
            last = self._note(names[-1]) if names else {}
            if last.get("runs") and last["process"] != this_process() and _lives(last["process"]):
                raise UsageError(
                    f"{self._store.root}: {_shown(last)} runs a query from this checkpoint; stop it first, or use"
                    " another checkpoint folder"
                )
            number = int(names[-1].partition(".")[0]) + 1 if names else 1
            mine = f"{number:010d}.json"
            if self._store.create(f"{OWNERS}/{mine}", _written(self._name, runs=True)):
                self._mine = mine
                # The last one before says to a driver that still runs who has followed it.
                for name in names[:-1]:
                    self._store.remove(f"{OWNERS}/{name}")
                return

    def check(self) -> None:
        """Refuse to go on where another driver has started since."""
        if self._store is None or self._mine is None:
            return
        listed = max(self._store.listed(OWNERS), default=None)
        now = time.monotonic()
        if self._known is not None and listed == self._known[1] and now > self._known[0]:
            return
        note = self._note(listed.name) if listed else {}
        if listed is not None and listed.name == self._mine and note.get("name") == self._name:
            # Times of files may be those of seconds: a note that is as old as this one was written soon.
            if self._known is None or listed != self._known[1]:
                self._known = now + SOON, listed
        else:
            by = _shown(note)
            raise SlackwaterError(
                f"{self._store.root}: {by} has started a query from this checkpoint, so this one stops; only one driver"
                " may run on a checkpoint"
            )

    def _release_after(self, query: StreamingQuery) -> None:
        """Release the checkpoint as soon as a query has ended."""
        mine = self._mine

        def wait() -> None:
            # Those who wait for the query learn why it has ended.
            with suppress(Exception):
                query.awaitTermination()
            if mine is not None and self._mine == mine:
                self.release()

        threading.Thread(target=wait, name="slackwater fence", daemon=True).start()

    def release(self) -> None:
        """Record that the query has ended."""
        if self._store is not None and self._mine in self._store.names(OWNERS):
            self._store.write(f"{OWNERS}/{self._mine}", _written(self._name, runs=False))

    def _note(self, name: str) -> dict[str, Any]:
        assert self._store is not None
        content = self._store.read(f"{OWNERS}/{name}")
        return {} if content is None else verified(content, self._store.path(f"{OWNERS}/{name}"))


def has_ended(state: Store) -> bool:
    """Whether the driver that ran last on a checkpoint is known to run no more; of another machine's it is not."""
    names = state.names(OWNERS)
    if not names:
        return False
    path = f"{OWNERS}/{names[-1]}"
    note = verified(state.read(path) or b"", state.path(path))
    process = note["process"]
    return not note["runs"] or (process["host"] == socket.gethostname() and not _lives(process))


def _written(name: str, runs: bool) -> bytes:
    return signed({"name": name, "process": this_process(), "runs": runs}).encode()


def this_process() -> dict[str, Any]:
    """What tells this process from any other, also from a later one with its number."""
    return {"host": socket.gethostname(), "boot": _boot(), "pid": os.getpid(), "began": _began(os.getpid())}


def _lives(process: dict[str, Any]) -> bool:
    """Whether a process is one of this machine and has not ended."""
    here = process["host"] == socket.gethostname() and process["boot"] == _boot()
    return here and process["began"] is not None and process["began"] == _began(process["pid"])


def _boot() -> str | None:
    try:
        return Path("/proc/sys/kernel/random/boot_id").read_text().strip()
    except OSError:
        return None


def _began(pid: int) -> int | None:
    """When a process of this machine began, in ticks since the machine did; None where there is none."""
    try:
        state, *fields = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
    except OSError:
        return None
    return None if state == "Z" else int(fields[18])


def _shown(note: dict[str, Any]) -> str:
    process = note.get("process", {})
    return f"process {process.get('pid', '?')} on {process.get('host', 'another machine')}"
