"""Outer, semi and anti joins against the truth, row by row.

Invariant: a true row is a true pair, or a preserved tuple that is in none, with the last instant at which a partner may
lie as its time; of a semi join a tuple with a partner, of an anti join one without. A produced row is right iff it is
true and all it selects has the true value; a tuple of a semi join may leave with any of its pairs, as long as no
earlier one was there to be found. Every further copy, and what is not right, is spurious, but for a row that says of a
tuple that it has no partner where each partner was lost because of late tuples: that one is displaced.

A true pair that is missing is explained iff a member was late and met a watermark that had reached its time; a row of
one tuple iff that tuple was late, or, of a semi join, all its pairs are explained.
"""

# ruff: noqa: S608 (every name and number put into the SQL is made in this package)

from __future__ import annotations

import pyarrow as pa

from slackwater.core.errors import UsageError
from slackwater.core.join_kinds import JoinKind
from slackwater.core.schema import Kind
from slackwater.language.bound import JoinQuery
from slackwater.verify.inputs import as_produced
from slackwater.verify.join import same
from slackwater.verify.join_truth import Enumeration
from slackwater.verify.produced import Stored, store
from slackwater.verify.verdict import Trial, Verdict

NOBODY = -1
"""In place of a row number: no tuple."""


def judge_absence(trial: Trial[JoinQuery]) -> Verdict:
    """Compare the rows of such a join with all that are true."""
    connection, query = trial.connection, trial.query
    if trial.count_only:
        raise UsageError(f"verify counts results of inner joins alone, and this is a {query.kind.value} join")
    enumeration = Enumeration(connection, query, trial.render, ["s0", "s1"])
    keep = {f"{name}_{i}" for name in ("row", "met", "place") for i in range(2)}
    pairs = enumeration.combinations([0, 1], query.conditions, keep)
    time, on_arrival = "greatest(ts_0, ts_1)", query.emit.on_arrival
    # On arrival the member that came last tells.
    met = "CASE WHEN place_0 > place_1 THEN met_0 ELSE met_1 END" if on_arrival else "greatest(met_0, met_1)"
    connection.execute(
        f"CREATE TABLE pairs AS SELECT row_0, row_1, {time} AS time, {met} >= {time} AS explained,"
        f" met_0 > ts_0 AS late_0, met_1 > ts_1 AS late_1 FROM ({pairs})"
    )
    make = _make_one_sided if query.kind.one_sided else _make_rows
    connection.execute(f"CREATE TABLE candidates AS {make(query, enumeration.windows.widest)}")
    connection.execute(
        "CREATE TABLE truth AS SELECT candidates.* FROM candidates"
        f" LEFT JOIN s0 USING (row_0) LEFT JOIN s1 USING (row_1) WHERE {trial.render.all_of(query.kept)}"
    )
    stored = _store_right_rows(trial)
    judged = _judged_semi(on_arrival) if query.kind is JoinKind.SEMI else _judged()
    connection.execute(f"CREATE TABLE judged AS {judged}")
    true, hits, late = connection.execute(
        "SELECT count(*), count(*) FILTER (hit), count(*) FILTER (NOT hit AND explained) FROM judged"
    ).fetchone()
    (displaced,) = connection.execute(_displaced(query)).fetchone()
    recalls = trial.periods.recalls_of(
        connection,
        "SELECT time, count(*) AS true, count(*) FILTER (hit) AS hit FROM judged GROUP BY time ORDER BY time",
    )
    spurious = stored.rows - hits - displaced
    missing, descents = true - hits - late, 0 if on_arrival else stored.descents
    return Verdict("recall", stored.rows, true, late, missing, spurious, descents, recalls, displaced)


def _alone(stream: int, widest: list[list[int]]) -> str:
    """The tuples of a stream that are in no pair, each as a row of its own."""
    ahead = max(0, widest[1 - stream][stream])
    members = [f"row_{i}" if i == stream else f"{NOBODY} AS row_{i}" for i in range(2)]
    return (
        f"SELECT {', '.join(members)}, ts_{stream} + {ahead} AS time, met_{stream} > ts_{stream} AS explained"
        f" FROM s{stream} WHERE row_{stream} NOT IN (SELECT row_{stream} FROM pairs)"
    )


def _make_rows(query: JoinQuery, widest: list[list[int]]) -> str:
    """Pairs, and whoever is preserved and in none."""
    parts = ["SELECT row_0, row_1, time, explained FROM pairs"]
    parts += [_alone(stream, widest) for stream, kept in enumerate(query.kind.preserved) if kept]
    return " UNION ALL ".join(parts)


def _make_one_sided(query: JoinQuery, widest: list[list[int]]) -> str:
    """Tuples of the first stream with a partner, by the first of them; or those without."""
    if query.kind is JoinKind.ANTI:
        return _alone(0, widest)
    return (
        f"SELECT row_0, {NOBODY} AS row_1, min(time) AS time, any_value(late_0) OR bool_and(explained) AS explained"
        " FROM pairs GROUP BY row_0"
    )


def _store_right_rows(trial: Trial[JoinQuery]) -> Stored:
    """Fill table `produced` with the rows whose values agree with their members."""
    connection, query, render = trial.connection, trial.query, trial.render
    told = query.streams[:1] if query.kind.one_sided else query.streams
    schemas = [stream.schema for stream in query.streams]
    columns = {f"row_{i}": (f"_row_{stream.alias}", Kind.INT) for i, stream in enumerate(told)}
    columns |= {"time": ("_ts", Kind.TIME)}
    columns |= {f"out_{k}": (output.name, output.expr.kind) for k, output in enumerate(query.outputs)}
    stored = store(connection, "arrived", columns, "time", trial.produced)
    agree = ["true"]
    for k, output in enumerate(query.outputs):
        value = as_produced(output.expr, schemas, stored.types.get(output.name, pa.null()), render)
        agree.append(same(f"out_{k}", value, output.expr.kind))
    members = ", ".join(f"coalesce(row_{i}, {NOBODY}) AS row_{i}" for i in range(len(told)))
    members += f", {NOBODY} AS row_1" * query.kind.one_sided
    joined = " ".join(f"LEFT JOIN s{i} USING (row_{i})" for i in range(len(told)))
    connection.execute(
        f"CREATE TABLE produced AS SELECT {members}, time FROM arrived {joined} WHERE {' AND '.join(agree)}"
    )
    return stored


def _judged() -> str:
    return (
        "SELECT time, explained, hit IS NOT NULL AS hit FROM truth"
        " LEFT JOIN (SELECT DISTINCT row_0, row_1, time, true AS hit FROM produced) USING (row_0, row_1, time)"
    )


def _judged_semi(on_arrival: bool) -> str:
    """A tuple leaves with one of its pairs, and in order none that was surely found lies before."""
    first = "true" if on_arrival else "time <= coalesce(latest, time)"
    return (
        "SELECT truth.time, truth.explained, hit IS NOT NULL AS hit FROM truth LEFT JOIN"
        " (SELECT DISTINCT row_0, true AS hit FROM produced"
        " JOIN (SELECT row_0, min(time) FILTER (NOT explained) AS latest FROM pairs GROUP BY row_0) USING (row_0)"
        " WHERE (row_0, time) IN (SELECT (row_0, time) FROM pairs WHERE NOT late_0)"
        f" AND {first}) USING (row_0)"
    )


def _displaced(query: JoinQuery) -> str:
    """How many rows say of a tuple in time that it has no partner, and all its partners were lost to late tuples."""
    if query.kind is JoinKind.SEMI:
        return "SELECT 0"
    alone = []
    for stream, preserved in enumerate(query.kind.preserved):
        if preserved:
            alone.append(
                f"SELECT DISTINCT row_0, row_1 FROM produced SEMI JOIN (SELECT row_{stream} FROM pairs GROUP BY ALL"
                f" HAVING bool_and(explained) AND NOT any_value(late_{stream})) USING (row_{stream})"
                f" WHERE row_{1 - stream} = {NOBODY}"
            )
    return f"SELECT count(*) FROM ({' UNION ALL '.join(alone)})"
