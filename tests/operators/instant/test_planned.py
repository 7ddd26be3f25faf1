"""A query over instantaneous windows from its bound form to rows: plan, local run, shards, EXPLAIN."""

from collections import Counter
from dataclasses import replace

import numpy as np
import pyarrow as pa
import pytest

from slackwater.core.batch import Batch
from slackwater.core.errors import UsageError
from slackwater.core.options import Options
from slackwater.core.quality import Complete
from slackwater.core.schema import ARROW_OF, Field, Kind, Schema, kind_of
from slackwater.disorder.controllers import FixedSlack
from slackwater.expressions.functions import typed_call
from slackwater.expressions.relational import Aggregate, AggregateCall, Join, Scan
from slackwater.expressions.tree import Column, Literal
from slackwater.language.bound import InstantQuery, StreamRef
from slackwater.operators.instant.sharding import common_key
from slackwater.operators.instant.spec import InstantRelation
from slackwater.operators.pipeline import Epochs
from slackwater.plan.explain import explain
from slackwater.plan.planner import plan
from slackwater.runtime.local.run import LocalRun
from slackwater.sources.replay import replay
from tests.kit.drive import drive, pipeline_of, results_of
from tests.kit.instant_examples import PLACES, correlated, gone, two_lengths
from tests.kit.random_relations import KINDS, ROWS
from tests.kit.traces import seeded_trace

SCHEMA = Schema(
    (
        Field("ts", Kind.TIME, pa.timestamp("us", "UTC")),
        Field("plug", Kind.TEXT, pa.string()),
        Field("unread", Kind.INT, pa.int64()),
        Field("load", Kind.FLOAT, pa.float64()),
    ),
    "ts",
)
COLUMNS = tuple(Field(field.name, field.kind, field.arrow) for field in SCHEMA.fields)
PLUG, LOAD = Column(0, "plug", Kind.TEXT), Column(0, "load", Kind.FLOAT)


def column(name: str, kind: Kind) -> Field:
    return Field(name, kind, ARROW_OF[kind])


def high_loads(filters_of: tuple[tuple, tuple] = ((), ())) -> InstantQuery:
    """Per plug, the loads of the last 5 ms above half of the largest."""
    streams = tuple(
        StreamRef(alias, "plugs", SCHEMA, 5_000, 1_000, filters)
        for alias, filters in zip("pm", filters_of, strict=True)
    )
    top = Aggregate(
        Scan(1, 5_000, COLUMNS), (PLUG,), (column("plug", Kind.TEXT),),
        (AggregateCall("MAX", LOAD, None, column("top", Kind.FLOAT)),),
    )  # fmt: skip
    above = typed_call(">", (LOAD, typed_call("*", (Literal(0.5, Kind.FLOAT), Column(1, "top", Kind.FLOAT)))))
    joined = (*COLUMNS, column("m_plug", Kind.TEXT), column("top", Kind.FLOAT))
    pairs = Join(Scan(0, 5_000, COLUMNS), top, ((PLUG, PLUG),), above, "inner", joined)
    high = (AggregateCall("COUNT", None, None, column("high", Kind.INT)),)
    relation = Aggregate(pairs, (PLUG,), (column("plug", Kind.TEXT),), high)
    return InstantQuery(streams, relation, 1_000, Complete(), Options())


def plugs(tuples: int = 400) -> pa.Table:
    random = np.random.default_rng(3)
    ts = np.sort(random.integers(0, 40_000, tuples))
    return pa.table(
        {
            "ts": pa.array(ts, pa.timestamp("us", "UTC")),
            "plug": pa.array([f"plug {n}" for n in random.integers(0, 4, tuples)]),
            "unread": pa.array(range(tuples)),
            "load": pa.array(np.round(random.random(tuples) * 10, 2)),
        }
    )


def counted(table: pa.Table) -> dict:
    times = table["ts"].cast(pa.int64()).to_pylist()
    rows = list(zip(times, table["plug"].to_pylist(), table["load"].to_pylist(), strict=True))
    found = {}
    for at in range(1_000, 46_000, 1_000):
        inside = [(plug, load) for ts, plug, load in rows if at - 5_000 <= ts < at]
        for plug in {plug for plug, _ in inside}:
            loads = [load for one, load in inside if one == plug]
            found[at - 5_000, at, plug] = sum(load > 0.5 * max(loads) for load in loads)
    return found


@pytest.mark.parametrize("engine", ["row", "column"])
@pytest.mark.parametrize("epochs", [Epochs(span=3_000), Epochs(each_tuple=True)], ids=str)
def test_a_plan_gives_rows_with_names_and_types(engine, epochs):
    physical = plan(high_loads())
    physical = replace(physical, operator=replace(physical.operator, placement=(engine,) * 3))
    run = LocalRun(physical, replay(physical, {"plugs": plugs()}, "us"), epochs)
    table = pa.concat_tables(run.tables())
    assert table.column_names == ["window_start", "window_end", "plug", "high"]
    assert [kind_of(field.type) for field in table.schema] == [Kind.TIME, Kind.TIME, Kind.TEXT, Kind.INT]
    rows = table.to_pydict()
    start, end = (table[name].cast(pa.int64()).to_pylist() for name in ("window_start", "window_end"))
    assert dict(zip(zip(start, end, rows["plug"], strict=True), rows["high"], strict=True)) == counted(plugs())
    assert end == sorted(end)


def test_windows_over_one_source_are_one_input_with_the_columns_that_are_read():
    physical = plan(high_loads())
    (one,) = physical.inputs
    assert [name for name, _, _ in one.columns] == ["plug", "load"]
    assert physical.operator.streams == 1
    assert physical.partitioning.keys == ((dict(physical.operator.places[0])["plug"],),)


def test_different_filters_are_two_inputs():
    high = typed_call(">", (replace(LOAD, stream=1), Literal(2.0, Kind.FLOAT)))
    physical = plan(high_loads(((), (high,))))
    assert [one.stream.alias for one in physical.inputs] == ["p", "m"]
    assert len(physical.partitioning.keys) == 2


def test_results_are_not_counted_instead():
    with pytest.raises(UsageError, match="--count"):
        plan(high_loads(), count_only=True)


def test_explain_says_what_is_computed_and_where():
    text = explain(plan(high_loads()))
    for told in (
        "join by plug = plug where left.load > 0.5 * right.top",
        "over the last 5 ms of p, every 1 ms",
        "made for 1,000 tuples/s of p (assumed)",
        "no other placement keeps up",
        "it changes while the query runs, and results stay the same",
        "costs: shipped with slackwater",
    ):
        assert told in text


@pytest.mark.parametrize("make", [correlated, two_lengths, gone], ids=lambda make: make.__name__)
def test_shards_by_the_common_key_give_the_same_results(make):
    spec = InstantRelation(make(), 3, (PLACES,), ROWS)
    assert common_key(spec.relation, 1) == {0: "k"}
    ((row,),) = spec.shard_rows
    batch = seeded_trace(5, 1, KINDS, 400)
    whole = drive(pipeline_of(spec)(FixedSlack(20), Epochs(tuples=50)), [batch])
    parts: Counter = Counter()
    for shard in (0, 1):
        mine = Batch(batch.stream, batch.words, batch.words[row] % 2 == shard)
        parts += results_of(spec, drive(pipeline_of(spec)(FixedSlack(20), Epochs(tuples=50)), [mine]).emissions)
    assert parts == results_of(spec, whole.emissions)


def test_an_aggregate_of_everything_runs_in_one_shard():
    total = Aggregate(correlated(), (), (), (AggregateCall("COUNT", None, None, column("n", Kind.INT)),))
    assert InstantRelation(total, 3, (PLACES,), ROWS).shard_rows is None
