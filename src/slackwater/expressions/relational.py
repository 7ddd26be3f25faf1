"""Relation-to-relation operators: the tree that a query over instantaneous windows is, once names and types are known.

At every instant T, a multiple of the slide, each window holds the tuples of [T - range, T) that had been released when
the watermark passed T. The tree says what is computed from these windows. Every operator takes one or two relations and
gives one, so any connected part of the tree is again one operator, and can be placed on either engine.

Invariant: a tree is plain, frozen data, and holds no text of the query. In an expression `Column.stream` is 0 for the
first input of the operator and 1 for the second, and `Column.name` is a name of that input's `columns`. A relation is a
bag, as in SQL. An aggregate gives a row for every group that has rows, and without keys a row where there is one to
aggregate: an empty relation has no groups, so an instant without tuples has no results.

References: 004 §2.1.2 (R2R operators), §6.2 (migration candidates).
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from functools import cached_property
from typing import Literal as OneOf

from slackwater.core.schema import Field
from slackwater.expressions.tree import Expr


class _Leaf:
    """An operator without inputs."""

    @property
    def inputs(self) -> tuple[Relation, ...]:
        return ()


class _OfOne:
    """An operator of one input."""

    input: Relation

    @property
    def inputs(self) -> tuple[Relation, ...]:
        return (self.input,)


class _OfItsColumns(_OfOne):
    """An operator that leaves the columns of its input as they are."""

    @property
    def columns(self) -> tuple[Field, ...]:
        return self.input.columns


@dataclass(frozen=True)
class Scan(_Leaf):
    """The instantaneous window of one entry of FROM."""

    stream: int
    """Which of the query's streams it reads; two windows over one source are two streams."""
    range: int
    """How far back it reaches, in microseconds."""
    columns: tuple[Field, ...]


@dataclass(frozen=True)
class Select(_OfItsColumns):
    """The rows for which a condition is true."""

    input: Relation
    condition: Expr


@dataclass(frozen=True)
class Project(_OfOne):
    """New columns, each computed from one row. `expressions` and `columns` go together."""

    input: Relation
    expressions: tuple[Expr, ...]
    columns: tuple[Field, ...]


@dataclass(frozen=True)
class Join:
    """Pairs of rows with equal keys for which the condition is true; of a semi or anti join, the rows of the left that
    have such a partner, or have none. A null equals nothing."""

    left: Relation
    right: Relation
    keys: tuple[tuple[Expr, Expr], ...]
    """Equalities: the first of each reads the left alone, and so does the second the right (both as input 0)."""
    condition: Expr | None
    """Anything else that a pair must meet; it reads the left as input 0 and the right as input 1."""
    kind: OneOf["inner", "semi", "anti"] = "inner"
    columns: tuple[Field, ...] = ()
    """Those of the left, then, of an inner join, those of the right; names are made unique by whoever builds it."""

    @property
    def inputs(self) -> tuple[Relation, ...]:
        return (self.left, self.right)


@dataclass(frozen=True)
class AggregateCall:
    """One aggregate of the rows of a group. Nulls are left out; `argument` is None for COUNT(*)."""

    function: str
    """COUNT, SUM, AVG, MIN, MAX, VAR, STDDEV, MEDIAN, QUANTILE or COUNT_DISTINCT."""
    argument: Expr | None
    parameter: float | None
    """The share of QUANTILE."""
    column: Field


@dataclass(frozen=True)
class Aggregate(_OfOne):
    """One row for every group of equal keys; two nulls are equal as keys."""

    input: Relation
    keys: tuple[Expr, ...]
    key_columns: tuple[Field, ...]
    calls: tuple[AggregateCall, ...]

    @cached_property
    def columns(self) -> tuple[Field, ...]:
        return (*self.key_columns, *(call.column for call in self.calls))


@dataclass(frozen=True)
class Distinct(_OfItsColumns):
    """Every row once."""

    input: Relation


@dataclass(frozen=True)
class Given(_Leaf):
    """Rows that another fragment of the plan computes: a leaf where a plan is cut between two engines."""

    fragment: int
    columns: tuple[Field, ...]


Relation = Scan | Given | Select | Project | Join | Aggregate | Distinct

Placement = tuple[str, ...]
"""The engine, `row` or `column`, of every operator that is no scan, in the order of `operators`."""


def nodes(relation: Relation) -> Iterator[Relation]:
    """All nodes of a tree, inputs before those that read them, left before right: a post-order walk."""
    for below in relation.inputs:
        yield from nodes(below)
    yield relation


def operators(relation: Relation) -> tuple[Relation, ...]:
    """The relation-to-relation operators of a tree: all nodes but scans, in post-order."""
    return tuple(node for node in nodes(relation) if not isinstance(node, Scan | Given))


def scans(relation: Relation) -> tuple[Scan, ...]:
    """The windows of a tree, from left to right."""
    return tuple(node for node in nodes(relation) if isinstance(node, Scan))
