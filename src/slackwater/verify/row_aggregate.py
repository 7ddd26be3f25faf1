"""An aggregate over windows that are not of time against the truth, row by row.

Invariant: a late row is in no window, and one late row may move all windows behind it. There are two truths, as for
joins: that of all rows, and that of a run in which the late ones were never there, which it must have given. A row is
known by the bounds of its window and its group, and of several such by which of them it is. What the run gave of the
second truth alone is `displaced`.

Sessions take late rows in as far as they were open (`session`): those are in what a run must have given.

Landmark windows are found by walking from landmark to landmark: a window begins at the first row after the end of the
last one of which START is true, and ends with the first row from there on of which END is. Without END there is one,
and an answer at each multiple of SLIDE behind a row.
"""

# ruff: noqa: S608 (every name and number put into the SQL is made in this package)

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
import pyarrow as pa

from slackwater.core.errors import UsageError
from slackwater.core.time import BEFORE_ALL
from slackwater.language.bound import AggregateQuery, LandmarkWindow, RowWindow, SessionWindow
from slackwater.verify.aggregate import identity_of, measured, near, read_by, store_rows
from slackwater.verify.aggregate_truth import rounding_of, value_of
from slackwater.verify.groups import as_computed, is_wanted
from slackwater.verify.join_truth import MOST_COMPARISONS
from slackwater.verify.session import session_rows
from slackwater.verify.sql import Renderer
from slackwater.verify.verdict import Trial, Verdict


def judge_row_aggregate(trial: Trial[AggregateQuery]) -> Verdict:
    """Compare the rows of an aggregate with those expected of the run and with the truth."""
    connection, query, render = trial.connection, trial.query, trial.render
    stored = store_rows(connection, query, trial.produced)
    keys, arguments = read_by(query, stored.types, render)
    same_row = " AND ".join(f"t.{name} IS NOT DISTINCT FROM p.{name}" for name in [*identity_of(query), "copy"])
    right = " AND ".join(near(n, "t", "a", a) for n, a in enumerate(query.aggregates)) or "true"
    computed = as_computed(query, "p.")
    for name, which in (("truth", "true"), ("expected", f"met_0 = {BEFORE_ALL}")):
        windows = _windows(connection, query, render, keys, arguments, which)
        connection.execute(
            f"CREATE TABLE {name} AS SELECT t.window_end AS window_end, p.copy IS NOT NULL AS given,"
            f" p.copy IS NOT NULL AND {right} AND {computed} AS hit"
            f" FROM ({windows}) t LEFT JOIN produced p ON {same_row}"
        )
    true, hits = connection.execute("SELECT count(*), count(*) FILTER (hit) FROM truth").fetchone()
    given, kept, unexplained = connection.execute(
        "SELECT count(*) FILTER (given), count(*) FILTER (hit), count(*) FILTER (NOT hit) FROM expected"
    ).fetchone()
    measurements = measured(
        connection, "SELECT window_end, CASE WHEN hit THEN 0 ELSE CAST('inf' AS DOUBLE) END AS error FROM truth"
    )
    return Verdict(
        "error", stored.rows, true, max(0, true - hits - unexplained), unexplained, stored.rows - given,
        stored.descents, measurements, max(0, kept - hits),
    )  # fmt: skip


def make_sessions(
    connection: Any, query: AggregateQuery, render: Renderer, keys: Sequence[str], arguments: Sequence[str],
    source: str, table: str, late_ones: bool,
) -> None:  # fmt: skip
    """A table of sessions over the rows of a source, with the columns of `make_truth`; `late_ones`: late rows count as
    if they had been in time, and else as far as a run takes them in."""
    windows = _windows(connection, query, render, keys, arguments, "true" if late_ones else "met", source)
    expected = "".join(f", t{n} AS e{n}, a{n} AS b{n}" for n in range(len(query.aggregates)))
    connection.execute(f"CREATE TABLE {table} AS SELECT *, 1 AS present{expected} FROM ({windows})")


def _windows(
    connection: Any, query: AggregateQuery, render: Renderer, keys: Sequence[str], arguments: Sequence[str], which: str,
    source: str = "s0",
) -> str:  # fmt: skip
    """A SELECT of the rows of every window of the tuples that `which` is true of: bounds, keys, copy, aggregates."""
    window = query.stream.window
    assert isinstance(window, RowWindow | LandmarkWindow | SessionWindow), "judging a window of time"
    groups = "".join(f", {key} AS k{n}" for n, key in enumerate(keys))
    values = "".join(f", {argument} AS x{n}" for n, argument in enumerate(arguments))
    numbered = f"SELECT *, row_number() OVER (ORDER BY ts_0, place_0) - 1 AS number FROM {source} WHERE {which}"
    if isinstance(window, SessionWindow):
        # Late rows that met an open session are in it: they are left out there, and not before.
        every = f"SELECT *, row_number() OVER (ORDER BY ts_0, place_0) - 1 AS number FROM {source}"
        inside = session_rows(connection, window, keys, every, late_ones=which == "true")
    elif isinstance(window, RowWindow):
        inside = _of_rows(window, numbered)
    else:
        inside = landmark_windows(connection, window, render, numbered)
    rows = f"SELECT ts_0, nth, closes{groups}{values} FROM ({inside})"
    bounds = (
        "SELECT nth, min(ts_0) AS window_start, coalesce(any_value(closes), max(ts_0)) AS window_end"
        f" FROM ({rows}) GROUP BY nth"
    )
    columns = "".join(
        f", {value_of(a, f'x{n}', '')} AS t{n}, {rounding_of(a, f'x{n}', '')} AS a{n}"
        for n, a in enumerate(query.aggregates)
    )
    names = ", ".join(["window_start", "window_end", *(f"k{n}" for n in range(len(keys)))])
    return (
        f"SELECT *, row_number() OVER (PARTITION BY {names} ORDER BY nth) AS copy FROM"
        f" (SELECT nth, {names}{columns} FROM ({rows}) JOIN ({bounds}) USING (nth) GROUP BY nth, {names})"
        f" WHERE {is_wanted(query, 't')}"
    )


def _of_rows(window: RowWindow, numbered: str) -> str:
    """A SELECT of the numbered rows, once for each window (`nth`) they are in."""
    size, slide = window.rows, window.slide or window.rows
    inside = f"unnest(range(greatest(number - {size - slide}, 0) // {slide}, number // {slide} + 1))"
    return f"SELECT *, {inside} AS nth, CAST(NULL AS BIGINT) AS closes FROM ({numbered})"


def landmark_windows(connection: Any, window: LandmarkWindow, render: Renderer, numbered: str) -> str:
    """A SELECT of the numbered rows, once for each window (`nth`) they are in; `closes` where its end is no row's."""
    ends = "false" if window.end is None else render.all_of([window.end])
    found = connection.execute(
        f"SELECT coalesce({render.all_of([window.start])}, false) AS starts, coalesce({ends}, false) AS ends"
        f" FROM ({numbered}) ORDER BY number"
    ).fetchnumpy()
    starts, closing = np.flatnonzero(found["starts"]), np.flatnonzero(found["ends"])
    if window.slide is not None:
        return _running(connection, window.slide, numbered, int(starts[0]) if len(starts) else len(found["starts"]))
    nth = np.full(len(found["starts"]), -1, np.int64)
    at, count = 0, 0
    while (first := int(np.searchsorted(starts, at))) < len(starts):
        begin = int(starts[first])
        last = int(np.searchsorted(closing, begin))
        at = int(closing[last]) + 1 if last < len(closing) else len(nth)
        nth[begin:at] = count
        count += 1
    connection.execute("CREATE OR REPLACE TEMP TABLE inside (number BIGINT, nth BIGINT)")
    connection.register("found", pa.table({"number": np.arange(len(nth)), "nth": nth}))
    connection.execute("INSERT INTO inside SELECT number, nth FROM found WHERE nth >= 0")
    connection.unregister("found")
    return f"SELECT *, CAST(NULL AS BIGINT) AS closes FROM ({numbered}) JOIN inside USING (number)"


def _running(connection: Any, slide: int, numbered: str, begin: int) -> str:
    since = f"SELECT * FROM ({numbered}) WHERE number >= {begin}"
    answers = f"SELECT DISTINCT sw_floor(ts_0, {slide}) + {slide} AS closes FROM ({since})"
    (comparisons,) = connection.execute(
        f"SELECT (SELECT count(*) FROM ({since})) * (SELECT count(*) FROM ({answers}))"
    ).fetchone()
    if comparisons > MOST_COMPARISONS:
        raise UsageError(
            f"the true answer needs {comparisons:.1e} comparisons, more than verify makes ({MOST_COMPARISONS:.0e});"
            " verify a shorter piece of the input, or answer less often"
        )
    return f"SELECT *, closes AS nth FROM ({since}) JOIN ({answers}) ON ts_0 < closes"
