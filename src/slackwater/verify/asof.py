"""As-of joins against the truth, which DuckDB's own ASOF JOIN finds.

Invariant: a true row is a tuple of the first stream with a version of the time that is the latest it may have, or,
where what finds none leaves too, without one. Of several versions of that time any is right. A produced row is right
iff it is true and all it selects has the true value; each tuple counts once. A row of a tuple in time that has the
latest of those versions that had come when the watermark passed it, and not the true one, is displaced; any other is
spurious. A true row that is missing is explained iff its tuple was late, or another version was the latest then.
"""

# ruff: noqa: S608 (every name and number put into the SQL is made in this package)

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import pyarrow as pa

from slackwater.core.errors import UsageError
from slackwater.core.schema import Kind
from slackwater.core.time import BEFORE_ALL
from slackwater.language.asof import AsOfQuery
from slackwater.verify.inputs import as_produced
from slackwater.verify.join import same
from slackwater.verify.produced import Stored, store
from slackwater.verify.sql import Renderer
from slackwater.verify.verdict import Trial, Verdict

NOBODY = -1
"""In place of a row number: no version."""


def judge_as_of(trial: Trial[AsOfQuery]) -> Verdict:
    """Compare the rows of such a join with all that are true."""
    connection, query, render = trial.connection, trial.query, trial.render
    if trial.count_only:
        raise UsageError("verify counts results of joins with windows alone, and this is an as-of join")
    for name, late_ones_first in (("truth", True), ("seen", False)):
        make_rows(connection, query, render, ("s0", "s1"), name, late_ones_first)
    stored = _store_right_rows(trial)
    connection.execute(
        "CREATE TABLE judged AS SELECT row_0, time, hit, late OR latest IS DISTINCT FROM at_hand AS explained FROM"
        " (SELECT row_0, any_value(time) AS time, any_value(latest) AS latest, any_value(late) AS late,"
        " bool_and(wanted) AS certain, coalesce(bool_or(wanted AND NOT late AND made), false) AS hit"
        " FROM truth LEFT JOIN (SELECT DISTINCT row_0, row_1, time, true AS made FROM produced)"
        " USING (row_0, row_1, time) GROUP BY row_0)"
        " LEFT JOIN (SELECT row_0, any_value(latest) AS at_hand FROM seen GROUP BY row_0) USING (row_0)"
        " WHERE certain OR hit"
    )
    true, hits, late = connection.execute(
        "SELECT count(*), count(*) FILTER (hit), count(*) FILTER (NOT hit AND explained) FROM judged"
    ).fetchone()
    (displaced,) = connection.execute(
        "SELECT count(DISTINCT row_0) FROM produced SEMI JOIN (SELECT * FROM seen WHERE wanted AND NOT late)"
        " USING (row_0, row_1, time) ANTI JOIN (SELECT row_0 FROM judged WHERE hit) USING (row_0)"
    ).fetchone()
    recalls = trial.periods.recalls_of(
        connection,
        "SELECT time, count(*) AS true, count(*) FILTER (hit) AS hit FROM judged GROUP BY time ORDER BY time",
    )
    spurious = stored.rows - hits - displaced
    return Verdict("recall", stored.rows, true, late, true - hits - late, spurious, stored.descents, recalls, displaced)


def make_rows(
    connection: Any, query: AsOfQuery, render: Renderer, sources: Sequence[str], name: str, in_time: bool
) -> None:
    """Make a table of the rows that there may be: `latest` is the time of the version, `wanted` whether WHERE holds.

    A version is there from its time on if all are to be taken for `in_time`, else from the watermark on that it met."""
    first = f"ts_1 + {int(query.strict)}"
    seen = first if in_time else f"greatest({first}, met_1)"
    for side, source in enumerate(sources):
        own = "".join(f", {render(pair[side])} AS key_{n}" for n, pair in enumerate(query.keys))
        connection.execute(f"CREATE OR REPLACE TEMP TABLE side_{side} AS SELECT *{own} FROM {source} s{side}")
    keys = [f"key_{n}" for n in range(len(query.keys))]
    of_key = f"PARTITION BY {', '.join(keys)} " if keys else ""
    equal = "".join(f" AND a.{key} = b.{key}" for key in keys)
    young = "true" if query.within is None else f"ts_0 - newest <= {query.within}"
    connection.execute(
        f"CREATE OR REPLACE TEMP TABLE answered AS SELECT a.*, CASE WHEN {young} THEN newest END AS latest"
        " FROM side_0 a ASOF LEFT JOIN"
        f" (SELECT *, {seen} AS seen, max(ts_1) OVER ({of_key}ORDER BY {seen}) AS newest FROM side_1) b"
        f" ON a.ts_0 >= b.seen{equal}"
    )
    nobody = f"SELECT row_0, {NOBODY} AS row_1, ts_0 AS time, latest, met_0 FROM answered WHERE latest IS NULL"
    connection.execute(
        f"CREATE TABLE {name} AS SELECT row_0, row_1, time, latest, made.met_0 > {BEFORE_ALL} AS late,"
        f" coalesce({render.all_of(query.kept)}, false) AS wanted FROM"
        " (SELECT row_0, row_1, ts_0 AS time, latest, met_0 FROM answered a JOIN side_1 b"
        f" ON a.latest = b.ts_1{equal}{f' UNION ALL {nobody}' if query.outer else ''}) AS made"
        f" LEFT JOIN {sources[0]} s0 USING (row_0) LEFT JOIN {sources[1]} s1 USING (row_1)"
    )


def _store_right_rows(trial: Trial[AsOfQuery]) -> Stored:
    """Fill table `produced` with the rows whose values agree with their members."""
    connection, query, render = trial.connection, trial.query, trial.render
    schemas = [stream.schema for stream in query.streams]
    columns = {f"row_{i}": (f"_row_{stream.alias}", Kind.INT) for i, stream in enumerate(query.streams)}
    columns |= {"time": ("_ts", Kind.TIME)}
    columns |= {f"out_{k}": (output.name, output.expr.kind) for k, output in enumerate(query.outputs)}
    stored = store(connection, "arrived", columns, "time", trial.produced)
    agree = ["true"]
    for k, output in enumerate(query.outputs):
        value = as_produced(output.expr, schemas, stored.types.get(output.name, pa.null()), render)
        agree.append(same(f"out_{k}", value, output.expr.kind))
    connection.execute(
        f"CREATE TABLE produced AS SELECT row_0, coalesce(row_1, {NOBODY}) AS row_1, time FROM arrived"
        f" LEFT JOIN s0 USING (row_0) LEFT JOIN s1 USING (row_1) WHERE {' AND '.join(agree)}"
    )
    return stored
