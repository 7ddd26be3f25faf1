"""Following queries: whatever runs, in this process or on Spark, its moments reach whoever wants them.

Invariant: who follows can never end a query. What it raises is told once, and it hears nothing more.
"""

from __future__ import annotations

import warnings
from collections.abc import Callable, Mapping
from dataclasses import replace
from typing import Any, Protocol, Self

from slackwater.core.errors import UsageError
from slackwater.observe.moment import Moment
from slackwater.runtime.local.live_watching import Hearing
from slackwater.runtime.watch import followed
from slackwater.runtime.watching import EVERY, Publish

UNNAMED = "query"


class Reader(Protocol):
    """Who wants to know how queries stand: a board, a log, a view."""

    def expect(self, query: str, resumed: bool = False) -> None:
        """A query will tell of itself; `resumed`: it goes on from a checkpoint."""

    def publish(self, moment: Moment) -> None:
        """It tells how it stands."""

    def ended(self, query: str, failure: str | None = None) -> None:
        """It runs no more; it may have said so itself, and may never have told anything."""


class Following:
    """Queries that are followed, until it is stopped."""

    def __init__(self, stops: list[Callable[[], None]], look: list[Callable[[], None]]) -> None:
        self._stops, self._looks = stops, look

    def look(self) -> None:
        """See which queries were dropped from their sets meanwhile."""
        for one in self._looks:
            one()

    def stop(self) -> None:
        """Follow them no longer."""
        for stop in self._stops:
            stop()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: Any) -> None:
        self.stop()


def follow(queries: Any, reader: Reader, name: str | None = None, every: float = EVERY) -> Following:
    """Tell a reader of a query, or of several by name, from now on.

    A query goes by `name`, by the name that Spark knows it by, or is called 'query'. A set has names of its own. Of a
    query that rows are pushed into there is a moment `every` so many seconds, or, with 0, at every push.
    """
    given = queries if isinstance(queries, Mapping) else {name: queries}
    if not given:
        raise UsageError("no query was given; pass a running query, or several as {'name': query}")
    stops, looks = [], []
    for called, query in given.items():
        if hasattr(query, "watch"):
            stops.append(_pushed(query, reader, str(called or UNNAMED), every))
        else:
            asked = _Asked(query, reader, None if called is None or hasattr(query, "names") else str(called))
            hub: Any = asked
            stops.append(followed(query)(hub).stop)
            looks.append(asked.look)
    return Following(stops, looks)


def _pushed(query: Any, reader: Reader, name: str, every: float) -> Callable[[], None]:
    """Follow a query that hands over its moments itself."""
    reader.expect(name)
    hearing = Hearing(harmless(reader.publish))
    query.watch(name, hearing.publish, every)
    return hearing.stop


class _Asked:
    """What a follower takes for the hub of a page: passes on what it hears of a query on Spark, or of a set."""

    def __init__(self, query: Any, reader: Reader, name: str | None) -> None:
        self._query, self._reader, self._name = query, reader, name
        self._publish = harmless(reader.publish)
        self._names: dict[str, None] = {}
        self._heard: set[str] = set()

    def add(self, name: str, plan: Any = None, set_target: Any = None) -> None:
        """A query that will be heard of."""
        self._names[self._name or name] = None
        self._reader.expect(self._name or name)

    def publish(self, moment: Moment) -> None:
        """Pass it on by the name that is asked for."""
        called = moment if self._name is None else replace(moment, query=self._name)
        if called.query not in self._heard:
            self._heard.add(called.query)
            self._names[called.query] = None
            # What goes on from a checkpoint counts on.
            self._reader.expect(called.query, resumed=moment.batch > 0)
        self._publish(called)

    def over(self, failure: str | None) -> None:
        """All of them have ended."""
        for name in self._names:
            self._reader.ended(name, failure)

    def look(self) -> None:
        """Queries that are in the set no more have ended."""
        names = getattr(self._query, "names", None)
        for name in [] if names is None else [one for one in self._names if one not in names]:
            self._reader.ended(name)
            del self._names[name]


def harmless(publish: Publish) -> Publish:
    """The same, but what it raises is a warning, once, and it is called no more."""
    broken = False

    def tried(moment: Moment) -> None:
        nonlocal broken
        if broken:
            return
        try:
            publish(moment)
        except Exception as error:
            broken = True
            warnings.warn(f"query {moment.query} is not followed any more: {error!r}", stacklevel=2)

    return tried
