"""Moments to show, made by hand or by a real run."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import replace
from threading import Thread
from typing import Any

from slackwater.cli.demo import _prepared as prepared
from slackwater.cli.demo_race import LocalContender, RacePace
from slackwater.cli.paging import Paged
from slackwater.observe.moment import Moment, Sample, StreamSeen
from slackwater.page.hub import Hub
from slackwater.workloads import positions


def moment(query: str = "q", batch: int = 1, **more: Any) -> Moment:
    streams = (StreamSeen("a", 1000.0 * batch, 10 * batch), StreamSeen("b", 1000.0 * batch - 50, 10 * batch))
    made = Moment(
        query, batch, 1.7e9 + batch, 0.1, 100.0, "RECALL 0.95 OVER 20 s", 80.0, 1000.0 * batch - 80, streams,
        18 * batch, batch, 0, batch, 5 * batch, {"null time": batch}, 40, 640,
        delays={"a": [(0, 8), (5, 2)], "b": [(0, 10)]}, samples=(Sample("a", "late", '{"ts": 1}'),),
    )  # fmt: skip
    return replace(made, **more)


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
