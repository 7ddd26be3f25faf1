"""Queries over instantaneous windows against the truth, as a bag of rows at every instant.

There are two answers: the truth has all tuples, and the expected answer those that a run had at each instant. Rows are
compared to ten digits of a float first. What is left over on both sides then is compared in order, with the rounding
that a sum of all values of the windows may show: a difference of two averages has few digits that are sure.

Invariant: a run must give exactly what is expected of it. Every true row is right, missing because of late tuples, or
missing unexplained; a row that is expected and yet not true is displaced.
"""

# ruff: noqa: S608 (every name and number put into the SQL is made in this package)

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import numpy as np

from slackwater.core.schema import Kind
from slackwater.core.time import BEFORE_ALL
from slackwater.expressions.relational import scans
from slackwater.expressions.tree import Column, Expr
from slackwater.language.bound import InstantQuery
from slackwater.verify.chain_rows import comparable
from slackwater.verify.produced import store
from slackwater.verify.relation_sql import InstantRange, TreeRenderer
from slackwater.verify.sql import TYPES
from slackwater.verify.verdict import Trial, Verdict

MOST_ROWS = 4_000_000
"""Rows of windows that are made at once; a tuple is one in every window it is in."""
_UNIT = 2.0**-52


def columns_read(query: InstantQuery) -> list[Expr]:
    """The columns that windows have, as expressions over the streams."""
    return [
        Column(scan.stream, one.name, one.kind, one.scale) for scan in scans(query.relation) for one in scan.columns
    ]


def judge_instants(trial: Trial[InstantQuery]) -> Verdict:
    """Compare the rows of every instant with those expected of the run and with the truth."""
    connection, query = trial.connection, trial.query
    columns = {"T": ("window_end", Kind.TIME), "starts": ("window_start", Kind.TIME)}
    columns |= {f"c{k}": (one.name, one.kind) for k, one in enumerate(query.relation.columns)}
    stored = store(connection, "produced", columns, "T", trial.produced)
    (late,) = connection.execute(
        "SELECT " + " + ".join(
            f"(SELECT count(*) FROM s{at} WHERE met_{at} > {BEFORE_ALL})" for at in range(len(query.streams))
        )
    ).fetchone()  # fmt: skip
    _answer(trial, "truth", with_late=True)
    expected = "truth"
    if late:
        _answer(trial, "expected", with_late=False)
        expected = "expected"
    rounding = _rounding(trial)
    wanted, right, _ = _matched(connection, query, expected, rounding)
    true, hits, by_time = _matched(connection, query, "truth", rounding)
    unexplained = wanted - right
    recalls = trial.periods.recalls(*by_time.values())
    return Verdict(
        "recall", stored.rows, true, max(0, true - hits - unexplained), unexplained, stored.rows - right,
        stored.descents, recalls, max(0, right - hits),
    )  # fmt: skip


def _answer(trial: Trial[InstantQuery], name: str, with_late: bool) -> None:
    """Make a table (T, starts, c0..) of all rows of all instants."""
    connection, query = trial.connection, trial.query
    columns = query.relation.columns
    typed = "".join(f", c{k} {TYPES[column.kind]}" for k, column in enumerate(columns))
    connection.execute(f"CREATE TABLE {name} (T BIGINT, starts BIGINT{typed})")
    listed = ", ".join(["T", f"T - {query.range}", *(f"c{k}" for k in range(len(columns)))])
    for segment in _segments(trial):
        select = TreeRenderer(trial.render, segment, with_late).select(query.relation)
        connection.execute(f"INSERT INTO {name} SELECT {listed} FROM ({select})")


def _segments(trial: Trial[InstantQuery]) -> Iterator[InstantRange]:
    """All instants at which a window has a tuple, cut so that windows of one cut have not too many rows together."""
    query, slide = trial.query, trial.query.slide
    ends = []
    rows = 0
    for at, stream in enumerate(query.streams):
        count, first, last = trial.connection.execute(
            f"SELECT count(*), min(ts_{at}), max(ts_{at}) FROM s{at}"
        ).fetchone()
        if count:
            reach = stream.range or 0
            ends.append((first // slide * slide + slide, (last + reach) // slide * slide))
            rows += count * (reach // slide + 1)
    if not ends:
        return
    first, last = min(one for one, _ in ends), max(one for _, one in ends)
    instants = (last - first) // slide + 1
    at_once = max(1, instants * MOST_ROWS // max(rows, MOST_ROWS))
    for begin in range(first, last + 1, at_once * slide):
        yield InstantRange(begin, min(begin + at_once * slide, last + slide), slide)


def _rounding(trial: Trial[InstantQuery]) -> float:
    """How far two ways of adding up all values of a window may be apart."""
    connection, query = trial.connection, trial.query
    largest, most = 0.0, 1
    for scan in scans(query.relation):
        (count,) = connection.execute(f"SELECT count(*) FROM s{scan.stream}").fetchone()
        most = max(most, count)
        for column in scan.columns:
            if column.kind is Kind.FLOAT:
                name = trial.render.column(scan.stream, column.name)
                (found,) = connection.execute(
                    f"SELECT max(abs({name})) FROM s{scan.stream} WHERE abs({name}) < 1e150"
                ).fetchone()
                largest = max(largest, found or 0.0)
    return float(16 * _UNIT * most * largest)


def _matched(
    connection: Any, query: InstantQuery, answer: str, rounding: float
) -> tuple[int, int, dict[str, np.ndarray[Any, Any]]]:
    """How many rows an answer has, and how many of them the run gave; both by instant, too."""
    kinds = [column.kind for column in query.relation.columns]
    exact = ["T", "starts", *(f"c{k}" for k, kind in enumerate(kinds) if kind is not Kind.FLOAT)]
    floats = [k for k, kind in enumerate(kinds) if kind is Kind.FLOAT]
    # -0.0 is 0.0, and a NaN that was computed is a null.
    raw = [f"nullif(c{k}, CAST('NaN' AS DOUBLE)) + 0.0 AS f{k}" for k in floats]
    rough = [f"{comparable(f'c{k}', Kind.FLOAT)} AS r{k}" for k in floats]
    same = ", ".join([*exact, *(f"r{k}" for k in floats)])
    for side, table in (("given", "produced"), ("wanted", answer)):
        connection.execute(
            f"CREATE OR REPLACE TEMP TABLE {side} AS SELECT *, row_number() OVER"
            f" (PARTITION BY {same} ORDER BY {', '.join([*(f'f{k}' for k in floats), 'T'])}) AS copy FROM"
            f" (SELECT {', '.join([*exact, *raw, *rough])} FROM {table})"
        )
    equal = " AND ".join(
        f"w.{name} IS NOT DISTINCT FROM g.{name}" for name in [*exact, *(f"r{k}" for k in floats), "copy"]
    )
    for side, other in (("given", "wanted"), ("wanted", "given")):
        connection.execute(
            f"CREATE OR REPLACE TEMP TABLE {side}_left AS SELECT *, row_number() OVER"
            f" (PARTITION BY {', '.join(exact)} ORDER BY {', '.join([*(f'f{k}' for k in floats), 'T'])}) AS nth"
            f" FROM {side} w WHERE NOT EXISTS (SELECT 1 FROM {other} g WHERE {equal})"
        )
    near = " AND ".join(
        f"(w.f{k} IS NOT DISTINCT FROM g.f{k} OR abs(w.f{k} - g.f{k}) <= 1e-9 * abs(w.f{k}) + {rounding!r}::DOUBLE)"
        for k in floats
    )
    pairs = " AND ".join(f"w.{name} IS NOT DISTINCT FROM g.{name}" for name in [*exact, "nth"])
    connection.execute(
        f"CREATE OR REPLACE TEMP TABLE missed AS SELECT T FROM wanted_left w WHERE NOT EXISTS"
        f" (SELECT 1 FROM given_left g WHERE {pairs} AND {near or 'false'})"
    )
    by_time = connection.execute(
        "SELECT T, count(*) AS wanted, count(*) - coalesce(any_value(lost), 0) AS hit FROM wanted"
        " LEFT JOIN (SELECT T, count(*) AS lost FROM missed GROUP BY T) USING (T) GROUP BY T ORDER BY T"
    ).fetchnumpy()
    return int(by_time["wanted"].sum()), int(by_time["hit"].sum()), by_time
