"""The six queries over smart plugs with their filters, and joins of more windows after the model of the fourth.

The plug of a tuple is house, household and plug; `property` 1 is the load. Figure 6.5 shows the operators of the trees
as a picture; here they are built from the text: a filter on each window, aggregates by plug, joins by plug. Q4 with m
windows has 3m operators: a filter and an average for each window, m - 1 joins and a projection.

Invariant: a tree reads stream n for its nth window; all of them are the same stream of plugs, so all have its
statistics.

References: 004 §6.4, Q1 to Q6.
"""

from __future__ import annotations

from dataclasses import replace
from functools import reduce

import pyarrow as pa

from slackwater.core.schema import Field, Kind
from slackwater.core.time import MINUTE, SECOND
from slackwater.expressions.relational import (
    Aggregate,
    AggregateCall,
    Join,
    Project,
    Relation,
    Scan,
    Select,
    scans,
)
from slackwater.expressions.tree import Call, Column, Expr, Literal
from slackwater.plan.placement.statistics import Statistics

PLUG = ("house", "household", "plug")
"""What tells plugs apart."""
DISTINCT = {"house": 40.0, "household": 5.0, "plug": 5.0}
LOADS = 0.5
"""Every other tuple is a load; the others are work."""
SLIDE = SECOND


def _column(name: str) -> Field:
    return Field(name, Kind.FLOAT, pa.float64()) if name.startswith("value") else Field(
        name, Kind.INT, pa.int64()
    )  # fmt: skip


def _read(name: str, input_: int = 0) -> Column:
    kind = Kind.FLOAT if name.startswith("value") else Kind.INT
    return Column(input_, name, kind)


def loads(stream: int, minutes: int) -> Relation:
    """The loads of the last minutes."""
    window = Scan(stream, minutes * MINUTE, tuple(map(_column, (*PLUG, "property", "value"))))
    return Select(window, Call("=", (_read("property"), Literal(1, Kind.INT)), Kind.BOOL))


def by_plug(below: Relation, keys: tuple[str, ...] = PLUG, **calls: str) -> Aggregate:
    """Aggregates of the load, or what `value` stands for, by name of their column."""
    made = tuple(
        AggregateCall(function, None if function == "COUNT" else _read("value"), None, _column(name))
        for name, function in calls.items()
    )
    return Aggregate(below, tuple(map(_read, keys)), tuple(map(_column, keys)), made)


def matched(left: Relation, right: Relation, condition: Expr | None = None) -> Join:
    """Rows of the same plug."""
    taken = {column.name for column in left.columns}
    columns = list(left.columns)
    for column in right.columns:
        name = column.name
        while name in taken:
            name = f"{name}_"
        taken.add(name)
        columns.append(replace(column, name=name))
    keys = tuple((_read(name), _read(name)) for name in PLUG)
    return Join(left, right, keys, condition, "inner", tuple(columns))


def _projected(below: Relation) -> Relation:
    """The plug and its aggregates."""
    kept = [column for column in below.columns if column.name.startswith("value") or column.name in PLUG]
    return Project(below, tuple(_read(column.name) for column in kept), tuple(kept))


def _correlated(function: str, factor: float) -> Relation:
    """How many loads of a plug are above a multiple of an aggregate of all its loads."""
    bound: Expr = _read("value_all", 1)
    if factor != 1:
        bound = Call("*", (Literal(factor, Kind.FLOAT), bound), Kind.FLOAT)
    above = Call(">", (_read("value", 0), bound), Kind.BOOL)
    return by_plug(matched(loads(0, 5), by_plug(loads(1, 5), value_all=function), above), high="COUNT")


def average(stream: int, minutes: int) -> Relation:
    """The average load of each plug."""
    return by_plug(loads(stream, minutes), value="AVG")


def windows_joined(m: int, bushy: bool = False) -> Relation:
    """Averages over m windows of 1, 3, 5, ... minutes, joined as they are written; `bushy`: (1 3 5) with (7 9),
    then one window after the other."""
    averages = [average(stream, 2 * stream + 1) for stream in range(m)]
    if bushy and m >= 5:
        five = matched(reduce(matched, averages[:3]), matched(averages[3], averages[4]))
        return _projected(reduce(matched, averages[5:], five))
    return _projected(reduce(matched, averages))


def _household() -> Relation:
    totals = by_plug(loads(0, 5), value="SUM")
    return by_plug(totals, PLUG[:2], value_most="MAX")


QUERIES: dict[str, Relation] = {
    "Q1": _correlated("MAX", 0.9),
    "Q2": _correlated("AVG", 1.0),
    "Q3": _projected(matched(by_plug(loads(0, 5), value="MAX", value_avg="AVG"),
                             by_plug(loads(1, 1), value="MAX", value_avg="AVG"))),
    "Q4": _projected(matched(average(0, 5), average(1, 1))),
    "Q5": _household(),
    "Q6": _projected(reduce(matched, [average(0, 1), average(1, 3), average(2, 5)])),
}  # fmt: skip


def plug_statistics(relation: Relation, rate: float) -> Statistics:
    """What is known of the streams of a tree at a rate of tuples."""
    streams = [window.stream for window in scans(relation)]
    is_load: dict[Expr, float] = {
        Call("=", (Column(stream, "property", Kind.INT), Literal(1, Kind.INT)), Kind.BOOL): LOADS for stream in streams
    }
    distinct = {(stream, name): count for stream in streams for name, count in DISTINCT.items()}
    return Statistics(SLIDE, dict.fromkeys(streams, rate), distinct, is_load)
