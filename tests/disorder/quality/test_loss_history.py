"""What every slack would have lost: periods of the past, weighed, and the least slack that would have done."""

from __future__ import annotations

import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from slackwater.quality.recall.loss_history import FAR, RECENT, REGIME, LossHistory

SLACKS = 6
Segments = list[list[tuple[list[float], int]]]
CURVES = st.lists(
    st.lists(st.tuples(st.lists(st.sampled_from([0.0, 0.125, 0.25, 0.5]), max_size=4), st.integers(0, 8)), max_size=2),
    min_size=1,
    max_size=14,
)


def filled(buckets: Segments, kept: int, span: int) -> LossHistory:
    past = LossHistory(kept, span, memory=3.0, slacks=SLACKS)
    for number, notes in enumerate(buckets):
        if number:
            past.next_bucket()
        for curve, tuples in notes:
            past.note(np.array(sorted(curve, reverse=True)), tuples)
    return past


class Twin:
    """The rule, by trying all periods."""

    def __init__(self, buckets: Segments, kept: int, span: int, allowed: float) -> None:
        self.lost = [
            [sum(t * (sorted(c, reverse=True) + [0.0] * SLACKS)[k] for c, t in notes) for notes in buckets][-kept:]
            for k in range(SLACKS)
        ]
        self.came = [sum(t for _, t in notes) for notes in buckets][-kept:]
        self.span, self.allowed = span, allowed
        least = next(k for k in range(SLACKS) if self.level(k) <= allowed)
        far = [lost > FAR * allowed * came for lost, came in zip(self.lost[least], self.came, strict=True)]
        runs = [begin for begin in range(len(far) - REGIME + 1) if all(far[begin : begin + REGIME])]
        in_regime = [any(begin <= i < begin + REGIME for begin in runs) for i in range(len(far))]
        self.over = [one and i < len(far) - RECENT * span for i, one in enumerate(in_regime)]

    def level(self, k: int) -> float:
        recent = slice(max(0, len(self.came) - RECENT * self.span), None)
        came = sum(self.came[recent])
        return sum(self.lost[k][recent]) / came if came else 0.0

    def does(self, k: int, share: float = 1.0) -> bool:
        level, bad, periods = self.level(k), 0.0, 0.0
        counts = [
            level * came if over else lost
            for lost, came, over in zip(self.lost[k], self.came, self.over, strict=True)
        ]  # fmt: skip
        for end in range(len(counts)):
            first = max(0, end - self.span + 1)
            tuples = sum(self.came[first : end + 1])
            if tuples:
                weight = np.exp(-(len(counts) - 1 - end) / 3.0)
                periods += weight
                bad += weight * (sum(counts[first : end + 1]) > (share * self.allowed + 1e-9) * tuples)
        return bad <= 0.05 * periods


@given(CURVES, st.integers(6, 14), st.integers(1, 3), st.sampled_from([0.05, 0.2, 0.3]), st.integers(0, SLACKS - 1))
def test_the_least_slack_is_the_first_that_does_for_the_periods_of_the_past(buckets, kept, span, allowed, before):
    past, twin = filled(buckets, kept, span), Twin(buckets, kept, span, allowed)
    least = next(k for k in range(SLACKS) if twin.level(k) <= allowed and twin.does(k))
    assert past.least(allowed, missing=0.05) == least
    # With a dead band, slack goes down only to where less than is allowed would do.
    easy = next(k for k in range(SLACKS) if twin.does(k, 0.5))
    assert past.least(allowed, 0.05, before, band=0.5) == (least if before < least else min(before, easy))


@given(CURVES, st.integers(2, 6), st.integers(1, 30))
def test_the_past_goes_on_where_it_was_restored(buckets, kept, gap):
    past, again = filled(buckets, kept, 2), LossHistory(kept, 2, memory=3.0, slacks=SLACKS)
    again.restore(past.as_arrays())
    for one in (past, again):
        one.next_bucket(gap)
        one.note(np.array([0.3, 0.1]), 5)
    for allowed in (0.05, 0.2, 0.4):
        assert again.least(allowed, 0.05) == past.least(allowed, 0.05)
    assert (again.periods, again.mean(0)) == (past.periods, past.mean(0))


def test_chunks_of_the_past_that_are_complete_are_not_written_again():
    past = filled([[([0.5, 0.25], 10)]] * 40, kept=100, span=5)
    before = past.as_arrays()
    past.next_bucket()
    past.note(np.array([0.1]), 3)
    now = past.as_arrays()
    same = [name for name in before if before[name].tobytes() == now[name].tobytes()]
    assert {"loss_0", "loss_1", "tuples_0", "tuples_1"} <= set(same)


def with_losses(lost: list[float]) -> LossHistory:
    past = LossHistory(buckets=400, span=20, memory=200.0, slacks=4)
    for one in lost:
        past.note(np.array([one, one / 2, 0.0]), 100)
        past.next_bucket()
    return past


def test_a_burst_that_spoilt_a_period_is_remembered_and_a_regime_only_for_two_periods():
    calm, burst, regime = [0.01] * 200, [1.0] * 2, [0.4] * 30
    assert with_losses(calm).least(0.05, 0.03) == 0
    # A tenth of a period was lost with slack 0, more than a twentieth with slack 1. Five periods later that is known.
    assert with_losses([*calm, *burst, *calm[:100]]).least(0.05, 0.03) == 2
    assert with_losses([*calm, *regime, *calm[:20]]).least(0.05, 0.03) == 2
    assert with_losses([*calm, *regime, *calm[: RECENT * 20]]).least(0.05, 0.03) == 0


def test_one_burst_in_forty_periods_does_not_count():
    past = LossHistory(buckets=800, span=20, memory=1e9, slacks=4)
    for number in range(800):
        past.note(np.array([1.0 if number == 400 else 0.0]), 10)
        past.next_bucket()
    assert past.least(0.04, 0.03) == 0


def test_the_least_slack_like_another_loses_hardly_more():
    past = LossHistory(buckets=100, span=20, memory=50.0, slacks=5)
    for _ in range(60):
        past.note(np.array([0.5, 0.21, 0.205, 0.2]), 10)
        past.next_bucket()
    assert [past.least_like(3, more) for more in (0.0, 0.006, 0.02, 0.4)] == [3, 2, 1, 0]
