"""The judge of queries over instantaneous windows, against answers that are worked out in Python, row by row."""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Callable, Iterable, Sequence
from statistics import fmean
from typing import Any

import pyarrow as pa
import pytest
from hypothesis import given as tried_with
from hypothesis import strategies as st

from slackwater.language.bind import bind
from slackwater.language.bound import InstantQuery
from slackwater.verify import Verdict, judge
from tests.effort import tried
from tests.verify.cases import SCHEMA, Row, given

MS = 1000
SLIDE = 3 * MS
LONG, SHORT = "[RANGE 7 MS SLIDE 3 MS]", "[RANGE 4 MS SLIDE 3 MS]"
Answer = Callable[..., Iterable[tuple[Any, ...]]]


def by(rows: Iterable[Row], *names: str) -> dict[tuple[Any, ...], list[Row]]:
    groups = defaultdict(list)
    for row in rows:
        groups[tuple(getattr(row, name) for name in names)].append(row)
    return groups


def known(values: Iterable[Any]) -> list[Any]:
    return [value for value in values if value is not None]


def largest(values: Iterable[Any]) -> Any:
    return max(known(values), default=None)


def mean(values: Iterable[Any]) -> Any:
    found = known(values)
    return fmean(found) if found else None


def above(a: Any, b: Any) -> bool:
    return a is not None and b is not None and a > b


def same(a: Any, b: Any) -> bool:
    return a is not None and a == b


def correlated(p: list[Row], m: list[Row]) -> Iterable[tuple[Any, ...]]:
    tops = {k: largest(row.x for row in rows) for (k,), rows in by(m, "k").items() if k is not None}
    high = Counter(row.k for row in p if row.k in tops and tops[row.k] is not None and above(row.x, 0.5 * tops[row.k]))
    return high.items()


def two_lengths(x: list[Row], y: list[Row]) -> Iterable[tuple[Any, ...]]:
    for (k,), rows in by(x, "k").items():
        for (other,), others in by(y, "k").items():
            if same(k, other):
                one, two = mean(row.x for row in rows), mean(row.x for row in others)
                yield k, None if one is None or two is None else one - two


def aggregate_of_aggregates(t: list[Row]) -> Iterable[tuple[Any, ...]]:
    totals = defaultdict(list)
    for (k, _), rows in by(t, "k", "name").items():
        found = known(row.j for row in rows)
        totals[k].append(sum(found) if found else None)
    return [(k, largest(values)) for k, values in totals.items()]


def three(a: list[Row], b: list[Row], c: list[Row]) -> Iterable[tuple[Any, ...]]:
    for one in a:
        for two in b:
            for third in c:
                if same(one.k, two.k) and same(two.name, third.name) and above(third.x, one.x) and same(third.j, 1):
                    yield one.x, third.k


def member(a: list[Row], b: list[Row]) -> Iterable[tuple[Any, ...]]:
    inside = {row.k for row in b}
    return [(row.x, row.name) for row in a if row.k is not None and row.k in inside]


def no_member(a: list[Row], b: list[Row]) -> Iterable[tuple[Any, ...]]:
    inside = {row.k for row in b if same(row.j, 1)}
    return [(row.x,) for row in a if not inside or (row.k is not None and not inside & {None, row.k})]


def no_larger(a: list[Row], b: list[Row]) -> Iterable[tuple[Any, ...]]:
    kept = [one for one in a if not any(same(two.k, one.k) and above(two.x, one.x) for two in b)]
    return [(len(kept),)] if kept else []


def any_at_all(a: list[Row], b: list[Row]) -> Iterable[tuple[Any, ...]]:
    return [(row.k,) for row in a] if b else []


def distinct(a: list[Row]) -> Iterable[tuple[Any, ...]]:
    return {(row.k, row.x) for row in a}


def wanted(a: list[Row], b: list[Row]) -> Iterable[tuple[Any, ...]]:
    pairs = [(one, two) for one in a for two in b if same(one.k, two.k)]
    for k in {one.k for one, _ in pairs}:
        own = [two for one, two in pairs if one.k == k]
        if above(largest(two.x for two in own), 0.5):
            yield k, len(own), sum(known(two.j for two in own)) / len(own) if known(two.j for two in own) else None


CASES: dict[str, tuple[str, Answer]] = {
    "correlated": (
        f"""SELECT p.k, COUNT(*) AS n FROM a {LONG} p, (SELECT k, MAX(x) AS top FROM a {SHORT} GROUP BY k) m
        WHERE p.k = m.k AND p.x > 0.5 * m.top GROUP BY p.k""",
        correlated,
    ),
    "two lengths": (
        f"""SELECT u.k, u.av - v.av AS d FROM (SELECT k, AVG(x) AS av FROM a {LONG} GROUP BY k) u,
        (SELECT k, AVG(x) AS av FROM a {SHORT} GROUP BY k) v WHERE u.k = v.k""",
        two_lengths,
    ),
    "aggregate of aggregates": (
        f"SELECT k, MAX(total) AS m FROM (SELECT k, name, SUM(j) AS total FROM a {LONG} GROUP BY k, name) t GROUP BY k",
        aggregate_of_aggregates,
    ),
    "three": (
        f"""SELECT a.x, c.k FROM a {LONG}, b {SHORT}, a c {SHORT} WHERE a.k = b.k AND b.name = c.name AND a.x < c.x
        AND c.j = 1""",
        three,
    ),
    "in": (f"SELECT x, name FROM a {LONG} WHERE k IN (SELECT k FROM b {SHORT})", member),
    "not in": (f"SELECT x FROM a {LONG} WHERE k NOT IN (SELECT k FROM b {SHORT} WHERE j = 1)", no_member),
    "not exists": (
        f"SELECT COUNT(*) AS n FROM a {LONG} WHERE NOT EXISTS (SELECT 1 FROM b {SHORT} WHERE b.k = a.k AND b.x > a.x)",
        no_larger,
    ),
    "exists": (f"SELECT k FROM a {LONG} WHERE EXISTS (SELECT * FROM b {SHORT})", any_at_all),
    "distinct": (f"SELECT DISTINCT k, x FROM a {LONG}", distinct),
    "having": (
        f"""SELECT a.k, COUNT(*) AS n, SUM(b.j) / COUNT(*) AS m FROM a {LONG}, b {SHORT} WHERE a.k = b.k GROUP BY a.k
        HAVING MAX(b.x) > 0.5""",
        wanted,
    ),
}

ROWS = st.lists(
    st.builds(
        Row,
        ts=st.integers(-12, 40).map(lambda t: t * MS // 2),
        k=st.sampled_from([None, 0, 1, 2]),
        j=st.sampled_from([None, 1, 2]),
        x=st.sampled_from([None, 0.0, 0.3, 1.0, 2.5]),
        name=st.sampled_from([None, "p", "q"]),
        met=st.none() | st.integers(1, 12).map(lambda late: late * MS),
    ),
    max_size=14,
)


def bound(name: str) -> InstantQuery:
    query = bind(CASES[name][0], {"a": SCHEMA, "b": SCHEMA}).query
    assert isinstance(query, InstantQuery)
    return query


def arrived(rows: Sequence[Row]) -> list[Row]:
    """The rows with `met` as the watermark itself: so long after their event time."""
    return [Row(row.ts, row.k, row.j, row.x, row.name, None if row.met is None else row.ts + row.met) for row in rows]


def answer(name: str, streams: dict[str, list[Row]], late: bool) -> list[tuple[Any, ...]]:
    """(T, columns...) of every instant; with late rows in all windows, or in those they still met."""
    query, found = bound(name), []
    times = [row.ts for rows in streams.values() for row in rows]
    first, last = min(times, default=0), max(times, default=0)
    for t in range(first // SLIDE * SLIDE, last + query.range + SLIDE, SLIDE):
        windows = [
            [
                row
                for row in streams[stream.source]
                if t - (stream.range or 0) <= row.ts < t and (late or row.met is None or row.met < t)
            ]
            for stream in query.streams
        ]  # fmt: skip
        found += [(t, *row) for row in CASES[name][1](*windows)]
    return found


def table(query: InstantQuery, rows: Sequence[tuple[Any, ...]], shift: int = 0) -> pa.Table:
    utc = pa.timestamp("us", "UTC")
    columns = {
        "window_start": pa.array([row[0] - query.range + shift for row in rows], utc),
        "window_end": pa.array([row[0] for row in rows], utc),
    }
    for at, column in enumerate(query.relation.columns, 1):
        columns[column.name] = pa.array([row[at] for row in rows], column.arrow)
    return pa.table(columns)


def verdict_on(name: str, streams: dict[str, list[Row]], produced: pa.Table) -> Verdict:
    query = bound(name)
    return judge(query, [given(streams[stream.source]) for stream in query.streams], produced)


@pytest.mark.parametrize("name", CASES)
@tried(12)
@tried_with(a=ROWS, b=ROWS)
def test_a_right_answer_is_sound_and_what_is_late_is_told(name: str, a: list[Row], b: list[Row]) -> None:
    streams = {"a": arrived(a), "b": arrived(b)}
    true, had = answer(name, streams, late=True), answer(name, streams, late=False)
    verdict = verdict_on(name, streams, table(bound(name), had))
    assert (verdict.missing_unexplained, verdict.spurious, verdict.out_of_order) == (0, 0, 0)
    assert (verdict.results, verdict.true_results) == (len(had), len(true))
    hits = (Counter(_rounded(true)) & Counter(_rounded(had))).total()
    assert (verdict.missing_late, verdict.displaced) == (len(true) - hits, len(had) - hits)


@pytest.mark.parametrize("name", CASES)
@tried(6)
@tried_with(a=ROWS, b=ROWS, at=st.integers(0, 100))
def test_an_answer_with_a_row_too_few_or_too_many_is_not_sound(name: str, a: list[Row], b: list[Row], at: int) -> None:
    streams = {"a": arrived(a), "b": arrived(b)}
    had = answer(name, streams, late=False)
    query = bound(name)
    if not had:
        return
    at %= len(had)
    fewer, more = had[:at] + had[at + 1 :], [*had[: at + 1], *had[at:]]
    assert verdict_on(name, streams, table(query, fewer)).missing_unexplained == 1
    assert verdict_on(name, streams, table(query, more)).spurious == 1
    assert not verdict_on(name, streams, table(query, had, shift=1)).sound
    later = [(row[0] + SLIDE * 100, *row[1:]) if place == at else row for place, row in enumerate(had)]
    assert not verdict_on(name, streams, table(query, later)).sound


def _rounded(rows: Sequence[tuple[Any, ...]]) -> list[tuple[Any, ...]]:
    return [tuple(round(value, 9) + 0.0 if isinstance(value, float) else value for value in row) for row in rows]


def test_an_answer_that_goes_back_in_time_is_told() -> None:
    streams = {"a": [Row(0, k=1), Row(4 * MS, k=2)], "b": []}
    had = answer("distinct", streams, late=True)
    verdict = verdict_on("distinct", streams, table(bound("distinct"), had[::-1]))
    assert (verdict.missing, verdict.spurious) == (0, 0)
    assert verdict.out_of_order > 0


def test_a_wrong_float_is_not_forgiven_and_rounding_is() -> None:
    streams = {"a": [Row(0, k=1, x=1.0), Row(1, k=1, x=0.7), Row(5 * MS, k=1, x=0.1)], "b": []}
    had = answer("two lengths", streams, late=True)
    query = bound("two lengths")
    off = [(*row[:2], row[2] + 1e-16) for row in had]
    wrong = [(*row[:2], row[2] + 1e-6) for row in had]
    assert verdict_on("two lengths", streams, table(query, off)).sound
    assert not verdict_on("two lengths", streams, table(query, wrong)).sound
