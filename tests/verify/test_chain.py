"""The judge of chains: it agrees with hand-made truth, and sees what is wrong with a run."""

from __future__ import annotations

import pyarrow as pa
import pytest

from slackwater.language.bind import bind
from slackwater.verify import Verdict, judge
from tests.verify.cases import SCHEMA, UTC, Row, given

PAIRS = "SELECT a.k AS k, b.x AS x FROM a [3 us], b [3 us] WHERE a.k = b.k"
COUNTED = f"SELECT k, COUNT(*) AS n FROM ({PAIRS}) j [10 us] GROUP BY k"
A = [Row(1, k=1), Row(4, k=2), Row(12, k=1)]
B = [Row(2, k=1, x=0.1), Row(3, k=1, x=0.2), Row(5, k=2, x=0.3), Row(13, k=1, x=0.4)]
TRUE_PAIRS = [(1, 0.1, 2), (1, 0.2, 3), (2, 0.3, 5), (1, 0.4, 13)]
TRUE_COUNTS = [(0, 1, 2), (0, 2, 1), (10, 1, 1)]


def judged(text: str, rows: list[tuple[object, ...]], a: list[Row] = A, b: list[Row] = B) -> Verdict:
    """A verdict on rows of pairs (k, x, ts) or of counts (window start, k, n)."""
    columns = list(zip(*rows, strict=True)) or [(), (), ()]
    if text == COUNTED:
        start, k, n = (pa.array(column, pa.int64()) for column in columns)
        end = pa.array([row[0] + 10 for row in rows], pa.int64())  # type: ignore[operator]
        table = pa.table({"window_start": start.cast(UTC), "window_end": end.cast(UTC), "k": k, "n": n})
    else:
        k, ts = (pa.array(columns[at], pa.int64()) for at in (0, 2))
        table = pa.table({"k": k, "x": pa.array(columns[1], pa.float64()), "_ts": ts.cast(UTC)})
    return judge(bind(text, {"a": SCHEMA, "b": SCHEMA}).query, [given(a), given(b)], table)


ABOVE = f"SELECT k, x FROM ({PAIRS}) j"
EACH = [(ABOVE, TRUE_PAIRS), (COUNTED, TRUE_COUNTS)]


@pytest.mark.parametrize(("text", "true"), EACH)
def test_the_true_answer_is_right(text: str, true: list[tuple[object, ...]]) -> None:
    verdict = judged(text, true)
    assert (verdict.true_results, verdict.missing, verdict.sound) == (len(true), 0, True)


@pytest.mark.parametrize(("text", "true"), EACH)
def test_a_row_that_lacks_without_a_late_tuple_is_not_explained(text: str, true: list[tuple[object, ...]]) -> None:
    verdict = judged(text, true[1:])
    assert (verdict.missing_late, verdict.missing_unexplained, verdict.spurious) == (0, 1, 0)


@pytest.mark.parametrize(("text", "true"), EACH)
def test_a_row_too_many_is_spurious(text: str, true: list[tuple[object, ...]]) -> None:
    assert judged(text, [true[0], *true]).spurious == 1
    assert judged(text, [*true, (20, 9, 20)]).spurious == 1


@pytest.mark.parametrize(("text", "true"), EACH)
def test_rows_out_of_order_are_seen(text: str, true: list[tuple[object, ...]]) -> None:
    assert judged(text, true[::-1]).out_of_order > 0


def test_a_wrong_value_is_not_explained() -> None:
    assert judged(COUNTED, [(0, 1, 3), *TRUE_COUNTS[1:]]).missing_unexplained == 1
    verdict = judged(ABOVE, [(1, 0.15, 2), *TRUE_PAIRS[1:]])
    assert (verdict.missing_unexplained, verdict.spurious) == (1, 1)


def test_what_a_late_tuple_has_lost_below_is_explained_above() -> None:
    late = [*B[:1], Row(3, k=1, x=0.2, met=8), *B[2:]]
    counts = judged(COUNTED, [(0, 1, 1), *TRUE_COUNTS[1:]], b=late)
    assert (counts.missing_late, counts.missing_unexplained, counts.spurious) == (1, 0, 0)
    pairs = judged(ABOVE, [TRUE_PAIRS[0], *TRUE_PAIRS[2:]], b=late)
    assert (pairs.missing_late, pairs.missing_unexplained, pairs.spurious) == (1, 0, 0)


def test_where_a_late_tuple_met_the_very_time_of_a_result_it_may_be_there_or_not() -> None:
    late = [*B[:1], Row(0, k=1, x=0.2, met=1), *B[2:]]
    without, with_it = [(0, 1, 1), *TRUE_COUNTS[1:]], TRUE_COUNTS
    assert judged(COUNTED, without, b=late).sound
    assert judged(COUNTED, with_it, b=late).sound
    assert not judged(COUNTED, TRUE_COUNTS[1:], b=late[:1] + late[2:]).sound


LEFT = "SELECT k, x FROM (SELECT a.k AS k, b.x AS x FROM a [3 us] LEFT JOIN b [3 us] ON a.k = b.k) j"
FEW = [B[0], B[3]]
WITH_NULL: list[tuple[object, ...]] = [(1, 0.1, 2), (2, None, 7), (1, 0.4, 13)]


def test_a_row_without_partner_below_is_looked_for_above() -> None:
    verdict = judged(LEFT, WITH_NULL, b=FEW)
    assert (verdict.true_results, verdict.missing, verdict.displaced, verdict.sound) == (3, 0, 0, True)
    assert judged(LEFT, [WITH_NULL[0], WITH_NULL[2]], b=FEW).missing_unexplained == 1
    assert judged(LEFT, [WITH_NULL[0], (1, None, 4), *WITH_NULL[1:]], b=FEW).spurious == 1


def test_a_row_that_is_false_because_a_partner_was_late_is_displaced() -> None:
    late = [B[0], Row(5, k=2, x=0.3, met=9), B[3]]
    verdict = judged(LEFT, WITH_NULL, b=late)
    assert (verdict.missing_late, verdict.missing_unexplained, verdict.spurious, verdict.displaced) == (1, 0, 0, 1)
    # The partner met the very time of the pair, so either is right.
    either = [B[0], Row(3, k=2, x=0.3, met=4), B[3]]
    assert judged(LEFT, WITH_NULL, b=either).sound
    assert judged(LEFT, [WITH_NULL[0], (2, 0.3, 4), WITH_NULL[2]], b=either).sound
    assert not judged(LEFT, [WITH_NULL[0], WITH_NULL[2]], b=late).sound
