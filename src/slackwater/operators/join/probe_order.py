"""The cheapest route of an arriving tuple through the other streams, by what is known about them.

How many combinations there are once some streams are bound hardly hangs on the order in which they were; so the
cheapest way to bind a set of streams is taken to be the cheapest way to bind all but one of them, and that one.

Invariant: a route binds every stream once, leaves last. It decides what the search costs, never what it finds.

References: Selinger et al.: Access path selection, SIGMOD 1979; Viglas, Naughton, Burger: MJoin, VLDB 2003.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from slackwater.operators.join.probing import Linkage, ProbeOrder
from slackwater.operators.join.selectivity import Selectivities

PROBE, CHAINED, SCANNED, BOUND = 8.0, 3.0, 1.0, 2.0
"""What it costs, in about nanoseconds, to look up a key, to follow a chain to a tuple, to ask a condition of one while
scanning, to bind one."""


@dataclass(frozen=True)
class Way:
    """Some streams bound in some order: what that costs, and how many combinations there are after each of them."""

    bound: tuple[int, ...]
    by: tuple[int, ...]
    cost: float
    combinations: tuple[float, ...]


def cheapest_probe_order(linkage: Linkage, root: int, known: Selectivities) -> tuple[ProbeOrder, float]:
    """The best route, and what an arriving tuple costs on it.

    >>> import numpy as np
    >>> from slackwater.operators.join.probing import Equality
    >>> linkage = Linkage(3, (Equality(0, 2, 1, 2), Equality(1, 2, 2, 2)), (), count_only=False)
    >>> shares = np.broadcast_to([0.01, 0.05, 0.001], (3, 1, 3))
    >>> known = Selectivities(np.full(3, 1000.0), shares, np.zeros((3, 0)), np.full((3, 3), 0.1))
    >>> cheapest_probe_order(linkage, 0, known)[0].streams
    (2, 1)
    """
    leaves = linkage.leaves(root)
    rest = [s for s in range(linkage.streams) if s != root and s not in leaves]
    urgent = _by_urgency(linkage, root, known)
    best = {frozenset[int](): _begin(linkage, root, urgent, known)}
    for _ in rest:
        longer: dict[frozenset[int], Way] = {}
        for streams, way in best.items():
            for s in rest:
                if s not in streams:
                    further = _extend(linkage, way, s, urgent, known)
                    place = streams | {s}
                    if place not in longer or further.cost < longer[place].cost:
                        longer[place] = further
        best = longer
    (way,) = best.values()
    return ProbeOrder((*way.bound[1:], *leaves), (*way.by, *(0 for _ in leaves)), urgent), way.cost


def cost_of(linkage: Linkage, root: int, probe_order: ProbeOrder, known: Selectivities) -> float:
    """What an arriving tuple costs on a route."""
    urgent = probe_order.urgent or probe_order.streams
    way = _begin(linkage, root, urgent, known)
    for place, stream in enumerate(probe_order.streams[: linkage.streams - 1 - len(linkage.leaves(root))]):
        way = _extend(linkage, way, stream, urgent, known, probe_order.by[place] if probe_order.by else 0)
    return way.cost


def _begin(linkage: Linkage, root: int, urgent: Sequence[int], known: Selectivities) -> Way:
    cost, share = _factors(linkage, (), (root,), urgent, known)
    return Way((root,), (), cost, (share,))


def _extend(
    linkage: Linkage, way: Way, stream: int, urgent: Sequence[int], known: Selectivities, by: int | None = None
) -> Way:
    root, bound = way.bound[0], way.bound
    shares = known.classes[root, :, stream]
    there = float(known.live[stream]) * linkage.time_left(stream, bound)
    classes = linkage.linking(stream, bound)
    if by not in classes:
        by = classes[0] if by is not None and classes else min(classes, key=lambda c: float(shares[c]), default=None)
    passing = 1.0
    for c in linkage.newly_decidable(stream, bound):
        passing *= float(known.conditions[root, c])
    axes = len(linkage.near(stream, bound))
    if by is not None:
        asked = CHAINED * there * float(shares[by])
    elif axes:
        # Along each axis a band reaches into three cells, half as much again as is in it.
        asked = PROBE * 3.0**axes + CHAINED * there * min(1.0, passing * 1.5**axes)
    else:
        asked = SCANNED * float(known.live[stream])
    found = there * passing
    for c in classes:
        found *= float(shares[c])
    # The step is taken once for everything that makes it ready, unless something else is found missing before.
    times = min(way.combinations[linkage.ready(stream, bound) :])
    after = (*bound, stream)
    leaves, share = _factors(linkage, bound, after, urgent, known)
    made = way.combinations[-1] * found
    cost = way.cost + times * (PROBE + asked) + made * (BOUND + leaves)
    return Way(after, (*way.by, by or 0), cost, (*way.combinations, made * share))


def _factors(
    linkage: Linkage, before: Sequence[int], after: Sequence[int], urgent: Sequence[int], known: Selectivities
) -> tuple[float, float]:
    """The cost of the leaves that have become ready, up to an empty one; and how often none of them is empty."""
    root, leaves = after[0], linkage.leaves(after[0])
    cost, share = 0.0, 1.0
    for leaf in urgent if leaves else ():
        if leaf in leaves and _hangs_on(linkage, leaf, after) and not _hangs_on(linkage, leaf, before):
            cost += PROBE * share
            share *= 1.0 - float(known.empty[root, leaf])
    return cost, share


def _hangs_on(linkage: Linkage, leaf: int, bound: Sequence[int]) -> bool:
    return bool(linkage.linking(leaf, bound) if linkage.linking(leaf, [leaf]) else bound)


def _by_urgency(linkage: Linkage, root: int, known: Selectivities) -> tuple[int, ...]:
    """Streams by what it costs to find out that they have nothing."""

    def cost(stream: int) -> float:
        shares = [float(known.classes[root, c, stream]) for c in linkage.linking(stream, [root])]
        met = 0.0 if stream in linkage.leaves(root) else float(known.live[stream]) * min(shares, default=1.0)
        return (PROBE + CHAINED * met) / max(float(known.empty[root, stream]), 1e-3)

    return tuple(sorted((s for s in range(linkage.streams) if s != root), key=cost))
