"""Progress to show, made by hand or by a real run."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import replace
from threading import Thread
from typing import Any

from slackwater.cli.demo import _prepared as prepared
from slackwater.cli.demo_race import LocalContender, RacePace
from slackwater.cli.paging import Paged
from slackwater.core.memory import Memory, Resident
from slackwater.observe.value import QueryProgress, Sample, StreamProgress, nothing_observed
from slackwater.page.hub import Hub
from slackwater.workloads import positions


def made(query: str = "q", batch: int = 1, **more: Any) -> QueryProgress:
    clocks = (1_000_000 * batch, 1_000_000 * batch - 50_000)
    observed = replace(
        nothing_observed(2), clocks=clocks, slack=80_000, watermark=clocks[0] - 80_000, in_time=18 * batch, late=batch,
        held=batch, results=5 * batch, state_rows=40 - batch, memory=Memory(Resident(40, 40, 640)),
    )  # fmt: skip
    known = QueryProgress(
        query=query, batch=batch, time=1.7e9 + batch, seconds=0.1, rows_per_second=100.0,
        target="RECALL 0.95 OVER 20 s", observed=observed,
        streams={
            "a": StreamProgress(clocks[0], 10 * batch, samples=(Sample("late", '{"ts": 1}'),)),
            "b": StreamProgress(clocks[1], 10 * batch),
        },
        rejected={"null time": batch}, delays={"a": [(0, 8), (5, 2)], "b": [(0, 10)]},
    )  # fmt: skip
    return replace(known, **more)


class Game:
    """A game of the demo that is being played in slow motion, with a recall target, and shown on a hub."""

    def __init__(self, hub: Hub, seconds: int, pace: float) -> None:
        streams = positions(0, seconds / 60).streams
        query = prepared("RECALL 0.95 OVER 5 SECONDS", streams)
        self.contender = LocalContender(*query)
        self._shown = Paged(hub)
        self.contender.show_on(self._shown)
        self._pace = RacePace(sum(table.num_rows for table in streams.values()), pace)
        self._thread = Thread(target=self._play, daemon=True)
        self._thread.start()

    @property
    def run(self) -> Any:
        return self.contender._run

    def _play(self) -> None:
        self.contender.run(self._pace)
        self._shown.end()

    def end(self) -> None:
        self._pace.stop()
        self._thread.join(60)


@contextmanager
def playing(hub: Hub, seconds: int = 30, pace: float = 40.0) -> Iterator[Game]:
    game = Game(hub, seconds, pace)
    try:
        yield game
    finally:
        game.end()
