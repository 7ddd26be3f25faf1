"""`slackwater.watch`: a live page of queries that run, on any runtime.

Invariant: a query is asked a few times a second for what it tells anyway; nothing of the page is on its way. The page
stays when a query ends, until it is stopped or the process ends.
"""

from __future__ import annotations

import os
import threading
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

from slackwater.core.errors import UsageError
from slackwater.observe.moment import Moment
from slackwater.page.history import HistoryFile
from slackwater.page.hub import Hub
from slackwater.page.server import HOST, Page
from slackwater.plan.graph_of_plan import graph_of
from slackwater.plan.physical import PhysicalPlan

EVERY = 0.5
"""Seconds from one question to the next."""
TOKEN = "SLACKWATER_PAGE_TOKEN"  # noqa: S105 - the name of a variable


def watch(
    *queries: Any,
    host: str = HOST,
    port: int | None = None,
    token: str | None = None,
    control: bool = False,
    history: str | os.PathLike[str] | None = None,
) -> Page:
    """Serve a live page of running queries; its address is printed, and stands in `.address`.

    Takes what `slackwater.start`, `slackwater.queries(...).start`, `slackwater.live` or `writeStream...start()` gives.
    It is served to this machine alone; any other `host` needs a `token`, by default that of SLACKWATER_PAGE_TOKEN. With
    `control` the target can be moved on the page. With a folder as `history` the page can be looked at when the queries
    are over: `slackwater page FOLDER`. Without a `port` it is the usual one, 8470, or any that is free.
    """
    if not queries:
        raise UsageError("watch(query): say which query, or several of them")
    follow = [followed(query) for query in queries]
    hub = Hub(None if history is None else HistoryFile(Path(history)))
    page = WatchedPage(
        hub, host=host, port=port, token=token if token is not None else os.environ.get(TOKEN), control=control
    )
    for one in follow:
        page.followers.append(one(hub))
    print(f"page: {page.address}")
    return page


class WatchedPage(Page):
    """A page of queries that run in, or are driven from, this process."""

    def __init__(self, hub: Hub, **more: Any) -> None:
        self.followers: list[Follower] = []
        super().__init__(hub, **more)

    def stop(self) -> None:
        """Serve it no longer, and ask the queries no more."""
        for one in self.followers:
            one.stop()
        super().stop()


class Follower:
    """Asks one query for its moments, in a thread of its own, until it has ended."""

    def __init__(self, hub: Hub, ask: Callable[[], list[Moment]], ended: Callable[[], str | bool]) -> None:
        """`ended` says whether it has, or why it has failed."""
        self._hub, self._ask, self._ended = hub, ask, ended
        self._latest: dict[str, Moment] = {}
        self._stopped = threading.Event()
        self._thread = threading.Thread(target=self._follow, name="slackwater watch", daemon=True)
        self._thread.start()

    def stop(self) -> None:
        """Ask no more."""
        self._stopped.set()
        self._thread.join(5)

    def _follow(self) -> None:
        over: str | bool = False
        while not over and not self._stopped.wait(EVERY):
            over = self._ended()
            try:
                moments = self._ask()
            except Exception as error:
                # Whatever is wrong with it, a page must not be what stops a program.
                over, moments = over or str(error).splitlines()[0], []
            for moment in moments:
                self._latest[moment.query] = moment
                self._hub.publish(moment)
        if over:
            failure = over if isinstance(over, str) else None
            for moment in self._latest.values():
                last = replace(moment, ended=True, failure=moment.failure or failure, delays={}, samples=())
                self._hub.publish(last)
            self._hub.over(failure)


def followed(query: Any) -> Callable[[Hub], Follower]:
    """How a query is followed; whatever cannot be is refused."""
    watchable = getattr(query, "_watchable", None)
    if watchable is not None:
        return watchable()
    if hasattr(query, "recentProgress"):
        from slackwater.runtime.spark.progress.following import following

        return following(query)
    raise UsageError(
        f"watch: {type(query).__name__} is no running query; give what slackwater.start, slackwater.live or"
        " writeStream...start() gives"
    )


def plan_of(plan: PhysicalPlan) -> dict[str, Any]:
    """The plan as a graph, for a page."""
    return graph_of(plan, True).as_json()
