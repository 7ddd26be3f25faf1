"""Seeded messages of two topics with four partitions, one of which lags and catches up, one of which falls silent.

Time is counted in seconds since START. A message has a moment of arrival and an event time; messages of a partition are
produced in the order of arrival.
"""

from __future__ import annotations

import json
import random
from collections import Counter
from collections.abc import Iterable
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta

START = datetime(2026, 11, 1, 12, tzinfo=UTC)
PARTITIONS = 4
LAGGING, IDLE = 1, 3
WINDOW = 1.0
"""Seconds that two messages may lie apart."""
KEYS = 8


@dataclass(frozen=True)
class Message:
    """One of a stream."""

    arrival: float
    stream: str
    partition: int
    at: float
    key: str
    v: int

    @property
    def value(self) -> bytes:
        ts = (START + timedelta(seconds=self.at)).isoformat(timespec="milliseconds")
        return json.dumps({"ts": ts, "key": self.key, "v": self.v}).encode()


def messages(
    seconds: int,
    rate: int,
    *,
    seed: int = 7,
    lag: float = 30.0,
    lagging: tuple[float, float] = (20.0, 60.0),
    idle_from: float = 40.0,
    disorder: float = 0.5,
) -> list[Message]:
    """Both streams in the order of arrival, so many messages a second of each.

    Some are late by half a second or so. What happens in the lagging partition between two moments arrives `lag`
    seconds later, in its order: first there is nothing from it, then it is behind, then it catches up in a burst.
    """
    rng = random.Random(seed)
    made = []
    behind = dict.fromkeys("ab", 0.0)
    for number in range(2 * seconds * rate):
        stream, sent = "ab"[number % 2], number // 2 / rate
        partition = rng.randrange(PARTITIONS)
        if partition == IDLE and sent >= idle_from:
            partition = 0
        late = rng.expovariate(1 / disorder) if rng.random() < 0.3 else 0.0
        arrival = sent
        if partition == LAGGING:
            arrival += lag if lagging[0] <= sent < lagging[1] else 0.0
            behind[stream] = arrival = max(behind[stream], arrival)
        key = f"k{rng.randrange(KEYS)}"
        made.append(Message(arrival, stream, partition, round(sent - late, 3), key, number))
    return sorted(made, key=lambda one: one.arrival)


def true_pairs(made: Iterable[Message]) -> Counter[tuple[str, int, int]]:
    """The join of both streams, by its definition."""
    by_key: dict[tuple[str, str], list[Message]] = {}
    for one in made:
        by_key.setdefault((one.stream, one.key), []).append(one)
    return Counter(
        (a.key, a.v, b.v)
        for (stream, key), mine in by_key.items()
        if stream == "a"
        for a in mine
        for b in by_key.get(("b", key), ())
        if abs(round(a.at * 1000) - round(b.at * 1000)) <= WINDOW * 1000
    )
