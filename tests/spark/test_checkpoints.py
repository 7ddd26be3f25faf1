"""A checkpoint that does not fit is refused in words, before anything is lost."""

from __future__ import annotations

import json
import re
from collections.abc import Callable
from dataclasses import dataclass, field, replace
from decimal import Decimal
from pathlib import Path
from typing import cast

import pyarrow as pa
import pytest
from pyspark.errors import StreamingQueryException
from pyspark.sql import SparkSession

import slackwater as sw
from slackwater.core.errors import UsageError
from slackwater.core.state import StateUpdate, decode_json, encode_json
from slackwater.language.bind import bind
from slackwater.observe.imbalance import ShardLoad
from slackwater.operators.pipeline import STATE_VERSION, Epochs
from slackwater.plan.planner import plan
from slackwater.runtime.kernels import kernel_for
from slackwater.runtime.spark import control
from slackwater.runtime.spark.control import ControlLog
from slackwater.runtime.spark.query import fingerprint
from slackwater.runtime.spark.state.checkpoint import described, difference, structure
from slackwater.runtime.spark.state.page_files import FORMAT
from slackwater.runtime.spark.state.shard import Shard
from slackwater.sources.binding import bind_to_tables
from slackwater.sources.codebook import Codebook
from tests.kit.examples import EXAMPLES
from tests.plan.test_graph import CASES, SCHEMAS
from tests.spark.conftest import Streamed
from tests.spark.in_process import blocks_of, planned, played_member
from tests.spark.streams import pieces

SUMS = "SELECT key, SUM(v) AS total FROM s [RANGE 100 MS] GROUP BY key WITH NO WAIT"
ONE = played_member(planned(SUMS, {"s": pieces(0, 1)[0]}), 1)


@pytest.mark.xdist_group("spark")
def test_a_dataframe_goes_on_with_any_number_of_shards_and_another_query_is_refused_by_what_differs(
    spark: SparkSession, streamed: Streamed, finished: Callable[..., pa.Table], tmp_path: Path
) -> None:
    def run(query: str, tables: list[pa.Table], shards: int) -> pa.Table:
        return finished(sw.sql(spark, query, shards=shards, state=tmp_path / "state", s=streamed("s", tables)))

    tables = pieces(0, 3)
    before = run(SUMS, tables[:1], 2)
    with pytest.raises(
        StreamingQueryException, match=r"conditions differ \(range was 100000 and is 60000\); use a new"
    ):
        run(SUMS.replace("100 MS", "60 MS"), tables[1:2], 2)
    after = run(SUMS, [], 2)
    assert after.num_rows > before.num_rows > 0, "a refusal leaves the checkpoint as it was"
    assert run(SUMS, tables[2:], 3).num_rows > after.num_rows


def shard_of_sums() -> Shard:
    return Shard(ONE.plan, ONE.text_rows, "the same query")


@pytest.fixture
def state() -> list[StateUpdate]:
    """What a shard has in the store after a micro-batch."""
    shard = shard_of_sums()
    assert list(shard.epoch(blocks_of(ONE, {"s": pieces(0, 1)[0]})))
    return [entry for entry in shard.snapshot_delta() if entry.value is not None]


def test_state_of_this_version_is_taken_over(state: list[StateUpdate]) -> None:
    shard = shard_of_sums()
    shard.restore(state)
    assert shard.progress(ShardLoad()).in_time == 1000


@pytest.mark.parametrize("version", [STATE_VERSION - 1, STATE_VERSION + 1])
def test_state_of_another_version_is_refused(state: list[StateUpdate], version: int) -> None:
    of_another_version = [
        replace(entry, value=encode_json(decode_json(entry.value or b"") | {"version": version}))
        if entry.key == "version"
        else replace(entry, namespace=entry.namespace.replace("clock_guard", "a_part_of_another_version"))
        for entry in state
    ]
    assert of_another_version != state
    with pytest.raises(
        UsageError, match=f"format {version}, and this version reads format {STATE_VERSION}; go on with"
    ):
        shard_of_sums().restore(of_another_version)


@pytest.mark.parametrize("restarted", [False, True])
def test_rows_that_come_after_the_end_are_rejected_and_not_lost(restarted: bool) -> None:
    first, second = (blocks_of(ONE, {"s": piece}) for piece in pieces(0, 2))
    shard = shard_of_sums()
    assert list(shard.epoch(first, end=True))
    state = [entry for entry in shard.snapshot_delta() if entry.value is not None]
    if restarted:
        shard = shard_of_sums()
        shard.restore(state)
    assert list(shard.epoch(second)) == []
    reported = shard.progress(ShardLoad())
    assert reported.streams["s"].rejected == {"after_end": 1000}
    assert reported.in_time + reported.late == 1000
    ((kind, rows),) = shard.record.tables()
    assert (kind, rows.column("reason").to_pylist()) == ("rejected", ["after_end"] * 1000)


def kept(query: str, table: pa.Table, time: str = "ts", unit: str = "ms") -> str:
    return structure(plan(bind_to_tables(query, {"s": table}, time).query), (0,), unit, timed=False)


def test_what_gives_state_another_meaning_is_told_and_what_does_not_is_passed_over() -> None:
    columns = {"ts": [1], "ts2": [2], "v": pa.array([Decimal("1.50")], pa.decimal128(10, 2))}
    table = pa.table(columns)
    finer = pa.table(columns | {"v": pa.array([Decimal("1.50")], pa.decimal128(10, 4))})
    sums = "SELECT SUM(v) AS total FROM s [RANGE 1 SECOND] WITH {}"
    before = kept(sums.format("NO WAIT"), table)
    assert difference(before, kept(sums.format("ERROR 1%"), table)) is None
    assert difference(before, kept(sums.replace("WITH", "WHERE ts2 > 0 WITH").format("NO WAIT"), table)) is None
    others = {
        "columns read from s": [kept(sums.format("NO WAIT"), finer), kept(sums.format("NO WAIT"), table, time="ts2")],
        "unit of time": [kept(sums.format("NO WAIT"), table, unit="s")],
        "windows, keys or conditions": [kept(sums.replace("1 SECOND", "2 SECONDS").format("NO WAIT"), table)],
    }
    for what, structures in others.items():
        for one in structures:
            assert f"its {what} differ" in (difference(before, one) or "")


def test_what_is_learned_of_some_aggregates_is_not_taken_for_that_of_others() -> None:
    table = pa.table({"ts": [1], "v": [1.0]})
    keys = []
    for items in ("AVG(v) AS a", "AVG(v) AS a, SUM(v) AS b"):
        query = f"SELECT {items} FROM s [RANGE 1 SECOND] WITH ERROR 1%"
        kernel = kernel_for(plan(bind_to_tables(query, {"s": table}, "ts").query), Epochs(), Codebook())
        (version,) = [entry for entry in kernel.snapshot_delta() if entry.key == "version"]
        keys.append(decode_json(version.value or b"")["learning_key"])
    assert keys[0] != keys[1]


def test_a_refusal_names_the_field_and_both_values() -> None:
    table = pa.table({"ts": [1], "k": [1], "v": [1.0]})
    before = kept("SELECT k, SUM(v) AS t FROM s [RANGE 1 SECOND] GROUP BY k WITH NO WAIT", table)
    other = kept("SELECT k, SUM(v) AS t FROM s [RANGE 2 SECONDS] GROUP BY k WITH NO WAIT", table)
    assert "(range was 1000000 and is 2000000)" in (difference(before, other) or "")
    sliding = kept("SELECT k, SUM(v) AS t FROM s [RANGE 1 SECOND SLIDE 500 MS] GROUP BY k WITH NO WAIT", table)
    assert "(slide was null and is 500000)" in (difference(before, sliding) or "")
    more = kept("SELECT k, SUM(v) AS t, MAX(v) AS m FROM s [RANGE 1 SECOND] GROUP BY k WITH NO WAIT", table)
    assert "(accumulators was [" in (difference(before, more) or "")


def test_a_new_field_with_its_default_leaves_old_checkpoints_as_they_are() -> None:
    @dataclass(frozen=True)
    class Spec:
        windows: tuple[int, ...]

    before = json.dumps(described(Spec((1, 2))))

    @dataclass(frozen=True)
    class Later:
        windows: tuple[int, ...]
        bounded: bool = False
        names: list[str] = field(default_factory=list)

    Later.__name__ = "Spec"
    assert difference(before, json.dumps(described(Later((1, 2))))) is None
    told = difference(before, json.dumps(described(Later((1, 2), bounded=True)))) or ""
    assert "its bounded differ (it was its default and is true)" in told


def test_what_the_state_of_any_query_depends_on_can_be_described() -> None:
    for case in CASES:
        physical = plan(bind(case.read_text(), SCHEMAS).query)
        found = structure(physical, (0, 1), "ms", timed=False)
        assert difference(found, structure(physical, (0, 1), "ms", timed=False)) is None
        assert " at 0x" not in found
        assert len(fingerprint(physical, (0, 1))) == 64
    for example in EXAMPLES:
        assert json.dumps(described(example.spec))


def test_state_of_another_version_is_refused_at_the_start_with_the_way_out(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(control, "location_of", lambda spark, path: path)
    folder = f"{tmp_path}/{control.CONTROL}"
    begun = ControlLog(cast(SparkSession, None), folder)
    begun.say(*begun.opening(shards=2, groups=16, alone=True, timed=False, history=False))
    assert ControlLog(cast(SparkSession, None), folder).beginning.shards == 2
    monkeypatch.setattr(control, "VERSION", "4.1")
    told = f"{tmp_path} has state of version {FORMAT}.{STATE_VERSION}, and this version of slackwater reads 4.1; go on"
    with pytest.raises(UsageError, match=f"{re.escape(told)} with the version .* or use a new checkpoint folder"):
        ControlLog(cast(SparkSession, None), folder)
