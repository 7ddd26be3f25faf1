"""Queries over instantaneous windows, slow and obvious: at every instant each window is a list of rows.

Invariant: shares no code with the operator. A result is (instant, words of its columns), with the bounds of
the window first.

References: 004 §2.1.2 (instantaneous windows, R2R operators).
"""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Callable, Collection, Iterable, Sequence
from functools import partial
from typing import Any

from slackwater.core.batch import Batch
from slackwater.core.schema import Field, Kind
from slackwater.expressions.relational import (
    Aggregate,
    AggregateCall,
    Distinct,
    Join,
    Project,
    Relation,
    Scan,
    Select,
)
from slackwater.expressions.tree import Column, Expr
from slackwater.operators.aggregate.algebra import AggregateSpec
from slackwater.operators.instant.spec import InstantRelation
from tests.kit.evaluate import evaluate
from tests.kit.oracle_aggregate import aggregate_of
from tests.kit.oracle_projection import Made
from tests.kit.oracle_release import NEVER, Released, Tuple, tuples_of
from tests.kit.words import decode, encode

Row = dict[str, Any]
Contents = Callable[[Scan], list[Row]]
"""The rows of a window at one instant."""


def truth(spec: InstantRelation, batch: Batch, absent: Collection[int] = ()) -> Counter[Made]:
    """The true results on these tuples, but for those that are absent."""
    present = [e for e in tuples_of(batch) if e.passes and e.row not in absent]
    return processed(spec, [Released(e, NEVER, NEVER) for e in present])


def processed(spec: InstantRelation, released: Iterable[Released]) -> Counter[Made]:
    """The results on a release sequence: a tuple enters the windows of the instants after the watermark it met."""
    steps = list(released)
    made: Counter[Made] = Counter()
    for at in _instants(spec, steps):
        bounds = (at - spec.range, at)
        for row in relation_at(spec.relation, partial(_window, spec, at, [s.tuple for s in steps if s.met < at])):
            words = (encode(row[column.name], column.kind) for column in spec.relation.columns)
            made[at, (*bounds, *words)] += 1
    return made


def state_bound(spec: InstantRelation, since: Callable[[int], int], watermark: int) -> int:
    """The tuples that a window of an instant after this watermark may reach back to."""
    return since(watermark - spec.range)


def _instants(spec: InstantRelation, steps: Sequence[Released]) -> list[int]:
    """Every instant with a tuple in the longest window."""
    found = set()
    for step in steps:
        at = (step.tuple.ts // spec.slide + 1) * spec.slide
        while at - spec.range <= step.tuple.ts:
            found.add(at)
            at += spec.slide
    return sorted(found)


def _window(spec: InstantRelation, at: int, tuples: Sequence[Tuple], scan: Scan) -> list[Row]:
    rows = dict(spec.places[scan.stream])
    mine = [e for e in tuples if e.stream == scan.stream and at - scan.range <= e.ts < at]
    return [{column.name: value_of(e.words[rows[column.name]], column) for column in scan.columns} for e in mine]


def value_of(word: int, column: Field) -> Any:
    """The value that a word stands for; None is null."""
    value = decode(word, column.kind)
    return bool(value) if column.kind is Kind.BOOL and value is not None else value


def relation_at(relation: Relation, contents: Contents) -> list[Row]:
    """The rows of a relation, given those of the windows under it."""
    if isinstance(relation, Scan):
        return contents(relation)
    if isinstance(relation, Join):
        return _joined(relation, relation_at(relation.left, contents), relation_at(relation.right, contents))
    (below,) = relation.inputs
    rows = relation_at(below, contents)
    if isinstance(relation, Select):
        return [row for row in rows if evaluate(relation.condition, [row]) is True]
    if isinstance(relation, Project):
        named = list(zip(relation.columns, relation.expressions, strict=True))
        return [{column.name: _value(expr, row) for column, expr in named} for row in rows]
    if isinstance(relation, Distinct):
        names = [column.name for column in relation.columns]
        return [dict(zip(names, key, strict=True)) for key in _distinct([tuple(row[n] for n in names) for row in rows])]
    assert isinstance(relation, Aggregate)
    return _aggregated(relation, rows)


def _value(expr: Expr, row: Row) -> Any:
    """A bare column is passed on as it is, NaN too; inside an expression NaN is null."""
    return row[expr.name] if isinstance(expr, Column) else evaluate(expr, [row])


def _joined(join: Join, left: list[Row], right: list[Row]) -> list[Row]:
    made = []
    names = [column.name for column in join.columns]
    for one in left:
        partners = [other for other in right if _meet(join, one, other)]
        if join.kind == "inner":
            made += [dict(zip(names, [*one.values(), *other.values()], strict=True)) for other in partners]
        elif bool(partners) == (join.kind == "semi"):
            made.append(dict(zip(names, one.values(), strict=True)))
    return made


def _meet(join: Join, one: Row, other: Row) -> bool:
    for mine, its in join.keys:
        a, b = evaluate(mine, [one]), evaluate(its, [other])
        if a is None or b is None or a != b:
            return False
    return join.condition is None or evaluate(join.condition, [one, other]) is True


def _aggregated(aggregate: Aggregate, rows: list[Row]) -> list[Row]:
    keys = [tuple(_value(key, row) for key in aggregate.keys) for row in rows]
    names = [column.name for column in aggregate.columns]
    made = []
    for group in _distinct(keys):
        members = [row for row, key in zip(rows, keys, strict=True) if _same_key(key, group)]
        values = [_called(call, members) for call in aggregate.calls]
        made.append(dict(zip(names, [*group, *values], strict=True)))
    return made


def _called(call: AggregateCall, members: list[Row]) -> Any:
    if call.argument is None:
        return len(members)
    kind = call.argument.kind
    words = [encode(_value(call.argument, row), kind) for row in members]
    tuples = [Tuple(0, 0, (0, 0, word)) for word in words]
    return aggregate_of(AggregateSpec(call.function, 2, kind, call.parameter), tuples)


def _distinct(keys: list[tuple[Any, ...]]) -> list[tuple[Any, ...]]:
    found: list[tuple[Any, ...]] = []
    for key in keys:
        if not any(_same_key(key, other) for other in found):
            # Two zeros are equal, and stand for each other as the positive one.
            found.append(tuple(value + 0.0 if isinstance(value, float) else value for value in key))
    return found


def _same_key(a: tuple[Any, ...], b: tuple[Any, ...]) -> bool:
    """Equal as keys of groups: two nulls are, and two NaN."""
    return all(x == y or (_is_nan(x) and _is_nan(y)) for x, y in zip(a, b, strict=True))


def _is_nan(value: Any) -> bool:
    return isinstance(value, float) and math.isnan(value)
