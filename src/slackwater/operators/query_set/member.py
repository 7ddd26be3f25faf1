"""A query of a set: what is its own, whatever it shares with others.

Invariant: `keys` names what is persisted of it, so that nothing is left of it when it goes.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field

from slackwater.core.batch import Batch
from slackwater.core.state import StateUpdate
from slackwater.disorder.sharing.cursor import CursorRelease
from slackwater.operators.aggregate.shared.store import PaneReader
from slackwater.operators.query_kernel import MakeRelease, QueryKernel
from slackwater.operators.query_set.places import QueryPlace

RUNNING, PAUSED, FAILED = "running", "paused", "failed"
Build = Callable[[MakeRelease, PaneReader | None], QueryKernel]
"""Builds a query with the release that it is given, and the panes that it reads if it is given some."""
State = dict[tuple[str, str], bytes]


@dataclass
class Member:
    """A query of a set."""

    name: str
    place: QueryPlace
    query: QueryKernel
    selection: int
    reader: PaneReader | None = None
    """What it reads of panes that are kept for several."""
    status: str = RUNNING
    reason: str = ""
    """Why it failed."""
    paused: int = 0
    """Tuples of its domain that came while it was paused, of which it knows nothing."""
    ahead: list[Batch] = field(default_factory=list)
    owed: list[StateUpdate] = field(default_factory=list)
    """What is still to be persisted of it, beside what it says itself."""
    kept: State | None = None
    """What was persisted of it, where somebody remembers."""
    keys: set[tuple[str, str]] = field(default_factory=set)

    @property
    def cursor(self) -> CursorRelease | None:
        """Its release, where that is a cursor in the log."""
        return self.query.release if isinstance(self.query.release, CursorRelease) else None
