"""What windows needed, against a from-scratch computation; and the bins it is kept in."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from slackwater.core.options import Options
from slackwater.core.quality import RelativeError
from slackwater.core.schema import NULL_WORD
from slackwater.disorder.controllers import DelayObservations, Measured
from slackwater.disorder.meters import Asked, Watched
from slackwater.quality.error.quantile_slack import (
    BINS,
    bin_met_by,
    edge_of,
    least_bin,
    no_weights,
    note_required_slack,
)
from slackwater.quality.error.steady import SteadyError
from slackwater.quality.error.windows import WindowLosses

KEY, VALUE = 2, 3
OPTIONS = Options(granularity=10, adaptation_interval=1, retention=60)
"""One unit is a tick, so that up to 64 ticks every need has a bin of its own."""


def arrivals(rng, tuples, groups):
    """Tuples with delays of up to 40 ticks; each is an epoch of its own."""
    clock = np.cumsum(rng.integers(0, 3, tuples))
    behind = rng.integers(0, 40, tuples) * (rng.random(tuples) < 0.4)
    behind = np.minimum(behind, clock)
    values = np.where(rng.random(tuples) < 0.05, NULL_WORD, rng.integers(-3, 10, tuples))
    words = np.array([clock - behind, np.arange(tuples), rng.integers(0, groups, tuples), values])
    return DelayObservations(np.zeros(tuples, np.int64), words, behind, behind)


def off_by(function, values):
    """The answer of an aggregate over some values, nulls among them."""
    known = [v for v in values if v != NULL_WORD]
    match function:
        case "COUNT":
            return len(known)
        case "SUM":
            return sum(known) if known else None
        case _:
            return sum(known) / len(known) if known else None


def oracle(arrived, watched, bound, end):
    """The least slack with which every group's answers are within the bound, tried out one by one."""
    start = end - watched.range
    ts, clock = arrived.words[0], arrived.words[0] + arrived.behind
    inside = np.flatnonzero((ts >= start) & (ts < end))
    worst = 0
    for group in {tuple(arrived.words[list(watched.keys), i]) for i in inside}:
        mine = [i for i in inside if tuple(arrived.words[list(watched.keys), i]) == group]
        for slack in range(60, 0, -1):
            # Slack that waits one tick less misses what comes at this need.
            there = [i for i in mine if arrived.behind[i] == 0 or clock[i] - (slack - 1) < end]
            fine = bool(there)
            for asked in watched.aggregates:
                true, given = (off_by(asked.function, arrived.words[VALUE, of].tolist()) for of in (mine, there))
                if true is None or not fine:
                    continue
                fine = given is not None and abs(true - given) <= bound * (abs(true) or 1) + 1e-9
            if not fine:
                worst = max(worst, slack)
                break
    return worst


@pytest.mark.parametrize(
    ("functions", "range_", "slide", "groups"),
    [(("SUM",), 10, 5, 1), (("COUNT",), 12, 5, 1), (("AVG", "COUNT"), 20, 4, 3), (("SUM", "AVG"), 4, 7, 2)],
)
def test_the_needed_slack_is_the_least_that_keeps_every_answer_within_the_bound(functions, range_, slide, groups):
    keys = (KEY,) if groups > 1 else ()
    watched = Watched(range_, slide, keys, tuple(Asked(function, VALUE) for function in functions))
    for seed, bound in enumerate((0.02, 0.2, 0.5)):
        arrived = arrivals(np.random.default_rng(seed), 300, groups)
        controller = SteadyError(RelativeError(bound, 0.95), OPTIONS)
        controller.watch(watched)
        clock = 0
        for i in range(len(arrived.behind)):
            behind = arrived.behind[i : i + 1]
            controller.learn(DelayObservations(arrived.stream[:1], arrived.words[:, i : i + 1], behind, behind))
            clock = max(clock, int(arrived.words[0, i]))
            controller.adapt(Measured((clock,), 40, controller.slack))
        ends = [end for end in range(range_, clock - 60) if (end - range_) % slide == 0]
        known = {end: controller.needed(end) for end in ends}
        assert any(known.values())
        for end in ends:
            if known[end] is not None:
                assert known[end] == oracle(arrived, watched, bound, end), (seed, end)


def test_a_window_whose_tuples_all_come_late_needs_slack_whatever_its_sum_is():
    controller = SteadyError(RelativeError(0.5, 0.95), OPTIONS)
    controller.watch(Watched(10, 10, (), (Asked("SUM", VALUE),)))
    words = np.array([[0, 40, 15], [0, 1, 2], [0, 0, 0], [1, 1, 0]])
    behind = np.array([0, 0, 25])
    controller.learn(DelayObservations(np.zeros(3, np.int64), words, behind, behind))
    controller.adapt(Measured((40,), 25, 0))
    assert controller.needed(20) == 21


def test_coverage_counts_what_met_a_closed_window():
    losses = WindowLosses(Watched(10, 10, (), (Asked("COUNT"),)), bound=0.1, retention=100, unit=1)
    words = np.array([[1, 2, 14, 3, 20, 4, 5], range(7)])
    # Under slack 5 the window up to 10 is closed when the clock has reached 15: the last two are missing.
    behind = np.array([0, 0, 0, 11, 0, 16, 15])
    losses.absorb(DelayObservations(np.zeros(7, np.int64), words, behind, behind), 5, np.ones(1))
    assert losses.coverage(0) == pytest.approx(3 / 5)
    assert losses.coverage(1) == 1.0
    assert losses.coverage(7) is None


def test_what_is_kept_does_not_grow_with_the_stream():
    losses = WindowLosses(Watched(20, 5, (KEY,), (Asked("SUM", VALUE),)), bound=0.1, retention=100, unit=1)
    sizes = []
    for seed in range(60):
        arrived = arrivals(np.random.default_rng(seed), 1000, 5)
        arrived.words[0] += 1000 * seed
        losses.absorb(arrived, 0, np.ones(1))
        sizes.append(len(losses.ledger.totals.records) + len(losses.ledger.late.nodes))
    assert max(sizes[30:]) <= max(sizes[:30])


@given(need=st.integers(0, 2**40), unit=st.sampled_from([1, 7, 1000]))
def test_the_edge_of_a_bin_meets_its_needs_and_is_at_most_a_thirtieth_more(need, unit):
    weights = no_weights()
    note_required_slack(weights, np.array([need + 1]), unit)
    into = int(np.argmax(weights))
    edge = edge_of(into, unit)
    assert need < edge <= max(need + unit, need * (1 + 1 / 30) + unit)
    assert bin_met_by(edge, unit) == into
    assert bin_met_by(edge - 1, unit) == into - 1


def test_the_least_bin_leaves_no_more_than_the_share_above_it():
    rng = np.random.default_rng(3)
    for _ in range(50):
        weights = rng.random(BINS) * (rng.random(BINS) < 0.1)
        share = rng.random()
        found = least_bin(weights, share)
        assert weights[found + 1 :].sum() <= share * weights.sum() + 1e-6
        assert found == 0 or weights[found:].sum() > share * weights.sum()
