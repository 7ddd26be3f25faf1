"""The multiset of a sliding window against a plain list."""

import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from slackwater.core.batch import FIRST_COLUMN, Batch
from slackwater.core.schema import NULL_FLOAT, Kind
from slackwater.disorder.controllers import FixedSlack
from slackwater.operators.aggregate.algebra import AggregateSpec
from slackwater.operators.aggregate.operator import WindowAggregate
from slackwater.operators.aggregate.sorted_window import SortedWindow
from slackwater.operators.pipeline import Epochs
from slackwater.testing.drive import drive, pipeline_of
from slackwater.testing.traces import float_word

V = FIRST_COLUMN
VALUES = st.sampled_from([None, float("nan"), -1.5, -0.0, 0.0, 2.0, 7.25, float("inf")])
LINES = st.tuples(st.integers(0, 2), VALUES)


def lines(pairs):
    words = [(g, NULL_FLOAT if v is None else float_word(v)) for g, v in pairs]
    return np.array(words, np.int64).reshape(len(words), 2)


def expected(values, p):
    present = np.sort([v + 0.0 for v in values if v is not None])
    if len(present) == 0:
        return None
    rank = p * (len(present) - 1)
    below = int(rank)
    low, share = present[below], rank - below
    return low if share == 0 else low + (present[below + 1] - low) * share


def floats(words):
    return [None if w == NULL_FLOAT else float(np.int64(w).view(np.float64)) for w in words.tolist()]


@given(
    start=st.lists(LINES, max_size=200),
    slides=st.lists(st.tuples(st.lists(LINES, max_size=4), st.integers(0, 4)), max_size=30),
    p=st.sampled_from([0.0, 0.25, 0.5, 0.9, 1.0]),
)
def test_any_sequence_of_slides_leaves_what_came_and_has_not_left(start, slides, p):
    window = SortedWindow(0, Kind.FLOAT)
    inside = list(start)
    window.slide(lines(start), lines([]))
    for came, leaving in slides:
        inside += came
        went, inside = inside[:leaving], inside[leaving:]
        window.slide(lines(came), lines(went))
        groups = np.arange(3)
        values = [[v for g, v in inside if g == group] for group in groups]
        quantiles = floats(window.lower(AggregateSpec("QUANTILE", V, Kind.FLOAT, p), groups))
        with np.errstate(invalid="ignore"):
            np.testing.assert_equal(quantiles, [expected(v, p) for v in values])
        distinct = window.lower(AggregateSpec("COUNT_DISTINCT", V, Kind.FLOAT), groups)
        assert distinct.tolist() == [len({str(x + 0.0) for x in v if x is not None}) for v in values]


def test_few_values_moved_do_not_touch_a_large_window():
    window = SortedWindow(0, Kind.INT)
    window.slide(np.array([(0, v) for v in range(10_000)]), lines([]))
    base = window._base
    for v in range(50):
        window.slide(np.array([(0, 10_000 + v)]), np.array([(0, v)]))
        assert window._base is base
    (median,) = floats(window.lower(AggregateSpec("MEDIAN", V), np.array([0])))
    assert median == 5049.5


def test_windows_of_one_line_leave_together():
    spec = WindowAggregate(10, None, (), (AggregateSpec("MEDIAN", V), AggregateSpec("COUNT")), V + 1)
    batch = Batch.of([(0, 10 * i, i) for i in range(1000)], V + 1)
    outcome = drive(pipeline_of(spec)(FixedSlack(0), Epochs()), [batch])
    assert sum(len(emission.ts) for emission in outcome.emissions) == 1000
    assert len(outcome.emissions) <= 2
