"""`/metrics` for Prometheus, for programs without a page.

Invariant: it is served as the page is, behind the same guard. A scrape reads the latest progress and never waits for
a query, however many scrape. Queries that have ended stay until it is stopped.
"""

from __future__ import annotations

from typing import Any

from slackwater.observe.latest import LatestProgress
from slackwater.page.guard import token_of
from slackwater.page.serving import HOST, Served, metrics_route
from slackwater.runtime.follow import Following, follow

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
        """Serve them no longer."""
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
