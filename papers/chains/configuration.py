"""A K-slack configuration of a subplan: which buffers stand where, what they cost, and whether they keep the latency.

It is written as one number an operator: how much slack lies between the source and it, summed over the buffers on the
way. That says everything. Below an operator v stands a chain with one buffer for each distinct sum of v's children that
is larger than v's own; the buffer's targets are the children with that sum. What a child's sum adds to that of v, v's
chain holds.

Invariant: sums never fall along a path. A configuration is right iff the sum at every leaf is the kappa of its query:
the query then waits for as long as with a buffer of its own, no more and no less.

References: 004 §5.1 (sizes, output targets, both conditions), §5.3 (chains), §5.4 (memory cost, Fig. 5.4 and 5.5).
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from itertools import pairwise

from papers.chains.subplan import SOURCE, Number, Subplan


@dataclass(frozen=True)
class Buffer:
    """One K-slack buffer of a chain."""

    below: int
    """The operator whose output it holds."""
    size: Number
    reach: Number
    """Its size and those of all buffers before it, from the source on."""
    targets: tuple[int, ...]
    """The children of that operator that take its output; the next buffer of the chain takes it too."""


@dataclass(frozen=True)
class Configuration:
    """Where slack is spent in one subplan."""

    accumulated: tuple[Number, ...]
    """Summed sizes of the buffers between the source and every operator."""
    shared: bool = True
    """Whether children of an operator share a chain; otherwise each that needs slack has a buffer of its own."""


def chains(plan: Subplan, configuration: Configuration, v: int) -> list[list[Buffer]]:
    """The chains right below an operator; one at most where children share.

    >>> plan = Subplan.of({"S1": ("A1", "A2", "A3")}, "S1")
    >>> [(b.size, [plan.names[t] for t in b.targets]) for b in chains(plan, Configuration((0, 5, 9, 2)), 0)[0]]
    [(2, ['A3']), (3, ['A1']), (4, ['A2'])]
    """
    sums, above = configuration.accumulated, configuration.accumulated[v]
    waiting = [child for child in plan.children[v] if sums[child] > above]
    if not configuration.shared:
        return [[Buffer(v, sums[child] - above, sums[child], (child,))] for child in waiting]
    levels = [above, *sorted({sums[child] for child in waiting})]
    chain = [
        Buffer(v, high - low, high, tuple(child for child in waiting if sums[child] == high))
        for low, high in pairwise(levels)
    ]
    return [chain] if chain else []


def buffers(plan: Subplan, configuration: Configuration) -> list[Buffer]:
    """All buffers, those of parents first."""
    return [one for v in plan.inner for chain in chains(plan, configuration, v) for one in chain]


def memory(plan: Subplan, configuration: Configuration, selectivity: Sequence[Number]) -> Number:
    """mem(C), per unit of the source's rate: a chain holds what its operator gives, for as long as it is."""
    return memory_at(plan, configuration, plan.rates(selectivity))


def memory_at(plan: Subplan, configuration: Configuration, rates: Sequence[Number]) -> Number:
    """As `memory`, from what leaves every operator."""
    sums = configuration.accumulated
    total: Number = 0
    for v in plan.inner:
        below = [sums[child] for child in plan.children[v]]
        held = max(below) - sums[v] if configuration.shared else sum(below) - sums[v] * len(below)
        total += rates[v] * held
    return total


def keeps_latency(plan: Subplan, configuration: Configuration, kappa: Sequence[Number]) -> bool:
    """Whether the sizes on the way to every query sum up to what it needs."""
    sums = configuration.accumulated
    if sums[SOURCE] != 0 or any(sums[v] < sums[parent] for v, parent in enumerate(plan.parents) if v != SOURCE):
        return False
    by_target = {target: one for one in buffers(plan, configuration) for target in one.targets}
    for leaf in plan.leaves:
        waited: Number = 0
        for v in plan.path(leaf):
            waited = by_target[v].reach if v in by_target else waited
        if waited != kappa[leaf]:
            return False
    return True


def with_extents(plan: Subplan, least: Sequence[Number], extents: Sequence[Number]) -> Configuration:
    """Each operator's chain reaches up to its extent at most; what a child may share beyond it is pushed down.

    An extent is measured from the source. 0 means that nothing is placed below the operator; where buffers above
    reach further than an extent, nothing is placed either. `least` is kappa^s of every operator.
    """
    sums: list[Number] = [0] * len(plan.parents)
    for v in plan.inner:
        for child in plan.children[v]:
            sums[child] = max(sums[v], min(least[child], extents[v]))
    return Configuration(tuple(sums))


def candidate_extents(plan: Subplan, kappa: Sequence[Number], v: int) -> list[Number]:
    """How far the chain below v may reach in a candidate configuration, the farthest first.

    The full chain comes first, then its buffers are pushed down one by one from the tail, down to none. A buffer that
    serves a query without a filter in between cannot be pushed down.

    >>> plan = Subplan.of({"v": ("F1", "F2", "F3"), "F1": ("Q1",), "F2": ("Q2",), "F3": ("Q3",)}, "v")
    >>> candidate_extents(plan, plan.demand({}, {"Q1": 5, "Q2": 9, "Q3": 2}).kappa, 0)
    [9, 5, 2, 0]
    """
    least = plan.sharable(kappa)
    needed = max((kappa[child] for child in plan.children[v] if plan.is_leaf(child)), default=0)
    levels = {least[child] for child in plan.children[v]} | {0}
    return sorted((level for level in levels if level >= needed), reverse=True)
