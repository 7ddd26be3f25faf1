"""The history of a run as a file of JSON lines, which can be looked at when the run is over.

A line is a query with its plan, or the progress of one. The file is appended to; when it has grown to twice what is
remembered it is written anew, thinned, beside itself and put in its place.

Invariant: its size is bounded however long the run is. A file that was cut off, or has a line that is none, gives every
line that is whole.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import IO, Any

from slackwater.core.errors import DataError
from slackwater.core.files import write_whole
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
        """A query, before its progress."""
        self._write(_query_line(name, plan))

    def add(self, progress: QueryProgress) -> None:
        """The next progress of a query."""
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
        """Nothing more comes."""
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
