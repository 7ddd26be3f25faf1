"""What D, R and M look like, and two streams of very different rates."""

import numpy as np
import pytest

from papers.workloads import Delays, drm, measure, two_rates
from slackwater.core.errors import UsageError
from slackwater.workloads import EPOCH_MS, disorder_statistics


def moments(table):
    return table["ts"].to_numpy() - EPOCH_MS


def test_d_and_m_send_25_events_in_every_second():
    streams = drm(seed=2).streams
    for name in ("d", "m"):
        assert np.bincount(moments(streams[name]) // 1000).tolist() == [25] * 180


def test_r_sends_25_and_1_a_second_by_turns_of_ten_seconds():
    by_second = np.bincount(moments(drm(seed=2).streams["r"]) // 1000)
    assert by_second.tolist() == ([25] * 10 + [1] * 10) * 9


def test_large_events_are_those_of_d():
    sizes = {name: np.unique(table["size"].to_numpy()).tolist() for name, table in drm(minutes=0.5).streams.items()}
    assert sizes == {"d": [50_000], "r": [16], "m": [16]}


def test_intervals_vary_by_ten_percent_and_without_jitter_not_at_all():
    gaps = np.diff(moments(drm().streams["d"]))
    assert 35 <= gaps.min() <= 37
    assert 43 <= gaps.max() <= 45
    assert set(np.diff(moments(drm(jitter=0.0).streams["d"]))) == {40}


def test_events_of_one_beat_have_one_id_in_all_streams():
    streams = drm(seed=1).streams
    d, r, m = (dict(zip(table["id"].to_pylist(), moments(table), strict=True)) for table in streams.values())
    assert list(d) == list(m) == list(range(4500))
    assert set(r) <= set(d)
    # In fast turns the three lie in one beat of 40 ms; a slow event of R is off by up to 5 % of its second.
    assert max(abs(d[beat] - m[beat]) for beat in d) <= 32
    assert max(abs(d[beat] - at) for beat, at in r.items()) <= 50 + 32


def test_every_event_of_r_finds_its_partners():
    workload = drm(seed=1, minutes=1)
    d, r, m = (set(table["id"].to_pylist()) for table in workload.streams.values())
    assert len(d & r & m) == workload.streams["r"].num_rows


@pytest.mark.parametrize("rate", [10.0, 12.3, 1000.0])
def test_another_rate_is_kept_as_well(rate):
    for made in measure((found := drm(rate=rate)).streams, found.modes, EPOCH_MS):
        assert made.rate == pytest.approx(made.mode.rate, rel=0.01)


def test_two_seconds_hold_2000_events_of_the_fast_stream_and_2_of_the_slow_one():
    streams = two_rates(minutes=0.2).streams
    for start in (0, 1, 999, 5000):
        held = [int(((start <= moments(table)) & (moments(table) < start + 2000)).sum()) for table in streams.values()]
        assert held == [2000, 2]


def test_disorder_holds_events_back_and_leaves_event_times_alone():
    late, plain = drm(disorder=Delays(0.2, 2000)).streams, drm().streams
    assert disorder_statistics(plain["d"]["ts"].to_numpy()).out_of_order == 0
    assert disorder_statistics(late["d"]["ts"].to_numpy()).out_of_order > 100
    assert late["d"].sort_by("id")["ts"].equals(plain["d"]["ts"])


@pytest.mark.parametrize("given", [{"rate": 0.0}, {"rate": 1001.0}, {"rate": float("nan")}, {"jitter": 1.0}])
def test_rates_and_jitter_that_cannot_be_are_refused(given):
    with pytest.raises(UsageError, match=next(iter(given))):
        drm(**given)
