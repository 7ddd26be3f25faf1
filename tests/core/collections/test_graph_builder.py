"""Chains in the order of time against a sorted list."""

import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from slackwater.core.collections.chain import NEWER, OLDER, gap_for, link_between, unlink
from slackwater.core.collections.records import NONE
from slackwater.core.jit import in_place

COLUMN = 1
OLDEST, NEWEST = 0, 1


@in_place
def put_in(links, times, ends, entry):
    older, newer = gap_for(links, COLUMN, times, ends[NEWEST], times[entry])
    link_between(links, COLUMN, older, newer, entry)
    if older == NONE:
        ends[OLDEST] = entry
    if newer == NONE:
        ends[NEWEST] = entry


@in_place
def take_out(links, ends, entry):
    older, newer = unlink(links, COLUMN, entry)
    if older == NONE:
        ends[OLDEST] = newer
    if newer == NONE:
        ends[NEWEST] = older


def walked(links, at, link):
    found = []
    while at != NONE:
        found.append(at)
        at = int(links[at, COLUMN + link])
    return found


@given(st.lists(st.integers(-3, 3), max_size=20), st.data())
def test_entries_stand_by_time_and_equal_ones_in_the_order_they_came(times, data):
    links = np.full((20, 4), 99, np.int64)
    ends = np.full(2, NONE, np.int64)
    slow = []
    for entry in range(len(times)):
        put_in(links, np.array(times, np.int64), ends, entry)
        slow = sorted([*slow, entry], key=times.__getitem__)
        if data.draw(st.booleans()):
            gone = data.draw(st.sampled_from(slow))
            take_out(links, ends, gone)
            slow.remove(gone)
        assert walked(links, int(ends[OLDEST]), NEWER) == slow
        assert walked(links, int(ends[NEWEST]), OLDER) == slow[::-1]
    assert np.all(links[:, [0, 3]] == 99), "links of other chains"
