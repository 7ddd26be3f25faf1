"""Bisection against looking at every place."""

import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from slackwater.core.collections.bisection import first_where
from slackwater.core.jit import in_place, inner


@inner
def is_more(values, place, than, by):
    return values[place] > than + by


@in_place
def first_above(values, than, by, low, high):
    return first_where(is_more, values, than, by, low, high)


@given(st.lists(st.integers(-9, 9)).map(sorted), st.integers(-10, 10), st.integers(0, 2), st.data())
def test_the_first_place_from_which_on_it_holds(values, than, by, data):
    low = data.draw(st.integers(0, len(values)))
    high = data.draw(st.integers(low, len(values)))
    slow = next((place for place in range(low, high) if values[place] > than + by), high)
    assert first_above(np.array(values, np.int64), than, by, low, high) == slow
