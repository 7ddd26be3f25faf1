"""The results of several shards as one sequence in timestamp order.

Invariant: rows leave in timestamp order. Each shard gives its own in order, but with a quality target each has its own
slack, so one may be ahead of another; what is newer than the watermark of the slowest shard is held until that has come
so far. Where all shards share a watermark nothing is ever held.
"""

from __future__ import annotations

import numpy as np
import pyarrow as pa

from slackwater.core.batch import Words
from slackwater.core.time import AFTER_ALL

BY = ("_ts", "window_end", "second")
"""What results are in the order of: the first of these columns that they have, from the right."""


class Merged:
    """Takes what a micro-batch emitted and gives what is in order by then.

    >>> def rows(*times):
    ...     return pa.table({"_ts": pa.array(times, pa.timestamp("us"))})
    >>> merged = Merged()
    >>> merged.in_order(rows(1, 5, 2), watermark=3)["_ts"].cast(pa.int64()).to_pylist()
    [1, 2]
    >>> merged.in_order(rows(4), watermark=5)["_ts"].cast(pa.int64()).to_pylist()
    [4, 5]
    >>> merged.in_order(None, watermark=9) is None
    True
    """

    def __init__(self) -> None:
        self._held: pa.Table | None = None

    def in_order(self, rows: pa.Table | None, watermark: int) -> pa.Table | None:
        """The rows up to the watermark of the slowest shard, of these and of those held; None where there are none."""
        waiting = [table for table in (self._held, rows) if table is not None]
        if not waiting:
            return None
        together = by_time(waiting)
        ready = int(np.searchsorted(times_of(together), watermark, "right"))
        self._held = together.slice(ready) if ready < together.num_rows else None
        return together.slice(0, ready) if ready else None

    def rest(self) -> pa.Table | None:
        """What is still held; for a run that ends before its input does."""
        return self.in_order(None, AFTER_ALL)


def by_time(tables: list[pa.Table]) -> pa.Table:
    """The rows of all tables by their time."""
    together = pa.concat_tables(tables)
    times = times_of(together)
    if (times[1:] >= times[:-1]).all():
        return together
    return together.take(pa.array(np.argsort(times, kind="stable")))


def times_of(table: pa.Table) -> Words:
    """The times of the rows, in microseconds."""
    by = next(name for name in reversed(table.column_names) if name in BY)
    return table.column(by).cast(pa.int64()).to_numpy()
