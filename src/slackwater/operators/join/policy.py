"""What the windows of a join hold: the policy that a join is given, and what it does while the join runs.

Windows of time are here; those that count tuples are in `count_windows.py`, those that follow rates in
`rate_windows.py`. A window that `counts` holds its last tuples, whatever their age, and no late tuple enters it.

Invariant: a policy decides what windows hold, and nothing else about a join. It is frozen, as the spec that has it; the
eviction that it makes is the mutable half.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

import numpy as np

from slackwater.core.batch import Words
from slackwater.core.rates import Resize
from slackwater.core.state import StateUpdate
from slackwater.core.window_graph import WindowGraph
from slackwater.disorder.ordered_batch import OrderedTuples
from slackwater.operators.contract import ResizeLog
from slackwater.operators.join.probe import join_run
from slackwater.operators.join.probe_stats import ProbeStats
from slackwater.operators.join.search import Probes, Search
from slackwater.operators.join.store import BEGIN, END, WindowStore


@dataclass(frozen=True)
class WindowPolicy:
    """Windows of time: each holds what is not too old to be joined."""

    def check(self, windows: tuple[int, ...], graph: WindowGraph | None) -> None:
        """Windows in time and bounds between pairs that go with this policy."""
        assert graph is None or graph.windows == windows, "a join's windows are those of its graph"

    @property
    def one_shard(self) -> str | None:
        """Why such a join must see the tuples of all keys; None where it need not."""
        return None

    @property
    def in_time_only(self) -> bool:
        """Whether no late tuple enters a window."""
        return False

    @property
    def resize_at_first(self) -> Resize | None:
        """The windows that are in force before anything is known, where windows follow rates."""
        return None

    def most(self, graph: WindowGraph | None) -> Words | None:
        """The bounds between pairs, for compiled code; None where the windows say it all."""
        return None if graph is None else np.array(graph.widest, np.int64)

    def eviction(self, streams: int) -> Eviction:
        """The mutable half."""
        return Eviction(streams)


BY_EVENT_TIME = WindowPolicy()


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
