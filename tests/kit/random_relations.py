"""Random trees of relational operators over instantaneous windows, drawn from a seed.

Invariant: a tree is well typed, for its expressions are made by `typed_call`. Floats are only added, halved and
compared, so that on traces whose floats are short binary fractions every sum is exact, in whatever order it is made.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from slackwater.core.batch import FIRST_COLUMN
from slackwater.core.schema import ARROW_OF, Field, Kind
from slackwater.expressions.functions import typed_call
from slackwater.expressions.relational import (
    Aggregate,
    AggregateCall,
    Distinct,
    Join,
    Placement,
    Project,
    Relation,
    Scan,
    Select,
    operators,
    scans,
)
from slackwater.expressions.tree import Column, Expr, Literal
from slackwater.operators.instant.fragments import COLUMN, ROW
from slackwater.operators.instant.pruning import pruned
from slackwater.operators.instant.spec import InstantRelation, Places
from slackwater.operators.instant.sql import can_be_column

NAMES = ("k", "l", "v")
KINDS = (Kind.INT, Kind.INT, Kind.FLOAT)
"""Every stream has two integer columns and a float one, in the rows behind event time and identity."""
ROWS = FIRST_COLUMN + len(KINDS)


def relation_column(name: str, kind: Kind) -> Field:
    """A column that leaves with the type that computed values of its kind have."""
    return Field(name, kind, ARROW_OF[kind])


def reading_of(column: Field, side: int = 0) -> Column:
    """A column as an expression."""
    return Column(side, column.name, column.kind)


class RandomTrees:
    """Draws trees; the same seed gives the same ones.

    >>> spec = RandomTrees(7).spec(streams=2, most=4)
    >>> 1 <= len(operators(spec.relation)) <= 4
    True
    """

    def __init__(self, seed: int) -> None:
        self._random = np.random.default_rng(seed)
        self._names = 0

    def spec(self, streams: int, most: int) -> InstantRelation:
        """A query of at most so many operators, all on the row engine."""
        slide = self._one([2, 3, 5])
        while True:
            self._streams, self._ranges = streams, self._one([(4, 10), (6, 7), (slide, 3 * slide), (2, 2)])
            tree = pruned(self._tree(self._int(1, most)))
            if {scan.stream for scan in scans(tree)} == set(range(streams)) and operators(tree):
                break
        read = {scan.stream: scan.columns for scan in scans(tree)}
        places: tuple[Places, ...] = tuple(
            tuple((column.name, FIRST_COLUMN + NAMES.index(column.name)) for column in read[stream])
            for stream in range(streams)
        )
        return InstantRelation(tree, slide, places, ROWS)

    def placement(self, relation: Relation) -> Placement:
        """Every operator on either engine, where it can be."""
        return tuple(self._one([ROW, COLUMN]) if can_be_column(node) else ROW for node in operators(relation))

    def _one(self, choices: list[Any]) -> Any:
        return choices[int(self._random.integers(len(choices)))]

    def _int(self, least: int, most: int) -> int:
        return int(self._random.integers(least, most + 1))

    def _fresh(self, kind: Kind) -> Field:
        self._names += 1
        return relation_column(f"c{self._names}", kind)

    def _tree(self, most: int) -> Relation:
        if most <= 0:
            columns = tuple(relation_column(name, kind) for name, kind in zip(NAMES, KINDS, strict=True))
            return Scan(self._int(0, self._streams - 1), self._one(list(self._ranges)), columns)
        shape = self._one(["select", "project", "aggregate", "aggregate", "join", "join", "distinct"])
        if shape == "join":
            under = self._int(0, most - 1)
            return self._join(self._tree(under), self._tree(most - 1 - under))
        below = self._tree(most - 1)
        if shape == "select":
            return Select(below, self._condition(below.columns))
        if shape == "distinct":
            return Distinct(self._projected(below))
        return self._projected(below) if shape == "project" else self._aggregate(below)

    def _projected(self, below: Relation) -> Project:
        expressions = tuple(self._value(below.columns) for _ in range(self._int(1, 3)))
        return Project(below, expressions, tuple(self._fresh(expr.kind) for expr in expressions))

    def _aggregate(self, below: Relation) -> Aggregate:
        keys = tuple(self._value(below.columns) for _ in range(self._int(0, 2)))
        calls = []
        for _ in range(self._int(1, 3)):
            function = self._one(["COUNT", "SUM", "AVG", "MIN", "MAX", "MEDIAN", "COUNT_DISTINCT", "*"])
            if function == "*":
                calls.append(AggregateCall("COUNT", None, None, self._fresh(Kind.INT)))
                continue
            argument = self._value(below.columns)
            kind = Kind.INT if function.startswith("COUNT") else argument.kind
            if function in ("AVG", "MEDIAN"):
                kind = Kind.FLOAT
            calls.append(AggregateCall(function, argument, None, self._fresh(kind)))
        return Aggregate(below, keys, tuple(self._fresh(key.kind) for key in keys), tuple(calls))

    def _join(self, left: Relation, right: Relation) -> Join:
        kind = self._one(["inner", "inner", "semi", "anti"])
        keys = []
        for _ in range(self._int(0, 2)):
            mine, its = self._one(list(left.columns)), self._one(list(right.columns))
            if mine.kind is its.kind:
                keys.append((reading_of(mine), reading_of(its)))
        condition = None
        if not keys or self._int(0, 1):
            mine, its = self._value(left.columns), self._value(right.columns, 1)
            condition = typed_call(self._one(["<", "<=", "<>", "="]), (mine, its))
        sides = (*left.columns, *right.columns) if kind == "inner" else left.columns
        return Join(left, right, tuple(keys), condition, kind, tuple(self._fresh(column.kind) for column in sides))

    def _value(self, columns: tuple[Field, ...], side: int = 0) -> Expr:
        """An integer or a float."""
        column = reading_of(self._one(list(columns)), side)
        other = reading_of(self._one(list(columns)), side)
        number = Literal(self._int(-2, 3), Kind.INT)
        match self._one(["column", "column", "plus", "sum", "case", "coalesce", "abs", "half", "floor"]):
            case "plus":
                return typed_call("+", (column, number))
            case "sum":
                return typed_call(self._one(["+", "-"]), (column, other))
            case "case":
                return typed_call("case", (typed_call("<", (column, other)), column, number))
            case "coalesce":
                return typed_call("coalesce", (column, number))
            case "abs":
                return typed_call(self._one(["abs", "neg"]), (column,))
            case "half":
                return typed_call("/", (column, Literal(2, Kind.INT)))
            case "floor":
                return typed_call(self._one(["floor", "sign"]), (column,))
            case _:
                return column

    def _condition(self, columns: tuple[Field, ...]) -> Expr:
        one = typed_call(self._one(["<", ">=", "=", "<>"]), (self._value(columns), self._value(columns)))
        column = reading_of(self._one(list(columns)))
        match self._one(["one", "one", "and", "or", "not null", "in", "not"]):
            case "and":
                return typed_call("and", (one, self._condition(columns)))
            case "or":
                return typed_call("or", (one, self._condition(columns)))
            case "not null":
                return typed_call("not", (typed_call("is_null", (column,)),))
            case "in":
                return typed_call("in", (column, Literal(1, Kind.INT), Literal(3, Kind.INT)))
            case "not":
                return typed_call("not", (one,))
            case _:
                return one
