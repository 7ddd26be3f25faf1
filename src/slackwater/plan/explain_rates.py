"""EXPLAIN: windows that follow rates, how near in time members must be, and the orders that were compared."""

from __future__ import annotations

from collections.abc import Sequence

from slackwater.core.time import SECOND, format_duration
from slackwater.language.bound import JoinQuery, follows_rates
from slackwater.operators.description import Detail
from slackwater.operators.join.rates import FIRST_SIZE, FIRST_WITHIN
from slackwater.plan.rate_model import OrderCost
from slackwater.plan.rate_order import AS_MUCH, JoinOrder

ALL_OF = 4
"""Up to so many streams every order is shown, beyond the best few."""
BEST = 6


def explain_match(query: JoinQuery) -> list[Detail]:
    """How near in time members must be, and how the sizes of windows are found; nothing for other windows."""
    if not follows_rates(query):
        return []
    within = None if query.match is None else query.match.within
    if query.match is None:
        match = "members may be as far apart in time as their windows hold (no MATCH TIME)"
    elif within is not None:
        match = f"times match within epsilon = {format_duration(within)}"
        match += "; windows of time of that length would hold less"
    else:
        match = (
            "times match within epsilon = half the longer mean interval between two tuples of an input, found while it"
            f" runs; {format_duration(FIRST_WITHIN)} at first"
        )
    how = (
        "in rounds of the longest interval, as published"
        if query.options.sampling == "rounds"
        else "over the last interval, every twentieth of it"
    )
    return [Detail(f"match: {match}"), Detail(f"sizes: {FIRST_SIZE} tuples at first; rates are measured {how}")]


def explain_order(chosen: JoinOrder) -> Detail:
    """A heading and lines: the order, why it was chosen, and what the others would have come to."""
    if not chosen.candidates:
        return Detail(f"order: {shown(chosen.order, chosen.aliases)}, as written, because {chosen.why}")
    cost = chosen.cost
    assert cost is not None, "the order that was chosen is one of those that were compared"
    lines = [_node(chosen, cost, number) for number in range(len(cost.nodes))]
    if len(chosen.order) == 2:
        return Detail.headed(f"expected of {shown(chosen.order, chosen.aliases)}: {_memory(cost)}", lines)
    everything = len(chosen.order) <= ALL_OF
    listed = chosen.candidates if everything else chosen.candidates[:BEST]
    listed = listed if cost in listed else (*listed, cost)
    for one in listed:
        mark = "  <- chosen" if one == cost else ""
        lines.append(f"{shown(one.order, chosen.aliases)}: {_memory(one)}{mark}")
    if len(listed) < len(chosen.candidates):
        lines.append(f"and {len(chosen.candidates) - len(listed):,} orders more that are expected to keep more")
    if chosen.linked:
        lines.append("orders that join a stream before it has a condition with those joined already are left out")
    lines.append(
        f"compared by tuples in windows, among orders whose bytes are at most {AS_MUCH - 1:.0%} above the least;"
        " a tuple in several windows weighs once"
    )
    return Detail.headed(f"order: {shown(chosen.order, chosen.aliases)}, because {chosen.why}", lines)


def shown(order: Sequence[int], aliases: Sequence[str]) -> str:
    """An order as joins of two.

    >>> shown((2, 0, 1), ["a", "b", "c"])
    '(c ⨝ a) ⨝ b'
    """
    text = aliases[order[0]]
    for place, number in enumerate(order[1:]):
        text = f"({text}) ⨝ {aliases[number]}" if place else f"{text} ⨝ {aliases[number]}"
    return text


def _node(chosen: JoinOrder, cost: OrderCost, number: int) -> str:
    """What is expected of one join of two."""
    node, done = cost.nodes[number], cost.order[: number + 1]
    left, right = shown(done, chosen.aliases), chosen.aliases[cost.order[number + 1]]
    near = "" if node.within == float("inf") else f", epsilon {_duration(node.within)}"
    held = " + ".join(f"{_number(n)} of {name}" for n, name in zip(node.windows, (left, right), strict=True))
    return f"join {number + 1} is expected to hold {held}{near}, and to give {_number(node.rate)} results/s"


def _memory(cost: OrderCost) -> str:
    return f"{_number(cost.tuples)} tuples in windows, {_bytes(cost.bytes)}"


def _duration(seconds: float) -> str:
    """As exactly as anyone expects.

    >>> _duration(2.7777777)
    '2.78 s'
    """
    return format_duration(round(float(f"{seconds:.3g}") * SECOND))


def _number(value: float) -> str:
    """Three digits are enough of what is expected.

    >>> _number(0.1234), _number(12.34), _number(123456.7)
    ('0.123', '12.3', '123,457')
    """
    return f"{value:,.0f}" if value >= 100 else f"{value:.3g}"


def _bytes(value: float) -> str:
    """Bytes in the unit that suits them.

    >>> _bytes(800), _bytes(1234567)
    ('800 B', '1.23 MB')
    """
    for unit in ("B", "kB", "MB", "GB"):
        if value < 1000:
            return f"{value:.3g} {unit}"
        value /= 1000
    return f"{value:.3g} TB"
