"""A ring of numbered places against the largest number seen of each place."""

from itertools import pairwise

import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from slackwater.core.collections.records import NONE
from slackwater.core.collections.ring import ring, slot_of, sums_between, turn_to
from slackwater.core.jit import in_place, inner

NUMBERS = st.lists(st.integers(-20, 40), max_size=60)
PLACES = st.sampled_from([1, 4, 7, 8])


@inner
def empty(content, at):
    content[at] = 0.0


@in_place
def count_all(numbers, content, given, taken):
    for i in range(len(given)):
        at = taken[i] = turn_to(empty, numbers, content, given[i])
        if at != NONE:
            content[at] += 1.0


@in_place
def places_of(numbers, wanted, found):
    for i in range(len(wanted)):
        found[i] = slot_of(numbers, wanted[i])


def slow_ring(places, given):
    """Counts by number, of the numbers that have a place; and whether each of those given got one."""
    counts, largest, got = {}, {}, []
    for number in given:
        place = number % places
        got.append(number >= largest.get(place, number))
        if got[-1]:
            if largest.get(place) != number:
                counts.pop(largest.get(place), None)
            largest[place] = number
            counts[number] = counts.get(number, 0) + 1
    return counts, got


def filled(places, given):
    numbers, content = ring(places), np.zeros(places)
    taken = np.zeros(len(given), np.int64)
    count_all(numbers, content, np.array(given, np.int64), taken)
    return numbers, content, taken


@given(PLACES, NUMBERS)
def test_a_place_belongs_to_the_largest_number_and_is_empty_when_another_takes_it(places, given):
    numbers, content, taken = filled(places, given)
    counts, got = slow_ring(places, given)
    assert (taken != NONE).tolist() == got
    wanted = np.arange(-25, 45)
    found = np.zeros(len(wanted), np.int64)
    places_of(numbers, wanted, found)
    known = {int(n): content[at] for n, at in zip(wanted, found, strict=True) if at != NONE}
    assert known == counts


@given(PLACES, NUMBERS, st.lists(st.integers(-25, 45), min_size=2, max_size=5).map(sorted))
def test_sums_between_marks_are_of_what_has_a_place(places, given, marks):
    # Nobody asks for more than lies up to the newest number.
    marks = [min(mark, max(given, default=0) + 1) for mark in marks]
    numbers, content, _ = filled(places, given)
    counts, _ = slow_ring(places, given)
    first = marks[-1] - places
    sums, halves = sums_between(numbers, np.array(marks), content, content / 2)
    wanted = [sum(count for number, count in counts.items() if max(a, first) <= number < b) for a, b in pairwise(marks)]
    assert sums.tolist() == wanted
    assert (2 * halves).tolist() == wanted
