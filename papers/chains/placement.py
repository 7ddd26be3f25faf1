"""Where the buffers of a subplan go: the published algorithms, and one of them mended.

All of them choose one number for each operator v, its *extent*: how far the chain below v reaches, measured from the
source. A chain is shortened from its tail: its last buffer goes below its targets if they let less pass, all together,
than v gives. They differ in what a child is taken to let pass.

- UNSHARED: every query has a buffer of its own, right in front of it.
- GREEDY (Alg. 5.2): its selectivity. Every operator by itself, as in Alg. 5.1.
- OPT (Alg. 5.3): its coalesced selectivity: where no buffer stands below the child, what its own children let pass.
- NAIVE: nothing is taken; every combination of candidates is tried.

`opt_as_printed` coalesces at branch operators only. That is enough where filters are fused, as the paper has it, and
finds too much memory where a filter stands alone above another. `opt` coalesces everywhere, and is what is used.
docs/design/2026-11-16-shared-slack.md has the proof, and what else in the printed algorithms must be read with care.

Invariant: whatever is chosen keeps the latency of every query. The memory of OPT is that of NAIVE; that of GREEDY and
of UNSHARED is never less. None of them looks at the rate of the source.

References: 004 Alg. 5.1, 5.2 and 5.3.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from itertools import product

from papers.chains.configuration import (
    Configuration,
    candidate_extents,
    memory_at,
    with_extents,
)
from papers.chains.subplan import Demand, Number, Subplan

Placement = Callable[[Subplan, Demand], Configuration]


def local_extent(sharable: Sequence[Number], passing: Sequence[Number]) -> tuple[Number, Number]:
    """Alg. 5.1, lines 1-14: how far the chain below an operator reaches, and what all children examined let pass.

    Of every child: the size it can share, and the share of tuples it lets pass (a leaf: 1). From the tail on, a buffer
    goes down where the children behind it let less than 1 pass in sum. At exactly 1 both ways cost the same, and the
    buffer stays.

    >>> local_extent([5, 9, 2], [0.3, 0.4, 0.1])[0], local_extent([5, 9, 2], [0.5, 0.5, 0.1])[0]
    (0, 5)
    """
    total: Number = 0
    by_size = sorted(zip(sharable, passing, strict=True), key=lambda child: -child[0])
    for at, (size, share) in enumerate(by_size):
        total += share
        if total >= 1 and (at + 1 == len(by_size) or by_size[at + 1][0] < size):
            return size, total
    return 0, total


def unshared(plan: Subplan, demand: Demand) -> Configuration:
    """A buffer for each query, right in front of its leaf."""
    needs = (demand.kappa[v] if plan.is_leaf(v) else 0 for v in range(len(plan.parents)))
    return Configuration(tuple(needs), shared=False)


def greedy(plan: Subplan, demand: Demand) -> Configuration:
    """Alg. 5.2: every operator by the selectivities of its own children."""
    least, selectivity = plan.sharable(demand.kappa), demand.selectivity
    extents: list[Number] = [0] * len(plan.parents)
    for v in plan.inner:
        below = plan.children[v]
        extents[v], _ = local_extent([least[c] for c in below], [selectivity[c] for c in below])
    return with_extents(plan, least, extents)


def opt(plan: Subplan, demand: Demand) -> Configuration:
    """Alg. 5.3, coalescing at every filter: a configuration of least memory, children decided before parents."""
    return _coalescing(plan, demand, everywhere=True)


def opt_as_printed(plan: Subplan, demand: Demand) -> Configuration:
    """Alg. 5.3 to the letter: a filter with one child counts with its own selectivity (lines 13 and 23)."""
    return _coalescing(plan, demand, everywhere=False)


def _coalescing(plan: Subplan, demand: Demand, everywhere: bool) -> Configuration:
    least, coalesced = plan.sharable(demand.kappa), list(demand.selectivity)
    extents: list[Number] = [0] * len(plan.parents)
    for v in plan.bottom_up:
        below = plan.children[v]
        extents[v], total = local_extent([least[c] for c in below], [coalesced[c] for c in below])
        placed = total >= 1
        if not placed and (everywhere or plan.is_branch(v)):
            coalesced[v] *= total
    return with_extents(plan, least, extents)


def candidates(plan: Subplan, kappa: Sequence[Number]) -> Iterator[Configuration]:
    """All combinations of the candidates of every operator; some of them are the same configuration."""
    least = plan.sharable(kappa)
    choices = [candidate_extents(plan, kappa, v) if not plan.is_leaf(v) else [0] for v in range(len(plan.parents))]
    for extents in product(*choices):
        yield with_extents(plan, least, extents)


def naive(plan: Subplan, demand: Demand) -> Configuration:
    """Try all candidates, and take the first of least memory."""
    rates = plan.rates(demand.selectivity)
    return min(candidates(plan, demand.kappa), key=lambda one: memory_at(plan, one, rates))


PLACEMENTS: dict[str, Placement] = {"UNSHARED": unshared, "GREEDY": greedy, "OPT": opt, "NAIVE": naive}
"""By the names of the paper."""
