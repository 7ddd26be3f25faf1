"""Counting without making results: numbers far beyond what could be written as rows."""

from __future__ import annotations

import numpy as np
import pyarrow as pa
import pytest

from slackwater.core.errors import DataError
from slackwater.core.state import NO_LATE, Emission
from slackwater.sinks.rows import SecondCounts
from tests.runtime.streams import Runtime, at


@pytest.mark.end_to_end
def test_billions_of_results_are_counted(runtime: Runtime) -> None:
    n = 1200
    streams = {
        name: pa.table({"arrival": np.arange(n) * 4 + i, "ts": np.arange(n), "k": np.ones(n, np.int64)})
        for i, name in enumerate("abcd")
    }
    froms = ", ".join(f"{name} [1 HOUR]" for name in "abcd")
    query = f"SELECT a.k AS k FROM {froms} WHERE a.k = b.k AND b.k = c.k AND c.k = d.k"
    ran = runtime.run(query, streams, "1000", count_only=True)
    assert ran.report["results"] == n**4
    assert ran.rows("second", "count") == [(at(0), 1000**4), (at(1000), n**4 - 1000**4)]


def test_a_second_that_no_word_can_count_is_an_error() -> None:
    counts = SecondCounts()
    heavy = np.array([2**62, 2**62])
    times = np.array([1, 2])
    counts.note(Emission(times, (), times, heavy, NO_LATE))
    with pytest.raises(DataError, match="more results"):
        counts.table()


def test_results_before_1970_belong_to_the_second_they_fall_in() -> None:
    counts = SecondCounts()
    times = np.array([-1_000_001, -1, 0])
    counts.note(Emission(times, (), times, np.array([1, 2, 3]), NO_LATE))
    assert counts.table().to_pylist() == [
        {"second": at(-2000), "count": 1},
        {"second": at(-1000), "count": 2},
        {"second": at(0), "count": 3},
    ]
