"""Which partitions have odd clocks, and since when.

A clock more than `max_ahead` ahead of the middle one of its stream, or more than `max_behind` behind it, is wrong: the
partition is not waited for. One that is waited for lags where it is a minute behind the middle one, and four times as
far as the usual partition is from it: a backlog that is read makes all of them differ.

Invariant: what is known of the past is when each odd clock was first found odd, by the middle clock of its stream.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping

import numpy as np

from slackwater.core.batch import Words
from slackwater.core.state import StateUpdate, decode_json, encode_json, state_update
from slackwater.core.time import BEFORE_ALL, MINUTE
from slackwater.core.wrong_clocks import OddClock
from slackwater.disorder.release.state import PARTITION_CLOCK, PARTITION_IDLE, PARTITION_STREAM

FEWEST = 3
TIMES = 4
LAGS = MINUTE
MOST = 24
"""So many are named."""


class OddClocks:
    """The odd clocks of a query's partitions.

    >>> odd = OddClocks(max_ahead=100, max_behind=100)
    >>> partitions = np.array([[0] * 5, [10, 11, 12, 5000, -5000], [0] * 5, [0] * 5])
    >>> [(one.name, one.ahead) for one in odd.look(partitions, {(0, name): name for name in range(5)})]
    [(3, 4989), (4, -5011)]
    """

    def __init__(self, max_ahead: int, max_behind: int) -> None:
        self._max_ahead, self._max_behind = max_ahead, max_behind
        self._since: dict[tuple[int, int], int] = {}

    def look(self, partitions: Words, numbers: Mapping[tuple[int, int], int]) -> tuple[OddClock, ...]:
        """Those that are odd now, given the clocks of all partitions and their numbers."""
        if not partitions.shape[1]:
            return ()
        names = list(numbers)
        found = [
            (*names[p], ahead, middle, waited_for)
            for places, ahead_of, middle, waits in self._by_stream(partitions)
            for p, ahead, waited_for in zip(places.tolist(), ahead_of.tolist(), waits.tolist(), strict=True)
        ]
        before, self._since = self._since, {}
        for stream, name, _, middle, _ in found:
            self._since[stream, name] = before.get((stream, name), middle)
        return tuple(
            OddClock(stream, name, ahead, self._since[stream, name], bool(waited_for))
            for stream, name, ahead, _, waited_for in found
        )

    def _by_stream(self, partitions: Words) -> Iterator[tuple[Words, Words, int, Words]]:
        """By stream: the places of those that are odd, how far each is ahead, the middle clock, and which are waited
        for."""
        known = partitions[PARTITION_CLOCK] != BEFORE_ALL
        for stream in np.unique(partitions[PARTITION_STREAM]):
            mine = np.flatnonzero(known & (partitions[PARTITION_STREAM] == stream))
            if len(mine) < FEWEST:
                continue
            clocks = partitions[PARTITION_CLOCK, mine]
            middle = int(np.partition(clocks, (len(mine) - 1) // 2)[(len(mine) - 1) // 2])
            ahead = clocks - middle
            usual = int(np.median(np.abs(ahead)))
            wrong = (ahead > self._max_ahead) | (ahead < -self._max_behind)
            lags = ~wrong & (ahead < -max(LAGS, TIMES * usual)) & (partitions[PARTITION_IDLE, mine] == 0)
            odd = np.flatnonzero(wrong | lags)[:MOST]
            yield mine[odd], ahead[odd], middle, lags[odd]

    def snapshot(self, namespace: str, key: str) -> StateUpdate:
        """What to persist."""
        since = [[stream, name, time] for (stream, name), time in self._since.items()]
        return state_update(namespace, key, encode_json({"since": since}))

    def restore(self, value: bytes) -> None:
        """Take over what was persisted."""
        self._since = {(stream, name): time for stream, name, time in decode_json(value)["since"]}
