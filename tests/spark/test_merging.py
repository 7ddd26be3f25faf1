"""Shards may be at different watermarks; what a run hands out is in timestamp order all the same."""

from __future__ import annotations

import pyarrow as pa
from hypothesis import given
from hypothesis import strategies as st

from slackwater.runtime.spark.replay.ordered_merge import Merged

END = 100
Shard = tuple[list[int], list[int]]
"""The times of its results, and how far its watermark moves in each micro-batch."""

shards = st.lists(
    st.tuples(st.lists(st.integers(1, END)).map(sorted), st.lists(st.integers(0, 40), min_size=4, max_size=4)),
    min_size=1, max_size=3,
)  # fmt: skip


def rows(times: list[int]) -> pa.Table | None:
    return pa.table({"_ts": pa.array(times, pa.timestamp("us"))}) if times else None


def times(table: pa.Table | None) -> list[int]:
    return [] if table is None else table.column("_ts").cast(pa.int64()).to_pylist()


def micro_batches(work: list[Shard]) -> list[tuple[list[int], list[int]]]:
    """In each micro-batch: the results that the shards emitted, one shard after the other, and their watermarks."""
    made, before = [], [0] * len(work)
    for step in range(len(work[0][1])):
        now = [watermark + moves[step] for watermark, (_, moves) in zip(before, work, strict=True)]
        out = [t for (all_, _), low, high in zip(work, before, now, strict=True) for t in all_ if low < t <= high]
        made.append((out, now))
        before = now
    return made


@given(shards)
def test_rows_leave_in_order_and_none_is_lost(work: list[Shard]) -> None:
    merged, seen, given_so_far = Merged(), [], []
    for out, watermarks in micro_batches(work):
        given_so_far += out
        seen += times(merged.in_order(rows(out), min(watermarks)))
        assert seen == sorted(t for t in given_so_far if t <= min(watermarks))
    assert seen + times(merged.rest()) == sorted(given_so_far)
    assert merged.rest() is None


@given(shards)
def test_nothing_is_held_where_all_shards_share_a_watermark(work: list[Shard]) -> None:
    together = [(all_, work[0][1]) for all_, _ in work]
    merged = Merged()
    for out, watermarks in micro_batches(together):
        assert times(merged.in_order(rows(out), min(watermarks))) == sorted(out)
    assert merged.rest() is None
