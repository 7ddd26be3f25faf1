import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from slackwater.workloads import disorder_statistics
from slackwater.workloads.workload import delays


def test_an_empty_stream_has_no_disorder():
    found = disorder_statistics([])
    assert (found.tuples, found.out_of_order, found.max_delay_ms, found.small_delay_share) == (0, 0, 0, 1.0)


def test_an_equal_timestamp_is_in_order():
    assert disorder_statistics([5, 5, 5]).out_of_order == 0


def test_a_delay_of_exactly_100_ms_is_not_small():
    assert disorder_statistics([1000, 900, 901]).small_delay_share == 0.5


def test_the_rate_counts_tuples_a_second_of_event_time():
    assert disorder_statistics(np.arange(0, 10_001, 10)).rate == 1001 / 10


@given(st.lists(st.integers(0, 2000), min_size=1, max_size=60))
def test_statistics_agree_with_a_tuple_by_tuple_count(ts):
    clock, previous_late, late, correlated, largest, small = ts[0], False, 0, 0, 0, 0
    for time in ts:
        clock = max(clock, time)
        is_late = time < clock
        late += is_late
        correlated += is_late and previous_late
        small += is_late and clock - time < 100
        largest = max(largest, clock - time)
        previous_late = is_late
    found = disorder_statistics(ts)
    assert (found.out_of_order, found.correlated, found.max_delay_ms) == (late, correlated, largest)
    assert found.small_delay_share == (small / late if late else 1.0)
    assert found.duration_ms == max(ts) - min(ts)
    assert delays(ts).max() == largest
