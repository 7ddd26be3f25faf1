"""What EXPLAIN says of an algorithm of the W-join report."""

from __future__ import annotations

from collections.abc import Sequence

from slackwater.core.time import format_duration
from slackwater.published.wjoin.approaches import GCA, PAIRWISE, Filter

WAYS = {
    "nested_loop": "by nested loop (NLW-join): a tuple goes through the other buffers one inside the other, in turn",
    "hash": "by hash (HW-join): as the nested loop, through the buckets of the tuple's key alone",
    "merge": "by merge (MW-join): buffers hold one window; a tuple is joined with all of it, no window is asked for",
}


def explain_wjoin(algorithm: str, approach: str, filters: Filter, aliases: Sequence[str]) -> list[str]:
    """An algorithm of the W-join report, and by which windows it filters where they differ from pair to pair.

    >>> from slackwater.published.wjoin.approaches import LCA, filter_of
    >>> from slackwater.core.window_graph import WindowGraph
    >>> filters = filter_of(WindowGraph.of_windows((5000, 3000)), LCA)
    >>> for line in explain_wjoin("merge", LCA, filters, ["a", "b"])[1:]:
    ...     print(line)
    filters by local windows (LCA), a 5 ms, b 3 ms: each stream's largest; never more to go through than by one for all
    refines: every pair of a whole combination is asked for its own window
    """
    if filters.legs:
        return [WAYS[algorithm], *_pairwise(filters)]
    if not filters.refined:
        return [WAYS[algorithm]]
    return [
        WAYS[algorithm],
        _global(filters) if approach == GCA else _local(filters, aliases),
        "refines: every pair of a whole combination is asked for its own window",
    ]


def _pairwise(filters: Filter) -> list[str]:
    lines = [
        f"joins along the windows stated ({PAIRWISE}): one bound stream gives the period, nothing is left to refine"
    ]
    if filters.ways > 1:
        lines.append("both directions: two joins put together; what the first has given is left out of the second")
    return lines


def _global(filters: Filter) -> str:
    return f"filters by the largest window of all (GCA), {format_duration(filters.earlier[0])}, as one window for all"


def _local(filters: Filter, aliases: Sequence[str]) -> str:
    kept = ", ".join(f"{alias} {format_duration(size)}" for alias, size in zip(aliases, filters.earlier, strict=True))
    return (
        f"filters by local windows (LCA), {kept}: each stream's largest; never more to go through than by one for all"
    )
