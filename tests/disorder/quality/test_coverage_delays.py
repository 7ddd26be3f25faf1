"""The delays that the published model goes by, against a twin; and what the scale is for."""

import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from slackwater.disorder.quality.coverage_delays import RecentDelays
from slackwater.disorder.quality.delays import DelayHistogram
from slackwater.testing.oracle_adwin import OracleAdwin

G = 10


class Twin:
    """ADWIN over shares of the largest bin so far; keeps the bins and tells all of them anew when it grows."""

    def __init__(self, most):
        self._adwin, self._largest = OracleAdwin(most=most), 1

    def add(self, delay):
        into = max(0, -(-delay // G))
        if into > self._largest:
            for bucket in self._adwin._buckets:
                bucket[:] = [value * self._largest / into for value in bucket]
            self._largest = into
        self._adwin.add(into / self._largest)

    @property
    def counts(self):
        bins = np.rint(np.array(self._adwin.values) * self._largest).astype(int)
        return np.bincount(bins).tolist()


@given(seed=st.integers(0, 2**32), scales=st.lists(st.sampled_from([3, 40, 900]), min_size=1, max_size=4))
def test_the_histogram_is_the_one_of_the_twin_after_every_batch(seed, scales):
    random = np.random.default_rng(seed)
    delays = np.concatenate([random.exponential(scale, 130) * (random.random(130) < 0.5) for scale in scales])
    delays = delays.astype(np.int64)
    twin, seen = Twin(most=300), RecentDelays(G, most=300)
    for begin in range(0, len(delays), 37):
        batch = delays[begin : begin + 37]
        seen.absorb(batch)
        for delay in batch.tolist():
            twin.add(delay)
        assert seen.counts.tolist() == twin.counts


def bursts(random, tuples):
    """Short delays, and every 5000 tuples a burst of 40 that drains from 3000 on."""
    delays = (random.exponential(15.0, tuples) * (random.random(tuples) < 0.5)).astype(np.int64)
    for begin in range(2500, tuples, 5000):
        delays[begin : begin + 40] = np.linspace(3000, 600, 40)
    return delays


def test_bursts_are_mostly_remembered_where_delays_in_their_own_unit_are_forgotten():
    delays = bursts(np.random.default_rng(1), 60_000)
    scaled, plain = RecentDelays(G), DelayHistogram(G, 1)
    known = []
    for begin in range(0, len(delays), 500):
        batch = delays[begin : begin + 500]
        scaled.absorb(batch)
        plain.absorb(np.zeros(500, np.int64), np.arange(500), batch)
        known.append((len(scaled.counts) > 60, len(plain.counts(0)) > 60))
    shares = np.mean(known[20:], axis=0)
    assert shares[0] > 0.6
    assert shares[1] < 0.2


def test_a_lasting_change_is_still_seen():
    random = np.random.default_rng(2)
    seen = RecentDelays(G)
    seen.absorb(random.integers(0, 1000, 20_000))
    seen.absorb(random.integers(0, 100, 20_000))
    assert seen.width <= 21_000
    assert seen.counts[11:].sum() < 0.05 * seen.width


def test_going_on_from_saved_arrays_equals_never_stopping():
    delays = bursts(np.random.default_rng(3), 20_000)
    through, before, after = RecentDelays(G, 4000), RecentDelays(G, 4000), RecentDelays(G, 4000)
    through.absorb(delays[:9000])
    before.absorb(delays[:9000])
    after.restore(before.as_arrays())
    for seen in (through, after):
        seen.absorb(delays[9000:])
    assert after.counts.tolist() == through.counts.tolist()
    saved, wanted = after.as_arrays(), through.as_arrays()
    assert all(np.array_equal(saved[name], wanted[name]) for name in wanted)
