"""The values near a rank against a sorted list."""

from bisect import insort

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from slackwater.core.collections.segments import FRESH, SHORTEST, segments, with_room
from slackwater.core.jit import in_place
from slackwater.operators.aggregate import near_rank as near
from tests.effort import tried

AT = 2


@in_place
def begin(s, lines):
    for g in range(len(lines)):
        near.begin_near(s, lines, g, AT)


@in_place
def move(s, lines, words, leaving, others, ranks):
    for i in range(len(words)):
        if leaving[i]:
            near.goes_from(s, lines, 0, AT, words[i])
        else:
            near.comes_near(s, lines, 0, AT, words[i], others[i], ranks[i])


@in_place
def look(s, lines, rank, values, n):
    if near.has_ranks(lines, 0, AT, rank, rank):
        return 0
    near.make_near(s, lines, 0, AT, rank, values, n)
    return 1


class Kept:
    """A segment, beside a list of all values."""

    def __init__(self, shared=None):
        self.lines = np.full((1, AT + near.NEAR_WORDS), 99, np.int64)
        self.segments = with_room(segments(), 1, 10_000) if shared is None else shared
        begin(self.segments, self.lines)
        self.values, self.made = [], 0

    def move(self, words, leaving, share):
        others, ranks = [], []
        for word, leaves in zip(words, leaving, strict=True):
            if leaves:
                self.values.remove(word)
            else:
                insort(self.values, word)
            others.append(len(self.values) - 1)
            ranks.append(int(share * max(0, len(self.values) - 1)))
        move(self.segments, self.lines, *(np.array(one, np.int64) for one in (words, leaving, others, ranks)))
        self.check()
        if self.values:
            mixed = np.random.default_rng(1).permutation(np.array(self.values, np.int64))
            self.made += look(self.segments, self.lines, ranks[-1], mixed, len(mixed))
            self.check()
            assert self.below <= ranks[-1] < self.below + self.length

    @property
    def length(self):
        return int(self.lines[0, AT + near.LENGTH])

    @property
    def room(self):
        return int(self.lines[0, AT + near.ROOM])

    @property
    def below(self):
        return int(self.lines[0, AT + near.BELOW])

    def check(self):
        """The segment is a run of the sorted values."""
        if not self.length:
            return
        begin = self.lines[0, AT + near.BEGIN]
        assert self.length <= self.room
        held = self.segments.words[begin : begin + self.length].tolist()
        assert held == self.values[self.below : self.below + self.length]
        assert self.lines[0, [AT + near.FIRST, AT + near.LAST]].tolist() == [held[0], held[-1]]


@given(
    rounds=st.lists(st.tuples(st.integers(0, 60), st.floats(0, 1)), min_size=1, max_size=12),
    seed=st.integers(0, 2**32),
    share=st.sampled_from([0.0, 0.1, 0.5, 0.9, 1.0]),
    domain=st.sampled_from([2, 30, 2**63 - 1]),
    longer=st.sampled_from([0, 200, 10_000]),
)
@tried(80, deadline=None)
def test_whatever_comes_and_goes_the_stretch_is_a_run_of_the_sorted_values(rounds, seed, share, domain, longer):
    rng, shared = np.random.default_rng(seed), with_room(segments(), 2, longer)
    both = Kept(shared), Kept(shared)
    for coming, gone in rounds:
        kept, other = rng.permutation(both)
        came = rng.integers(-domain, domain, coming, endpoint=True).tolist()
        went = rng.permutation(kept.values + came)[: int(gone * (len(kept.values) + coming))].tolist()
        for words, leaving in ((came, 0), (went, 1)):
            if words:
                kept.move(words, [leaving] * len(words), share)
                other.check()


@pytest.mark.parametrize("share", [0.5, 0.97])
@pytest.mark.parametrize("slope", [0, 1, -1])
def test_a_stretch_lasts_for_as_many_values_as_half_of_it_has(slope, share):
    n, rng, kept = 900, np.random.default_rng(3), Kept()
    words = (rng.permutation(4 * n) if slope == 0 else slope * np.arange(4 * n)).tolist()
    kept.move(words[:n], [0] * n, share)
    kept.made = 0
    for i in range(n, 4 * n):
        kept.move([words[i], words[i - n]], [0, 1], share)
    assert kept.made <= 3 * n / (near.ROOTS * 30 / 2) + 1
    assert slope or kept.made < 6
    # Segments that became too short were given back, and are of lengths that are used again.
    assert kept.room & (kept.room - 1) == 0
    assert kept.segments.usage[FRESH] <= 2 * kept.room


def test_without_room_for_a_longer_stretch_the_shortest_one_serves():
    kept = Kept(with_room(segments(), 1, 0))
    kept.move(list(range(500)), [0] * 500, 0.5)
    assert kept.length == SHORTEST
    assert kept.below < 250 < kept.below + SHORTEST
