"""In-order execution as published: the worked example tuple by tuple, and the numbers of the analysis."""

from __future__ import annotations

import numpy as np
import pytest

from papers.experiments.response_model import MOST, Setting, improvement_at
from papers.experiments.response_times import drive
from slackwater.core.batch import FIRST_COLUMN, Batch
from slackwater.core.results import FILTER, SYNC, Ordering
from slackwater.core.time import SECOND
from slackwater.operators.join.operator import WindowJoin
from slackwater.operators.join.probing import Equality

A, B, C, D = range(4)
S, T = 0, 1
ARRIVALS = [
    # stream, event time, letter, when it arrives
    (T, 1, A, 1), (S, 2, D, 2), (S, 4, C, 4), (T, 5, A, 5), (S, 6, B, 6),
    (T, 9, B, 9), (T, 10, C, 10), (S, 8, A, 11), (S, 12, A, 12),
]  # fmt: skip
TP = 0.01


def example(strategy):
    """Figure 1(C) by a strategy: when every result was out."""
    key = FIRST_COLUMN
    spec = WindowJoin((6 * SECOND,) * 2, (Equality(0, key, 1, key),), (), (), ((0, key),), key + 1)
    batch = Batch.of([(stream, ts * SECOND, letter) for stream, ts, letter, _ in ARRIVALS])
    arrival_time = np.array([moment * SECOND for *_, moment in ARRIVALS])
    batch = Batch(batch.stream, batch.words, batch.passes, arrival_time)
    return drive(spec, Ordering(strategy), batch, c=0.0, per_tuple=TP)


def test_sync_filter_joins_the_waiting_tuples_when_the_delayed_stream_has_caught_up():
    measured = example(SYNC)
    # <a8, a5>, <b6, b9> and <c4, c10>; the last two wait for a12, and then for each other.
    assert measured.results == [
        (8 * SECOND, pytest.approx(11 + TP)),
        (9 * SECOND, pytest.approx(12 + TP)),
        (10 * SECOND, pytest.approx(12 + 2 * TP)),
    ]
    assert measured.seen.most_held_results == 0


def test_filter_order_has_joined_them_by_then_and_lets_their_results_out_at_once():
    measured = example(FILTER)
    assert measured.results == [
        (8 * SECOND, pytest.approx(11 + TP)),
        (9 * SECOND, pytest.approx(12)),
        (10 * SECOND, pytest.approx(12)),
    ]
    assert measured.seen.most_held_results == 2
    sooner = sum(out for _, out in example(SYNC).results) - sum(out for _, out in measured.results)
    assert sooner == pytest.approx(3 * TP), "the total delay is lower by 3 tp"


def test_the_hold_buffer_costs_memory_that_sync_filter_does_not_need():
    assert max(example(FILTER).memory) > max(example(SYNC).memory)


def test_the_first_example_of_the_analysis():
    # |w| is a day, 1 and 10 tuples a second, c from 0.01 µs on, doubled each time.
    settings = [Setting(1e-8 * 2**k, 86_400.0, 1.0, 10.0) for k in range(7)]
    assert {setting.filter for setting in settings} == {settings[0].filter}, "it does not hang on c"
    assert settings[0].filter == pytest.approx(0.55)
    assert [setting.load < 1 for setting in settings] == [True] * 7
    assert Setting(1e-8 * 2**7, 86_400.0, 1.0, 10.0).load > 1, "one more and nobody keeps up (Eq. 1)"
    hardly = Setting(1 / 864_000, 86_400.0, 1.0, 10.0)
    assert hardly.sync == pytest.approx(1.1)
    assert hardly.improvement == pytest.approx(MOST)


def test_the_second_example_of_the_analysis():
    # c is 0.1 ms, |w| a day, the fast stream has 1 tuple a second.
    fast_enough = Setting(0.0001, 86_400.0, 0.1, 1.0)
    assert fast_enough.sync == pytest.approx(10.252)
    assert fast_enough.filter == pytest.approx(5.5), "from 10 seconds to 5"
    assert Setting(0.0001, 86_400.0, 0.0001, 1.0).improvement < 0.001


@pytest.mark.parametrize("setting", [Setting(0.0005, 60.0, 1.0, 10.0), Setting(0.0001, 86_400.0, 0.05, 1.0)])
def test_the_equations_agree_with_each_other(setting):
    n = setting.waiting
    assert setting.sync_total / n == pytest.approx(setting.sync)
    assert setting.filter_total / n == pytest.approx(setting.filter)
    assert setting.improvement == pytest.approx(improvement_at(setting.load))
    singly = [1 / setting.slow - k / setting.fast + (k + 1) * setting.cost for k in range(round(n))]
    assert sum(singly) == pytest.approx(setting.sync_total), "response times tuple by tuple"


def test_the_thresholds_of_the_paper():
    assert improvement_at(0.9) == pytest.approx(0.47, abs=0.005)
    assert improvement_at(0.3) == pytest.approx(0.23, abs=0.005)
    assert Setting(0.0005, 60.0, 1.0, 10.0).load == pytest.approx(0.3), "where Adaptive switches with α = .3"
