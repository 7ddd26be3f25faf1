"""Windows between pairs of streams: the truth of the judge equals trying every combination."""

from __future__ import annotations

import itertools
from dataclasses import replace

from hypothesis import given as drawn
from hypothesis import strategies as st

from slackwater.core.time import WindowBound, before, window_of, within
from slackwater.verify import judge
from tests.effort import tried
from tests.verify.cases import Row, counted, given, join, joined, known_equal, same

UNIT = 400_000
ROWS = st.lists(
    st.builds(Row, ts=st.integers(-9, 9).map(lambda t: t * UNIT), k=st.sampled_from([0, 1, None])), max_size=6
)
SIZES = st.integers(0, 6).map(lambda size: size * UNIT)


@st.composite
def stated(draw):
    """Up to two alternatives that connect three streams."""
    alternatives = []
    for _ in range(draw(st.integers(1, 2))):
        a, b, c = draw(st.permutations(range(3)))
        kinds = st.sampled_from([within, before])
        bounds = (*draw(kinds)(a, b, draw(SIZES)), *draw(kinds)(*draw(st.permutations((b, c))), draw(SIZES)))
        bounds += draw(st.sampled_from([(), window_of(a, draw(SIZES), 3)]))
        alternatives.append(bounds)
    return tuple(alternatives)


def true_combinations(inputs, alternatives):
    found = []
    for members in itertools.product(*(range(len(rows)) for rows in inputs)):
        rows = [inputs[i][member] for i, member in enumerate(members)]
        near = any(all(rows[b.newer].ts - rows[b.older].ts <= b.most for b in bounds) for bounds in alternatives)
        if near and known_equal(rows[0].k, rows[1].k):
            found.append((max(row.ts for row in rows), members))
    return sorted(found)


@tried(60, deadline=None)
@drawn(st.tuples(ROWS, ROWS, ROWS), stated())
def test_rows_and_counts_equal_trying_every_combination(inputs, alternatives):
    query = replace(join([None] * 3, same("k", 0, 1)), bounds=alternatives)
    truth = true_combinations(inputs, alternatives)
    options = {"period": 10, "interval": 1}
    table = joined(inputs, [members for _, members in truth])
    verdict = judge(query, [given(rows) for rows in inputs], table, **options)
    assert (verdict.true_results, verdict.results, verdict.sound) == (len(truth), len(truth), True)
    options = {"period": 1_000_000, "interval": 1_000_000}
    numbers = counted([time for time, _ in truth])
    verdict = judge(query, [given(rows) for rows in inputs], numbers, count_only=True, **options)
    assert (verdict.true_results, verdict.results, verdict.sound) == (len(truth), len(truth), True)


def test_a_result_outside_of_a_stated_window_is_spurious():
    inputs = [[Row(0, 1)], [Row(5, 1)]]
    query = replace(join([None] * 2, same("k", 0, 1)), bounds=((WindowBound(1, 0, 4), WindowBound(0, 1, 9)),))
    verdict = judge(query, [given(rows) for rows in inputs], joined(inputs, [(0, 0)]), period=10, interval=1)
    assert (verdict.true_results, verdict.spurious) == (0, 1)
