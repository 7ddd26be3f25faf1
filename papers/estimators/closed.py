"""Windows of an equi-join of two streams as they stand when they close under a slack, beside what they come to.

Windows tumble, and a pair lies in one if both of its tuples do. A window closes when the slower of the two clocks has
passed its end by the slack.

Invariant: an estimator is told of windows in the order in which they close, and of a window's truth only once it has
settled, a fixed time after its end; nothing else of the future is known to it.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Protocol

import numpy as np
import numpy.typing as npt
import pyarrow as pa

Integers = npt.NDArray[np.int64]


@dataclass(frozen=True)
class Seen:
    """What is known of a window at a moment: tuples of both streams, and their pairs."""

    left: int
    right: int
    pairs: int


@dataclass(frozen=True)
class Window:
    """A window as it closed, and whole."""

    number: int
    closed: Seen
    whole: Seen


class Estimator(Protocol):
    """Says what a window will come to."""

    def estimate(self, closed: Seen) -> float:
        """The pairs that a window is expected to have which closed with this many."""

    def learn(self, closed: Seen, whole: Seen) -> None:
        """A window that closed like this has settled."""


@dataclass(frozen=True)
class Race:
    """The tuples of two streams, in milliseconds: event time, key, and when each arrived in terms of both clocks."""

    ts: tuple[Integers, Integers]
    key: tuple[Integers, Integers]
    met: tuple[Integers, Integers]
    """The slower clock just before each tuple arrived."""
    length: int
    settled_after: int

    @staticmethod
    def of(left: pa.Table, right: pa.Table, length: int, settled_after: int) -> Race:
        """The race over two tables with `ts`, `key` and `arrival`."""
        tables = left, right
        ts, key = (tuple(np.asarray(table[name], np.int64) for table in tables) for name in ("ts", "key"))
        arrival = [np.asarray(table["arrival"], np.int64) for table in tables]
        stream = np.repeat([0, 1], [len(one) for one in arrival])
        order = np.argsort(np.concatenate(arrival), kind="stable")
        stamps, whose = np.concatenate(ts)[order], stream[order]
        clocks = [np.maximum.accumulate(np.where(whose == one, stamps, np.iinfo(np.int64).min)) for one in (0, 1)]
        before = np.concatenate([[np.iinfo(np.int64).min], np.minimum(*clocks)[:-1]])
        met = np.empty(len(order), np.int64)
        met[order] = before
        cut = len(arrival[0])
        return Race((ts[0], ts[1]), (key[0], key[1]), (met[:cut], met[cut:]), length, settled_after)

    def windows(self, slack: int) -> Iterator[Window]:
        """All windows but the last, which no clock passes, as they close under a slack."""
        numbers = [stamps // self.length for stamps in self.ts]
        by_window = [np.argsort(one, kind="stable") for one in numbers]
        first, last = min(int(one.min()) for one in numbers), max(int(one.max()) for one in numbers)
        edges = [
            np.searchsorted(one[order], np.arange(first, last + 2))
            for one, order in zip(numbers, by_window, strict=True)
        ]
        keys = 1 + max(int(one.max()) for one in self.key)
        for at, number in enumerate(range(first, last)):
            end = (number + 1) * self.length
            mine = [order[edge[at] : edge[at + 1]] for order, edge in zip(by_window, edges, strict=True)]
            in_time = [own[met[own] < end + slack] for own, met in zip(mine, self.met, strict=True)]
            yield Window(number, self._seen(in_time, keys), self._seen(mine, keys))

    def _seen(self, members: list[Integers], keys: int) -> Seen:
        left, right = (np.bincount(key[own], minlength=keys) for key, own in zip(self.key, members, strict=True))
        return Seen(len(members[0]), len(members[1]), int(left @ right))


def errors(race: Race, estimator: Estimator, slack: int) -> npt.NDArray[np.float64]:
    """The relative errors of an estimator, window by window, under a slack."""
    lag = -(-(slack + race.settled_after) // race.length)
    closed = list(race.windows(slack))
    found = []
    for at, window in enumerate(closed):
        if at >= lag:
            estimator.learn(closed[at - lag].closed, closed[at - lag].whole)
        given = estimator.estimate(window.closed)
        found.append(abs(given - window.whole.pairs) / max(1, window.whole.pairs))
    return np.array(found)
