import numpy as np
import pytest

from papers.workloads import dsyn3, dsyn4
from papers.workloads.dsyn import zipf_ranks
from slackwater.core.errors import UsageError
from slackwater.workloads import EPOCH_MS


@pytest.fixture(scope="module")
def three():
    return dsyn3()


def drawn_delays(table):
    """The delay each tuple was given: the generator's clock at its row, minus its event time."""
    return EPOCH_MS + 10 * np.arange(1, table.num_rows + 1) - table["ts"].to_numpy()


def test_every_stream_has_100_tuples_a_second_for_30_minutes(three):
    assert [table.num_rows for table in three.streams.values()] == [180_000] * 3


@pytest.mark.parametrize(("factory", "streams"), [(dsyn3, 3), (dsyn4, 4)])
def test_arrival_goes_round_the_streams(factory, streams):
    tables = factory(minutes=0.05).streams.values()
    arrivals = np.stack([table["arrival"].to_numpy() for table in tables], axis=1)
    assert arrivals.ravel().tolist() == list(range(30 * 10 * streams))


def test_delays_are_multiples_of_10_ms_up_to_20_s(three):
    for table in three.streams.values():
        delay = drawn_delays(table)
        assert (delay % 10 == 0).all()
        assert delay.min() == 0
        assert delay.max() <= 20_000


@pytest.mark.parametrize(("stream", "skew"), [("s1", 2.0), ("s2", 3.0), ("s3", 3.0)])
def test_the_share_of_undelayed_tuples_follows_the_zipf_skew(three, stream, skew):
    expected = 1 / (np.arange(1.0, 2002) ** -skew).sum()
    assert (drawn_delays(three.streams[stream]) == 0).mean() == pytest.approx(expected, abs=0.005)


def test_the_fourth_stream_is_the_least_delayed():
    streams = dsyn4(minutes=10).streams
    in_order = {name: (drawn_delays(table) == 0).mean() for name, table in streams.items()}
    assert in_order["s4"] == pytest.approx(1 / (np.arange(1.0, 2002) ** -4.0).sum(), abs=0.005)
    assert in_order["s1"] == pytest.approx(1 / (np.arange(1.0, 2002) ** -3.0).sum(), abs=0.005)


def test_values_lie_between_1_and_100_and_start_with_skew_1(three):
    for table in three.streams.values():
        values = table["a1"].to_numpy()
        assert values.min() == 1
        assert values.max() <= 100
        expected = 1 / (1 / np.arange(1, 101)).sum()
        assert (values[:6000] == 1).mean() == pytest.approx(expected, abs=0.02)


def test_the_skew_of_the_values_changes_over_time(three):
    for table in three.streams.values():
        ones = (table["a1"].to_numpy() == 1).reshape(30, -1).mean(axis=1)
        assert ones.max() - ones.min() > 0.1


def test_the_attributes_of_one_stream_are_independent_of_each_other():
    centre = dsyn4(minutes=1).streams["s1"]
    equal = (centre["a1"].to_numpy() == centre["a2"].to_numpy()).mean()
    assert equal < 0.2


def test_only_the_centre_of_the_star_has_all_attributes():
    own = {name: table.column_names[2:] for name, table in dsyn4(minutes=0.01).streams.items()}
    assert own == {"s1": ["a1", "a2", "a3"], "s2": ["a1"], "s3": ["a2"], "s4": ["a3"]}


def test_a_shorter_workload_is_the_beginning_of_a_longer_one(three):
    for name, table in dsyn3(minutes=12).streams.items():
        assert table.equals(three.streams[name].slice(0, table.num_rows))


def test_skew_0_draws_every_rank_equally_often():
    counts = np.bincount(zipf_ranks(np.linspace(0, 1, 1000, endpoint=False), 10, 0.0))[1:]
    assert counts.min() >= 99
    assert counts.max() <= 101


@pytest.mark.parametrize("minutes", [0, -1, float("nan"), float("inf")])
def test_a_length_that_is_none_is_refused(minutes):
    with pytest.raises(UsageError, match="minutes"):
        dsyn3(minutes=minutes)
