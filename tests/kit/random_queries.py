"""Texts of random queries over three streams a, b and c of (k, x, name), with every way for results to leave.

Invariant: every text is a query that the language accepts.
"""

from __future__ import annotations

import random
from typing import Any

from hypothesis import strategies as st

TARGETS = ("COMPLETE", "NO WAIT", "NO WAIT", "DELAY 100 MS", "DELAY 100 MS", "DELAY 1 MINUTE")
"""Those with late tuples more often."""
CORRECTED = ("EMIT IN ORDER WITH CORRECTIONS", *(f"EMIT IN ORDER WITH CORRECTIONS FOR {d} MS" for d in (1, 50, 400)))
EARLY = ("EMIT EARLY EVERY 50 MS", "EMIT EARLY EVERY 300 MS", "EMIT EARLY AT ERROR 10%", "EMIT EARLY AT ERROR 50%")
Row = tuple[str, int, int | None, float | None, str | None]
"""A tuple: its stream, event time in ms, k, x and name."""


def trace(seed: int, count: int) -> list[Row]:
    """So many tuples in the order of arrival, one in three of them late by up to two seconds."""
    rng = random.Random(seed)
    return [
        (
            rng.choice("aaabbc"), max(0, 25 * i - rng.choice((0, 0, 0, 0, 25, 100, 250, 600, 2000))) // 25 * 25,
            rng.choice((0, 0, 1, 1, 2, None)), rng.choice((0.0, -0.0, 0.5, 0.5, 1.0, None)),
            rng.choice(("p", "p", "q", "q", "é", None)),
        )
        for i in range(count)
    ]  # fmt: skip


ROWS = st.builds(trace, st.integers(0, 1 << 32), st.integers(0, 90))
_SIZES = st.sampled_from([0, 50, 120, 300, 500, 1000, 1000])
_PAIRS = (
    "{l}.k = {r}.k", "{l}.name = {r}.name", "{l}.x = {r}.x", "{l}.k + 1 = {r}.k", "upper({l}.name) = upper({r}.name)",
    "{l}.x <= {r}.x", "abs({l}.k - {r}.k) <= 1", "{l}.k <> {r}.k",
)  # fmt: skip
_FILTERS = ("{s}.k > 0", "{s}.x < 0.7", "{s}.name <> 'q'", "{s}.k IS NOT NULL")
_ITEMS = ("{s}.k", "{s}.x * 2", "{s}.name", "{s}.k + 1", "{s}.ts")
_AGGREGATES = (
    "COUNT(*)", "COUNT(x)", "SUM(k)", "SUM(x)", "AVG(k)", "MIN(x)", "MAX(name)", "MEDIAN(k)", "COUNT(DISTINCT name)",
    "FIRST(k)", "LAST(name)", "MAX_BY(name, x)", "MIN_BY(x, k)", "STDDEV(k)", "SUM(k) + COUNT(*)",
)  # fmt: skip


@st.composite
def _join(draw: Any) -> str:
    """A selection, or a join of up to four streams by windows of their own, between pairs, or along a path."""
    count = draw(st.integers(1, 4))
    sources = [draw(st.sampled_from("abc")) for _ in range(count)]
    names = [f"s{i}" for i in range(count)]
    conditions = [
        draw(st.sampled_from(_PAIRS)).format(l=names[draw(st.integers(0, i - 1))], r=names[i]) for i in range(1, count)
    ]
    conditions += [draw(st.sampled_from(_FILTERS)).format(s=name) for name in names if draw(st.integers(0, 3)) == 0]
    where = f" WHERE {' AND '.join(conditions)}" if conditions else ""
    shape = draw(st.sampled_from(["own", "own", "pairs", "path"])) if count > 1 else "one"
    sizes = [draw(_SIZES) for _ in names]
    own = [f" [{size} MS]" if shape == "own" else "" for size in sizes]
    listed = ", ".join(f"{source} AS {name}{size}" for source, name, size in zip(sources, names, own, strict=True))
    items = [
        draw(st.sampled_from(_ITEMS)).format(s=draw(st.sampled_from(names))) for _ in range(draw(st.integers(1, 3)))
    ]
    text = f"SELECT {', '.join(f'{item} AS c{i}' for i, item in enumerate(items))} FROM {listed}"
    if shape == "path":
        arrow = draw(st.sampled_from([" -> ", " <-> "]))
        within = ", ".join(f"{size} MS" for size in sizes[1:])
        return f"{text}{where} PATH {arrow.join(names)} WITHIN ({within})"
    if shape == "pairs":
        pairs = zip(names, names[1:], sizes[1:], strict=False)
        return f"{text} WINDOW {' AND '.join(f'WINDOW ({a}, {b}) = {d} MS' for a, b, d in pairs)}{where}".replace(
            "WINDOW WINDOW", "WINDOW"
        )
    return text + where


@st.composite
def _aggregate(draw: Any, source: str = "a", columns: bool = True) -> str:
    """Windows of time, of groups or of all, with conditions of groups at times."""
    size = draw(st.sampled_from([100, 250, 500, 1000]))
    slide = draw(st.sampled_from(["", *(f" SLIDE {step} MS" for step in (50, 70, 100, 250) if step <= size)]))
    keys = draw(st.sampled_from([[], ["k"], ["name"], ["k", "name"], ["x"]])) if columns else ["c0"]
    calls = draw(st.lists(st.sampled_from(_AGGREGATES), min_size=1, max_size=3)) if columns else ["COUNT(*)"]
    items = [*keys, *(f"{call} AS v{i}" for i, call in enumerate(calls))]
    where = draw(st.sampled_from(["", " WHERE k > 0"])) if columns else ""
    by = f" GROUP BY {', '.join(keys)}" if keys else ""
    having = draw(st.sampled_from(["", "", " HAVING COUNT(*) > 1", " HAVING COUNT(*) < 3"]))
    return f"SELECT {', '.join(items)} FROM {source} [{size} MS{slide}]{where}{by}{having}"


@st.composite
def _chain(draw: Any) -> str:
    """An aggregate above a join, a join of a join, or a union."""
    kind = draw(st.sampled_from(["aggregate", "join", "union"]))
    if kind == "aggregate":
        return draw(_aggregate(f"({draw(_join())}) j", columns=False))
    if kind == "join":
        return f"SELECT j.c0 AS c0, b.x AS x FROM ({draw(_join())}) j [300 MS], b [{draw(_SIZES)} MS] WHERE b.k > 0"
    return (
        "SELECT k, x * 2 AS y FROM a WHERE k > 0 UNION ALL SELECT c.k, b.x FROM c [100 MS], b [200 MS] WHERE c.k = b.k"
    )


def _distinct() -> st.SearchStrategy[str]:
    return st.builds(
        "SELECT DISTINCT {} FROM a [{} MS]{}".format,
        st.sampled_from(["k", "name", "k, name", "x"]), st.sampled_from([50, 200, 500]),
        st.sampled_from(["", " WHERE k > 0"]),
    )  # fmt: skip


def _emitted(query: st.SearchStrategy[str], *clauses: str) -> st.SearchStrategy[str]:
    return st.builds("{} WITH {} {}".format, query, st.sampled_from(TARGETS), st.sampled_from(clauses))


QUERIES = {
    "joins": _emitted(_join(), "EMIT ON ARRIVAL", *CORRECTED),
    "aggregates": _emitted(_aggregate(), *CORRECTED, *EARLY, *(f"{early} WITH CORRECTIONS" for early in EARLY)),
    "of several operators": _emitted(_chain(), *CORRECTED),
    "distinct": _emitted(_distinct(), *CORRECTED),
}
