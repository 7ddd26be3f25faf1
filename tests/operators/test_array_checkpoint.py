"""Named arrays that are written only where they changed."""

import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from slackwater.operators.array_checkpoint import ArrayCheckpoint

values = st.lists(st.sampled_from([0.0, 1.5, float("nan")]), max_size=3)
steps = st.lists(st.dictionaries(st.sampled_from("abc"), values, max_size=3), min_size=1, max_size=6)


def arrays_of(step):
    return {name: np.array(numbers, np.float64) for name, numbers in step.items()}


def same(one, other):
    return one.keys() == other.keys() and all(np.array_equal(one[n], other[n], equal_nan=True) for n in one)


@given(steps=steps, behind=st.integers(0, 5))
def test_entries_applied_in_order_are_the_arrays_of_the_last_call(steps, behind):
    kept, other = ArrayCheckpoint("namespace"), ArrayCheckpoint("namespace")
    store, missed = {}, []
    for i, step in enumerate(steps):
        entries = list(kept.snapshot_delta(arrays_of(step)))
        store |= {entry.key: entry for entry in entries}
        missed += entries
        if i == behind:
            assert same(other.restore(missed), arrays_of(step))
            missed = []
    whole = ArrayCheckpoint("namespace").restore([entry for entry in store.values() if entry.value is not None])
    assert same(whole, arrays_of(steps[-1]))
    assert same(other.restore(missed), arrays_of(steps[-1]))


def test_an_array_that_did_not_change_is_not_written_again():
    kept = ArrayCheckpoint("namespace")
    list(kept.snapshot_delta({"a": np.array([np.nan, 1.0]), "b": np.arange(3)}))
    again = list(kept.snapshot_delta({"a": np.array([np.nan, 1.0]), "b": np.arange(4)}))
    assert [entry.key for entry in again] == ["b"]


def test_what_is_kept_is_a_copy():
    kept, array = ArrayCheckpoint("namespace"), np.zeros(2)
    list(kept.snapshot_delta({"a": array}))
    array[0] = 1.0
    assert [entry.key for entry in kept.snapshot_delta({"a": array})] == ["a"]
