"""The latest progress of every query, for a scrape.

Invariant: a query that has ended stays, with its last numbers. What is counted since the progress before (delays) is
added up here, so that nothing is lost between two scrapes. Any thread may write and any may read.
"""

from __future__ import annotations

import threading
from dataclasses import dataclass, replace
from typing import Any

from slackwater.observe.value import Latency, QueryProgress


@dataclass(frozen=True)
class QueryStatus:
    """One query at a scrape."""

    query: str
    running: bool = True
    progress: QueryProgress | None = None
    """With the delays of all that has arrived since it is followed; None before it has reported anything."""
    latency: Latency | None = None
    """Of the latest progress in which something was emitted."""


class LatestProgress:
    """Takes progress, and gives the status of queries.

    >>> latest = LatestProgress()
    >>> latest.expect("pairs")
    >>> latest.statuses()
    [QueryStatus(query='pairs', running=True, progress=None, latency=None)]
    """

    def __init__(self) -> None:
        self._statuses: dict[str, QueryStatus] = {}
        self._lock = threading.Lock()

    def expect(self, query: str, **_: Any) -> None:
        """A query runs, and has reported nothing yet."""
        with self._lock:
            self._statuses.setdefault(query, QueryStatus(query))

    def publish(self, progress: QueryProgress) -> None:
        """The next progress of a query."""
        with self._lock:
            before = self._statuses.get(progress.query, QueryStatus(progress.query))
            self._statuses[progress.query] = QueryStatus(
                progress.query,
                running=not progress.ended and progress.failure is None,
                progress=progress if before.progress is None else progress.after(before.progress),
                latency=progress.latency or before.latency,
            )

    def ended(self, query: str, failure: str | None = None) -> None:
        """A query runs no more, without having reported it itself."""
        with self._lock:
            before = self._statuses.get(query, QueryStatus(query))
            progress = before.progress
            if progress is not None and failure is not None:
                progress = replace(progress, failure=failure)
            self._statuses[query] = replace(before, running=False, progress=progress)

    def statuses(self) -> list[QueryStatus]:
        """All queries that have ever reported, in the order of their names."""
        with self._lock:
            return [self._statuses[name] for name in sorted(self._statuses)]
