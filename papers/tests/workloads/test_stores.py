"""What the sales of stores look like."""

import numpy as np
import pytest

from papers.workloads import exponential_stream, store_sales
from slackwater.core.errors import UsageError

HOUR = 3_600_000


def moments(stores=4):
    return np.sort(np.concatenate([t["ts"].to_numpy() for t in store_sales(stores=stores).streams.values()]))


def test_stores_sell_from_half_past_seven_to_eight_and_5000_items_an_hour_together():
    for stores in (2, 6):
        sold = moments(stores)
        of_day = sold % (24 * HOUR)
        assert of_day.min() >= 7.5 * HOUR
        assert of_day.max() <= 20 * HOUR
        assert len(sold) == pytest.approx(12.5 * 5000, rel=0.02)


def test_sales_rise_after_opening_and_fall_before_closing():
    of_day = moments() % (24 * HOUR)
    by_hour = np.histogram(of_day, bins=[7.5 * HOUR, 8 * HOUR, 12 * HOUR, 12.5 * HOUR, 19.5 * HOUR, 20 * HOUR])[0]
    assert by_hour[0] < 0.6 * by_hour[2] > by_hour[4]


def test_stores_sell_alike_and_some_items_much_more_than_others():
    workload = store_sales(stores=3)
    sizes = [table.num_rows for table in workload.streams.values()]
    assert max(sizes) < 1.05 * min(sizes)
    items = np.concatenate([table["item"].to_numpy() for table in workload.streams.values()])
    counts = np.bincount(items)
    assert counts[1] == counts.max()
    assert counts[1] / len(items) == pytest.approx(0.0076, rel=0.2)
    assert len(np.unique(items)) > 10_000


def test_a_store_alone_is_a_selection_and_nine_are_refused():
    assert "WHERE" not in store_sales(minutes=10, stores=1).query
    with pytest.raises(UsageError, match="between 1 and 8"):
        store_sales(stores=9)


def test_rates_that_change_do_so_every_hundred_tuples():
    ts, _ = exponential_stream(seed=1, number=0, tuples=2000, rates=[1000.0, 10.0], values=3)
    took = np.diff(np.append(0, ts)).reshape(-1, 100).sum(axis=1) / 1e6
    assert took[0::2].max() < 0.2
    assert took[1::2].min() > 5
