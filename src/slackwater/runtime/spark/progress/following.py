"""Following a streaming query for a page: every micro-batch once, as a moment.

Invariant: Spark is asked for its latest micro-batch, and for the recent ones only where some were missed in between.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping
from typing import Any

from slackwater.core.errors import UsageError
from slackwater.observe.moment import Moment
from slackwater.page.hub import Hub
from slackwater.runtime.spark.failures import as_ours
from slackwater.runtime.spark.progress.moments import moment_of
from slackwater.runtime.spark.progress.reading import parsed, parsed_set
from slackwater.runtime.watch import Follower

Plans = Mapping[str, Mapping[str, Any] | None]
SetTarget = Callable[[str, str], None]


class MicroBatches:
    """The micro-batches of a query since they were last asked for."""

    def __init__(self, running: Callable[[], Any]) -> None:
        """`running` gives Spark's handle, which another start may replace."""
        self._running = running
        self._seen: tuple[str, int] | None = None

    def take(self) -> list[Moment]:
        """Moments of those that are done since the last call."""
        query = self._running()
        latest = _fields(query.lastProgress)
        if latest is None or self._place(latest) == self._seen:
            return []
        run, number = self._place(latest)
        missed = self._seen is None or self._seen[0] != run or number > self._seen[1] + 1
        recent = [one for one in map(_fields, query.recentProgress if missed else [latest]) if one is not None]
        before, self._seen = self._seen, (run, number)
        moments = []
        for fields in recent:
            place = self._place(fields)
            # A micro-batch in which nothing came is told again and again under its number.
            if before is None or place[0] != before[0] or place[1] > before[1]:
                found = parsed(fields)
                moments += [moment_of(one) for one in ([found] if found else parsed_set(fields).values())]
        return moments

    def _place(self, fields: Mapping[str, Any]) -> tuple[str, int]:
        return str(fields["runId"]), int(fields["batchId"])


def _fields(reported: Any) -> Mapping[str, Any] | None:
    if reported is None:
        return None
    if isinstance(reported, Mapping):
        return reported
    found: Mapping[str, Any] = json.loads(reported.json)
    return found


def following(query: Any, plans: Plans | None = None, set_target: SetTarget | None = None) -> Callable[[Hub], Follower]:
    """How Spark's handle of a query, or one of ours, is followed; `plans` has the plans of queries by name."""

    def running() -> Any:
        return getattr(query, "query", query)

    def ended() -> str | bool:
        active = query.is_active if hasattr(query, "is_active") else query.isActive
        if active:
            return False
        failure = running().exception()
        return True if failure is None else str(as_ours(str(failure))).splitlines()[0]

    def follow(hub: Hub) -> Follower:
        name = running().name or str(running().id)
        for each, plan in (plans or {name: None}).items():
            hub.add(each, plan, _telling(set_target, each))
        return Follower(hub, MicroBatches(running).take, ended)

    return follow


def _telling(set_target: SetTarget | None, name: str) -> Callable[[str], None] | None:
    if set_target is None:
        return None

    def tell(target: str) -> None:
        try:
            set_target(name, target)
        except ValueError as error:
            raise UsageError(str(error)) from None

    return tell
