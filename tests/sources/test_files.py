"""Streams in files: what a selection takes, in which order rows arrive."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from slackwater.core.errors import QueryError, UsageError
from slackwater.core.schema import Kind
from slackwater.language.bind import bind
from slackwater.plan.planner import plan
from slackwater.sources.files import StreamFile, read_streams, schema_of
from slackwater.sources.replay import Replay, replay


def arrivals(query: str, sources: dict[str, pa.Table], ranks: dict[str, np.ndarray] | None = None) -> Replay:  # type: ignore[type-arg]
    bound = bind(query, {name: schema_of(name, table, "ts") for name, table in sources.items()})
    return replay(plan(bound.query), sources, "ms", None, ranks)


def test_selection_keeps_the_order_and_the_places_of_rows(tmp_path: Path) -> None:
    table = pa.table({"ts": [5, 4, 3, 2], "who": ["a&b", "x", "a&b", None], "n": pa.array([1, 1, 2, 1], pa.int8())})
    pq.write_table(table, tmp_path / "f.parquet")
    chosen = StreamFile.parse(f"s={tmp_path}/f.parquet?who=a%26b&who=x&n=1").read()
    assert chosen.table.column("ts").to_pylist() == [5, 4]
    assert chosen.ranks.tolist() == [0, 1]
    assert StreamFile.parse(f"s={tmp_path}/f.parquet?n=2").read().ranks.tolist() == [2]


def test_a_plus_in_a_value_is_a_plus() -> None:
    assert StreamFile.parse("s=f.parquet?language=C++").selection == (("language", "C++"),)


@pytest.mark.parametrize("text", ["s", "=f", "s=", "s=f?", "s=f?a", "s=f?a=1&", "s=f?=1"])
def test_what_is_not_a_stream_is_refused(text: str) -> None:
    with pytest.raises(UsageError, match="--stream"):
        StreamFile.parse(text)


def test_places_are_told_only_for_streams_of_one_file(tmp_path: Path) -> None:
    for name in ("f", "g"):
        pq.write_table(pa.table({"ts": [1, 2], "n": [1, 2]}), tmp_path / f"{name}.parquet")
    files = [StreamFile.parse(f"{name}={tmp_path}/f.parquet?n={name[1]}") for name in ("s1", "s2")]
    ranks = read_streams(files)[1]
    assert ranks is not None
    assert {name: place.tolist() for name, place in ranks.items()} == {"s1": [0], "s2": [1]}
    assert read_streams([files[0], StreamFile.parse(f"s2={tmp_path}/g.parquet")])[1] is None


def test_columns_of_one_name_are_refused() -> None:
    twice = pa.Table.from_arrays([pa.array([1]), pa.array([2]), pa.array([3])], names=["ts", "v", "v"])
    with pytest.raises(QueryError, match="two columns called 'v'"):
        schema_of("s", twice, "ts")


def test_a_schema_leaves_out_what_no_query_reads() -> None:
    schema = schema_of("s", pa.table({"tags": [[1]], "ts": ["now"], "v": [1.5]}), "ts")
    assert [(field.name, field.kind) for field in schema.fields] == [("ts", Kind.TIME), ("v", Kind.FLOAT)]


def test_ties_of_arrival_go_by_stream_then_by_row() -> None:
    a = pa.table({"arrival": [10, 10, 30], "ts": [1, 2, 3]})
    b = pa.table({"arrival": [10, 20, 30], "ts": [4, 5, 6]})
    query = "SELECT a.ts AS at, b.ts AS bt FROM a [1 SEC], b [1 SEC]"
    for sources, order in (
        ({"a": a, "b": b}, [1, 2, 4, 5, 3, 6]),
        ({"b": b, "a": a}, [4, 1, 2, 5, 6, 3]),
    ):
        batches = list(arrivals(query, sources).batches(4))
        assert [t // 1000 for batch in batches for t in batch.ts.tolist()] == order
        assert [len(batch) for batch in batches] == [4, 2]


def test_arrival_is_never_a_time_and_one_file_needs_none() -> None:
    table = pa.table({"arrival": [30, 20, 10], "ts": [1, 2, 3]})
    (batch,) = arrivals("SELECT ts FROM s", {"s": table}).batches(10)
    assert batch.ts.tolist() == [1000, 2000, 3000]
    assert batch.arrival_time is None


def test_a_tuple_of_a_self_join_arrives_at_both_aliases() -> None:
    query = "SELECT l.ts AS lt, r.ts AS rt FROM s AS l [1 SEC], s AS r [1 SEC]"
    (batch,) = arrivals(query, {"s": pa.table({"ts": [7, 8]})}).batches(10)
    assert batch.ts.tolist() == [7000, 7000, 8000, 8000]
    assert batch.stream.tolist() == [0, 1, 0, 1]


def test_bad_rows_never_reach_a_batch() -> None:
    made = arrivals("SELECT v FROM s", {"s": pa.table({"ts": [1, None, 3, 4], "v": [1, 2, 3, 4]})})
    batches = list(made.batches(2))
    assert [batch.ts.tolist() for batch in batches] == [[1000, 3000], [4000]]
    assert [batch.words[1].tolist() for batch in batches] == [[0, 2], [3]]
    assert made.inputs[0].reasons.tolist() == [0, 1, 0, 0]


def test_arrival_beyond_63_bits_is_order_as_well() -> None:
    a = pa.table({"arrival": pa.array([2**64 - 1, 5, 2**63], pa.uint64()), "ts": [1, 2, 3]})
    b = pa.table({"arrival": [-7, 2**63 - 1, 5], "ts": [4, 5, 6]})
    (batch,) = arrivals("SELECT a.ts AS at, b.ts AS bt FROM a [1 SEC], b [1 SEC]", {"a": a, "b": b}).batches(9)
    assert [t // 1000 for t in batch.ts.tolist()] == [4, 2, 6, 5, 3, 1]


def test_arrival_that_runs_backwards_is_gone_by_and_spoken_of() -> None:
    a = pa.table({"arrival": [1, 3, 2], "ts": [1, 2, 3]})
    b = pa.table({"arrival": [4, 4, 5], "ts": [4, 5, 6]})
    made = arrivals("SELECT a.ts AS at, b.ts AS bt FROM a [1 SEC], b [1 SEC]", {"a": a, "b": b})
    (batch,) = made.batches(9)
    assert [t // 1000 for t in batch.ts.tolist()] == [1, 3, 2, 4, 5, 6]
    (note,) = made.notes
    assert note.startswith("stream a: column 'arrival' runs backwards, first in row 2 (2 after 3); rows arrive in its")
