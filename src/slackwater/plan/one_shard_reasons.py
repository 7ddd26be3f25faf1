"""Operators that must see the tuples of all keys, and so run in one shard of Spark."""

from __future__ import annotations

from slackwater.operators.join.count_windows import CountWindowJoin
from slackwater.operators.join.rate_windows import RateJoin
from slackwater.operators.landmark import LandmarkAggregate
from slackwater.operators.row_aggregate import RowAggregate


def one_shard(operator: object) -> list[str]:
    """Why, in words for EXPLAIN; nothing where a key may spread the query over shards.

    >>> one_shard(CountWindowJoin((), (), (), (), (), 2))
    ['windows that count tuples count those of all keys, so on Spark the query runs in one shard']
    """
    if isinstance(operator, RateJoin):
        return ["windows that follow rates count the tuples of all keys, so on Spark the query runs in one shard"]
    if isinstance(operator, CountWindowJoin | RowAggregate):
        return ["windows that count tuples count those of all keys, so on Spark the query runs in one shard"]
    if isinstance(operator, LandmarkAggregate):
        return ["a tuple of any key may open or close the window, so on Spark the query runs in one shard"]
    return []
