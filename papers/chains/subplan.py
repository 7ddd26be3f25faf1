"""The subplan of one source: a tree of the source, the filters that queries share, and a leaf for each query.

A leaf is the window operator of one query, which needs a slack of its own, written kappa in the paper. A filter has a
selectivity: the share of what reaches it that it lets pass. Both change while queries run, so they are not part of the
tree: they are given beside it, as one list with an entry for every operator.

Invariant: operators are numbered so that a parent comes before its children; number 0 is the source. Every operator but
a leaf has a child.

References: 004 §5.1 (global query plan, branch operators), §5.4.2 (the largest sharable size).
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from fractions import Fraction
from functools import cached_property

from slackwater.plan.sharing.global_plan import FilterTree

Number = int | float | Fraction
"""Sizes and selectivities: whole microseconds and floats in a run, exact fractions in a proof."""
SOURCE = 0


@dataclass(frozen=True)
class Demand:
    """What is known of a subplan at one moment, an entry for every operator."""

    selectivity: Sequence[Number]
    """Of filters; 1 for the source and for leaves."""
    kappa: Sequence[Number]
    """Of leaves, the slack that the query needs; what stands at other operators is not looked at."""


@dataclass(frozen=True)
class Subplan:
    """The tree below one source."""

    parents: tuple[int, ...]
    """Of every operator; the source has -1."""
    names: tuple[str, ...]

    def __post_init__(self) -> None:
        if not self.parents or self.parents[SOURCE] != -1 or len(self.names) != len(self.parents):
            raise ValueError("operator 0 is the source, and every operator has a name")
        if any(not 0 <= parent < v for v, parent in enumerate(self.parents) if v != SOURCE):
            raise ValueError("a parent is numbered before its children")
        if len(self.parents) < 2:
            raise ValueError("a subplan has at least one query")

    @staticmethod
    def of_filters(tree: FilterTree) -> Subplan:
        """From the filters of all queries of a source, with the queries that read them as leaves."""
        filters = [f"F{node.number}" for node in tree.nodes[1:]]
        parents = [-1 if node.parent is None else node.parent for node in tree.nodes]
        leaves = [(number, f"{reader.query}.{reader.position}") for reader, number in tree.node_of.items()]
        names = (tree.source, *filters, *(name for _, name in leaves))
        return Subplan((*parents, *(parent for parent, _ in leaves)), names)

    @staticmethod
    def of(tree: Mapping[str, Sequence[str]], root: str) -> Subplan:
        """From the children of every operator, by name; who has none is a leaf.

        >>> Subplan.of({"S3": ("F6", "F7"), "F6": ("Q3",), "F7": ("Q4", "Q5")}, "S3").names
        ('S3', 'F6', 'Q3', 'F7', 'Q4', 'Q5')
        """
        parents: list[int] = []
        names: list[str] = []

        def add(name: str, parent: int) -> None:
            number = len(names)
            names.append(name)
            parents.append(parent)
            for child in tree.get(name, ()):
                add(child, number)

        add(root, -1)
        return Subplan(tuple(parents), tuple(names))

    @cached_property
    def children(self) -> tuple[tuple[int, ...], ...]:
        found: list[list[int]] = [[] for _ in self.parents]
        for v, parent in enumerate(self.parents):
            if v != SOURCE:
                found[parent].append(v)
        return tuple(map(tuple, found))

    @cached_property
    def leaves(self) -> tuple[int, ...]:
        return tuple(v for v, below in enumerate(self.children) if not below)

    @cached_property
    def inner(self) -> tuple[int, ...]:
        """The source and the filters."""
        return tuple(v for v, below in enumerate(self.children) if below)

    @cached_property
    def bottom_up(self) -> tuple[int, ...]:
        """The source and the filters, children before parents."""
        return self.inner[::-1]

    @cached_property
    def filters(self) -> tuple[int, ...]:
        return self.inner[1:]

    @cached_property
    def fused(self) -> bool:
        """Whether no filter has a filter as its only child, as the paper has it."""
        return not any(len(self.children[v]) == 1 and self.children[self.children[v][0]] for v in self.filters)

    def is_leaf(self, v: int) -> bool:
        return not self.children[v]

    def is_branch(self, v: int) -> bool:
        """Whether more than one child takes what this operator gives."""
        return len(self.children[v]) > 1

    def queries(self, v: int) -> tuple[int, ...]:
        """Q(v): the leaves that share an operator.

        >>> plan = Subplan.of({"S": ("F", "Q1"), "F": ("Q2", "Q3")}, "S")
        >>> [plan.names[j] for j in plan.queries(plan.number("F"))]
        ['Q2', 'Q3']
        """
        if self.is_leaf(v):
            return (v,)
        return tuple(leaf for child in self.children[v] for leaf in self.queries(child))

    def number(self, name: str) -> int:
        return self.names.index(name)

    def path(self, v: int) -> tuple[int, ...]:
        """From the source to an operator, both included."""
        above = [v]
        while above[-1] != SOURCE:
            above.append(self.parents[above[-1]])
        return tuple(reversed(above))

    def sharable(self, kappa: Sequence[Number]) -> list[Number]:
        """kappa^s(v): the largest size that all queries sharing v may share, which is their least need."""
        least = list(kappa)
        for v in self.bottom_up:
            least[v] = min([least[child] for child in self.children[v]])
        return least

    def rates(self, selectivity: Sequence[Number]) -> list[Number]:
        """What leaves every operator, in units of the source's rate; leaves are given what reaches them."""
        found: list[Number] = [1] * len(self.parents)
        for v in range(1, len(self.parents)):
            found[v] = found[self.parents[v]] * (selectivity[v] if self.children[v] else 1)
        return found

    def demand(self, selectivity: Mapping[str, Number], kappa: Mapping[str, Number]) -> Demand:
        """By name: the selectivities of filters and the needs of queries."""
        return Demand([selectivity.get(name, 1) for name in self.names], [kappa.get(name, 0) for name in self.names])
