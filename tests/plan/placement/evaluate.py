"""A tree evaluated row by row, the obvious way: what rewriting must not change."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping
from typing import Any

from slackwater.expressions.relational import Aggregate, Distinct, Join, Project, Relation, Scan, Select
from slackwater.expressions.tree import Column, Expr, Literal

Row = dict[str, Any]
OPS = {
    "=": lambda a, b: a == b, "<>": lambda a, b: a != b, ">": lambda a, b: a > b, "<": lambda a, b: a < b,
    "*": lambda a, b: a * b, "+": lambda a, b: a + b,
}  # fmt: skip


def value(expr: Expr, *inputs: Row) -> Any:
    if isinstance(expr, Column):
        return inputs[expr.stream][expr.name]
    if isinstance(expr, Literal):
        return expr.value
    args = [value(arg, *inputs) for arg in expr.args]
    if expr.op == "and":
        return False if False in args else None if None in args else True
    return None if None in args else OPS[expr.op](*args)


def rows_of(relation: Relation, windows: Mapping[int, list[Row]]) -> list[Row]:
    if isinstance(relation, Scan):
        return windows[relation.stream]
    inputs = [rows_of(one, windows) for one in relation.inputs]
    if isinstance(relation, Select):
        return [row for row in inputs[0] if value(relation.condition, row)]
    if isinstance(relation, Project):
        pairs = list(zip(relation.columns, relation.expressions, strict=True))
        return [{column.name: value(expr, row) for column, expr in pairs} for row in inputs[0]]
    if isinstance(relation, Distinct):
        return [dict(one) for one in {tuple(row.items()) for row in inputs[0]}]
    if isinstance(relation, Aggregate):
        return _grouped(relation, inputs[0])
    assert isinstance(relation, Join)
    return _joined(relation, *inputs)


def _joined(join: Join, left: list[Row], right: list[Row]) -> list[Row]:
    def fits(one: Row, other: Row) -> bool:
        keys = all(value(a, one) is not None and value(a, one) == value(b, other) for a, b in join.keys)
        return keys and (join.condition is None or bool(value(join.condition, one, other)))

    names = [column.name for column in join.columns]
    if join.kind == "inner":
        return [
            dict(zip(names, [*(one[c.name] for c in join.left.columns), *(two[c.name] for c in join.right.columns)],
                     strict=True))
            for one in left for two in right if fits(one, two)
        ]  # fmt: skip
    kept = [one for one in left if any(fits(one, two) for two in right) == (join.kind == "semi")]
    return [dict(zip(names, [one[c.name] for c in join.left.columns], strict=True)) for one in kept]


def _grouped(relation: Aggregate, rows: list[Row]) -> list[Row]:
    groups: dict[tuple[Any, ...], list[Row]] = {}
    for row in rows:
        groups.setdefault(tuple(value(key, row) for key in relation.keys), []).append(row)
    found = []
    for keys, members in groups.items():
        row = {column.name: key for column, key in zip(relation.key_columns, keys, strict=True)}
        for call in relation.calls:
            values = [1 if call.argument is None else value(call.argument, one) for one in members]
            values = [one for one in values if one is not None]
            row[call.column.name] = _aggregated(call.function, values)
        found.append(row)
    return found


def _aggregated(function: str, values: list[Any]) -> Any:
    if function == "COUNT":
        return len(values)
    if function == "COUNT_DISTINCT":
        return len(set(values))
    if not values:
        return None
    if function == "AVG":
        return sum(values) // len(values)
    if function == "MEDIAN":
        return sorted(values)[len(values) // 2]
    return {"SUM": sum, "MIN": min, "MAX": max}[function](values)


def bag(relation: Relation, windows: Mapping[int, list[Row]]) -> Counter[tuple[Any, ...]]:
    """The rows of a tree, each as its values in the order of the columns."""
    return Counter(tuple(row[column.name] for column in relation.columns) for row in rows_of(relation, windows))
