"""What an aggregate does in the corners; the laws cover the rest."""

import math

import pytest
from hypothesis import given
from hypothesis import strategies as st

from slackwater.core.batch import FIRST_COLUMN, Batch
from slackwater.core.errors import DataError
from slackwater.core.schema import NULL_FLOAT, NULL_WORD, Kind
from slackwater.core.time import MAX_TIME, MIN_TIME
from slackwater.disorder.controllers import FixedSlack
from slackwater.operators.aggregate.algebra import AggregateSpec
from slackwater.operators.aggregate.operator import WindowAggregate
from slackwater.operators.pipeline import Epochs
from tests.effort import tried
from tests.kit.drive import Outcome, drive, feed, pipeline_of, results_of
from tests.kit.laws import Store
from tests.kit.oracle_aggregate import oracle_aggregate
from tests.kit.traces import float_word

V = FIRST_COLUMN
BY_CALL = Epochs()


def aggregated(functions, values, kind=Kind.INT, keys=(), range_=10, slide=None):
    spec = WindowAggregate(range_, slide, keys, tuple(AggregateSpec(f, V, kind) for f in functions), V + 1)
    outcome = drive(pipeline_of(spec)(FixedSlack(0), Epochs()), [Batch.of([(0, 1, v) for v in values], V + 1)])
    return results_of(spec, outcome.emissions)


def test_the_average_of_negative_integers_is_negative():
    assert aggregated(["AVG"], [-7, 0, 0]) == {(0, ()): (-7 / 3,)}


def test_an_average_may_have_a_sum_beyond_64_bits():
    assert aggregated(["AVG"], [-(2**62)] * 8) == {(0, ()): (-(2.0**62),)}
    assert aggregated(["AVG"], [2**62] * 8) == {(0, ()): (2.0**62,)}


def test_a_sum_beyond_64_bits_is_an_error_and_not_a_wrap():
    assert aggregated(["SUM"], [2**62, 2**62, -(2**62)]) == {(0, ()): (2**62,)}
    with pytest.raises(DataError, match="overflow"):
        aggregated(["SUM"], [2**62, 2**62])
    assert aggregated(["SUM_DISTINCT", "AVG_DISTINCT"], [2**62, 2**62, 2**62 - 2]) == {(0, ()): (2**63 - 2, 2.0**62)}
    with pytest.raises(DataError, match="overflow"):
        aggregated(["SUM_DISTINCT"], [2**62, 2**62 + 1])


def test_nulls_are_ignored_and_a_window_of_nulls_only_has_null_aggregates():
    functions = ["COUNT", "SUM", "AVG", "MIN", "MAX", "VAR", "MEDIAN", "COUNT_DISTINCT", "SUM_DISTINCT"]
    nothing = (0, None, None, None, None, None, None, 0, None)
    assert aggregated(functions, [NULL_WORD, NULL_WORD]) == {(0, ()): nothing}
    assert aggregated(functions, [NULL_FLOAT], Kind.FLOAT) == {(0, ()): nothing}


def test_null_forms_a_group():
    assert aggregated(["COUNT"], [NULL_WORD, 5, NULL_WORD], keys=(V,)) == {(0, (NULL_WORD,)): (0,), (0, (5,)): (1,)}


def test_one_value_has_no_variance():
    assert aggregated(["VAR", "STDDEV"], [5]) == {(0, ()): (None, None)}


def test_the_variance_of_integers_is_exact_however_large_they_are():
    large = 2**63 - 1
    assert aggregated(["VAR", "STDDEV"], [large, large - 2]) == {(0, ()): (2.0, 2.0**0.5)}
    assert aggregated(["VAR"], [large, -large]) == {(0, ()): (2.0**127,)}
    assert aggregated(["VAR"], [-large, 2 - large, -large, 2 - large]) == {(0, ()): (4 / 3,)}
    assert aggregated(["VAR"], [large] * 1000) == {(0, ()): (0.0,)}
    assert aggregated(["VAR"], [1, 2, 4]) == {(0, ()): (7 / 3,)}


def test_floats_whose_squares_are_none_still_have_a_deviation():
    def spread(*values):
        return aggregated(["VAR", "STDDEV"], [float_word(v) for v in values], Kind.FLOAT)[0, ()]

    assert spread(1e300, -1e300) == (math.inf, pytest.approx(2**0.5 * 1e300, rel=1e-15))
    assert spread(1.0, 2.0, 1e300) == (math.inf, pytest.approx(1e300 / 3**0.5, rel=1e-15))
    assert spread(1e300, 1e300, 1e300) == (0.0, 0.0)
    assert spread(1.7e308, -1e308, *[0.0] * 98)[1] == pytest.approx(((3.89 - 0.0049) / 99) ** 0.5 * 1e308, rel=1e-12)
    assert spread(2.0**505, 0.0)[0] == 2.0**1009
    assert spread(1e-200, 3e-200)[1] == 0.0
    assert all(math.isnan(one) for one in spread(math.inf, 1.0, 2.0) + spread(1.0, math.inf) + spread(1e300, math.nan))


_FAR = st.sampled_from((1e300, -1e300, 1.0, -2.5, 1e151, 1.7e308, 3e-5))
_LARGE = st.one_of(st.integers(-(2**63) + 1, 2**63 - 1), st.integers(2**62, 2**62 + 9), st.integers(-5, 5))


@given(st.lists(st.tuples(st.integers(0, 60), _FAR, _LARGE), max_size=30), st.integers(1, 12), st.integers(0, 29))
@tried(60, deadline=None)
def test_far_moments_slide_and_come_back_from_state_as_the_oracle_says(tuples, slide, cut):
    specs = tuple(AggregateSpec(f, V + n, k) for f in ("VAR", "STDDEV") for n, k in enumerate((Kind.FLOAT, Kind.INT)))
    spec = WindowAggregate(12, slide, (), specs, V + 2)
    tuples = sorted(tuples, key=lambda one: one[0])
    parts = [
        Batch.of([(0, t, float_word(x), i) for t, x, i in part], V + 2) for part in (tuples[:cut], tuples[cut:]) if part
    ]
    outcome, store = Outcome(), Store()
    expected = {}
    if parts:
        expected = oracle_aggregate(spec, Batch.concat(parts))
    for part in parts:
        kernel = pipeline_of(spec)(FixedSlack(0), BY_CALL)
        if store.entries:
            kernel.restore(store.read())
        feed(kernel, [part], outcome, end=part is parts[-1])
        store.write(kernel)
    found = results_of(spec, outcome.emissions)
    assert found.keys() == expected.keys()
    for window, values in expected.items():
        for one, true in zip(found[window], values, strict=True):
            assert one == (true if true is None else pytest.approx(true, rel=1e-12, nan_ok=True))


def test_nan_is_the_largest_number():
    values = [float_word(v) for v in (1.0, float("nan"), -3.0)]
    assert aggregated(["MIN"], values, Kind.FLOAT) == {(0, ()): (-3.0,)}
    (largest,) = aggregated(["MAX"], values, Kind.FLOAT)[0, ()]
    assert largest != largest


COUNT = (AggregateSpec("COUNT"),)


def windows(spec, times, epochs=BY_CALL):
    outcome = drive(pipeline_of(spec)(FixedSlack(0), epochs), [Batch.of([(0, t) for t in times])])
    return results_of(spec, outcome.emissions)


def test_windows_are_aligned_to_1970_also_before_it():
    assert windows(WindowAggregate(10, None, (), COUNT, 2), [-1, -10, -11, 0]) == {
        (-20, ()): (1,),
        (-10, ()): (2,),
        (0, ()): (1,),
    }


def test_windows_without_tuples_give_no_row_however_long_the_gap():
    spec = WindowAggregate(10, 1, (), COUNT, 2)
    assert len(windows(spec, [MIN_TIME, 0, MAX_TIME])) == 30


def test_tuples_between_windows_are_in_none():
    assert windows(WindowAggregate(3, 7, (), COUNT, 2), [0, 2, 3, 6, 7, 13]) == {(0, ()): (2,), (7, ()): (1,)}


def test_a_window_is_emitted_when_the_watermark_reaches_its_end():
    pipeline = pipeline_of(WindowAggregate(10, None, (), COUNT, 2))(FixedSlack(2), Epochs(tuples=1))
    outcome = Outcome()
    feed(pipeline, [Batch.of([(0, 3), (0, 11)])], outcome, end=False)
    assert outcome.timestamps == []
    feed(pipeline, [Batch.of([(0, 12)])], outcome, end=False)
    assert outcome.timestamps == [10]
    assert outcome.emissions[-1].clock.tolist() == [12], "the largest clock when the window was emitted"


def test_a_late_tuple_counts_in_the_windows_that_are_still_open():
    spec = WindowAggregate(10, 5, (), COUNT, 2)
    assert windows(spec, [1, 11, 7], Epochs(tuples=1)) == {
        (-5, ()): (1,),
        (0, ()): (1,),
        (5, ()): (2,),
        (10, ()): (1,),
    }


def test_panes_are_dropped_from_the_persisted_state_when_no_window_needs_them():
    spec = WindowAggregate(10, 2, (), (AggregateSpec("MEDIAN", V),), V + 1)
    pipeline, stored = pipeline_of(spec)(FixedSlack(0), Epochs()), Store()
    for t in range(300):
        feed(pipeline, [Batch.of([(0, t, t)])], Outcome(), end=False)
        stored.write(pipeline)
    assert len([key for namespace, key in stored.entries if namespace == "operator/pane"]) <= 7
    assert len([key for namespace, key in stored.entries if namespace == "operator/values"]) <= 7
