"""When a query over what is there now is over, though Spark runs micro-batches for ever to tell it the time."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import pytest

pytest.importorskip("pyspark", reason="the Spark runtime needs pyspark")

from slackwater.runtime.spark.ending import is_quiet


def told(start: str | None, end: str | None, ran: bool = True) -> Any:
    source = SimpleNamespace(startOffset=start, endOffset=end)
    return SimpleNamespace(durationMs={"addBatch": 5} if ran else {"latestOffset": 1}, sources=[source])


@pytest.mark.parametrize(
    ("so_far", "over"),
    [
        ([], False),
        ([told(None, None, ran=False)], False),
        # The last one of an earlier start, again: what has come since is still to be read.
        ([told("3", "3")], False),
        ([told("3", "3"), told("3", "4")], False),
        ([told("3", "3"), told("3", "4"), told("4", "4", ran=False)], False),
        ([told("3", "3"), told("3", "4"), told("4", "4")], True),
        ([told(None, "0"), told("0", "0")], True),
    ],
)
def test_only_a_micro_batch_of_its_own_that_finds_nothing_new_is_the_last(so_far: list[Any], over: bool) -> None:
    assert is_quiet(so_far) is over
