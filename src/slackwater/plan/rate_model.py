"""What a join whose windows follow rates is expected to keep in memory, for one order of its streams.

The model, for inputs of x and y tuples a second whose windows hold X and Y seconds:

- epsilon is what the query states, or half of the longer mean interval, max(1/x, 1/y)/2; without MATCH TIME, endless;
- the windows hold x * X and y * Y tuples;
- a tuple meets what lies at most epsilon before it and is still in its window, so results come at
  x * y * (min(epsilon, X) + min(epsilon, Y)) a second: where epsilon is found at run time, at the rate of the faster;
- where epsilon is stated any two of m members are near, so m-th joins give m / (2 (m - 1)) of that;
- a combination stands in the window of the next join for the longest interval of its members; a tuple of which it is
  the last one is older, for each join it has gone through by epsilon * n / (n + 3) where it meets n others: a quarter
  of epsilon for one, since that may be before it as well as after, and nearly all of it for many.

Tuples are summed over all windows. Bytes are of tuples of the streams, each counted once: alone in a window, and as a
member of combinations. What WHERE leaves out is not known, and not taken off.

References: 001 §2.2, §4.4.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from math import inf

from slackwater.core.time import SECOND

ENDLESS = inf
"""In the place of epsilon where a query does not ask for times that match."""


@dataclass(frozen=True)
class Expected:
    """What is known of a stream beforehand."""

    rate: float
    """Tuples a second of event time."""
    bytes: float
    """What a tuple weighs."""


@dataclass(frozen=True)
class RateInput:
    """An input of a join: what is expected of it, and how much time its window holds, in microseconds."""

    expected: Expected
    interval: int


@dataclass(frozen=True)
class NodeCost:
    """A join of two inputs: epsilon in seconds, tuples in its windows, results a second."""

    within: float
    windows: tuple[float, float]
    rate: float


@dataclass(frozen=True)
class OrderCost:
    """What an order of inputs, given by their numbers, comes to."""

    order: tuple[int, ...]
    nodes: tuple[NodeCost, ...]
    tuples: float
    bytes: float

    @property
    def rate(self) -> float:
        """Results a second."""
        return self.nodes[-1].rate


def epsilon(x: float, y: float, within: float | None) -> float:
    """How far apart in seconds tuples of two inputs may be; `within` is what the query states, if it does.

    >>> epsilon(1000.0, 1.0, None)
    0.5
    """
    return max(1 / x, 1 / y) / 2 if within is None else within


def cost_of(order: Sequence[int], inputs: Sequence[RateInput], within: float | None) -> OrderCost:
    """The cost of joining inputs one after the other; `within` in microseconds, None where it is found at run time.

    >>> fast, slow = RateInput(Expected(1000, 8), 2 * SECOND), RateInput(Expected(1, 8), 2 * SECOND)
    >>> cost_of((0, 1), (fast, slow), None).tuples
    2002.0
    """
    stated = None if within is None else within / SECOND
    first = inputs[order[0]]
    rate, held = first.expected.rate, first.interval / SECOND
    nodes: list[NodeCost] = []
    lag: dict[int, float] = {order[0]: 0.0}
    beyond = dict.fromkeys(order, 0.0)
    for place, number in enumerate(order[1:], 1):
        own, interval = inputs[number].expected.rate, inputs[number].interval / SECOND
        if place > 1:
            # What is here beside the members' own windows, as members of combinations.
            for member, age in lag.items():
                extra = held + age - inputs[member].interval / SECOND
                share = min(1.0, rate / inputs[member].expected.rate)
                beyond[member] = max(beyond[member], share * inputs[member].expected.rate * max(0.0, extra))
        near = epsilon(rate, own, stated)
        reach = min(near, held), min(near, interval)
        made = rate * own * sum(reach)
        if stated is not None and stated < ENDLESS:
            # Any two members are near, not only the newest: m of them lie in one epsilon m * epsilon ** (m - 1) often.
            made *= (place + 1) / (2 * place)
        nodes.append(NodeCost(near, (rate * held, own * interval), made))
        ages = [one * met / (met + 3) for one, met in zip(reach, (own * sum(reach), rate * sum(reach)), strict=True)]
        lag = {member: age + ages[0] for member, age in lag.items()} | {number: ages[1]}
        rate, held = made, max(held, interval)
    alone = {number: inputs[number].expected.rate * inputs[number].interval / SECOND for number in order}
    weight = sum((alone[number] + beyond[number]) * inputs[number].expected.bytes for number in order)
    return OrderCost(tuple(order), tuple(nodes), sum(sum(node.windows) for node in nodes), weight)
