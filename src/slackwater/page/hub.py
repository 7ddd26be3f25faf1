"""Where moments come together: queries publish them, pages and the history read them.

Invariant: publishing is a few operations on a list and a line in a file, whoever reads; a reader takes what is new
since it last looked, and one that is slow costs nobody anything. Memory is bounded by the queries, not by time.
"""

from __future__ import annotations

import json
import threading
from collections.abc import Callable, Mapping
from typing import Any

from slackwater.core.errors import UsageError
from slackwater.observe.board import Board
from slackwater.observe.delays import EDGES
from slackwater.observe.moment import Moment, duration_ms
from slackwater.page.history import HistoryFile, Recorded
from slackwater.page.thinning import MOST, Thinned

RECENT = 64
"""So many moments are kept as they were published, for pages that are open; one that is further behind begins anew."""
SetTarget = Callable[[str], None]


class Hub:
    """The moments of some queries."""

    def __init__(self, history: HistoryFile | None = None, live: bool = True, most: int = MOST) -> None:
        self._history, self._most = history, most
        self.live = live
        """False: these are moments of a run that is over."""
        self._lock = threading.Lock()
        self._plans: dict[str, Mapping[str, Any] | None] = {}
        self._targets: dict[str, SetTarget | None] = {}
        self._seen: dict[str, Thinned] = {}
        self._recent: list[tuple[int, str]] = []
        self._number = 0
        self._all: tuple[int, list[str]] | None = None
        self.board = Board()
        """The latest moments, for metrics."""
        self._generation = 0
        """How often a query has come."""

    @classmethod
    def of_recorded(cls, recorded: Recorded) -> Hub:
        """The moments of a run that is over."""
        hub = cls(live=False)
        for name, plan in recorded.queries.items():
            hub.add(name, plan)
        for moment in recorded.moments:
            hub.publish(moment)
        return hub

    def add(self, name: str, plan: Mapping[str, Any] | None = None, set_target: SetTarget | None = None) -> None:
        """A query that will publish moments; `set_target` takes the clause of another target."""
        self.board.expect(name)
        with self._lock:
            self._plans[name], self._targets[name] = plan, set_target
            self._seen.setdefault(name, Thinned(self._most))
            self._generation += 1
            if self._history is not None:
                self._history.add_query(name, plan)

    def publish(self, moment: Moment) -> None:
        """The next moment of a query."""
        text = json.dumps(moment.as_json(), separators=(",", ":"))
        self.board.publish(moment)
        with self._lock:
            self._seen.setdefault(moment.query, Thinned(self._most)).add(moment)
            self._number += 1
            self._recent.append((self._number, text))
            del self._recent[:-RECENT]
            if self._history is not None:
                self._history.add(text)
                if self._history.is_full(self._most * len(self._seen)):
                    self._history.rewrite(self._plans, [one for seen in self._seen.values() for one in seen])

    @property
    def version(self) -> int:
        """Changes when a query has come."""
        return self._generation

    def hello(self, control: bool) -> dict[str, Any]:
        """What a page must know before the first moment."""
        with self._lock:
            queries = [
                {"name": name, "plan": plan, "settable": control and self._targets.get(name) is not None}
                for name, plan in self._plans.items()
            ]
        edges = [duration_ms(edge) for edge in EDGES.tolist()]
        return {"queries": queries, "live": self.live, "control": control, "delay_edges_ms": edges}

    def everything(self) -> tuple[int, list[str]]:
        """All moments that are remembered, and the number of the newest."""
        with self._lock:
            if self._all is not None and self._all[0] == self._number:
                # Pages that are opened together, or begin anew together.
                return self._all
            number = self._number
            moments = [moment for seen in self._seen.values() for moment in seen]
        self._all = number, [json.dumps(one.as_json(), separators=(",", ":")) for one in moments]
        return self._all

    def since(self, number: int) -> tuple[int, list[str]] | None:
        """The moments after this one; None where some of them are no longer kept as they were."""
        with self._lock:
            if number < self._number - len(self._recent):
                return None
            return self._number, [text for n, text in self._recent if n > number]

    @property
    def latest(self) -> dict[str, Moment]:
        """The newest moment of every query."""
        with self._lock:
            found = {name: seen.latest for name, seen in self._seen.items()}
        return {name: moment for name, moment in found.items() if moment is not None}

    def over(self, failure: str | None) -> None:
        """A follower has nothing more to tell; the last moments have said so."""

    def set_target(self, name: str, target: str) -> None:
        """Ask for another quality of a query."""
        if name not in self._targets:
            raise UsageError(f"there is no query {name}; there are {', '.join(self._targets) or 'none'}")
        tell = self._targets[name]
        if tell is None:
            raise UsageError(f"query {name} cannot be told another target")
        tell(target)

    def close(self) -> None:
        """Nothing more comes."""
        with self._lock:
            if self._history is not None:
                self._history.close()
                self._history = None
