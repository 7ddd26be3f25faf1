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

from slackwater.core.values import Value

MOST = 8
LARGE_SHARE = 0.1
"""A key with so many of all tuples is hot however few key groups there are."""
UNEVEN = 1.5
"""The imbalance from which on it is reported."""
ENOUGH = 100
"""Tuples a shard of which less would be uneven by chance."""


@dataclass(frozen=True)
class KeyLoad(Value):
    """A key, and its tuples in a micro-batch."""

    key: Mapping[str, Any]
    """Its columns, named as the first stream has them."""
    rows: int


@dataclass(frozen=True)
class ShardLoad(Value):
    """The work of one shard in one micro-batch."""

    shard: int = 0
    """Its label."""
    task: int | None = None
    """The task of Spark that ran it: those of one task run one after the other."""
    taken: int = 0
    """Tuples that reached it."""
    keys: tuple[KeyLoad, ...] = ()
    """Those that brought most of them."""
    state_read: int = 0
    """Bytes of pages."""
    state_written: int = 0
    is_upper: bool = False
    """Whether it runs the last operator alone, on what other shards hand on; no tuples of streams reach it."""

    @property
    def place(self) -> tuple[int, bool]:
        """What distinguishes it from all other shards of the query."""
        return self.shard, self.is_upper


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


def shares_of(shards: Sequence[ShardLoad]) -> tuple[float, ...]:
    """The share of tuples of all that run at the same time, in their order; empty where there were no tuples.

    >>> shares_of([ShardLoad(n, task=n % 2, taken=rows) for n, rows in enumerate((1, 2, 5))])
    (0.75, 0.25)
    """
    taken: dict[int, int] = {}
    for one in shards:
        # Where no task of Spark runs it, a shard runs alone.
        task = one.shard if one.task is None else one.task
        taken[task] = taken.get(task, 0) + one.taken
    total = sum(taken.values())
    return tuple(taken[task] / total for task in sorted(taken)) if total else ()


def hot_keys_of(shards: Sequence[ShardLoad]) -> tuple[HotKey, ...]:
    """The keys that have a tenth of all tuples, or more than a key group would have if all had the same.

    >>> one = ShardLoad(0, taken=60, keys=(KeyLoad({"k": 7}, 50), KeyLoad({"k": 1}, 9)))
    >>> [(str(key), key.share) for key in hot_keys_of([one, ShardLoad(1, taken=40)])]
    [('k = 7', 0.5)]
    """
    total = sum(one.taken for one in shards)
    least = min(LARGE_SHARE, 1 / max(1, sum(not one.is_upper for one in shards))) * total
    found = [
        HotKey(each.key, each.rows, each.rows / total, one.shard)
        for one in shards
        for each in one.keys
        if each.rows > least
    ]
    return tuple(sorted(found, key=lambda one: -one.rows)[:MOST])


def imbalance_lines(
    shares: Sequence[float], keys: Sequence[HotKey], rows: int, groups: int
) -> Iterator[tuple[str, str]]:
    """What users should know, as lines of a table; nothing where tuples are spread well, or are too few to say."""
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
