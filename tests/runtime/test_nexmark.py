"""NEXMark: events are those that are published, and every query has DuckDB's answer over them."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pytest

from benchmarks.nexmark.answers import Compared, compared, true_answer
from benchmarks.nexmark.generator import BASE_MS, Events
from benchmarks.nexmark.queries import QUERIES
from slackwater.core.time import SECOND
from slackwater.operators.pipeline import Epochs
from slackwater.runtime.local.answer import replay
from tests.runtime.conftest import SHARDS, CommandRuntime

WAITING = "WITH DELAY 2 SECONDS"
SMALL = Events(4_000, rate=100, group=50, seed=3)
"""Forty seconds, of which the first twenty are of the old year; up to half a second late."""
TABLES = SMALL.tables()


def share(found: pa.ChunkedArray, value: object) -> float:
    return float(np.mean(found.to_numpy() == value))


def test_of_fifty_events_one_is_a_person_three_are_auctions_and_the_rest_bids() -> None:
    tables = Events(50_000).tables()
    assert [tables[name].num_rows for name in ("person", "auction", "bid")] == [1_000, 3_000, 46_000]
    assert tables["person"]["id"].to_pylist() == list(range(1000, 2000))
    assert tables["auction"]["id"].to_pylist() == list(range(1000, 4000))
    # Ten thousand a second, from number 0 on: a bid is event 4 of fifty, an auction event 1, a person event 0.
    for name, first in (("person", 0), ("auction", 1), ("bid", 4)):
        millis = tables[name]["dateTime"].cast(pa.int64()).to_numpy() - BASE_MS
        assert (millis[0], millis[-1]) == (first // 10, {"person": 4995, "auction": 4995, "bid": 4999}[name])


def test_hot_ids_have_their_share_and_others_are_near() -> None:
    tables = Events(100_000, seed=2).tables()
    bid, number = tables["bid"], np.arange(100_000)[np.arange(100_000) % 50 >= 4]
    last_auction, last_person = number // 50 * 3 + 2 + 1000, number // 50 + 1000
    auction, bidder = bid["auction"].to_numpy(), bid["bidder"].to_numpy()
    hot_auction, hot_bidder = (last_auction - 1000) // 100 * 100 + 1000, (last_person - 1000) // 100 * 100 + 1001
    assert np.mean(auction == hot_auction) == pytest.approx(1 / 2 + 1 / 2 / 111, abs=0.01)
    assert np.mean(bidder == hot_bidder) == pytest.approx(3 / 4 + 1 / 4 / 1010, abs=0.01)
    others, far = auction != hot_auction, last_auction >= 1200
    assert {*(auction - last_auction)[others & far]} == {*range(-100, 11)}
    gone = (bidder - last_person)[(bidder != hot_bidder) & (last_person >= 2000)]
    assert (gone.min(), gone.max()) == (-999, 10)
    assert np.median(gone) == pytest.approx(-495, abs=15)
    seller = tables["auction"]["seller"].to_numpy()
    assert np.mean((seller - 1000) % 100 == 0) == pytest.approx(3 / 4 + 1 / 4 / 100, abs=0.03)
    assert [share(tables["auction"]["category"], 10 + at) for at in range(5)] == pytest.approx([0.2] * 5, abs=0.03)


def test_prices_lengths_and_sizes_are_distributed_as_published() -> None:
    tables = Events(100_000, seed=4).tables()
    price = np.log10(tables["bid"]["price"].to_numpy())
    assert np.histogram(price, 6, (2, 8))[0] / len(price) == pytest.approx([1 / 6] * 6, abs=0.01)
    auction = tables["auction"]
    length = pc.subtract(auction["expires"], auction["dateTime"]).cast(pa.int64()).to_numpy()
    assert (length.min() >= 1, length.max() <= 332, length.mean()) == (True, True, pytest.approx(166, abs=4))
    assert np.all(auction["reserve"].to_numpy() > auction["initialBid"].to_numpy())
    for name, mean in (("person", 200), ("auction", 500), ("bid", 100)):
        beside = {"channel", "url", "arrival"}
        columns = [
            column
            for called, column in zip(tables[name].column_names, tables[name].columns, strict=True)
            if called not in beside
        ]
        sizes = [8.0 if not pa.types.is_string(one.type) else pc.mean(pc.binary_length(one)).as_py() for one in columns]
        assert sum(sizes) == pytest.approx(mean, rel=0.02)


def test_events_arrive_out_of_order_by_less_than_a_group_and_are_the_same_ones() -> None:
    shuffled = Events(20_000, group=100)
    numbers = shuffled.numbers()
    assert numbers[:4].tolist() == [0, 53, 6, 59]
    assert sorted(numbers) == list(range(20_000))
    assert 90 < np.max(np.maximum.accumulate(numbers) - numbers) < 100
    for name, table in Events(20_000).tables().items():
        assert shuffled.tables()[name].sort_by("dateTime")["dateTime"].equals(table["dateTime"])
    assert np.array_equal(Events(20_000).numbers(), np.arange(20_000))
    assert Events(130, group=50).numbers().max() == 129
    with pytest.raises(ValueError, match="no multiple of 953"):
        Events(10, group=1906)


@pytest.mark.parametrize("name", QUERIES)
def test_a_query_has_the_answer_of_duckdb(name: str) -> None:
    query = QUERIES[name]
    truth, streams = true_answer(query, TABLES), {stream: TABLES[stream] for stream in query.streams}
    found = replay(f"{query.ours} {WAITING}", streams, epochs=Epochs(span=SECOND), time="dateTime").results
    assert compared(truth, found) == Compared(truth.num_rows, 0, 0)
    assert truth.num_rows


@pytest.mark.parametrize("name", ["q4", "q5", "q8", "q11", "q19", "q23"])
def test_so_it_has_in_shards(name: str, tmp_path: Path) -> None:
    query = QUERIES[name]
    truth, streams = true_answer(query, TABLES), {stream: TABLES[stream] for stream in query.streams}
    found = CommandRuntime(SHARDS, tmp_path).run(f"{query.ours} {WAITING}", streams, "1 s", time="dateTime").results
    assert compared(truth, found) == Compared(truth.num_rows, 0, 0)


def test_rows_are_compared_as_often_as_they_are_there() -> None:
    truth = pa.table({"a": [1, 1, 2], "b": [0.1 + 0.2, 1.0, 2.0]})
    found = pa.table({"c": [0, 0, 0], "b": [0.3, 1.0, 1.0], "a": [1, 1, 1]})
    assert compared(truth, found) == Compared(true=3, missing=1, wrong=1)
    assert compared(truth, truth).equal
