"""A tree cut into fragments, each of which runs on one engine.

An operator and an operator that reads it are in one fragment iff they are placed on the same engine; so a fragment of
the column engine is a migration candidate as large as it can be, and is one statement there. Where two engines meet,
rows are converted: the fragment above has a `Given` leaf for what the one below computes.

Invariant: fragments stand in the order in which they can be evaluated, the last one gives the results, and put together
again they are the tree.

References: 004 §6.2 (DSPS-ops, DB-ops and MIG).
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, replace

from slackwater.expressions.relational import Given, Join, Placement, Project, Relation, Scan, Select, operators

ROW, COLUMN = "row", "column"
"""The two engines: compiled kernels, and the database in the worker."""


@dataclass(frozen=True)
class Fragment:
    """A connected part of a tree on one engine."""

    engine: str
    relation: Relation
    """Its operators; leaves are windows, and what other fragments give."""

    @property
    def by_row(self) -> bool:
        """Whether each of its rows comes from one tuple of one window, so that it can be kept as tuples come and go
        instead of being computed at every instant."""
        node = self.relation
        while isinstance(node, Select | Project):
            node = node.input
        return isinstance(node, Scan)


def all_placed(relation: Relation, engine: str) -> Placement:
    """Every operator on one engine."""
    return (engine,) * len(operators(relation))


def cut(relation: Relation, placement: Placement) -> tuple[Fragment, ...]:
    """The fragments of a tree whose operators are placed so; a bare window is a row fragment."""
    numbered = operators(relation)
    if len(placement) != len(numbered):
        raise ValueError(f"{len(numbered)} operators, and engines for {len(placement)}")
    if not numbered:
        return (Fragment(ROW, relation),)
    found: list[Fragment] = []
    engines = iter(placement)
    whole, engine = _cut(relation, engines, found)
    return (*found, Fragment(engine, whole))


def _cut(relation: Relation, engines: Iterator[str], found: list[Fragment]) -> tuple[Relation, str]:
    """The part of the tree that is in one fragment with its top, and its engine; `engines` are those of the operators
    in post-order."""
    if not relation.inputs:
        return relation, ""
    below = [_cut(one, engines, found) for one in relation.inputs]
    engine = next(engines)
    joined = []
    for part, its_engine in below:
        if its_engine in ("", engine):
            joined.append(part)
        else:
            joined.append(Given(len(found), part.columns))
            found.append(Fragment(its_engine, part))
    return reading(relation, *joined), engine


def reading(relation: Relation, *inputs: Relation) -> Relation:
    """The same operator over other inputs."""
    if isinstance(relation, Join):
        left, right = inputs
        return replace(relation, left=left, right=right)
    if isinstance(relation, Scan | Given):
        return relation
    (below,) = inputs
    return replace(relation, input=below)
