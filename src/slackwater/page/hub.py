"""Where the progress of queries comes together: they publish it, pages and the history read it.

Invariant: publishing is a few operations on a list and a line in a file, whoever reads; a reader takes what is new
since it last looked, and one that is slow delays no other. Memory is bounded by the queries, not by time.
"""

from __future__ import annotations

import json
import threading
from collections.abc import Callable, Mapping
from typing import Any

from slackwater.core.errors import UsageError
from slackwater.core.time import MILLISECOND
from slackwater.observe.delays import EDGES
from slackwater.observe.metrics import LatestProgress
from slackwater.observe.value import QueryProgress
from slackwater.observe.views import plain
from slackwater.page.history import MOST, HistoryFile, RecordedHistory, Thinned

RECENT = 64
"""So much progress is retained as it was published, for pages that are open; one that is further behind begins anew."""
SetTarget = Callable[[str], None]


def _shown(progress: QueryProgress) -> str:
    return json.dumps(plain(progress), separators=(",", ":"))


class Hub:
    """The progress of some queries; it is published to a hub as to any other reader."""

    def __init__(self, history: HistoryFile | None = None, live: bool = True, most: int = MOST) -> None:
        self._history, self._most = history, most
        self.live = live
        """False: this is the progress of a run that is over."""
        self._lock = threading.Lock()
        self._plans: dict[str, Mapping[str, Any] | None] = {}
        self._targets: dict[str, SetTarget | None] = {}
        self._seen: dict[str, Thinned] = {}
        self._recent: list[tuple[int, str]] = []
        self._number = 0
        self._all: tuple[int, list[str]] | None = None
        self.latest_progress = LatestProgress()
        """The latest progress, for metrics."""
        self._generation = 0
        """How often a query has come."""

    @classmethod
    def of_recorded(cls, recorded: RecordedHistory) -> Hub:
        """The progress of a run that is over."""
        hub = cls(live=False)
        for name, plan in recorded.queries.items():
            hub.expect(name, plan=plan)
        for progress in recorded.progress:
            hub.publish(progress)
        return hub

    def expect(
        self,
        query: str,
        *,
        plan: Mapping[str, Any] | None = None,
        set_target: SetTarget | None = None,
        **_: Any,
    ) -> None:
        """A query will publish progress; `set_target` takes the clause of another target."""
        self.latest_progress.expect(query)
        with self._lock:
            if query in self._plans and plan is None and set_target is None:
                return
            self._plans[query], self._targets[query] = plan, set_target
            self._seen.setdefault(query, Thinned(self._most))
            self._generation += 1
            if self._history is not None:
                self._history.add_query(query, plan)

    def publish(self, progress: QueryProgress) -> None:
        text = _shown(progress)
        self.latest_progress.publish(progress)
        with self._lock:
            self._seen.setdefault(progress.query, Thinned(self._most)).add(progress)
            self._number += 1
            self._recent.append((self._number, text))
            del self._recent[:-RECENT]
            if self._history is not None:
                self._history.add(progress)
                if self._history.is_full(self._most * len(self._seen)):
                    self._history.rewrite(self._plans, [one for seen in self._seen.values() for one in seen])

    @property
    def version(self) -> int:
        return self._generation

    def hello(self, control: bool) -> dict[str, Any]:
        """What a page must know before the first progress."""
        with self._lock:
            queries = [
                {"name": name, "plan": plan, "settable": control and self._targets.get(name) is not None}
                for name, plan in self._plans.items()
            ]
        edges = [edge / MILLISECOND for edge in EDGES.tolist()]
        return {"queries": queries, "live": self.live, "control": control, "delay_edges_ms": edges}

    def everything(self) -> tuple[int, list[str]]:
        """All progress that is remembered, and the number of the newest."""
        with self._lock:
            if self._all is not None and self._all[0] == self._number:
                # Pages that are opened together, or begin anew together.
                return self._all
            number = self._number
            remembered = [one for seen in self._seen.values() for one in seen]
        self._all = number, [_shown(one) for one in remembered]
        return self._all

    def since(self, number: int) -> tuple[int, list[str]] | None:
        """The progress after this one; None where some of it is no longer retained as it was."""
        with self._lock:
            if number < self._number - len(self._recent):
                return None
            return self._number, [text for n, text in self._recent if n > number]

    @property
    def latest(self) -> dict[str, QueryProgress]:
        with self._lock:
            found = {name: seen.latest for name, seen in self._seen.items()}
        return {name: progress for name, progress in found.items() if progress is not None}

    def ended(self, query: str, failure: str | None = None) -> None:
        """A query runs no more; pages see it by its last progress."""
        self.latest_progress.ended(query, failure)

    def set_target(self, name: str, target: str) -> None:
        if name not in self._targets:
            raise UsageError(f"there is no query {name}; there are {', '.join(self._targets) or 'none'}")
        set_target = self._targets[name]
        if set_target is None:
            raise UsageError(f"query {name} cannot be told another target")
        set_target(target)

    def close(self) -> None:
        with self._lock:
            if self._history is not None:
                self._history.close()
                self._history = None
