"""Window aggregates against the truth, row by row: a row is known by its window and its group.

Invariant: every true row is exactly one of right, missing_late and missing_unexplained. It is unexplained unless the
run gave for it what its in-time rows, and its late rows that still met an open window, make expected (or rightly
nothing); of the rest it is missing_late where that differs from the truth.

Integers, texts and times must be equal; floats within 1e-9 of the value plus the rounding that `aggregate_truth`
allows.
"""

# ruff: noqa: S608 (every name and number put into the SQL is made in this package)

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from typing import Any

import pyarrow as pa

from slackwater.core.quality import asks_estimates
from slackwater.core.schema import Kind
from slackwater.expressions.aggregates import FUNCTIONS
from slackwater.expressions.tree import Expr
from slackwater.language.bound import Aggregate, AggregateQuery
from slackwater.language.estimates import estimate_columns
from slackwater.verify.aggregate_truth import make_truth, read_sql
from slackwater.verify.groups import as_computed, is_wanted
from slackwater.verify.inputs import as_produced
from slackwater.verify.produced import Stored, store
from slackwater.verify.sql import Renderer
from slackwater.verify.verdict import Trial, Verdict


def judge_aggregate(trial: Trial[AggregateQuery]) -> Verdict:
    """Compare the rows of a window aggregate with those expected of the run and with the truth."""
    connection, query = trial.connection, trial.query
    stored = store_rows(connection, query, trial.produced)
    keys, arguments = read_by(query, stored.types, trial.render)
    make_truth(connection, query, keys, arguments)
    same_row = " AND ".join(f"t.{name} IS NOT DISTINCT FROM p.{name}" for name in identity_of(query))
    expected, right = (
        " AND ".join(near(n, value, rounding, a) for n, a in enumerate(query.aggregates)) or "true"
        for value, rounding in (("e", "b"), ("t", "a"))
    )
    worst = ", ".join(errors_of(query)) or "CAST(0 AS DOUBLE)"
    there = f"present > 0 AND {is_wanted(query, 'e', 't.')}"
    connection.execute(
        f"CREATE TABLE judged AS SELECT t.window_end AS window_end, copy IS NOT NULL AS given,"
        f" {is_wanted(query, 't', 't.')} AS true_row,"
        f" CASE WHEN copy IS NULL THEN NOT ({there}) ELSE {there} AND {expected} AND {as_computed(query, 'p.')} END"
        f" AS as_expected, copy IS NOT NULL AND {right} AS as_true,"
        f" CASE WHEN copy IS NULL THEN CAST('inf' AS DOUBLE) ELSE greatest({worst}) END AS error"
        f" FROM truth t LEFT JOIN (SELECT * FROM produced WHERE copy = 1) p ON {same_row}"
    )
    return verdict_on_rows(connection, stored)


def read_by(query: AggregateQuery, types: Mapping[str, pa.DataType], render: Renderer) -> tuple[list[str], list[str]]:
    """The SQL of each GROUP BY key, and of what each aggregate reads, where results came in these types."""
    schemas = [query.stream.schema]
    keys = [as_produced(key.expr, schemas, types.get(key.name, pa.null()), render) for key in query.keys]

    def rendered(aggregate: Aggregate) -> Callable[[Expr], str]:
        produced = types.get(aggregate.name, pa.null())
        return lambda expr: as_produced(expr, schemas, produced, render)

    arguments = [read_sql(one, rendered(one)) for one in query.aggregates]
    return keys, arguments


def store_rows(connection: Any, query: AggregateQuery, produced: Iterable[pa.Table] | pa.Table) -> Stored:
    """Make table `produced` (window_start, window_end, k0.., p0.., q0.., and which copy of its window and group a row
    is)."""
    columns = {"window_start": ("window_start", Kind.TIME), "window_end": ("window_end", Kind.TIME)}
    columns |= {f"k{n}": (key.name, key.expr.kind) for n, key in enumerate(query.keys)}
    columns |= {f"p{n}": (aggregate.name, aggregate.kind) for n, aggregate in enumerate(query.aggregates)}
    if asks_estimates(query.quality):
        columns |= {f"g{n}": (estimate_columns(one.name)[0], Kind.FLOAT) for n, one in enumerate(query.aggregates)}
    columns |= {f"q{n}": (computed.name, computed.expr.kind) for n, computed in enumerate(query.computed)}
    stored = store(connection, "arrived", columns, "window_end", produced)
    connection.execute(
        f"CREATE TABLE produced AS SELECT *, row_number() OVER"
        f" (PARTITION BY {', '.join(identity_of(query))} ORDER BY place) AS copy FROM arrived"
    )
    return stored


def identity_of(query: AggregateQuery) -> list[str]:
    """What a row is known by: its window and its group."""
    return ["window_start", "window_end", *(f"k{n}" for n in range(len(query.keys)))]


def verdict_on_rows(connection: Any, stored: Stored) -> Verdict:
    """The verdict of table `judged`: of each row its window_end, whether it was given, is true, was to be expected,
    is as expected, and its error."""
    # A row that HAVING keeps only because late tuples are not in it is right, and no true row.
    true_rows, right, unexplained, late, displaced = connection.execute(
        "SELECT count(*) FILTER (true_row), count(*) FILTER (given AND (true_row OR as_expected)),"
        " count(*) FILTER (NOT as_expected AND (true_row OR NOT given)),"
        " count(*) FILTER (true_row AND as_expected AND NOT as_true),"
        " count(*) FILTER (given AND as_expected AND NOT true_row) FROM judged"
    ).fetchone()
    measurements = measured(connection, "SELECT window_end, error FROM judged WHERE true_row")
    return Verdict(
        "error", stored.rows, true_rows, late, unexplained, stored.rows - right, stored.descents, measurements,
        displaced,
    )  # fmt: skip


def measured(connection: Any, errors: str) -> tuple[tuple[int, float], ...]:
    """The errors of true rows, by the end of their windows."""
    ends, found = connection.execute(f"SELECT * FROM ({errors}) ORDER BY ALL").fetchnumpy().values()
    return tuple(zip(ends.tolist(), found.tolist(), strict=True))


def near(number: int, value: str, rounding: str, aggregate: Aggregate) -> str:
    """In SQL: the aggregate of a row that was given is what another table has for it, but for rounding."""
    given, truth = f"p{number}", f"{value}{number}"
    if FUNCTIONS[aggregate.function].sketched:
        return f"coalesce(abs({given} - {truth}) <= {rounding}{number}, false)"
    if aggregate.kind is not Kind.FLOAT:
        return f"({given} IS NOT DISTINCT FROM {truth})"
    allowed = f"1e-9 * abs({truth}) + coalesce({rounding}{number}, 0)"
    close = f"isfinite({given}) AND isfinite({truth}) AND abs({given} - {truth}) <= {allowed}"
    return f"({given} IS NOT DISTINCT FROM {truth} OR coalesce({close}, false))"


def errors_of(query: AggregateQuery) -> list[str]:
    """How far each answer is off; where estimates were asked for, how far these are."""
    if not asks_estimates(query.quality):
        return [error_of(n, aggregate) for n, aggregate in enumerate(query.aggregates)]
    return [
        f"CASE WHEN g{n} IS NULL AND t{n} IS NULL THEN CAST(0 AS DOUBLE) ELSE coalesce(abs(t{n} - g{n}) / CASE WHEN"
        f" t{n} = 0 THEN 1 ELSE abs(t{n}) END, CAST('inf' AS DOUBLE)) END"
        for n in range(len(query.aggregates))
    ]


def error_of(number: int, aggregate: Aggregate) -> str:
    """|A - Â| / |A|, absolute where A = 0; infinite where only one of the two is a number."""
    right = f"WHEN {near(number, 't', 'a', aggregate)} THEN CAST(0 AS DOUBLE)"
    if aggregate.kind in (Kind.TEXT, Kind.BOOL):
        return f"CASE {right} ELSE CAST('inf' AS DOUBLE) END"
    given, truth = f"CAST(p{number} AS DOUBLE)", f"CAST(t{number} AS DOUBLE)"
    off = f"abs({truth} - {given}) / CASE WHEN {truth} = 0 THEN 1 ELSE abs({truth}) END"
    finite = f"coalesce(isfinite({given}) AND isfinite({truth}), false)"
    return f"CASE {right} WHEN {finite} THEN {off} ELSE CAST('inf' AS DOUBLE) END"
