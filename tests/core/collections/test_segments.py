"""Segments are nobody else's while they are taken, and used again; words are brought to their rank."""

import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from slackwater.core.collections.records import NONE
from slackwater.core.collections.segments import SHORTEST, give_back, segments, take, with_room
from slackwater.core.collections.selection import bring_to, sort
from slackwater.core.jit import in_place
from tests.effort import tried


@in_place
def taken(s, length):
    return take(s, length)


@in_place
def given_back(s, begin, length):
    give_back(s, begin, length)


@given(steps=st.lists(st.tuples(st.integers(0, 4), st.integers(0, 30)), max_size=60), longer=st.integers(0, 2000))
@tried(60, deadline=None)
def test_no_two_stretches_overlap_and_a_shortest_one_is_always_there(steps, longer):
    s, held = with_room(segments(), len(steps), longer), []
    for kind, which in steps:
        if held and which < len(held):
            given_back(s, *held.pop(which))
        length = SHORTEST << kind
        begin = taken(s, length)
        assert begin != NONE or kind > 0
        if begin != NONE:
            assert begin >= 0
            assert begin + length <= len(s.words)
            assert all(begin + length <= b or b + n <= begin for b, n in held)
            held.append((begin, length))


def test_stretches_keep_their_words_when_there_is_more_room_and_are_used_again():
    s = with_room(segments(), 2, 0)
    first = taken(s, SHORTEST)
    s.words[first : first + SHORTEST] = 7
    s = with_room(s, 1000, 5000)
    assert s.words[first : first + SHORTEST].tolist() == [7] * SHORTEST
    given_back(s, first, SHORTEST)
    assert taken(s, SHORTEST) == first


@in_place
def brought(words, begin, end, rank):
    bring_to(words, begin, end, rank)


@in_place
def in_order(words, begin, end):
    sort(words, begin, end)


@given(words=st.lists(st.integers(-9, 9) | st.integers(-(2**63), 2**63 - 1), min_size=1, max_size=80), data=st.data())
@tried(60, deadline=None)
def test_words_are_brought_to_their_rank_and_sorted(words, data):
    begin = data.draw(st.integers(0, len(words) - 1))
    end = data.draw(st.integers(begin + 1, len(words)))
    rank = data.draw(st.integers(begin, end - 1))
    given_words = np.array(words, np.int64)
    brought(given_words, begin, end, rank)
    right = [*words[:begin], *sorted(words[begin:end]), *words[end:]]
    assert given_words[rank] == right[rank]
    assert sorted(given_words[begin:rank].tolist()) == right[begin:rank]
    in_order(given_words, begin, end)
    assert given_words.tolist() == right
