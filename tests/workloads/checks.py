"""What holds of every seeded workload."""

from __future__ import annotations

import re
from collections.abc import Callable

import numpy as np
import pyarrow as pa

from slackwater.workloads import Workload

Make = Callable[[int], Workload]
"""A workload by its seed."""


def the_same_seed_gives_the_same_rows_and_another_other_rows_in_every_stream(make: Make) -> None:
    one, other = make(3), make(4)
    assert one == make(3)
    assert one.streams.keys() == other.streams.keys()
    for stream, table in one.streams.items():
        assert not table.equals(other.streams[stream])


def it_is_called_by_its_name_and_its_query_reads_its_streams(make: Make, name: str) -> None:
    workload = make(0)
    assert workload.name == name
    for stream in workload.streams:
        assert re.search(rf"\b{stream}\b( \[|\n| *$|\))", workload.query, re.MULTILINE)


def rows_are_in_arrival_order_and_arrivals_are_one_sequence_over_the_streams(make: Make) -> None:
    streams = make(0).streams.values()
    for table in streams:
        assert table.column_names[:2] == ["ts", "arrival"]
        assert table.schema.field("ts").type == table.schema.field("arrival").type == pa.int64()
        assert (np.diff(table["arrival"].to_numpy()) > 0).all()
        assert all(column.null_count == 0 for column in table.columns)
    merged = np.sort(np.concatenate([table["arrival"].to_numpy() for table in streams]))
    assert (merged == np.arange(len(merged))).all()
