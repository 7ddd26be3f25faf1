"""`/metrics` for Prometheus, for programs without a page.

Invariant: it listens on this machine alone unless told otherwise. A scrape reads the latest moments and never waits for
a query, however many scrape. Queries that have ended stay until it is stopped.
"""

from __future__ import annotations

from typing import Any, Self

from prometheus_client import start_http_server

from slackwater.core.errors import UsageError
from slackwater.observe.board import Board
from slackwater.observe.metrics import registry_of
from slackwater.runtime.operating.following import Following, follow

HOST, PORT = "127.0.0.1", 9400


class MetricsServer:
    """Serves the metrics of a board. A `with` block stops it at its end."""

    def __init__(self, board: Board, port: int = PORT, host: str = HOST) -> None:
        """Port 0 is any that is free."""
        self.board = board
        self._following: list[Following] = []
        try:
            self._server, self._thread = start_http_server(port, host, registry_of(board, self._look))
        except (OSError, OverflowError) as error:
            why = getattr(error, "strerror", None) or str(error)
            raise UsageError(
                f"metrics on {host}, port {port}: {why}; choose another port, or 0 for any that is free"
            ) from None
        self.port = int(self._server.server_port)
        shown = f"[{host}]" if ":" in host else host
        self.address = f"http://{shown}:{self.port}/metrics"

    def add(self, query: Any, name: str | None = None) -> None:
        """One more query, or several by name."""
        self._following.append(follow(query, self.board, name))

    def _look(self) -> None:
        for one in self._following:
            one.look()

    def stop(self) -> None:
        """Serve them no longer."""
        self._server.shutdown()
        self._server.server_close()
        self._thread.join(5)
        for one in self._following:
            one.stop()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: Any) -> None:
        self.stop()

    def __repr__(self) -> str:
        return f"<metrics at {self.address}>"

    def _repr_html_(self) -> str:
        return f'<p>metrics at <a href="{self.address}" target="_blank" rel="noopener">{self.address}</a></p>'


def metrics(query: Any = None, *, port: int = PORT, host: str = HOST, name: str | None = None) -> MetricsServer:
    """Serve metrics of a running query, or of several as {'name': query}, for Prometheus.

        query = sw.start(spark, "SELECT ... WITH RECALL 0.99 OVER 1 MINUTE", ..., results="out/pairs")
        sw.metrics(query)  # http://127.0.0.1:9400/metrics

    `host="0.0.0.0"` lets other machines ask. Without a query it serves none yet; `add` takes more later.
    """
    served = MetricsServer(Board(), port, host)
    if query is not None:
        try:
            served.add(query, name)
        except BaseException:
            served.stop()
            raise
    return served
