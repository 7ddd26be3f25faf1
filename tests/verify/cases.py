"""Small bound queries and inputs, and a judge that tries every combination in Python."""

from __future__ import annotations

import itertools
import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import pyarrow as pa

from slackwater.core.options import Options
from slackwater.core.quality import Complete
from slackwater.core.schema import Field, Kind, Schema
from slackwater.expressions.tree import Call, Column, Expr, Literal
from slackwater.language.bound import Aggregate, AggregateQuery, JoinQuery, Output, StreamRef
from slackwater.verify import JudgedInput

ARROW = {"ts": pa.timestamp("us", "UTC"), "k": pa.int64(), "j": pa.int64(), "x": pa.float64(), "name": pa.string()}
KINDS = {"ts": Kind.TIME, "k": Kind.INT, "j": Kind.INT, "x": Kind.FLOAT, "name": Kind.TEXT}
SCHEMA = Schema(tuple(Field(name, KINDS[name], ARROW[name]) for name in ARROW), "ts")
UTC = pa.timestamp("us", "UTC")


@dataclass(frozen=True)
class Row:
    """One accepted tuple; `met` is the watermark it met if it was late."""

    ts: int
    k: int | None = 0
    j: int | None = 0
    x: float | None = 0.0
    name: str | None = "n"
    met: int | None = None


def given(rows: Sequence[Row]) -> JudgedInput:
    columns: dict[str, Any] = {name: pa.array([getattr(row, name) for row in rows], ARROW[name]) for name in ARROW}
    columns["_row"] = pa.array(range(len(rows)), pa.int64())
    columns["_ts"] = pa.array([row.ts for row in rows], pa.int64())
    columns["_place"] = pa.array(range(len(rows)), pa.int64())
    columns["_late"] = pa.array([row.met is not None for row in rows], pa.bool_())
    columns["_watermark"] = pa.array([row.met or 0 for row in rows], pa.int64())
    return JudgedInput(pa.table(columns))


def col(stream: int, name: str) -> Column:
    return Column(stream, name, KINDS[name])


def call(op: str, *args: Expr, kind: Kind = Kind.BOOL) -> Call:
    return Call(op, args, kind)


def lit(value: Any) -> Literal:
    kinds = {bool: Kind.BOOL, int: Kind.INT, float: Kind.FLOAT, str: Kind.TEXT}
    return Literal(value, kinds[type(value)])


def same(name: str, left: int, right: int) -> Call:
    return call("=", col(left, name), col(right, name))


def stream(alias: str, window: int | None, slide: int | None = None, filters: tuple[Expr, ...] = ()) -> StreamRef:
    return StreamRef(alias, alias, SCHEMA, window, slide, filters)


def join(windows: Sequence[int | None], *conditions: Expr, outputs: Sequence[Output] | None = None) -> JoinQuery:
    streams = tuple(stream(f"s{i}", window) for i, window in enumerate(windows))
    return JoinQuery(streams, conditions, tuple(outputs or (Output("k", col(0, "k")),)), Complete(), Options())


def aggregate(size: int, slide: int | None, *aggregates: Aggregate, keys: Sequence[Output] = ()) -> AggregateQuery:
    order = tuple(item.name for item in (*keys, *aggregates))
    return AggregateQuery(stream("s", size, slide), tuple(keys), aggregates, order, Complete(), Options())


Holds = Callable[..., bool]


def combinations(windows: Sequence[int], inputs: Sequence[Sequence[Row]], holds: Holds) -> list[tuple[int, ...]]:
    """Every true combination as the positions of its members, in order of its time."""
    found = []
    for members in itertools.product(*(range(len(rows)) for rows in inputs)):
        rows = [inputs[i][member] for i, member in enumerate(members)]
        time = max(row.ts for row in rows)
        if all(row.ts >= time - window for row, window in zip(rows, windows, strict=True)) and holds(*rows):
            found.append((time, members))
    return [members for _, members in sorted(found)]


def joined(inputs: Sequence[Sequence[Row]], members: Sequence[tuple[int, ...]], times: Sequence[int] = ()) -> pa.Table:
    """What a run that found these combinations would have written for SELECT s0.k."""
    rows = [[inputs[i][member] for i, member in enumerate(each)] for each in members]
    columns: dict[str, Any] = {"k": pa.array([each[0].k for each in rows], pa.int64())}
    columns["_ts"] = pa.array(list(times) or [max(row.ts for row in each) for each in rows], UTC)
    for i in range(len(inputs)):
        columns[f"_row_s{i}"] = pa.array([each[i] for each in members], pa.int64())
    return pa.table(columns)


def counted(times: Sequence[int]) -> pa.Table:
    """What `--count` writes for results at these times."""
    seconds = sorted({time // 1_000_000 for time in times})
    counts = [sum(time // 1_000_000 == second for time in times) for second in seconds]
    starts = pa.array([second * 1_000_000 for second in seconds], UTC)
    return pa.table({"second": starts, "count": pa.array(counts, pa.int64())})


def known_equal(a: Any, b: Any) -> bool:
    """As keys compare: nothing equals a null or a NaN."""
    return None not in (a, b) and not any(isinstance(v, float) and math.isnan(v) for v in (a, b)) and a == b
