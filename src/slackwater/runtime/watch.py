"""`slackwater.watch`, a live page of queries that run, and `slackwater.metrics`, their metrics for Prometheus; on any
runtime.

Invariant: nothing of a page or of metrics is in the way of a query, and both are behind one guard. A scrape reads the
latest progress and never waits for a query, however many scrape. They stay when a query ends, until they are stopped or
the process ends.
"""

from __future__ import annotations

import os
from pathlib import Path
from typing import Any

from slackwater.core.errors import UsageError
from slackwater.observe.metrics import LatestProgress
from slackwater.page.history import HistoryFile
from slackwater.page.hub import Hub
from slackwater.page.server import Page
from slackwater.page.serving import HOST, Served, metrics_route, token_of
from slackwater.runtime.follow import Following, follow, source_of


def watch(
    *queries: Any,
    host: str = HOST,
    port: int | None = None,
    token: str | None = None,
    control: bool = False,
    history: str | os.PathLike[str] | None = None,
) -> Page:
    """Serve a live page of running queries; its address is printed, and is `.address`.

    Takes what `slackwater.start`, `slackwater.queries(...).start`, `slackwater.live` or `writeStream...start()` gives.
    It is served to this machine alone; any other `host` needs a `token`, by default that of SLACKWATER_PAGE_TOKEN. With
    `control` the target can be moved on the page. With a folder as `history` the page can be looked at when the queries
    are over: `slackwater page FOLDER`. Without a `port` it is the usual one, 8470, or any that is free.
    """
    if not queries:
        raise UsageError("watch(query): say which query, or several of them")
    for query in queries:
        source_of(query)
    hub = Hub(None if history is None else HistoryFile(Path(history)))
    page = WatchedPage(hub, host=host, port=port, token=token_of(token), control=control)
    page.following += [follow(query, hub) for query in queries]
    print(f"page: {page.address}")
    return page


class WatchedPage(Page):
    """A page of queries that run in, or are driven from, this process."""

    def __init__(self, hub: Hub, **more: Any) -> None:
        self.following: list[Following] = []
        super().__init__(hub, **more)

    def stop(self) -> None:
        for one in self.following:
            one.stop()
        super().stop()


PORT = 9400


class MetricsServer(Served):
    """Serves the metrics of queries. A `with` block stops it at its end."""

    def __init__(self, latest: LatestProgress, port: int = PORT, host: str = HOST, token: str | None = None) -> None:
        """Port 0 is any that is free."""
        self.latest = latest
        self._following: list[Following] = []
        super().__init__("metrics", [metrics_route(latest, self._look)], host, (port,), token, "metrics")

    def add(self, query: Any, name: str | None = None) -> None:
        """One more query, or several by name."""
        self._following.append(follow(query, self.latest, name))

    def _look(self) -> None:
        for one in self._following:
            one.look()

    def stop(self) -> None:
        super().stop()
        for one in self._following:
            one.stop()


def metrics(
    query: Any = None, *, port: int = PORT, host: str = HOST, name: str | None = None, token: str | None = None
) -> MetricsServer:
    """Serve metrics of a running query, or of several as {'name': query}, for Prometheus.

        query = sw.start(spark, "SELECT ... WITH RECALL 0.99 OVER 1 MINUTE", ..., results="out/pairs")
        sw.metrics(query)  # http://127.0.0.1:9400/metrics

    They are served to this machine alone; any other `host`, such as "0.0.0.0", needs a `token`, by default that of
    SLACKWATER_PAGE_TOKEN: a scrape sends it as `?token=` or as `Authorization: Bearer`. Without a query it serves none
    yet; `add` takes more later.
    """
    served = MetricsServer(LatestProgress(), port, host, token_of(token))
    if query is not None:
        try:
            served.add(query, name)
        except BaseException:
            served.stop()
            raise
    return served
