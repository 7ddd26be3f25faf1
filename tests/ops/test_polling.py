"""What Spark reports of a query reaches those that follow it, every micro-batch once."""

from __future__ import annotations

import json
from types import SimpleNamespace
from typing import Any

import pytest

pytest.importorskip("pyspark", reason="the Spark runtime needs pyspark")

from slackwater.observe.value import QueryProgress, nothing_observed
from slackwater.runtime.spark.progress import _MicroBatches

SHARD = json.dumps(QueryProgress(target="NO WAIT", observed=nothing_observed(1)).as_json())


def report(number: int, idle: bool = False) -> dict[str, Any]:
    """As Spark reports a micro-batch; one in which nothing came has the number of the next one."""
    metrics = {} if idle else {"slackwater_0": {"shards": [SHARD]}}
    return {"runId": "run", "id": "id", "name": "q", "batchId": number, "observedMetrics": metrics}


def test_a_micro_batch_behind_a_look_in_which_nothing_came_is_found_under_the_same_number() -> None:
    query: Any = SimpleNamespace(recentProgress=[], lastProgress=None)
    followed = _MicroBatches(lambda: query)
    found = []
    for reports in ([], [report(0, idle=True)], [report(0)], [], [report(1, idle=True)], [report(1)],
                    [report(2), report(3, idle=True)], [report(3), report(4)]):  # fmt: skip
        query.recentProgress += reports
        query.lastProgress = query.recentProgress[-1] if query.recentProgress else None
        found.append([one.batch for one in followed.poll()])
    assert found == [[], [], [0], [], [], [1], [2], [3, 4]]
