import numpy as np
import pytest

from papers.workloads import velocities
from slackwater.core.errors import UsageError
from slackwater.workloads import disorder_statistics
from slackwater.workloads.workload import delays

TABLE_4_1 = {
    1: {"duration_ms": 980_000, "tuples": 544_223, "out_of_order": 313_405, "correlated": 261_426, "max": 4_490},
    2: {"duration_ms": 1_400_000, "tuples": 559_211, "out_of_order": 279_337, "correlated": 231_260, "max": 16_950},
}
LARGE_MS = 500


def times(table):
    return table["ts"].to_numpy()


@pytest.fixture(scope="module", params=[0, 7])
def aggregate_streams(request):
    return {dataset: velocities(dataset, seed=request.param).streams["s"] for dataset in (1, 2)}


@pytest.mark.parametrize("dataset", [1, 2])
def test_the_velocity_streams_show_the_published_statistics(aggregate_streams, dataset):
    found, published = disorder_statistics(times(aggregate_streams[dataset])), TABLE_4_1[dataset]
    for figure in ("duration_ms", "tuples", "out_of_order", "correlated"):
        assert getattr(found, figure) == pytest.approx(published[figure], rel=0.02), figure
    assert found.max_delay_ms == pytest.approx(published["max"], rel=0.01)
    assert found.small_delay_share > 0.9


def test_large_delays_come_late_in_the_first_velocity_stream_and_throughout_the_second(aggregate_streams):
    in_second_half = {}
    for dataset, table in aggregate_streams.items():
        large = np.flatnonzero(delays(times(table)) > LARGE_MS)
        in_second_half[dataset] = (large > table.num_rows / 2).mean()
    assert in_second_half[1] > 0.7
    assert 0.3 < in_second_half[2] < 0.7


def test_the_second_velocity_stream_has_more_large_delays(aggregate_streams):
    large = {dataset: (delays(times(table)) > LARGE_MS).sum() for dataset, table in aggregate_streams.items()}
    assert large[2] > 1.5 * large[1] > 0


def test_velocities_are_those_of_people(aggregate_streams):
    for table in aggregate_streams.values():
        vel = table["vel"].to_numpy()
        assert vel.min() >= 0
        assert vel.max() < 12
        assert 1 < vel.mean() < 4


def test_there_is_no_third_velocity_dataset():
    with pytest.raises(UsageError, match="1 and 2, not 3"):
        velocities(3)
