import numpy as np
import pytest

from papers.workloads import uniform_stream
from slackwater.core.errors import UsageError
from slackwater.workloads import disorder_statistics


def test_a_stream_without_delays_is_in_order():
    table = uniform_stream(tuples=5000, rate=3000.0, keys=10, seed=1)
    assert disorder_statistics(table["ts"].to_numpy()).out_of_order == 0
    assert disorder_statistics(table["ts"].to_numpy()).rate == pytest.approx(3000, rel=0.01)


def test_keys_are_used_evenly():
    keys = uniform_stream(tuples=20_000, rate=1000.0, keys=20, seed=1)["key"].to_numpy()
    counts = np.bincount(keys)
    assert len(counts) == 20
    assert counts.min() > 800


def test_delays_reach_their_bound_and_never_pass_it():
    ts = uniform_stream(10_000, 1000.0, 5, seed=2, max_delay_ms=800, late_share=0.3)["ts"].to_numpy()
    found = disorder_statistics(ts)
    assert 700 < found.max_delay_ms <= 800
    assert 0.1 < found.out_of_order / found.tuples <= 0.3


def test_holding_tuples_back_changes_their_order_and_nothing_else():
    still = uniform_stream(2000, 1000.0, 5, seed=2).drop_columns("arrival")
    late = uniform_stream(2000, 1000.0, 5, seed=2, max_delay_ms=800, late_share=0.3).drop_columns("arrival")
    assert not late.equals(still)
    assert late.sort_by("ts").equals(still.sort_by("ts"))


def test_streams_of_different_rates_interleave_by_arrival():
    fast, slow = (uniform_stream(int(rate * 10), rate, 5, seed=0) for rate in (1000.0, 10.0))
    assert abs(fast["arrival"].to_numpy().max() - slow["arrival"].to_numpy().max()) <= 100_000
    assert (np.diff(fast["arrival"].to_numpy()) >= 0).all()


def test_places_are_there_only_when_asked_for():
    assert uniform_stream(3, 1.0, 1, seed=0).column_names == ["ts", "arrival", "key", "v"]
    placed = uniform_stream(1000, 1.0, 1, seed=0, field_m=50.0)
    assert placed["x"].to_numpy().max() <= 50
    assert placed["y"].to_numpy().max() > 40


def test_an_empty_stream_keeps_its_columns():
    table = uniform_stream(0, 1.0, 1, seed=0)
    assert table.num_rows == 0
    assert [str(field.type) for field in table.schema] == ["int64", "int64", "int64", "double"]


@pytest.mark.parametrize(("tuples", "rate", "keys"), [(-1, 1.0, 1), (1, 0.0, 1), (1, float("nan"), 1), (1, 1.0, 0)])
def test_a_stream_that_cannot_be_is_refused(tuples, rate, keys):
    with pytest.raises(UsageError):
        uniform_stream(tuples, rate, keys, seed=0)
