"""What the streams of meteorology look like, beside Tables 1 and 3."""

import re

import numpy as np
import pytest

from papers.workloads import WORKLOADS, Delays, measure, meteorology, nine_products
from papers.workloads.products import FOUR, NINE
from slackwater.core.errors import UsageError
from slackwater.language.bind import bind
from slackwater.sources.files import schema_of
from slackwater.workloads import EPOCH_MS, disorder_statistics

MINUTE = 60_000

TABLE_3 = {
    "metar": (27, (1_000, 5_000), (648, 648)),
    "acars": (30, (100_000, 700_000), (1440, 1440)),
    "nexrad": (13, (2_000, 20_000), (624, 1248)),
    "caps": (10, (16_000, 64_000), (960, 4800)),
}
"""Sources, bytes in clear weather and in storms, events an hour in both."""

TABLE_1_KB_AN_HOUR = {
    "metar1": 4_050,
    "metar2": 5_000,
    "rawinsonde": 195.8,
    "acars": 1_800_000,
    "nexrad2": 2_650_000,
    "nexrad3": 31_200,
    "goes": 44_000,
    "eta": 66.7,
    "caps": 540_000,
}
"""Maximal bandwidth; Nexrad II is printed as 2.6 GB, Eta as 66 KB, both cut."""


@pytest.fixture(scope="module", params=[0, 7])
def four(request):
    return meteorology(seed=request.param)


@pytest.fixture(scope="module")
def nine():
    return nine_products()


def minutes_of(table):
    return (table["ts"].to_numpy() - EPOCH_MS) / MINUTE


def test_three_hours_have_the_rates_and_sizes_of_table_3_within_one_percent(four):
    for made in measure(four.streams, four.modes, EPOCH_MS):
        _, sizes, per_hour = TABLE_3[made.mode.stream]
        storm = made.mode.name == "storm"
        assert made.mode.seconds == (3600 if storm else 7200)
        assert made.rate * 3600 == pytest.approx(per_hour[storm], rel=0.01)
        assert made.size == sizes[storm]


def test_streams_have_the_sources_of_table_3(four):
    for name, (sources, _, _) in TABLE_3.items():
        assert np.unique(four.streams[name]["source"].to_numpy()).tolist() == list(range(sources))


def test_storms_are_at_minutes_20_80_and_140_and_last_20_minutes(four):
    for table in four.streams.values():
        minute, storm = minutes_of(table), table["storm"].to_numpy()
        inside = [(minute >= begin) & (minute < begin + 20) for begin in (20, 80, 140)]
        assert (storm == np.any(inside, axis=0)).all()


def test_radars_are_faster_from_the_first_minute_of_a_storm_and_slow_again_after_it(four):
    minute = minutes_of(four.streams["caps"])
    a_minute = np.histogram(minute, bins=np.arange(0, 181))[0]
    assert a_minute[20:40].min() >= 70
    assert a_minute[np.r_[0:20, 40:80, 100:140, 160:180]].max() <= 25


def test_event_times_increase_strictly_and_nothing_is_outside_the_three_hours(four):
    for table in four.streams.values():
        ts = table["ts"].to_numpy()
        assert (np.diff(ts) > 0).all()
        assert (np.diff(table["id"].to_numpy()) == 1).all()
        assert EPOCH_MS <= ts[0] < ts[-1] < EPOCH_MS + 180 * MINUTE


def test_intervals_of_a_source_are_uniform_within_ten_percent(four):
    """Of METAR reports, whose interval is 150 s in all weather; a moment is cut to a millisecond."""
    table = four.streams["metar"]
    ts, source = table["ts"].to_numpy(), table["source"].to_numpy()
    gaps = np.concatenate([np.diff(ts[source == one]) for one in range(27)]) / 150_000
    assert 0.9 - 1e-4 <= gaps.min() < 0.91
    assert 1.09 < gaps.max() <= 1.1 + 1e-4
    assert gaps.std() == pytest.approx(0.2 / np.sqrt(12), rel=0.05)


def test_sources_begin_anywhere_in_their_interval():
    """Of reports of the second order, one in 7.5 minutes; after 1.1 times that all have begun."""
    table = nine_products(minutes=9).streams["metar2"]
    source, first = np.unique(table["source"].to_numpy(), return_index=True)
    began = minutes_of(table)[first]
    assert len(source) == 1000
    assert np.quantile(began, [0.25, 0.5, 0.75]) == pytest.approx([7.5 / 4, 7.5 / 2, 7.5 * 3 / 4], abs=0.4)


def test_the_nine_products_reach_the_bandwidths_of_table_1():
    for product in NINE:
        most = product.sources * max(product.per_hour) * max(size for sizes in product.sizes for size in sizes)
        assert most / 1000 == pytest.approx(TABLE_1_KB_AN_HOUR[product.stream], rel=0.002)


def test_the_nine_products_have_their_rates_and_sizes_eight_times_as_fast(nine):
    rates = {product.stream: [product.sources * rate * 8 / 3600 for rate in product.per_hour] for product in NINE}
    for made in measure(nine.streams, nine.modes, EPOCH_MS):
        mode = made.mode
        assert mode.rate == pytest.approx(rates[mode.stream][mode.name == "storm"])
        many = mode.rate * mode.seconds
        # Where there are few events, where the sources begin matters more than their rate.
        assert made.events == pytest.approx(many, abs=0.005 * many + 8)
        assert made.size == pytest.approx(mode.size, rel=0.02 if many > 30 else 0.4)


def test_caps_radars_are_faster_in_storms_in_both_tables():
    for products in (FOUR, NINE):
        clear, storm = next(product.per_hour for product in products if product.stream == "caps")
        assert clear < storm


def test_half_the_speed_is_half_the_events_and_storms_stay_where_they_are():
    slow = meteorology(speed=4.0).streams["caps"]
    assert slow.num_rows == pytest.approx(meteorology().streams["caps"].num_rows / 2, rel=0.01)
    storm = minutes_of(slow)[slow["storm"].to_numpy()]
    assert (storm.min() >= 20, storm.max() < 160) == (True, True)


def test_a_shorter_workload_is_the_beginning_of_a_longer_one():
    short, longer = meteorology(seed=5, minutes=30), meteorology(seed=5, minutes=90)
    for name, table in short.streams.items():
        beginning = longer.streams[name].slice(0, table.num_rows)
        assert beginning.drop_columns("arrival").equals(table.drop_columns("arrival"))


def test_without_storms_all_weather_is_clear():
    workload = meteorology(minutes=60, storms=())
    assert not any(table["storm"].to_numpy().any() for table in workload.streams.values())
    assert [mode.periods for mode in workload.modes if mode.name == "storm"] == [()] * 4
    made = measure(workload.streams, workload.modes, EPOCH_MS)
    assert {one.events for one in made if one.mode.name == "storm"} == {0}


def test_streams_are_in_order_unless_disorder_is_asked_for_which_changes_the_order_and_nothing_else(four):
    for table in four.streams.values():
        assert disorder_statistics(table["ts"].to_numpy()).out_of_order == 0
    late = meteorology(seed=0, disorder=Delays(0.3, 60_000)).streams
    plain = meteorology(seed=0).streams
    for name, table in late.items():
        found = disorder_statistics(table["ts"].to_numpy())
        assert found.out_of_order > 20
        assert 1000 < found.max_delay_ms <= 60_000
        assert (np.diff(table["arrival_ts"].to_numpy()) >= 0).all()
        assert (table["arrival_ts"].to_numpy() >= table["ts"].to_numpy()).all()
        kept = ["arrival", "arrival_ts"]
        assert table.sort_by("id").drop_columns(kept).equals(plain[name].drop_columns(kept))


@pytest.mark.parametrize("speed", [0.0, -1.0, float("inf"), float("nan")])
def test_a_speed_that_cannot_be_is_refused(speed):
    with pytest.raises(UsageError, match="speed"):
        meteorology(speed=speed)


@pytest.mark.parametrize("storms", [(-1.0,), (20.0, 30.0), (80.0, 20.0)])
def test_storms_that_overlap_or_come_before_the_start_are_refused(storms):
    with pytest.raises(UsageError, match="storms"):
        meteorology(minutes=10, storms=storms)


@pytest.mark.parametrize("name", ["meteorology", "meteorology9", "drm", "rates"])
def test_the_query_binds(name):
    bind_all(name, lambda workload: [workload.query])


@pytest.mark.parametrize("name", ["meteorology", "drm", "rates"])
def test_further_queries_bind(name):
    bind_all(name, lambda workload: workload.further.values())


def bind_all(name, queries):
    workload = WORKLOADS[name](minutes=5)
    schemas = {stream: schema_of(stream, table, "ts") for stream, table in workload.streams.items()}
    for text in queries(workload):
        read = {stream: schema for stream, schema in schemas.items() if re.search(rf"\b{stream}\b", text)}
        bind(text, read)
