"""Changes of a running set that another process asks for: files in a folder of the checkpoint, each with its answer.

Who asks writes `ID.ask`, and waits for `ID.answer`. The process that runs the set takes a request by renaming it,
does what its own handle does for a program (so binding, checks and the log of control messages are the same), and
answers with what went wrong, or with nothing.

Invariant: a request is done at most once, and only while somebody may still wait for its answer. Taking it and
withdrawing it are one rename or removal each, so one of the two finds it gone. Only the process that runs the set
writes control messages.
"""

from __future__ import annotations

import os
import secrets
import threading
import time
from collections.abc import Callable
from dataclasses import asdict, dataclass
from pathlib import Path

from slackwater.core.errors import SlackwaterError, UsageError, writing
from slackwater.core.files import write_whole
from slackwater.runtime.spark.store import signed, verified

REQUESTS = "slackwater-requests"
"""The folder inside of the checkpoint."""
ADD, DROP, PAUSE, RESUME, TARGET = "add", "drop", "pause", "resume", "target"
PATIENCE = 60.0
"""Seconds after which a request that nobody has taken is withdrawn; to start a streaming query again takes some."""
POLL = 0.25
SELDOM = 40
"""After so many looks into the folder it is asked whether the set still runs, which costs more."""


@dataclass(frozen=True)
class Request:
    """One change; which fields it has depends on what it is."""

    change: str
    query: str
    text: str | None = None
    sinks: dict[str, str] | None = None
    target: str | None = None
    at_most: str | None = None


Do = Callable[[Request], None]


def ask(checkpoint: Path, request: Request, patience: float = PATIENCE) -> None:
    """Ask the process that runs a set for a change, and wait until it is made; what it refuses is raised here."""
    folder = checkpoint / REQUESTS
    # Names sort by when they were asked.
    name = f"{time.time_ns():020d}-{secrets.token_hex(4)}"
    with writing(folder):
        folder.mkdir(exist_ok=True)
    write_whole(folder / f"{name}.ask", signed(asdict(request)).encode())
    answer, deadline = folder / f"{name}.answer", time.monotonic() + patience
    taken = False
    while not answer.exists():
        if time.monotonic() > deadline:
            if taken or not _gone(folder / f"{name}.ask"):
                raise UsageError(
                    f"the set has taken the request and has not answered within {patience:g} s; `list` says what is in"
                    " force"
                )
            raise UsageError(
                f"nobody has answered within {patience:g} s, and nothing was changed: no set runs on {checkpoint}; only"
                " one that runs can be changed"
            )
        taken = not (folder / f"{name}.ask").exists()
        time.sleep(POLL / 5)
    error = verified(answer.read_text("utf-8"), answer)["error"]
    answer.unlink(missing_ok=True)
    if error is not None:
        raise UsageError(error)


class RequestInbox:
    """Takes requests in the process that runs a set, in a thread of its own, for as long as the set runs.

    `closed` says at once that it was stopped. `runs` is asked now and then, and before a request is taken: a set may
    also end by itself, and another one may run on its checkpoint then.
    """

    def __init__(self, checkpoint: Path, do: Do, closed: threading.Event, runs: Callable[[], bool]) -> None:
        self._folder, self._do, self._closed, self._runs = checkpoint / REQUESTS, do, closed, runs
        threading.Thread(target=self._serve, name="slackwater requests", daemon=True).start()

    def _serve(self) -> None:
        looked = 0
        while not self._closed.wait(POLL):
            looked += 1
            if (looked % SELDOM == 0 or self._asked()) and not self._runs():
                return
            self.take_all()

    def take_all(self) -> None:
        """Do and answer what is asked now, in the order in which it was asked."""
        for name in self._asked():
            self._take(self._folder / name)

    def _asked(self) -> list[str]:
        try:
            return sorted(name for name in os.listdir(self._folder) if name.endswith(".ask"))
        except OSError:
            # There was never a request, or the checkpoint is gone.
            return []

    def _take(self, asked: Path) -> None:
        if time.time_ns() - int(asked.name.partition("-")[0]) > PATIENCE * 1e9:
            # Who asked has gone, and did not withdraw it.
            asked.unlink(missing_ok=True)
            return
        taken = asked.with_suffix(".taken")
        try:
            os.rename(asked, taken)
        except FileNotFoundError:
            return
        error = None
        try:
            self._do(Request(**verified(taken.read_bytes(), taken)))
        except SlackwaterError as refused:
            error = str(refused)
        except Exception as failed:
            # The request is answered with the error; the set goes on.
            error = f"{type(failed).__name__}: {failed}"
        write_whole(asked.with_suffix(".answer"), signed({"error": error}).encode())
        taken.unlink(missing_ok=True)


def _gone(asked: Path) -> bool:
    """Withdraw a request; False where somebody was faster and has taken it."""
    try:
        asked.unlink()
    except FileNotFoundError:
        return False
    return True
