"""The history of queries: remembered, never more than so many values of each; and as a file of JSON lines, which can be
looked at when the run is over.

Of what is remembered the newest are all there. When there are too many, every second one of the older half goes, and
the next one takes over its arrivals: so the delays of all arrivals are always there, and after n values the oldest part
is as coarse as n asks for. A line of the file is a query with its plan, or the progress of one. The file is appended
to; when it has grown to twice what is remembered it is written anew, thinned, beside itself and put in its place.

Invariant: its size is bounded however long the run is. A file that was cut off, or has a line that is none, gives every
line that is whole.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import IO, Any

from slackwater.core.errors import DataError
from slackwater.core.files import write_whole
from slackwater.core.memory import Memory
from slackwater.observe.value import QueryProgress

NAME = "progress.jsonl"
VERSION = 2
SLACK_LINES = 64
"""Lines that a file of few values may have beyond twice those that are remembered."""


@dataclass
class RecordedHistory:
    """What a history holds."""

    queries: dict[str, Mapping[str, Any] | None] = field(default_factory=dict)
    """The plan of every query, where it is known."""
    progress: list[QueryProgress] = field(default_factory=list)
    broken: int = 0
    """Lines that could not be read."""


class HistoryFile:
    """A history that is being written."""

    def __init__(self, folder: Path) -> None:
        folder.mkdir(parents=True, exist_ok=True)
        self.path = folder / NAME
        self._file: IO[str] = self.path.open("w", encoding="utf-8")
        self._lines = 0

    def add_query(self, name: str, plan: Mapping[str, Any] | None) -> None:
        self._write(_query_line(name, plan))

    def add(self, progress: QueryProgress) -> None:
        self._write(_progress_line(progress))

    def is_full(self, remembered: int) -> bool:
        """Whether the file should be written anew."""
        return self._lines > 2 * remembered + SLACK_LINES

    def rewrite(self, queries: Mapping[str, Mapping[str, Any] | None], progress: Iterable[QueryProgress]) -> None:
        """Put what is remembered in the place of what was written."""
        lines = [_query_line(name, plan) for name, plan in queries.items()]
        lines += map(_progress_line, progress)
        self._file.close()
        write_whole(self.path, "".join(lines).encode())
        self._file = self.path.open("a", encoding="utf-8")
        self._lines = len(lines)

    def _write(self, line: str) -> None:
        self._file.write(line)
        self._file.flush()
        self._lines += 1

    def close(self) -> None:
        self._file.close()


def _query_line(name: str, plan: Mapping[str, Any] | None) -> str:
    return json.dumps({"version": VERSION, "query": name, "plan": plan}) + "\n"


def _progress_line(progress: QueryProgress) -> str:
    return json.dumps({"progress": progress.as_json()}, separators=(",", ":")) + "\n"


def read_history(given: Path) -> RecordedHistory:
    """The history of a run, given its folder or the file itself."""
    path = given / NAME if given.is_dir() else given
    if not path.is_file():
        raise DataError(f"{given}: there is no {NAME}; a run with --page writes one into its --out folder")
    found = RecordedHistory()
    with path.open("rb") as file:
        for line in file:
            try:
                _take(found, json.loads(line), path)
            except (ValueError, TypeError, KeyError, AttributeError):
                # A run that was cut off leaves half a line; all others are whole.
                found.broken += 1
    if not found.progress:
        raise DataError(f"{path}: it has no progress of a query that can be read")
    return found


def _take(found: RecordedHistory, line: Mapping[str, Any], path: Path) -> None:
    if "progress" in line:
        progress = QueryProgress.of_json(line["progress"])
        found.queries.setdefault(progress.query, None)
        found.progress.append(progress)
    elif line["version"] == VERSION:
        found.queries[str(line["query"])] = line["plan"]
    else:
        raise DataError(f"{path}: another version of slackwater wrote this history; run the query again with --page")


MOST = 600


def without_present(progress: QueryProgress) -> QueryProgress:
    """Without what is shown of the latest progress alone."""
    streams = {name: replace(one, samples=(), parts={}) for name, one in progress.streams.items()}
    known = progress.observed.memory
    observed = replace(progress.observed, memory=None if known is None else Memory(known.query))
    return replace(progress, trade_off=None, streams=streams, wrong_clocks=(), lagging=(), observed=observed, shards=())


class Thinned:
    """A bounded history of one query.

    >>> from slackwater.observe.value import nothing_observed
    >>> seen = Thinned(most=4)
    >>> for batch in range(1, 7):
    ...     seen.add(QueryProgress(observed=nothing_observed(1), batch=batch, delays={"s": [(0, 1)]}))
    >>> [(one.batch, one.delays["s"][0][1]) for one in seen]
    [(3, 3), (4, 1), (5, 1), (6, 1)]
    """

    def __init__(self, most: int = MOST) -> None:
        self._most = max(4, most)
        self._all: list[QueryProgress] = []

    def add(self, progress: QueryProgress) -> None:
        if len(self._all) >= self._most:
            self._thin()
        if self._all:
            self._all[-1] = without_present(self._all[-1])
        self._all.append(progress)

    def _thin(self) -> None:
        # An even number, so that none is without its partner.
        half = self._most // 4 * 2
        older, newer = self._all[:half], self._all[half:]
        self._all = [second.after(first) for first, second in zip(older[::2], older[1::2], strict=True)] + newer

    def __len__(self) -> int:
        return len(self._all)

    def __iter__(self) -> Iterator[QueryProgress]:
        return iter(self._all)

    @property
    def latest(self) -> QueryProgress | None:
        return self._all[-1] if self._all else None
