"""When a tuple leaves a window of a join: what the one join operator is given by the policy of its windows.

Windows of time are here; those that count tuples are in `count_windows.py`, those that follow rates in
`rate_windows.py`. A window that `counts` holds its last tuples, whatever their age, and no late tuple enters it.

Invariant: an eviction decides what windows hold, and nothing else about a join.
"""

from __future__ import annotations

from collections.abc import Iterable

import numpy as np

from slackwater.core.batch import Words
from slackwater.core.state import StateUpdate
from slackwater.disorder.ordered_batch import OrderedTuples
from slackwater.operators.contract import ResizeLog
from slackwater.operators.join.probe import join_run
from slackwater.operators.join.probe_stats import ProbeStats
from slackwater.operators.join.search import Probes, Search
from slackwater.operators.join.store import BEGIN, END, WindowStore


class Eviction:
    """A tuple leaves a window of time when it is too old to be joined. That is found when it is probed, or when room is
    made; so nothing is to be done here."""

    def __init__(self, streams: int) -> None:
        self.counts = np.zeros(streams, np.bool_)
        """Which windows hold numbers of tuples."""

    def join(
        self, conditions: tuple[int, int], probes: Probes, new: OrderedTuples, begin: int, store: WindowStore,
        search: Search, probe_stats: ProbeStats, out: Words, counts: Words,
    ) -> tuple[int, int, int]:  # fmt: skip
        """The loop over a run, from a tuple on; what comes back is that of `join_run`."""
        return join_run(conditions, probes, new, begin, store.windows, search, probe_stats, out, counts)

    def begin_run(self, tuples: int) -> None:
        """A run of so many tuples is about to be joined."""

    def end_run(self) -> None:
        """It has been joined."""

    def put_back(self, store: WindowStore, stream: int, words: Words, horizons: Words) -> None:
        """Tuples of one stream enter its window again, after a restart."""
        store.put_back(stream, words, horizons)

    @property
    def resize_log(self) -> ResizeLog | None:
        """The resizes of windows, where these follow rates."""
        return None

    def snapshot_delta(self, store: WindowStore) -> Iterable[StateUpdate]:
        """What to persist since the last call, beside tuples."""
        return ()

    def restore(self, entries: list[StateUpdate], probes: Probes) -> list[StateUpdate]:
        """Take over what was persisted, before the tuples; returns the entries of others."""
        return entries

    def restored(self, store: WindowStore) -> None:
        """All tuples have been put back."""


def resident(store: WindowStore, stream: int) -> int:
    """How many tuples stand in a window that counts them."""
    return int(store.regions[stream, END] - store.regions[stream, BEGIN])
