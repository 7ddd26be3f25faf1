"""Operators that must see the tuples of all keys, and so run in one shard of Spark."""

from __future__ import annotations

from slackwater.operators.join.rate_windows import RateJoin
from slackwater.operators.join.row_windows import RowJoin
from slackwater.operators.landmark import LandmarkAggregate
from slackwater.operators.row_aggregate import RowAggregate


def one_shard(operator: object) -> list[str]:
    """Why, in words for EXPLAIN; nothing where a key may spread the query over shards.

    >>> one_shard(RowJoin((), (), (), (), (), 2))
    ['windows that count tuples count those of all keys, so on Spark the query runs in one shard']
    """
    if isinstance(operator, RateJoin):
        return ["windows that follow rates count the tuples of all keys, so on Spark the query runs in one shard"]
    if isinstance(operator, RowJoin | RowAggregate):
        return ["windows that count tuples count those of all keys, so on Spark the query runs in one shard"]
    if isinstance(operator, LandmarkAggregate):
        return ["a tuple of any key may open or close the window, so on Spark the query runs in one shard"]
    return []
