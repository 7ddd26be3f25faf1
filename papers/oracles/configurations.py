"""Configurations of shared slack, slow and obvious: every way to spread slack over a tree, each one paid for in full.

It enumerates far more than the candidates of the paper: between an operator and each child any number of units may be
spent, as long as every query gets what it needs. So it also tells whether the candidates contain a best one. Cost is
counted unit by unit: a unit of slack below an operator holds what the operator gives in one unit of time, once, however
many children wait for it.

Invariant: shares no code with `disorder/sharing`. A tree is nested tuples, as a reader would draw it. Needs are small
whole numbers.

References: 004 §5.1 (both conditions), §5.4.
"""

from __future__ import annotations

from collections.abc import Iterator
from fractions import Fraction
from itertools import product

Leaf = int
"""What the query needs."""
Filter = tuple[Fraction, tuple["Filter | Leaf", ...]]
"""A selectivity, and what is below it; the source is a filter with selectivity 1."""


def least_need(tree: Filter | Leaf) -> int:
    """The least need of all queries below, which all of them can share."""
    return tree if isinstance(tree, int) else min(map(least_need, tree[1]))


def spreads(tree: Filter | Leaf, before: int) -> Iterator[Fraction]:
    """What each possible spread costs below an operator that is reached after `before` units, per tuple that comes."""
    if isinstance(tree, int):
        assert before == tree, "a query waits exactly for what it needs"
        return
    selectivity, children = tree
    choices = []
    for child in children:
        choices.append([child] if isinstance(child, int) else list(range(before, least_need(child) + 1)))
    for ends in product(*choices):
        # A unit of the chain holds the output once while at least one child still waits for it.
        units = sum(1 for unit in range(before, max(ends)) if any(unit < end for end in ends))
        parts = [
            [Fraction(0)] if isinstance(child, int) else list(spreads(child, end))
            for child, end in zip(children, ends, strict=True)
        ]
        for costs in product(*parts):
            yield selectivity * (units + sum(costs))


def oracle_least_memory(tree: Filter) -> Fraction:
    """The least memory of all spreads, for a source of rate 1.

    >>> half = Fraction(1, 2)
    >>> oracle_least_memory((Fraction(1), ((half, (4,)), (half / 2, (2,)))))
    Fraction(5, 2)
    """
    return min(spreads(tree, 0))


def oracle_unshared_memory(tree: Filter | Leaf, passing: Fraction = Fraction(1)) -> Fraction:
    """Every query with a buffer of its own.

    >>> oracle_unshared_memory((Fraction(1), ((Fraction(1, 2), (4,)), 3)))
    Fraction(5, 1)
    """
    if isinstance(tree, int):
        return passing * tree
    return sum((oracle_unshared_memory(child, passing * tree[0]) for child in tree[1]), Fraction(0))
