"""As-of joins, row by row, against looking through all versions; and every kind of wrong row."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

import pyarrow as pa
import pytest
from hypothesis import given as drawn
from hypothesis import strategies as st

from slackwater.core.errors import UsageError
from slackwater.core.options import Options
from slackwater.core.quality import Complete
from slackwater.language.asof import AsOfQuery
from slackwater.language.bound import Output
from slackwater.verify import judge
from tests.effort import tried
from tests.verify.cases import UTC, Row, call, col, given, known_equal, lit, stream

ROWS = st.lists(
    st.builds(Row, ts=st.integers(-9, 9), k=st.one_of(st.none(), st.integers(0, 2)), j=st.integers(0, 3)), max_size=8
)
QUERY = AsOfQuery(
    (stream("s0", None), stream("s1", None)), ((col(0, "k"), col(1, "k")),),
    (Output("mine", col(0, "j")), Output("theirs", col(1, "j"))), Complete(), Options(),
)  # fmt: skip
A = [Row(10, 1, 5), Row(20, 1, 6), Row(30, 2, 7)]
B = [Row(5, 1, 1), Row(20, 1, 2), Row(15, 1, 3), Row(40, 2, 4)]
Pair = tuple[int, int | None]


def true_rows(query: AsOfQuery, a: Sequence[Row], b: Sequence[Row]) -> list[list[Pair]]:
    """For each row of a what it may leave with; WHERE is left to who asks."""
    found: list[list[Pair]] = []
    for at, mine in enumerate(a):
        ages = {n: mine.ts - other.ts for n, other in enumerate(b) if known_equal(mine.k, other.k)}
        least = int(query.strict)
        ages = {n: age for n, age in ages.items() if age >= least and (query.within is None or age <= query.within)}
        pairs: list[Pair] = [(at, n) for n, age in ages.items() if age == min(ages.values())]
        found.append(pairs or ([(at, None)] if query.outer else []))
    return found


def rows_of(a: Sequence[Row], b: Sequence[Row], pairs: Sequence[Pair]) -> pa.Table:
    pairs = sorted(pairs, key=lambda pair: a[pair[0]].ts)
    theirs = [None if n is None else b[n].j for _, n in pairs]
    return pa.table(
        {
            "mine": pa.array([a[at].j for at, _ in pairs], pa.int64()),
            "theirs": pa.array(theirs, pa.int64()),
            "_ts": pa.array([a[at].ts for at, _ in pairs], UTC),
            "_row_s0": pa.array([at for at, _ in pairs], pa.int64()),
            "_row_s1": pa.array([n for _, n in pairs], pa.int64()),
        }
    )


def verdict_of(query, a, b, pairs):
    return judge(query, [given(a), given(b)], rows_of(a, b, pairs), period=10, interval=1)


@tried(60, deadline=None)
@drawn(st.tuples(ROWS, ROWS), st.booleans(), st.booleans(), st.sampled_from([None, 0, 1, 4]), st.data())
def test_the_truth_equals_looking_through_all_versions(inputs, strict, outer, within, data):
    query = replace(QUERY, strict=strict, outer=outer, within=within)
    may = [pairs for pairs in true_rows(query, *inputs) if pairs]
    chosen = [data.draw(st.sampled_from(pairs)) for pairs in may]
    verdict = verdict_of(query, *inputs, chosen)
    assert (verdict.results, verdict.true_results, verdict.missing, verdict.spurious) == (len(may), len(may), 0, 0)
    for missing in range(len(chosen)):
        found = verdict_of(query, *inputs, chosen[:missing] + chosen[missing + 1 :])
        assert (found.missing_unexplained, found.missing_late, found.spurious) == (1, 0, 0)
        break
    others = [(at, n) for at in range(len(inputs[0])) for n in (None, *range(len(inputs[1])))]
    wrong = [pair for pair in others if pair not in {one for pairs in may for one in pairs}]
    if wrong:
        assert verdict_of(query, *inputs, [*chosen, data.draw(st.sampled_from(wrong))]).spurious == 1


@pytest.mark.parametrize(
    ("pairs", "missing", "spurious"),
    [
        ([(0, 0), (1, 1)], 0, 0),
        ([(0, 0)], 1, 0),
        ([(0, 0), (1, 2)], 1, 1),
        ([(0, 0), (1, 1), (1, 1)], 0, 1),
        ([(0, 0), (1, 1), (2, None)], 0, 1),
        ([(0, 0), (1, 1), (2, 3)], 0, 1),
    ],
)
def test_each_kind_of_wrong_row_is_told(pairs, missing, spurious):
    verdict = verdict_of(QUERY, A, B, pairs)
    assert (verdict.true_results, verdict.missing_unexplained, verdict.spurious) == (2, missing, spurious)
    assert verdict.sound == (missing + spurious == 0)


def test_a_row_with_another_value_is_spurious():
    rows = rows_of(A, B, [(0, 0), (1, 1)]).set_column(1, "theirs", pa.array([1, 9], pa.int64()))
    verdict = judge(QUERY, [given(A), given(B)], rows, period=10, interval=1)
    assert (verdict.missing_unexplained, verdict.spurious) == (1, 1)


@pytest.mark.parametrize(("met", "displaced"), [(19, 0), (20, 0), (21, 1)])
def test_a_late_version_explains_the_one_before_where_it_met_a_watermark_beyond(met, displaced):
    # The true one is of 15 (that of 20 is too new for `>`); late, it comes too late for who was answered by then.
    b = [B[0], B[1], replace(B[2], met=met), B[3]]
    query = replace(QUERY, strict=True)
    verdict = verdict_of(query, A, b, [(0, 0), (1, 0)])
    assert (verdict.displaced, verdict.missing_late, verdict.spurious) == (displaced, displaced, 1 - displaced)
    assert verdict.sound == bool(displaced)


def test_a_late_tuple_explains_its_own_row_and_may_not_give_one():
    a = [A[0], replace(A[1], met=21), A[2]]
    verdict = verdict_of(QUERY, a, B, [(0, 0)])
    assert (verdict.missing_late, verdict.sound) == (1, True)
    assert verdict_of(QUERY, a, B, [(0, 0), (1, 1)]).spurious == 1


def test_what_is_asked_of_rows_is_asked_after_the_version_is_found():
    few = replace(QUERY, outer=True, kept=(call("<", col(1, "j"), lit(2)),))
    verdict = verdict_of(few, A, B, [(0, 0)])
    assert (verdict.true_results, verdict.sound) == (1, True)
    assert verdict_of(few, A, B, [(0, 0), (1, 0)]).spurious == 1


def test_of_two_of_one_time_either_is_right_even_where_one_alone_is_wanted():
    b = [Row(5, 1, 1), Row(5, 1, 3)]
    for n in range(2):
        assert verdict_of(QUERY, A[:1], b, [(0, n)]).sound
    few = replace(QUERY, kept=(call("<", col(1, "j"), lit(2)),))
    assert verdict_of(few, A[:1], b, [(0, 0)]).sound
    assert verdict_of(few, A[:1], b, []).sound
    assert verdict_of(few, A[:1], b, [(0, 1)]).spurious == 1


def test_counted_results_are_refused():
    with pytest.raises(UsageError, match="as-of join"):
        judge(QUERY, [given(A), given(B)], rows_of(A, B, []), count_only=True)
