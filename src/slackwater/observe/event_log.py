"""Events of queries as lines of a log: by `logging` under the name `slackwater`, or as JSON, one object a line.

Invariant: an event is logged once. A condition that comes and goes is logged at most every QUIET seconds, and what was
logged last holds now, or held less than QUIET ago. The last line of a query says how it ended.
"""

from __future__ import annotations

import json
import logging
import os
import sys
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, replace
from datetime import UTC, datetime
from pathlib import Path
from typing import IO, Any

from slackwater.core.errors import UsageError
from slackwater.observe.events import Conditions, Event, OngoingCondition, begins_and_ends, changes, conditions
from slackwater.observe.value import QueryProgress

QUIET = 60.0
"""Seconds for which nothing more is logged of a condition that has just begun or ended."""
NAME = "slackwater"
MARK = "slackwater_event"
"""The attribute of a log record that has the event."""


@dataclass
class _OfQuery:
    """What was logged of a query."""

    before: QueryProgress | None = None
    reported: dict[tuple[str, ...], OngoingCondition] = field(default_factory=dict)
    when: dict[tuple[str, ...], float] = field(default_factory=dict)


class EventLog:
    """Takes progress, and writes the events between one value and the next."""

    def __init__(self, write: Callable[[Event], None], quiet: float = QUIET) -> None:
        self._write, self._quiet = write, quiet
        self._queries: dict[str, _OfQuery] = {}
        self._resumed: set[str] = set()

    def expect(self, query: str, resumed: bool = False, **_: Any) -> None:
        """A query will publish progress; `resumed`: it goes on from a checkpoint."""
        if resumed:
            self._resumed.add(query)

    def publish(self, progress: QueryProgress) -> None:
        """The next progress of a query."""
        mine = self._queries.setdefault(progress.query, _OfQuery())
        for event in changes(mine.before, progress, resumed=progress.query in self._resumed):
            self._write(event)
            if event.name == "restarted":
                # What holds is logged anew.
                mine.reported, mine.when = {}, {}
        now = self._steady(mine, conditions(progress), progress.time or 0.0)
        for event in begins_and_ends(mine.reported, now, progress):
            self._write(event)
        for about in mine.reported.keys() ^ now.keys():
            mine.when[about] = progress.time or 0.0
        mine.reported, mine.before = now, progress

    def ended(self, query: str, failure: str | None = None) -> None:
        """A query runs no more; if its last progress has not said so, this does."""
        mine = self._queries.get(query)
        if mine is None or mine.before is None:
            said = "the query has ended before it did anything"
            said = said if failure is None else f"the query has failed before it did anything: {failure}"
            level, name = (logging.INFO, "ended") if failure is None else (logging.ERROR, "failed")
            self._write(Event(name, query, time.time(), level, said, {"failure": failure} if failure else {}))
        elif not mine.before.over:
            self.publish(replace(mine.before, time=time.time(), over=True, failure=mine.before.failure or failure))

    def _steady(self, mine: _OfQuery, now: Conditions, at: float) -> dict[tuple[str, ...], OngoingCondition]:
        """What holds now, but what was logged a short while ago stays as it was logged."""
        steady = dict(now)
        for about in mine.reported.keys() ^ now.keys():
            if at - mine.when.get(about, float("-inf")) >= self._quiet:
                continue
            if about in mine.reported:
                steady[about] = mine.reported[about]
            else:
                del steady[about]
        return steady


class JsonFormatter(logging.Formatter):
    """A log record as one JSON object; that of an event with its numbers."""

    def format(self, record: logging.LogRecord) -> str:
        """The line, without its end."""
        event = getattr(record, MARK, None)
        if isinstance(event, Event):
            return json_line(event)
        line = {"time": _when(record.created), "level": record.levelname.lower(), "said": record.getMessage()}
        return json.dumps(line, ensure_ascii=False)


def json_line(event: Event) -> str:
    """An event as one JSON object.

    >>> print(json_line(Event("ended", "pairs", 1.5, logging.INFO, "the query has ended", {"results": 7})))
    {"time": "1970-01-01T00:00:01.500Z", "level": "info", "event": "ended", "query": "pairs", "said": "the query has \
ended", "results": 7}
    """
    content = event.as_json()
    return json.dumps({"time": _when(content.pop("at")), **content}, ensure_ascii=False, default=str)


def _when(seconds: float) -> str:
    return datetime.fromtimestamp(seconds, UTC).isoformat(timespec="milliseconds").replace("+00:00", "Z")


def by_logging(event: Event) -> None:
    """Log an event by the logger `slackwater`."""
    extra: Mapping[str, Any] = {MARK: event}
    logging.getLogger(NAME).log(event.level, "query %s: %s", event.query, event.said, extra=extra)


def event_writer(to: str | os.PathLike[str] | IO[str] | None) -> Callable[[Event], None]:
    """Where events go: to the logger `slackwater` (None), to a text stream, or to the end of a file, as JSON lines.

    A file is opened for every line, so that it can be moved away and rotated by others.
    """
    if to is None:
        return by_logging
    if not isinstance(to, str | os.PathLike):
        stream = to

        def write(event: Event) -> None:
            stream.write(json_line(event) + "\n")
            stream.flush()

        return write
    path = Path(to)

    def append(event: Event) -> None:
        try:
            with path.open("a", encoding="utf-8") as file:
                file.write(json_line(event) + "\n")
        except OSError as error:
            # A log that cannot be written must not end the query that it reports on.
            print(f"slackwater: {path} cannot be written: {error.strerror or error}", file=sys.stderr)

    try:
        path.open("a", encoding="utf-8").close()
    except OSError as error:
        why = error.strerror or error
        raise UsageError(f"the log {path} cannot be written: {why}; name a file in a folder that is there") from None
    return append
