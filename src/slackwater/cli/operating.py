"""`--metrics` and `--log` of a command that runs queries.

Invariant: without them nothing is imported or opened; with them, what cannot be opened is refused before anything runs.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from rich.console import Console

if TYPE_CHECKING:
    from slackwater.runtime.follow import Reader


@dataclass(frozen=True)
class OperatingOptions:
    """What is asked for beside the run itself."""

    metrics: int | None = None
    """The port of the metrics; 0 is any that is free."""
    log: Path | None = None
    token: str | None = None
    """Who has no such token sees no metrics."""


@contextmanager
def readers_of(options: OperatingOptions | None) -> Iterator[list[Reader]]:
    """Who wants to know how the queries of a command stand, while inside."""
    readers: list[Reader] = []
    with ExitStack() as stack:
        if options is not None and options.log is not None:
            from slackwater.observe.event_log import EventLog, teller

            readers.append(EventLog(teller(options.log)))
        if options is not None and options.metrics is not None:
            from slackwater.observe.board import Board
            from slackwater.runtime.operating.metrics_server import MetricsServer

            served = stack.enter_context(MetricsServer(Board(), options.metrics, token=options.token))
            readers.append(served.board)
            Console(stderr=True).print(f"metrics: {served.address}", highlight=False, markup=False, soft_wrap=True)
        yield readers
