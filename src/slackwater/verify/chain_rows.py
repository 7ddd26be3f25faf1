"""A run of several operators against the truth, and against what its late rows leave of it.

Invariant: what both bounds of the answer agree on must be there, and nothing may be there that neither of them nor the
truth has. A true row that is missing, or has another value, is explained where the bounds say so.

Rows of a join, a selection or a union have no identity here: they are compared as a multiset, floats to ten digits.
Rows of an aggregate are known by window and group, as in `verify.aggregate`.
"""

# ruff: noqa: S608 (every name and number put into the SQL is made in this package)

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import replace
from typing import Any

import pyarrow as pa

from slackwater.core.quality import Recall
from slackwater.core.schema import Kind
from slackwater.language.bound import RESULT_TIME, WINDOW_COLUMNS, AggregateQuery, BoundQuery, RowsQuery
from slackwater.language.derived import columns_of_result, result_schema
from slackwater.language.top import TopQuery
from slackwater.verify.aggregate import errors_of, identity_of, near, store_rows, verdict_on_rows
from slackwater.verify.chain import VARIANTS, Levels
from slackwater.verify.chain_absence import Variant
from slackwater.verify.groups import as_computed, is_wanted
from slackwater.verify.inputs import JudgedInput
from slackwater.verify.produced import store
from slackwater.verify.recall import RecallPeriods
from slackwater.verify.verdict import Verdict


def judge_chain(
    connection: Any,
    query: BoundQuery,
    inputs: Sequence[JudgedInput],
    produced: Iterable[pa.Table] | pa.Table,
    periods: RecallPeriods,
    in_epochs: bool = True,
) -> Verdict:
    """Compare what a query with others inside it, or one for first rows, gave with the truth. `inputs`: the raw streams
    in the order of the text."""
    levels = Levels(connection, inputs, query.emit.corrections, in_epochs)
    if isinstance(query, AggregateQuery):
        verdict = _judge_windows(connection, query, levels, produced)
        if isinstance(query.quality, Recall):
            return _with_recall(connection, query, levels.not_carried(), verdict, periods)
        return verdict
    assert isinstance(query, RowsQuery), "no query reads the relations of another"
    return _judge_rows(connection, query, levels, produced, periods)


def _judge_rows(
    connection: Any,
    query: RowsQuery,
    levels: Levels,
    produced: Iterable[pa.Table] | pa.Table,
    periods: RecallPeriods,
) -> Verdict:
    fields = columns_of_result(result_schema(query))
    kinds = [field.kind for field in fields]
    of_windows = isinstance(query, TopQuery)
    columns = {"ts": (WINDOW_COLUMNS[1] if of_windows else RESULT_TIME, Kind.TIME)}
    columns |= {f"c{k}": (field.name, field.kind) for k, field in enumerate(fields)}
    stored = store(connection, "produced", columns, "ts", produced)
    sides = {variant: levels.results(query, variant) for variant in VARIANTS} | {"given": "produced"}
    listed = ", ".join(["ts", *(f"{comparable(f'c{k}', kind)} AS c{k}" for k, kind in enumerate(kinds))])
    together = " UNION ALL ".join(f"SELECT {listed}, '{side}' AS side FROM {table}" for side, table in sides.items())
    counts = ", ".join(f"count(*) FILTER (side = '{side}') AS n_{side}" for side in sides)
    groups = ", ".join(["ts", *(f"c{k}" for k in range(len(kinds)))])
    connection.execute(f"CREATE TABLE counted AS SELECT {groups}, {counts} FROM ({together}) GROUP BY {groups}")
    # Which rows are first is sure only where both bounds say so: another row in a window may move any of them.
    unsure = "bool_or(n_sure <> n_maybe) OVER (PARTITION BY ts)" if of_windows else "false"
    true, hits, unexplained, spurious = connection.execute(
        "SELECT coalesce(sum(n_true), 0), coalesce(sum(least(n_true, n_given)), 0),"
        " coalesce(sum(greatest(0, least(n_sure, n_maybe) - n_given)) FILTER (NOT unsure), 0),"
        " coalesce(sum(greatest(0, n_given - greatest(n_true, n_sure, n_maybe))) FILTER (NOT unsure), 0)"
        f" FROM (SELECT *, {unsure} AS unsure FROM counted)"
    ).fetchone()
    recalls = periods.recalls_of(
        connection,
        "SELECT ts, CAST(sum(n_true) AS BIGINT) AS true, CAST(sum(least(n_true, n_given)) AS BIGINT) AS hit"
        " FROM counted WHERE n_true > 0 GROUP BY ts ORDER BY ts",
    )
    late = max(0, int(true - hits - unexplained))
    # Of rows that only a late one would have kept out.
    displaced = int(stored.rows - hits - spurious)
    return Verdict(
        "recall", stored.rows, int(true), late, int(unexplained), int(spurious), stored.descents, recalls, displaced
    )  # fmt: skip


def _with_recall(
    connection: Any, query: AggregateQuery, levels: Levels, windows: Verdict, periods: RecallPeriods
) -> Verdict:
    """The verdict on the rows that should have reached an aggregate, where recall is asked for.

    Which of them did follows from what its late tuples leave, and checked by the windows: these must be what such rows
    make of them. A row whose member met a watermark at its very time counts as lost.
    """
    variants: tuple[Variant, ...] = ("true", "sure")
    sides = {side: levels.rows_into(query, side) for side in variants}
    together = " UNION ALL ".join(f"SELECT ts_0 AS ts, '{side}' AS side FROM {table}" for side, table in sides.items())
    by_time = connection.execute(
        "SELECT ts, count(*) FILTER (side = 'true') AS true, count(*) FILTER (side = 'sure') AS hit"
        f" FROM ({together}) GROUP BY ts ORDER BY ts"
    ).fetchnumpy()
    true, hit = int(by_time["true"].sum()), int(by_time["hit"].sum())
    recalls = periods.recalls(by_time["ts"], by_time["true"], by_time["hit"])
    return replace(
        windows, measure="recall", results=hit, true_results=true, missing_late=true - hit, measurements=recalls
    )


def comparable(column: str, kind: Kind) -> str:
    """A float rounded to ten digits, so that two ways of adding it up agree; NaN as null."""
    if kind is not Kind.FLOAT:
        return column
    known = f"nullif({column}, CAST('NaN' AS DOUBLE))"
    digits = f"9 - CAST(floor(log10(abs({known}))) AS INTEGER)"
    plain = f"{known} IS NULL OR {known} = 0 OR isinf({known})"
    return f"CASE WHEN {plain} THEN {known} + 0.0 ELSE round({known}, {digits}) END"


def _judge_windows(
    connection: Any, query: AggregateQuery, levels: Levels, produced: Iterable[pa.Table] | pa.Table
) -> Verdict:
    stored, identity = store_rows(connection, query, produced), identity_of(query)
    made = {variant: levels.windows(query, variant) for variant in VARIANTS}
    sides = [_side(query, identity, variant, table) for variant, table in made.items()]
    sides.append(("given", "SELECT * FROM produced WHERE copy = 1"))
    joined = ""
    for side, select in sides:
        same = " AND ".join(f"known.{name} IS NOT DISTINCT FROM of_{side}.{name}" for name in identity)
        joined += f" LEFT JOIN ({select}) of_{side} ON {same}"
    known = " UNION ".join(f"SELECT {', '.join(identity)} FROM {table}" for table in made.values())
    calls = list(enumerate(query.aggregates))
    is_sure, is_true = (
        " AND ".join(near(n, value, rounding, call) for n, call in calls) or "true"
        for value, rounding in (_NAMES["sure"], _NAMES["true"])
    )
    agreed = " AND ".join(
        ["n_sure IS NOT DISTINCT FROM n_maybe", *(f"x{n} IS NOT DISTINCT FROM y{n}" for n, _ in calls)]
    )
    worst = ", ".join(errors_of(query)) or "CAST(0 AS DOUBLE)"
    connection.execute(
        f"CREATE TABLE judged AS SELECT known.window_end AS window_end, n_true IS NOT NULL AS true_row,"
        f" copy IS NOT NULL AS given, (copy IS NULL OR {as_computed(query, 'of_given.')}) AND"
        f" CASE WHEN NOT ({agreed}) THEN true WHEN n_sure IS NULL THEN copy IS NULL"
        f" ELSE copy IS NOT NULL AND {is_sure} END AS as_expected, copy IS NOT NULL AND {is_true} AS as_true,"
        f" CASE WHEN copy IS NULL THEN CAST('inf' AS DOUBLE) ELSE greatest({worst}) END AS error"
        f" FROM ({known}) known{joined}"
    )
    return verdict_on_rows(connection, stored)


_NAMES = {"true": ("t", "a"), "sure": ("x", "xr"), "maybe": ("y", "yr")}
"""How values, and the rounding that each is allowed, are called in the comparison."""


def _side(query: AggregateQuery, identity: list[str], variant: Variant, table: str) -> tuple[str, str]:
    """The windows of one answer that are not empty."""
    held = ("t", "a") if variant == "true" else ("e", "b")
    count = "1" if variant == "true" else "present"
    columns = [*identity, f"{count} AS n_{variant}"]
    for n in range(len(query.aggregates)):
        columns += [f"{own}{n} AS {name}{n}" for own, name in zip(held, _NAMES[variant], strict=True)]
    wanted = is_wanted(query, held[0])
    return variant, f"SELECT {', '.join(columns)} FROM {table} WHERE {count} > 0 AND {wanted}"
