"""What of a query is worth a line in a log, by its progress at two times, one after the other; and the log: by
`logging` under the name `slackwater`, or as JSON, one object a line.

A *condition* is something that holds of a query for a while: its target is missed, a stream is idle. Its begin and its
end are events; that it still holds is none.

Invariant: `events_between` is a pure function. The same two values give the same events, and a value beside itself
gives none. Every event has a name, a level, a sentence, and its numbers as plain data, and is logged once. A condition
that comes and goes is logged at most every QUIET seconds, and what was logged last holds now, or held less than QUIET
ago. The last line of a query says how it ended.
"""

from __future__ import annotations

import json
import logging
import os
import sys
import time
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field, replace
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import IO, Any

from slackwater.core.errors import UsageError
from slackwater.core.time import MILLISECOND
from slackwater.observe.value import QueryProgress

MOSTLY_REJECTED = 0.5
"""A stream is reported when more of its rows than this are rejected, since it began."""
FEWEST_ROWS = 20
"""Of fewer rows nothing is said."""


@dataclass(frozen=True)
class Event:
    """One line of a log."""

    name: str
    query: str
    at: float
    """Seconds since 1970 by the wall."""
    level: int
    said: str
    numbers: Mapping[str, Any] = field(default_factory=dict)

    def as_json(self) -> dict[str, Any]:
        return {
            "at": self.at,
            "level": logging.getLevelName(self.level).lower(),
            "event": self.name,
            "query": self.query,
            "said": self.said,
            **self.numbers,
        }


@dataclass(frozen=True)
class OngoingCondition:
    """Something that holds of a query for a while: how its begin and its end are reported."""

    begins: str
    ends: str
    level: int
    said: str
    said_at_end: str
    numbers: Mapping[str, Any] = field(default_factory=dict)


Conditions = Mapping[tuple[str, ...], OngoingCondition]
"""By what each is about, such as ("idle", "clicks")."""


def events_between(before: QueryProgress | None, after: QueryProgress, resumed: bool = False) -> list[Event]:
    """What has happened to a query between its progress at two times; before the first there is None.

    `resumed` says of the first that the query goes on from a checkpoint.
    """
    begun = {} if before is None else conditions(before)
    return [*changes(before, after, resumed), *begins_and_ends(begun, conditions(after), after)]


def changes(before: QueryProgress | None, after: QueryProgress, resumed: bool = False) -> list[Event]:
    """What happens at once: started, restarted, another target, paused, ended, failed."""
    return list(_changes(before, after, resumed))


def _changes(before: QueryProgress | None, after: QueryProgress, resumed: bool) -> Iterator[Event]:
    def event(name: str, said: str, level: int = logging.INFO, **numbers: Any) -> Event:
        return Event(name, after.query, after.time or 0.0, level, said, numbers)

    if before is None and not resumed:
        yield event("started", f"the query runs WITH {after.target}", target=after.target)
    elif before is None or _begun_anew(before, after):
        said = f"the query goes on WITH {after.target} after {after.batch:,} micro-batches"
        yield event("restarted", said, target=after.target, batch=after.batch)
    elif before.target != after.target:
        said = f"the target is {after.target}; it was {before.target}"
        yield event("target_changed", said, target=after.target, target_before=before.target)
    was_paused = before is not None and before.paused
    if after.paused != was_paused:
        yield event("paused", "the query is paused") if after.paused else event("resumed", "the query goes on")
    if after.failure is not None and (before is None or before.failure is None):
        yield event("failed", f"the query has failed: {after.failure}", logging.ERROR, failure=after.failure)
    elif after.ended and not (before is not None and before.ended) and after.failure is None:
        amended = {} if after.amends is None else {"amended": after.amended}
        rows = f"{after.results:,} results" + (f", {after.amended:,} {after.amends}" if amended else "")
        said = f"the query has ended with {rows}; {after.late:,} tuples were late"
        yield event("ended", said, results=after.results, late=after.late, in_time=after.in_time, **amended)


def _begun_anew(before: QueryProgress, after: QueryProgress) -> bool:
    """Whether the query was started again between the two."""
    over = before.ended or before.failure is not None
    return (over and not after.ended and after.failure is None) or after.batch < before.batch


def begins_and_ends(before: Conditions, now: Conditions, progress: QueryProgress) -> list[Event]:
    """The conditions that hold now and did not before, and those that hold no more; of a query that is over, none
    ends."""
    found = [
        Event(one.begins, progress.query, progress.time or 0.0, one.level, one.said, one.numbers)
        for about, one in now.items()
        if about not in before
    ]
    if progress.ended or progress.failure is not None:
        return found
    return found + [
        Event(one.ends, progress.query, progress.time or 0.0, logging.INFO, one.said_at_end, _subject(one))
        for about, one in before.items()
        if about not in now
    ]


def _subject(one: OngoingCondition) -> dict[str, Any]:
    """What a condition is about, without the numbers that held when it began."""
    return {name: one.numbers[name] for name in ("stream", "part") if name in one.numbers}


def conditions(progress: QueryProgress) -> dict[tuple[str, ...], OngoingCondition]:
    """All that holds of a query now and is worth reporting."""
    return dict(_conditions(progress))


def _conditions(progress: QueryProgress) -> Iterator[tuple[tuple[str, ...], OngoingCondition]]:
    seen = progress.quality
    if seen is not None and seen.latest is not None and seen.latest < seen.target:
        said = (
            f"the latest period reached {seen.latest:.2%} of all {seen.of}, and the target asks for {seen.target:.2%}"
        )
        numbers = {"of": seen.of, "latest": seen.latest, "target_share": seen.target, "slack_ms": _ms(progress.slack)}
        yield ("target",), _warning("target_missed", "target_met_again", said, "the target is met again", **numbers)
    outlook = progress.outlook
    if outlook is not None and outlook.said is not None:
        numbers = {"cap_ms": _ms(outlook.cap), "needed_ms": _ms(outlook.needed), "reached": outlook.reached}
        end = "the target can be met again"
        yield ("cap",), _warning("target_unreachable", "target_reachable_again", outlook.said, end, **numbers)
    for name, one in progress.streams.items():
        if one.idle:
            said, end = f"stream {name} is idle: the query does not wait for it", f"stream {name} is not idle any more"
            yield ("idle", name), _warning("stream_idle", "stream_back", said, end, stream=name)
        rejected = sum(one.rejected.values())
        if rejected >= FEWEST_ROWS and one.rows and rejected > MOSTLY_REJECTED * one.rows:
            said = f"{rejected:,} of {one.rows:,} rows of stream {name} are rejected: {_reasons(one.rejected)}"
            end = f"most rows of stream {name} are no longer rejected"
            numbers = {"stream": name, "rows": one.rows, "rejected": dict(one.rejected)}
            yield ("rejected", name), _warning("rows_rejected", "rows_accepted", said, end, **numbers)
    for wrong in progress.wrong_clocks:
        stream, part = wrong.stream, wrong.part
        said = f"{wrong}; {wrong.remedy}"
        end = f"the clock of part {part} of stream {stream} is right again"
        numbers = {"stream": stream, "part": part, "ahead_ms": wrong.ahead / MILLISECOND}
        yield ("clock", stream, str(part)), _warning("clock_isolated", "clock_right_again", said, end, **numbers)
    for lags in progress.lagging:
        said, end = f"{lags}; {lags.remedy}", f"part {lags.part} of stream {lags.stream} is no longer far behind"
        numbers = {"stream": lags.stream, "part": lags.part, "behind_ms": -lags.ahead / MILLISECOND}
        yield ("lags", lags.stream, str(lags.part)), _warning("partition_lags", "partition_back", said, end, **numbers)


def _warning(begins: str, ends: str, said: str, said_at_end: str, **numbers: Any) -> OngoingCondition:
    return OngoingCondition(begins, ends, logging.WARNING, said, said_at_end, numbers)


def _ms(duration: timedelta | None) -> float | None:
    return None if duration is None else duration / timedelta(milliseconds=1)


def _reasons(rejected: Mapping[str, int]) -> str:
    return ", ".join(f"{count:,} {reason}" for reason, count in rejected.items())


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
