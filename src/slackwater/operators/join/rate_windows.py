"""The join of two streams whose windows hold an interval of time each, but are kept as numbers of tuples.

What a window holds follows the rate of its stream (`rates.py`): it is resized now and then, and between two resizes a
tuple leaves it when so many have come after it, whatever their times. Two tuples match if their event times are no
further apart than epsilon, which is stated or found at run time.

Invariant: when time moves on, a window is left with the newest tuples in time of its stream, none missing between them,
as many as are in force, and those of the same time as the oldest of these; so tuples of one time come and go together,
and their order is free. A resize drops only what is beyond the new size; what has left does not come back when a window
grows. A late tuple enters no window and triggers nothing, as for all windows that count (`count_windows.py`).

References: 001 §2.2, §2.3.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, replace

import numpy as np

from slackwater.core.batch import Words
from slackwater.core.rates import RatesSeen, Resize
from slackwater.core.state import StateUpdate
from slackwater.core.time import BEFORE_ALL
from slackwater.core.window_graph import WindowGraph
from slackwater.operators.array_checkpoint import ArrayCheckpoint
from slackwater.operators.contract import ResizeLog
from slackwater.operators.join.count_windows import EVER, RowEviction, RowWindows, evict
from slackwater.operators.join.operator import WindowJoin
from slackwater.operators.join.policy import Eviction, resident
from slackwater.operators.join.rates import (
    DISTANCE,
    FIRST_SIZE,
    FIRST_WITHIN,
    LOGGED,
    SINCE,
    SIZES,
    WITHIN,
    Sampling,
    no_log,
    sampling,
)
from slackwater.operators.join.search import Probes
from slackwater.operators.join.store import WindowStore

SLIDING, ROUNDS = 20, 1
"""Slices of a sample: ours moves on by a twentieth of its length; the published one is taken in rounds."""
RATES = "rates"
"""The cell of what is known of them."""
REMEMBERED = 4096
"""Where nobody takes them, so many of the last resizes are remembered beside those of the last run."""


@dataclass(frozen=True)
class RateWindows(RowWindows):
    """Windows of two streams that follow rates; `last` has the sizes they start from."""

    intervals: tuple[int, ...]
    """Per stream, the time its window is to hold."""
    within: int | None = None
    """How far apart in time two tuples that match may be; None: found at run time; EVER: no matter."""
    slices: int = SLIDING
    by_arrival: bool = False
    """Whether intervals are times of arrival."""

    def check(self, windows: tuple[int, ...], graph: WindowGraph | None) -> None:
        super().check(windows, graph)
        assert len(self.intervals) == len(windows) == 2, "a join of two streams"

    @property
    def one_shard(self) -> str:
        return "windows that follow rates count the tuples of all keys"

    @property
    def resize_at_first(self) -> Resize:
        return Resize(BEFORE_ALL, self.last, FIRST_WITHIN if self.within is None else self.within)

    @property
    def in_time_only(self) -> bool:
        return True

    def most(self, graph: WindowGraph | None) -> Words:
        within = self.resize_at_first.within
        return np.array([[0, within], [within, 0]], np.int64)

    def eviction(self, streams: int) -> Eviction:
        return RateEviction(sampling(self.intervals, self.within, self.slices, self.by_arrival, self.last[0]))


def by_rate(
    join: WindowJoin,
    intervals: tuple[int, ...],
    within: int | None = None,
    slices: int = SLIDING,
    by_arrival: bool = False,
    first: int = FIRST_SIZE,
) -> WindowJoin:
    """The same join with windows that follow rates.

    >>> by_rate(WindowJoin((5, 5), (), (), (), (), 2), (10, 20)).policy.resize_at_first.sizes
    (100, 100)
    """
    policy = RateWindows((first, first), intervals, within, slices, by_arrival)
    return replace(join, windows=(EVER, EVER), policy=policy)


class RateEviction(RowEviction):
    """A tuple leaves a window when as many others have entered it as come in the interval that it is to hold."""

    def __init__(self, taken: Sampling) -> None:
        super().__init__(taken)
        self._kept = ArrayCheckpoint(RATES)
        self._resizes: list[Resize] = []
        self._resized = 0
        self._resident: Words | None = None
        """What windows held that are about to be put back."""

    def begin_run(self, tuples: int) -> None:
        self._sampling = self._sampling._replace(log=no_log(len(self.counts), tuples))
        self._sampling.state[LOGGED] = 0

    def end_run(self) -> None:
        resizes = self._sampling.log[: self._sampling.state[LOGGED]].tolist()
        self._resized += len(resizes)
        del self._resizes[:-REMEMBERED]
        self._resizes += [Resize(line[SINCE], tuple(line[SIZES:]), line[DISTANCE]) for line in resizes]

    @property
    def resize_log(self) -> ResizeLog:
        return self

    def take_resizes(self) -> list[Resize]:
        """The resizes since the last call, oldest first."""
        taken, self._resizes = self._resizes, []
        return taken

    def seen(self) -> RatesSeen:
        """The windows in force, and how often that has changed."""
        taken = self._sampling
        return RatesSeen(tuple(taken.sizes.tolist()), int(taken.state[WITHIN]), self._resized)

    def snapshot_delta(self, store: WindowStore) -> Iterator[StateUpdate]:
        taken = self._sampling
        held = [resident(store, stream) for stream in range(len(self.counts))]
        return self._kept.snapshot_delta({
            "sizes": taken.sizes, "kept": taken.kept, "state": taken.state, "slices": taken.slices.ravel(),
            "streams": taken.streams.ravel(), "resident": np.array(held), "resized": np.array([self._resized]),
        })  # fmt: skip

    def restore(self, entries: list[StateUpdate], probes: Probes) -> list[StateUpdate]:
        """Samples and sizes are taken over before the tuples, and what windows had already let go leaves them again."""
        arrays = self._kept.restore([entry for entry in entries if entry.namespace == RATES])
        if arrays:
            taken = self._sampling
            taken.sizes[:], taken.kept[:], taken.state[:] = arrays["sizes"], arrays["kept"], arrays["state"]
            taken.slices[:] = arrays["slices"].reshape(taken.slices.shape)
            taken.streams[:] = arrays["streams"].reshape(taken.streams.shape)
            self._resized, self._resident = int(arrays["resized"][0]), arrays["resident"]
            probes.most[0, 1] = probes.most[1, 0] = taken.state[WITHIN]
        return [entry for entry in entries if entry.namespace != RATES]

    def put_back(self, store: WindowStore, stream: int, words: Words, horizons: Words) -> None:
        # How many tuples a window holds is not its size where it has just grown; `restored` knows the number.
        store.put_back(stream, words, horizons)

    def restored(self, store: WindowStore) -> None:
        if self._resident is not None:
            for stream, held in enumerate(self._resident.tolist()):
                evict(store.windows, stream, held)
            self._resident = None
