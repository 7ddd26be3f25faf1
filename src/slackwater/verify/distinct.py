"""SELECT DISTINCT against the truth: two rows are the same iff their times and all their values are.

Which values are equal is DuckDB's to say; which of equal rows leave is a plain walk along their event times.

Invariant: a produced row is right iff it leaves on the rows that were not late, and counts once. A right row that does
not leave on all rows is displaced: only a late row would have held it back. A true row that does not leave without the
late rows is missing because of them; any other that should have left and did not is unexplained.
"""

# ruff: noqa: S608 (every name and number put into the SQL is made in this package)

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Sequence
from typing import Any

import numpy as np
import pyarrow as pa

from slackwater.core.schema import Kind
from slackwater.core.time import BEFORE_ALL
from slackwater.language.distinct import DistinctQuery
from slackwater.verify.inputs import as_produced
from slackwater.verify.produced import store
from slackwater.verify.verdict import Trial, Verdict

Row = tuple[int, int]
"""Its event time, and the number of its values."""


def judge_distinct(trial: Trial[DistinctQuery]) -> Verdict:
    """Compare the rows that were given with those that should have been."""
    connection, query = trial.connection, trial.query
    (stream,) = query.streams
    assert stream.range is not None, "a window of time"
    kinds = [output.expr.kind for output in query.outputs]
    listed = ", ".join(f"c{k}" for k in range(len(kinds)))
    columns = {"ts": ("_ts", Kind.TIME)}
    columns |= {f"c{k}": (output.name, output.expr.kind) for k, output in enumerate(query.outputs)}
    stored = store(connection, "produced", columns, "ts", trial.produced)
    types = stored.types
    read = [
        as_produced(one.expr, [stream.schema], types.get(one.name, pa.null()), trial.render) for one in query.outputs
    ]
    given = ", ".join(f"{sql} AS c{k}" for k, sql in enumerate(read))
    rows = connection.execute(
        f"SELECT ts, {_numbered(kinds)} AS of, late, made FROM"
        f" (SELECT ts_0 AS ts, {given}, met_0 > {BEFORE_ALL} AS late, false AS made FROM s0"
        f" UNION ALL SELECT ts, {listed}, false, true FROM produced) ORDER BY ts"
    ).fetchnumpy()
    came = list(zip(*(rows[name].tolist() for name in ("ts", "of", "late", "made")), strict=True))
    true = _leaving(((ts, of) for ts, of, _, made in came if not made), stream.range)
    expected = _leaving(((ts, of) for ts, of, late, made in came if not (made or late)), stream.range)
    results = Counter((ts, of) for ts, of, _, made in came if made)
    right = expected & set(results)
    spurious = results.total() - len(right)
    recalls = trial.periods.recalls(*_by_time(true, right))
    return Verdict(
        "recall", results.total(), len(true), len(true - expected), len(expected - right), spurious, stored.descents,
        recalls, len(right - true),
    )  # fmt: skip


def distinct_rows(connection: Any, rows: str, kinds: Sequence[Kind], size: int) -> str:
    """A SELECT of the rows that leave, of one that has `ts`, `met` and `c<k>`; with the latest `met` of equal rows."""
    connection.execute(f"CREATE OR REPLACE TEMP TABLE numbered AS SELECT *, {_numbered(kinds)} AS of FROM ({rows})")
    came = connection.execute("SELECT DISTINCT ts, of FROM numbered ORDER BY ts").fetchnumpy()
    leaving = sorted(_leaving(zip(came["ts"].tolist(), came["of"].tolist(), strict=True), size))
    found = pa.table({name: pa.array([row[at] for row in leaving], pa.int64()) for at, name in enumerate(("ts", "of"))})
    connection.register("found", found)
    connection.execute("CREATE OR REPLACE TEMP TABLE leaving AS SELECT ts, CAST(of AS BIGINT) AS of FROM found")
    connection.unregister("found")
    values = "".join(f", any_value(c{k}) AS c{k}" for k in range(len(kinds)))
    return f"SELECT ts, max(met) AS met{values} FROM numbered JOIN leaving USING (ts, of) GROUP BY ts, of"


def _numbered(kinds: Sequence[Kind]) -> str:
    """The number of a row's values in columns `c<k>`. A sum with 0.0 makes -0.0 the other zero."""
    values = ", ".join(f"c{k} + 0.0" if kind is Kind.FLOAT else f"c{k}" for k, kind in enumerate(kinds))
    return f"dense_rank() OVER (ORDER BY {values})"


def _leaving(ordered: Iterable[Row], size: int) -> set[Row]:
    """The rows that leave, of some in the order of time.

    >>> sorted(_leaving([(1, 7), (3, 7), (5, 7), (6, 8), (6, 7)], 4))
    [(1, 7), (6, 7), (6, 8)]
    """
    left: dict[int, int] = {}
    leaving = set()
    for ts, of in ordered:
        if of not in left or ts - left[of] > size:
            left[of] = ts
            leaving.add((ts, of))
    return leaving


def _by_time(true: set[Row], right: set[Row]) -> tuple[Any, Any, Any]:
    """The times of true rows, rising, with how many there are and how many of them were given."""
    times, counts = np.unique(np.array([ts for ts, _ in true], np.int64), return_counts=True)
    hits = Counter(ts for ts, _ in true & right)
    return times, counts, np.array([hits[ts] for ts in times.tolist()], np.int64)
