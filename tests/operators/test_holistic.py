"""Holistic aggregates over windows of many values against the oracle, whatever order the values have."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from slackwater.core.batch import FIRST_COLUMN, Batch
from slackwater.core.schema import NULL_FLOAT, NULL_WORD, Kind
from slackwater.disorder.controllers import FixedSlack
from slackwater.operators.aggregate.algebra import AggregateSpec
from slackwater.operators.aggregate.count_windows import LandmarkAggregate, RowAggregate
from slackwater.operators.aggregate.operator import WindowAggregate
from slackwater.operators.pipeline import Epochs
from tests.effort import tried
from tests.kit import laws
from tests.kit.drive import drive, pipeline_of
from tests.kit.oracle_release import SlackRule, oracle_epoch_release
from tests.kit.traces import assemble

K, L, V, ONE = range(FIRST_COLUMN, FIRST_COLUMN + 4)
ROWS = FIRST_COLUMN + 4
ASKED = (
    AggregateSpec("MEDIAN", V, Kind.FLOAT),
    AggregateSpec("SUM", L),
    *(AggregateSpec("QUANTILE", V, Kind.FLOAT, p) for p in (0.0, 0.93, 1.0)),
    AggregateSpec("COUNT_DISTINCT", V, Kind.FLOAT),
    AggregateSpec("SUM_DISTINCT", V, Kind.FLOAT),
    AggregateSpec("COUNT_DISTINCT", L),
    AggregateSpec("AVG_DISTINCT", L),
    AggregateSpec("MEDIAN", L),
)
SPECS = {
    "by key": WindowAggregate(200, 9, (K,), ASKED, ROWS),
    "without key, tumbling": WindowAggregate(150, None, (), ASKED, ROWS),
    "by rows": RowAggregate(90, 7, (K,), ASKED, ROWS),
    "since a landmark": LandmarkAggregate(0, None, (K,), ASKED, ROWS, start=ONE, every=60),
}
UNUSUAL = [0.0, -0.0, float("inf"), float("-inf"), float("nan"), -np.float64("nan")]


def values(order, n, rng):
    drawn = rng.normal(0.0, 10.0, n)
    match order:
        case "rising":
            drawn += np.arange(n)
        case "falling":
            drawn -= np.arange(n)
        case "in waves":
            drawn = drawn / 5 + 30 * np.sin(np.arange(n) / 25)
        case "few":
            drawn = np.round(drawn / 8)
        case "unusual":
            drawn = np.where(rng.random(n) < 0.3, rng.choice(UNUSUAL, n), drawn)
    words = drawn.view(np.int64)
    return np.where(rng.random(n) < 0.03, NULL_FLOAT, words)


def trace(order, n, rng):
    """Some tuples a tick of two keys, every sixth of them delayed."""
    delay = rng.integers(0, 60, n) * (rng.random(n) < 1 / 6)
    counted = np.where(rng.random(n) < 0.03, NULL_WORD, rng.integers(-20, 20, n) + np.arange(n) // 9)
    columns = rng.integers(0, 2, n), counted, values(order, n, rng), np.ones(n, np.int64)
    lines = zip(rng.integers(0, 2, n), delay, zip(*columns, strict=True), strict=True)
    return assemble(-170, [(0, int(step), int(d), True, tuple(map(int, words))) for step, d, words in lines], ROWS)


ORDERS = st.sampled_from(["none", "rising", "falling", "in waves", "few", "unusual"])


@pytest.mark.parametrize("name", SPECS)
@given(order=ORDERS, seed=st.integers(0, 2**32), slack=st.sampled_from([0, 5, 60]))
@tried(10, deadline=None)
def test_many_values_that_come_late_and_go_give_what_the_oracle_says(name, order, seed, slack):
    rng, spec = np.random.default_rng(seed), SPECS[name]
    batch = trace(order, 450, rng)
    cuts = [*range(40, 450, 40), 450]
    released = oracle_epoch_release(batch, 1, cuts, SlackRule(slack))
    with np.errstate(invalid="ignore"):
        laws.late_tuples_count_as_published(spec, pipeline_of(spec), batch, Epochs(), cuts, FixedSlack(slack), released)


@pytest.mark.parametrize("name", SPECS)
def test_many_values_survive_a_restart(name):
    spec, cuts = SPECS[name], [*range(40, 450, 40), 450]
    batch = trace("unusual", 450, np.random.default_rng(5))
    laws.going_on_after_restore_equals_never_stopping(
        spec, pipeline_of(spec), batch, Epochs(), cuts, (3, 9), lambda: FixedSlack(7)
    )


def test_windows_of_one_line_are_emitted_together():
    spec = WindowAggregate(10, None, (), (AggregateSpec("MEDIAN", V), AggregateSpec("COUNT")), ROWS)
    batch = Batch.of([(0, 10 * i, 0, 0, i, 1) for i in range(1000)], ROWS)
    outcome = drive(pipeline_of(spec)(FixedSlack(0), Epochs()), [batch])
    assert sum(len(emission.ts) for emission in outcome.emissions) == 1000
    assert len(outcome.emissions) <= 2
