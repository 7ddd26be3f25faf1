"""Ctrl-C on a run: the first one asks it to end with a report, a second one ends the process.

Invariant: a run is never cut off in the middle of a batch by a first Ctrl-C, wherever it arrives: in the kernel, while
rows are written, or while the bar is drawn.
"""

from __future__ import annotations

import signal
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from types import FrameType

from slackwater.runtime.recorded import RecordedRun


@contextmanager
def interruptible(run: RecordedRun) -> Iterator[None]:
    """While inside, SIGINT interrupts the run instead of raising KeyboardInterrupt."""
    if threading.current_thread() is not threading.main_thread():
        # Only the main thread may set handlers, and only it is sent signals.
        yield
        return

    def ask(number: int, frame: FrameType | None) -> None:
        run.interrupt()
        signal.signal(signal.SIGINT, signal.default_int_handler)

    before = signal.signal(signal.SIGINT, ask)
    try:
        yield
    finally:
        signal.signal(signal.SIGINT, before)
