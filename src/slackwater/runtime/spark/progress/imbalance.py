"""How evenly the tuples of a micro-batch are spread over the shards that run at the same time, and by which keys not.

A micro-batch takes as long as its busiest shard. A key is in one shard, so if one has a share p of all tuples, no
number of shards makes the query faster than 1 / p of them.

Invariant: shares are those of one micro-batch, of tuples that reached the shards.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

MOST = 8
LARGE_SHARE = 0.1
"""A key with so many of all tuples is hot however few key groups there are."""
UNEVEN = 1.5
"""The imbalance from which on people are told of it."""
ENOUGH = 100
"""Tuples a shard of which less would be uneven by chance."""


@dataclass(frozen=True)
class HotKey:
    """A key that brought a large share of a micro-batch."""

    key: Mapping[str, Any]
    """Its columns, named as the first stream has them."""
    rows: int
    """Its tuples in all streams; of large micro-batches an estimate."""
    share: float
    """Of all tuples of the micro-batch."""
    shard: int
    """The key group that it belongs to."""

    def __str__(self) -> str:
        return " AND ".join(f"{name} = {value!r}" for name, value in self.key.items())


def shares_of(shards: Sequence[Mapping[str, Any]]) -> tuple[float, ...]:
    """The share of tuples of all that run at the same time, in their order; empty where there were no tuples.

    >>> shares_of([{"shard": n, "task": n % 2, "taken": rows} for n, rows in enumerate((1, 2, 5))])
    (0.75, 0.25)
    """
    taken: dict[int, int] = {}
    for one in shards:
        # Where no task of Spark runs it, a shard runs alone.
        task = one["shard"] if one["task"] is None else one["task"]
        taken[task] = taken.get(task, 0) + one["taken"]
    total = sum(taken.values())
    return tuple(taken[task] / total for task in sorted(taken)) if total else ()


def hot_keys_of(shards: Sequence[Mapping[str, Any]]) -> tuple[HotKey, ...]:
    """The keys that have a tenth of all tuples, or more than a key group would have if all had the same.

    >>> one = {"shard": 0, "taken": 60, "hot_keys": [({"k": 7}, 50), ({"k": 1}, 9)]}
    >>> [(str(key), key.share) for key in hot_keys_of([one, {"shard": 1, "taken": 40, "hot_keys": []}])]
    [('k = 7', 0.5)]
    """
    total = sum(one["taken"] for one in shards)
    least = min(LARGE_SHARE, 1 / len(shards)) * total
    found = [
        HotKey(key, rows, rows / total, one["shard"]) for one in shards for key, rows in one["hot_keys"] if rows > least
    ]
    return tuple(sorted(found, key=lambda one: -one.rows)[:MOST])


def told(shares: Sequence[float], keys: Sequence[HotKey], rows: int, groups: int) -> Iterator[tuple[str, str]]:
    """What people should know, as lines of a table; nothing where tuples are spread well, or are too few to say."""
    if rows < ENOUGH * len(shares):
        return
    uneven = bool(shares) and max(shares) * len(shares) >= UNEVEN
    if uneven:
        yield (
            "imbalance",
            f"the busiest of {len(shares)} shards had {max(shares):.0%} of the tuples of this micro-batch",
        )
    for one in keys:
        if uneven or one.share > 2 / groups:
            # A tenth of a shard more is not worth one.
            enough = max(1, math.ceil(1 / one.share - 0.1))
            helps = "more than one shard does not help" if enough == 1 else f"more than {enough} shards do not help"
            yield "hot key", f"{one} has {one.share:.0%} of them; {helps}"
