"""The latest moment of every query, for whoever asks: a scrape, a cell of a notebook.

Invariant: a query that has ended stays, with its last numbers. What a moment counts since the one before (delays) is
added up here, so that nothing is lost between two that are asked for. Any thread may write and any may read.
"""

from __future__ import annotations

import threading
from collections.abc import Mapping
from dataclasses import dataclass, replace

from slackwater.observe.delays import Buckets, added
from slackwater.observe.moment import LatencySeen, Moment


@dataclass(frozen=True)
class Standing:
    """How one query stands."""

    query: str
    running: bool
    moment: Moment | None = None
    """None before it has told anything."""
    latency: LatencySeen | None = None
    """Of the latest moment in which it emitted something."""
    delays: Buckets | None = None
    """Of all that has arrived since it is watched."""


class Board:
    """Takes moments, and says how queries stand.

    >>> board = Board()
    >>> board.expect("pairs")
    >>> [(one.query, one.running, one.moment) for one in board.standings()]
    [('pairs', True, None)]
    """

    def __init__(self) -> None:
        self._standings: dict[str, Standing] = {}
        self._lock = threading.Lock()

    def expect(self, query: str, resumed: bool = False) -> None:
        """A query runs, and has told nothing yet; `resumed`: it goes on from a checkpoint."""
        with self._lock:
            self._standings.setdefault(query, Standing(query, running=True))

    def publish(self, moment: Moment) -> None:
        """A query tells how it stands."""
        with self._lock:
            before = self._standings.get(moment.query, Standing(moment.query, running=True))
            self._standings[moment.query] = Standing(
                moment.query,
                running=not moment.ended and moment.failure is None,
                moment=moment,
                latency=moment.latency or before.latency,
                delays=added([before.delays or {}, moment.delays]),
            )

    def ended(self, query: str, failure: str | None = None) -> None:
        """A query runs no more, without having said so itself."""
        with self._lock:
            before = self._standings.get(query, Standing(query, running=True))
            moment = before.moment
            if moment is not None and failure is not None:
                moment = replace(moment, failure=failure)
            self._standings[query] = Standing(query, False, moment, before.latency, before.delays)

    def standings(self) -> list[Standing]:
        """All queries that were ever heard of, in the order of their names."""
        with self._lock:
            found: Mapping[str, Standing] = dict(self._standings)
        return [found[name] for name in sorted(found)]
