"""A join against the truth, result by result: two results are the same iff all their members are.

Invariant: a produced row is right iff its members form a true combination, its `_ts` is one with which that leaves, and
every item of SELECT has the true value (floats within 1e-9 of it, relatively; a NaN is a null). A right row counts
once: every further copy, and every row that is not right, is spurious.

A true result without a right row is explained iff a member of it was late and met a watermark that had reached the
result's time: whatever could have triggered it had been emitted by then. In a tree of joins this is so at the member's
own node, for the part of the result that is known there. On arrival it is so of the member that came last, and rows
leave in any order; a selection, of which no row waits for another, loses nothing.

A result is in force from the greatest of its members' times until the first of them is older than its window allows. It
leaves when it comes into force (ISTREAM), at the first microsecond it is in force no more (DSTREAM), or at every
multiple of the period while it is (RSTREAM), once for each.
"""

# ruff: noqa: S608 (every name and number put into the SQL is made in this package)

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

import pyarrow as pa

from slackwater.core.results import DSTREAM, ISTREAM
from slackwater.core.schema import Kind
from slackwater.language.bound import JoinQuery
from slackwater.verify.inputs import as_produced
from slackwater.verify.join_truth import Enumeration
from slackwater.verify.produced import store
from slackwater.verify.sql import Renderer
from slackwater.verify.verdict import Trial, Verdict


def judge_join(trial: Trial[JoinQuery]) -> Verdict:
    """Compare the rows of a join with all its true results."""
    connection, query, render = trial.connection, trial.query, trial.render
    streams = range(len(query.streams))
    members = ", ".join(f"row_{i}" for i in streams)
    enumeration = Enumeration(connection, query, render, [f"s{i}" for i in streams])
    told = ("row", "met", "place") if query.emit.on_arrival else ("row", "met")
    keep = {f"{name}_{i}" for name in told for i in streams}
    rows = enumeration.combinations(list(streams), query.conditions, keep)
    connection.execute(
        f"CREATE TABLE truth AS SELECT {members}, {moments_of(query)} AS time, {_explained(query)} AS explained"
        f" FROM ({rows})"
    )
    results, out_of_order = store_right_rows(connection, query, render, trial.produced)
    connection.execute(
        f"CREATE TABLE judged AS SELECT time, explained, hit IS NOT NULL AS hit FROM truth"
        f" LEFT JOIN (SELECT DISTINCT {members}, time, true AS hit FROM produced) USING ({members}, time)"
    )
    true, hits, late = connection.execute(
        "SELECT count(*), count(*) FILTER (hit), count(*) FILTER (NOT hit AND explained) FROM judged"
    ).fetchone()
    recalls = trial.periods.recalls_of(
        connection,
        "SELECT time, count(*) AS true, count(*) FILTER (hit) AS hit FROM judged GROUP BY time ORDER BY time",
    )
    if query.emit.on_arrival:
        out_of_order = 0
    return Verdict("recall", results, true, late, true - hits - late, results - hits, out_of_order, recalls)


def _explained(query: JoinQuery) -> str:
    """Whether a member was late where it joins the others: at the one operator, or at its node of a tree, which knows
    the streams before it."""
    streams = range(len(query.streams))
    if query.emit.on_arrival:
        made = f"greatest({', '.join(f'ts_{i}' for i in streams)})"
        last = f"greatest({', '.join(f'place_{i}' for i in streams)})"
        met = " ".join(f"WHEN place_{i} THEN met_{i}" for i in streams)
        return f"(CASE {last} {met} END >= {made})" if len(streams) > 1 else "false"
    tree = query.options.shape == "binary"
    reached = []
    for i in streams:
        there = [j for j in streams if not tree or j <= max(i, 1)]
        reached.append(f"met_{i} >= greatest({', '.join(f'ts_{j}' for j in there)})")
    return f"({' OR '.join(reached)})"


def store_right_rows(
    connection: Any, query: JoinQuery, render: Renderer, produced: Iterable[pa.Table] | pa.Table
) -> tuple[int, int]:
    """Fill table `produced` with the rows whose values agree with their members; give back how many rows there were
    at all and how often their time went down."""
    streams = range(len(query.streams))
    schemas = [stream.schema for stream in query.streams]
    columns = {f"row_{i}": (f"_row_{query.streams[i].alias}", Kind.INT) for i in streams}
    columns |= {"time": ("_ts", Kind.TIME)}
    columns |= {f"out_{k}": (output.name, output.expr.kind) for k, output in enumerate(query.outputs)}
    stored = store(connection, "arrived", columns, "time", produced)
    agree = []
    for k, output in enumerate(query.outputs):
        truth = as_produced(output.expr, schemas, stored.types.get(output.name, pa.null()), render)
        agree.append(same(f"out_{k}", truth, output.expr.kind))
    members = " ".join(f"JOIN s{i} USING (row_{i})" for i in streams)
    connection.execute(
        f"CREATE TABLE produced AS SELECT {', '.join(f'row_{i}' for i in streams)}, time FROM arrived {members}"
        f" WHERE {' AND '.join(agree) or 'true'}"
    )
    return stored.rows, stored.descents


def same(produced: str, truth: str, kind: Kind) -> str:
    """That a value which left is the true one."""
    if kind is not Kind.FLOAT:
        return f"{produced} IS NOT DISTINCT FROM {truth}"
    left, right = (f"nullif({text}, CAST('NaN' AS DOUBLE))" for text in (produced, truth))
    near = f"coalesce(abs({left} - {right}) <= 1e-9 * abs({right}), false)"
    return f"({left} IS NOT DISTINCT FROM {right} OR {near})"


def moments_of(query: JoinQuery) -> str:
    """The timestamp of a combination, of which `ts_<i>` are known; where it leaves several times, one row for each."""
    made = f"greatest({', '.join(f'ts_{i}' for i in range(len(query.streams)))})"
    if query.out.kind == ISTREAM:
        return made
    until = f"least({', '.join(f'ts_{i} + {stream.range}' for i, stream in enumerate(query.streams))})"
    if query.out.kind == DSTREAM:
        return f"{until} + 1"
    every = query.out.every
    return f"unnest(range(sw_floor({made} + {every} - 1, {every}), {until} + 1, {every}))"
