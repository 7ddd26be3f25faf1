"""Rows of open windows: how early they came, and how near to the truth they were.

Invariant: they are no answers, so nothing is missing or spurious among them. A row's error is that of an answer
(`verify.aggregate`): the worst of its aggregates against the truth over all tuples, infinite where the truth has no
such row. Times are those of the largest clock, from the start of the window on; what the end of the input emits has
none.
"""

# ruff: noqa: S608 (every name and number put into the SQL is made in this package)

from __future__ import annotations

from typing import Any

import pyarrow as pa

from slackwater.core.emitting import CLOCK, EXPECTED_ERROR
from slackwater.core.quality import RelativeError
from slackwater.core.schema import Kind
from slackwater.language.bound import AggregateQuery
from slackwater.verify.aggregate import error_of, identity_of, store_rows
from slackwater.verify.change_rows import FINAL
from slackwater.verify.groups import is_wanted
from slackwater.verify.inputs import words
from slackwater.verify.verdict import Early

NEAR = 0.05
"""How far off a row may be that counts as near, where neither EMIT nor the target says it."""


def judge_early(connection: Any, query: AggregateQuery, early: pa.Table, truth: str) -> Early:
    """Compare rows of open windows with the table of true windows, as `make_truth` has it."""
    near = query.emit.error or (query.quality.bound if isinstance(query.quality, RelativeError) else NEAR)
    store_rows(connection, query, early)
    own = {name: words(early.column(given), Kind.TIME) for name, given in (("clock", CLOCK), ("final", FINAL))}
    says = EXPECTED_ERROR in early.column_names
    own["expected"] = early.column(EXPECTED_ERROR).cast(pa.float64()) if says else pa.nulls(len(early), pa.float64())
    connection.register("emitted", pa.table({"place": pa.array(range(len(early)), pa.int64()), **own}))
    identity = identity_of(query)
    same_row = " AND ".join(f"t.{name} IS NOT DISTINCT FROM p.{name}" for name in identity)
    worst = ", ".join(error_of(n, aggregate) for n, aggregate in enumerate(query.aggregates)) or "CAST(0 AS DOUBLE)"
    true_row = f"t.window_end IS NOT NULL AND {is_wanted(query, 't', 't.')}"
    connection.execute(
        f"CREATE TABLE early AS SELECT {', '.join(f'p.{name} AS {name}' for name in identity)}, clock, final, expected,"
        f" CASE WHEN {true_row} THEN greatest({worst}) ELSE CAST('inf' AS DOUBLE) END AS error"
        f" FROM produced p JOIN emitted USING (place) LEFT JOIN {truth} t ON {same_row}"
    )
    connection.unregister("emitted")
    rows, covered = connection.execute(
        "SELECT count(*), avg(CAST(error <= expected * (1 + 1e-9) + 1e-9 AS INTEGER)) FILTER (expected IS NOT NULL)"
        " FROM early"
    ).fetchone()
    results, first, near_after, final = connection.execute(
        "SELECT count(*), median(first), median(near), median(final) FROM (SELECT min(clock) - window_start AS first,"
        f" coalesce(min(clock) FILTER (error <= {near!r}), any_value(final)) - window_start AS near,"
        f" any_value(final) - window_start AS final FROM early GROUP BY {', '.join(identity)})"
    ).fetchone()
    return Early(rows, results, first, near_after, final, near, covered)
