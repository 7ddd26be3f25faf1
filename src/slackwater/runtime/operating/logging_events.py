"""`slackwater.log_events`: a log of what happens to running queries."""

from __future__ import annotations

import os
from typing import IO, Any

from slackwater.observe.event_log import QUIET, EventLog, event_writer
from slackwater.runtime.follow import follow


def log_events(
    query: Any,
    to: str | os.PathLike[str] | IO[str] | None = None,
    *,
    quiet: float = QUIET,
    name: str | None = None,
) -> EventLog:
    """Log what happens to a running query, or to several as {'name': query}: JSON, one object a line.

    `to` is a path, which is appended to, or a text stream; without it the logger `slackwater` of `logging` is used. An
    event is logged once. A condition that comes and goes, such as a missed target, is logged at most every `quiet`
    seconds.
    """
    log = EventLog(event_writer(to), quiet)
    follow(query, log, name)
    return log
