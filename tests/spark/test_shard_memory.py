"""What a shard tells of its memory: members of combinations are known again although live rows have no identity."""

from __future__ import annotations

import json

import pyarrow as pa
import pytest

pytest.importorskip("pyspark", reason="the Spark runtime needs pyspark")

from slackwater.core.memory import Memory, Resident
from slackwater.observe.imbalance import ShardLoad
from slackwater.observe.value import QueryProgress
from slackwater.runtime.spark.members import Member
from slackwater.runtime.spark.state.shard import Shard
from tests.spark.in_process import blocks_of, planned, played_member

CHAIN = """SELECT j.k AS k FROM (SELECT a.k AS k FROM a [1 SEC], b [1 SEC] WHERE a.k = b.k) j [1 SEC], c [1 SEC]
WHERE j.k = c.k WITH NO WAIT OPTIONS (size_by = 'size')"""


def epoch(shard: Shard, one: Member, tables: dict[str, pa.Table]) -> Memory:
    """What the shard tells after one more micro-batch."""
    for _ in shard.epoch(blocks_of(one, tables)):
        pass
    memory = QueryProgress.of_json(json.loads(json.dumps(shard.progress(ShardLoad()).as_json()))).observed.memory
    assert memory is not None
    return memory


def test_a_live_chain_counts_members_once_also_after_a_restart() -> None:
    sizes = {"a": 100, "b": 10, "c": 1}
    came = {name: pa.table({"ts": [10, 20], "k": [1, 1], "size": [size] * 2}) for name, size in sizes.items()}
    one = played_member(planned(CHAIN, came), 1)
    shard = Shard(one.plan, one.text_rows, "the same query")
    first = epoch(shard, one, came)
    assert first.windows["j"] == Resident(4, 4, 220)
    assert first.query == Resident(10, 6, 222)
    restored = Shard(one.plan, one.text_rows, "the same query")
    restored.restore(shard.snapshot_delta())
    again = epoch(restored, one, came | {"b": came["b"].slice(0, 1)})
    # Two more of a and one of b, which are not those that came before the restart.
    assert again.nodes["j"] == Resident(7, 7, 430)
    assert (again.streams["a"], again.streams["b"]) == (Resident(4, 4, 400), Resident(3, 3, 30))
