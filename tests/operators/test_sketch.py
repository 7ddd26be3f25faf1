"""Approximate counts of different values: how far they are off, what they take beside exact ones, what is one value."""

import math

import numpy as np
import pytest

from slackwater.core.batch import FIRST_COLUMN, TS
from slackwater.core.schema import NULL_FLOAT, Kind
from slackwater.core.time import BEFORE_ALL
from slackwater.disorder.ordered_batch import OrderedBatch, OrderedTuples
from slackwater.operators.aggregate.algebra import AggregateSpec
from slackwater.operators.aggregate.operator import WindowAggregate
from slackwater.operators.aggregate.registers import MOST_BITS, bits_for, estimates
from tests.kit.traces import float_word

K, V = FIRST_COLUMN, FIRST_COLUMN + 1
GROUPS = 100


def run_of(keys, values, watermark):
    words = np.zeros((V + 1, len(keys)), np.int64)
    words[K], words[V] = keys, values
    words[TS] = 5
    tuples = OrderedTuples.of(np.zeros(len(keys), np.int64), words, np.full(len(keys), BEFORE_ALL))
    return OrderedBatch(tuples, watermark, 5, 0)


def counted(function, keys, values, error=None, kind=Kind.INT):
    """The counts of all groups, and the words that their window holds before it is closed."""
    spec = WindowAggregate(10, None, (K,), (AggregateSpec(function, V, kind, error),), V + 1)
    operator = spec.build()
    assert list(operator.process(run_of(keys, values, BEFORE_ALL), True)) == []
    (held,) = operator.window_contents(0)
    (output,) = operator.process(run_of([], [], 10), True)
    found = dict(zip(output.columns[2].tolist(), output.columns[3].tolist(), strict=True))
    return [found[key] for key in sorted(found)], held.words


def different(count):
    """So many different values of every group, each of them twice, in no order."""
    of = np.random.default_rng(count)
    keys = np.tile(np.repeat(np.arange(GROUPS), count), 2)
    order = of.permutation(len(keys))
    return keys[order], np.tile(of.integers(-(2**62), 2**62, GROUPS * count), 2)[order]


@pytest.mark.parametrize("error", [0.05, 0.1, 0.3])
@pytest.mark.parametrize("count", [1, 12, 150, 1500])
def test_counts_are_off_by_no_more_than_the_error_that_is_asked_for(count, error):
    found, _ = counted("APPROX_COUNT_DISTINCT", *different(count), error)
    off = np.array(found) / count - 1
    assert math.sqrt(np.mean(off**2)) < 1.15 * error
    assert abs(np.mean(off)) < 3.5 * error / math.sqrt(GROUPS)
    assert count > 1 or set(found) == {1}


def test_a_sketch_has_one_size_and_what_is_exact_grows_with_the_values():
    few, many = different(12), different(1500)
    sketches = [counted("APPROX_COUNT_DISTINCT", *values, 0.05)[1] / GROUPS for values in (few, many)]
    exact = [counted("COUNT_DISTINCT", *values)[1] / GROUPS for values in (few, many)]
    assert sketches[0] == sketches[1] < 300
    assert exact[0] < sketches[0] < exact[1] / 25


def test_both_zeros_are_one_value_and_nulls_are_none():
    values = [float_word(0.0), float_word(-0.0), float_word(math.nan), NULL_FLOAT, float_word(1.5)]
    assert counted("APPROX_COUNT_DISTINCT", [0] * 4 + [1], values[:4] + values[3:4], 0.05, Kind.FLOAT)[0] == [2, 0]


def test_registers_that_are_full_give_a_number():
    full = np.frombuffer(bytes([64 - 9 + 1] * 512), np.int64)
    assert estimates(full[None, :])[0] > 2**60
    assert bits_for(0.01) == MOST_BITS
