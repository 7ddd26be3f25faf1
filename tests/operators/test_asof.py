"""As-of joins with more keys than there is room for at first: versions go, and their keys with them."""

import numpy as np
import pytest

from slackwater.core.batch import FIRST_COLUMN, ROW
from slackwater.core.schema import NULL_WORD, Kind
from slackwater.disorder.controllers import FixedSlack
from slackwater.operators.asof.spec import AsOfJoin
from slackwater.operators.asof.versions import FEWEST, Versions
from slackwater.operators.pipeline import Epochs
from tests.kit import oracle_asof
from tests.kit.drive import assert_same, drive, pipeline_of, results_of
from tests.kit.laws import going_on_after_restore_equals_never_stopping
from tests.kit.oracles import SlackRule, oracle_epoch_release
from tests.kit.traces import pieces, seeded_trace

K = FIRST_COLUMN
MANY = 3 * FEWEST


def spec(within):
    return AsOfJoin(((K, K),), ((0, ROW), (1, ROW)), (NULL_WORD, NULL_WORD), K + 1, within=within, outer=True)


def trace(tuples=4000):
    return seeded_trace(3, 2, (Kind.INT,), tuples=tuples, largest_delay=20, longest_step=2, keys=MANY)


@pytest.mark.parametrize("within", [None, 300])
def test_many_keys_give_what_the_slow_twin_gives(within):
    batch, cuts = trace(), list(range(100, 4001, 100))
    outcome = drive(pipeline_of(spec(within))(FixedSlack(5), Epochs()), pieces(batch, cuts))
    released = oracle_epoch_release(batch, 2, cuts, SlackRule(5))
    assert any(step.late for step in released)
    assert_same(results_of(spec(within), outcome.emissions), oracle_asof.processed(spec(within), released))


def test_state_is_as_much_as_within_asks_for():
    batch, cuts = trace(), list(range(100, 4001, 100))
    kept = {}
    for within in (None, 300):
        outcome = drive(pipeline_of(spec(within))(FixedSlack(5), Epochs()), pieces(batch, cuts))
        kept[within] = max(one.state_rows for one in outcome.observed[:-1])
    # About half of the tuples of the last 300 are versions; without WITHIN it is every key.
    assert kept[None] > 0.9 * MANY
    assert kept[300] < 400


def test_many_keys_survive_a_restart():
    batch, cuts = trace(1500), list(range(150, 1501, 150))
    for within in (None, 100):
        going_on_after_restore_equals_never_stopping(
            spec(within), pipeline_of(spec(within)), batch, Epochs(), cuts, (3, 8), lambda: FixedSlack(5)
        )


def test_keys_are_numbered_anew_once_most_have_gone():
    versions = Versions(1, (1,), within=10)
    many = np.arange(2 * FEWEST)
    tuples = np.array([many, many, many])
    versions.walk(tuples, tuples[2:], np.zeros(len(many), np.bool_), many)
    versions.expire(0)
    assert (len(versions), len(versions.table)) == (2 * FEWEST, 2 * FEWEST)
    versions.expire(2 * FEWEST)
    assert (len(versions), len(versions.table)) == (10, 10)
    last = tuples[:, -1:].copy()
    last[0] += 10
    ages, answers = versions.walk(last, last[2:], np.ones(1, np.bool_), last[0])
    assert (ages.tolist(), answers.tolist()) == ([10], [[2 * FEWEST - 1]])
