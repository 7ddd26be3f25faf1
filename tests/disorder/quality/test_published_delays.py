"""R_stat of the published model: the same windows whatever the unit of time, against ADWIN done by hand."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from slackwater.published.controllers.delay_histogram import DelayHistogram
from slackwater.published.controllers.delays import DelaysAsShares
from tests.effort import tries
from tests.kit.oracle_adwin import OracleAdwin
from tests.kit.traces import cuttings

G = 10
MOST = 4096


def absorbed(seen, delays, cuts=()):
    begin = 0
    for end in (*cuts, len(delays)):
        part = np.array(delays[begin:end], np.int64)
        seen.absorb(np.zeros(len(part), np.int64), np.arange(begin, end), part)
        begin = end
    return seen


def by_hand(delays):
    """The width of a window that keeps its values and divides them anew with every new largest delay."""
    oracle, whole = OracleAdwin(most=MOST), 1
    for delay in delays:
        own = -(-delay // G)
        if own > whole:
            oracle._buckets = [[value * whole / own for value in bucket] for bucket in oracle._buckets]
            whole = own
        oracle.add(own / whole)
    return oracle.width


def bursts(seed, n=900):
    """Short delays, and a run of long ones now and then."""
    rng = np.random.default_rng(seed)
    found = rng.integers(0, 60, n) * (rng.random(n) < 0.5)
    for begin in range(150, n, 200):
        found[begin : begin + 25] = rng.integers(500, 20_000)
    return found.tolist()


@pytest.mark.parametrize("seed", range(tries(6)))
def test_windows_are_those_of_adwin_over_shares_of_the_largest_delay_so_far(seed):
    delays = bursts(seed)
    seen = absorbed(DelaysAsShares(G, 1, MOST), delays)
    assert seen.totals[0] == by_hand(delays)
    newest = [-(-delay // G) for delay in delays[len(delays) - int(seen.totals[0]) :]]
    assert seen.counts(0).tolist() == np.bincount(newest).tolist()


@given(seed=st.integers(0, 50), data=st.data())
def test_cutting_arrivals_and_going_on_elsewhere_change_nothing(seed, data):
    delays = bursts(seed, 400)
    cuts = data.draw(cuttings(len(delays)))
    whole = absorbed(DelaysAsShares(G, 1, MOST), delays)
    assert absorbed(DelaysAsShares(G, 1, MOST), delays, cuts).counts(0).tolist() == whole.counts(0).tolist()
    stop = data.draw(st.integers(0, len(delays)))
    resumed = DelaysAsShares(G, 1, MOST)
    resumed.restore(absorbed(DelaysAsShares(G, 1, MOST), delays[:stop]).as_arrays())
    assert absorbed(resumed, delays[stop:]).counts(0).tolist() == whole.counts(0).tolist()


def test_a_window_does_not_hang_on_the_unit_of_time():
    delays = np.array(bursts(1)) // G * G
    coarse, fine = DelaysAsShares(G, 1, MOST), DelaysAsShares(1, 1, MOST)
    assert absorbed(coarse, delays.tolist()).totals[0] == absorbed(fine, (delays // G).tolist()).totals[0]


def test_bursts_are_remembered_that_adwin_forgets_when_it_is_told_plain_delays():
    rng = np.random.default_rng(3)
    delays = rng.integers(0, 60, 6000) * (rng.random(6000) < 0.5)
    for begin in range(100, 6000, 1000):
        delays[begin : begin + 10] = 20_000
    plain = absorbed(DelayHistogram(G, 1), delays.tolist())
    shares = absorbed(DelaysAsShares(G, 1, MOST), delays.tolist())
    assert plain.totals[0] < 1000 < 3000 < shares.totals[0]
    assert plain.largest[0] < 10 < shares.largest[0] == 2000


def test_a_lasting_change_is_still_seen():
    random = np.random.default_rng(2)
    seen = DelaysAsShares(G, 1, 2**17)
    for most in (1000, 100):
        absorbed(seen, random.integers(0, most, 20_000).tolist())
    assert seen.totals[0] <= 21_000
    assert seen.counts(0)[11:].sum() < 0.05 * seen.totals[0]
