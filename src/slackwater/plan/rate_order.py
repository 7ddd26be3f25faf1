"""In which order streams are joined whose windows follow rates, and why.

Left-deep orders are compared by what they are expected to keep (`rate_model.py`). The bytes of the streams' own
tuples hardly hang on the order; combinations do: what a fast stream takes part in is made at its rate, and stands in
every window from there on. So fast streams join late, as the paper found.

Invariant: what is not known is not guessed: without the rates of all streams the order is that of FROM. An order
changes what a query keeps, and with a stated distance of MATCH TIME not which combinations are true.

References: 001 §4.4 (Fig. 10 and 11).
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import permutations

from slackwater.core.errors import UsageError
from slackwater.expressions.tree import streams_of
from slackwater.language.bound import (
    AggregateQuery,
    BoundQuery,
    JoinQuery,
    RateWindow,
    StreamRef,
    follows_rates,
    rates_anywhere,
    streams_read,
)
from slackwater.plan.ordering import in_turn, ordering_of
from slackwater.plan.other_windows import check_joined_by_rates
from slackwater.plan.rate_chain import as_chain
from slackwater.plan.rate_model import ENDLESS, Expected, OrderCost, RateInput, cost_of

RATES, WRITTEN = "rates", "written"
ORDERS = (RATES, WRITTEN)
ALL_ORDERS_OF = 6
"""Up to so many streams all orders are compared; beyond, those of rising rates from every stream on."""
AS_MUCH = 1.05
"""Orders whose bytes differ by less are told apart by the tuples in their windows."""


@dataclass(frozen=True)
class JoinOrder:
    """The order of one join, and what the others would have come to."""

    aliases: tuple[str, ...]
    order: tuple[int, ...]
    why: str
    candidates: tuple[OrderCost, ...] = ()
    """The best first; none where rates are not known."""
    linked: bool = False
    """Whether only orders are compared in which every stream has a condition with those before it."""

    @property
    def cost(self) -> OrderCost | None:
        """What is expected of the order that was chosen."""
        return next((one for one in self.candidates if one.order == self.order), None)


def in_order(query: BoundQuery, known: Mapping[str, Expected]) -> tuple[BoundQuery, tuple[JoinOrder, ...]]:
    """The query with every join whose windows follow rates as joins of two, and the orders that were chosen.

    `known` says what is expected of streams, by alias or by source.
    """
    asked = query.options.order
    if asked is not None and asked not in ORDERS:
        raise UsageError(f"option order = '{asked}': there is {' and '.join(ORDERS)}")
    if not rates_anywhere(query):
        for name in ("order", "sampling"):
            if getattr(query.options, name) is not None:
                raise UsageError(f"option {name} is for windows that follow rates, as in s [RATE 10 SECONDS]")
        return query, ()
    return _Rewriting(known, asked == WRITTEN).of(query)


class _Rewriting:
    """Takes a query apart from the inside out."""

    def __init__(self, known: Mapping[str, Expected], as_written: bool) -> None:
        self._known, self._as_written = known, as_written
        self._orders: list[JoinOrder] = []

    def of(self, query: BoundQuery) -> tuple[BoundQuery, tuple[JoinOrder, ...]]:
        return self._rewritten(query)[0], tuple(self._orders)

    def _rewritten(self, query: BoundQuery) -> tuple[BoundQuery, Expected | None]:
        """The query, and what is expected of its results."""
        streams, expected = [], []
        for stream in streams_read(query):
            inner, given = (None, self._given(stream)) if stream.query is None else self._rewritten(stream.query)
            streams.append(replace(stream, query=inner))
            expected.append(given)
        if isinstance(query, AggregateQuery):
            return replace(query, stream=streams[0]), None
        same = replace(query, streams=tuple(streams))
        if len(streams) == 1:
            return same, expected[0]
        if not isinstance(same, JoinQuery) or not follows_rates(same):
            return same, None
        chosen = _chosen(same, _inputs(same, expected), self._as_written)
        self._orders.append(chosen)
        weight = None
        if chosen.cost is not None:
            weight = Expected(chosen.cost.rate, sum(one.bytes for one in expected if one is not None))
        if len(streams) == 2:
            return same, weight
        check_joined_by_rates(same.options)
        ordering_of(same.options, len(streams), in_turn(same))
        # It is one join to its query, and in their turn is how tuples are joined in any case.
        return as_chain(replace(same, options=replace(same.options, ordering=None)), chosen.order), weight

    def _given(self, stream: StreamRef) -> Expected | None:
        return self._known.get(stream.alias, self._known.get(stream.source))


def _inputs(query: JoinQuery, expected: list[Expected | None]) -> list[RateInput] | None:
    """The inputs of a join, if something is known of every one of them."""
    found = []
    for stream, one in zip(query.streams, expected, strict=True):
        if one is None or one.rate <= 0 or not isinstance(stream.window, RateWindow):
            return None
        found.append(RateInput(one, stream.window.interval))
    return found


def _chosen(query: JoinQuery, inputs: list[RateInput] | None, as_written: bool) -> JoinOrder:
    aliases = tuple(stream.alias for stream in query.streams)
    written = tuple(range(len(aliases)))
    if inputs is None:
        why = "the query says so" if as_written else "the rates of its streams are not known"
        return JoinOrder(aliases, written, why)
    orders, linked = _candidates(query, [one.expected.rate for one in inputs])
    within: float | None = ENDLESS if query.match is None else query.match.within
    costs = [cost_of(order, inputs, within) for order in orders]
    least = AS_MUCH * min(cost.bytes for cost in costs)
    ranked = tuple(sorted(costs, key=lambda cost: (cost.bytes > least, cost.tuples, cost.bytes, cost.order)))
    if as_written:
        if written not in orders:
            ranked = (*ranked, cost_of(written, inputs, within))
        return JoinOrder(aliases, written, "the query says so", ranked, linked)
    why = "there is no other" if len(ranked) == 1 else "it is expected to keep least"
    return JoinOrder(aliases, ranked[0].order, why, ranked, linked)


Reads = list[frozenset[int]]
"""Of every condition, the streams that it reads."""


def _candidates(query: JoinQuery, rates: list[float]) -> tuple[list[tuple[int, ...]], bool]:
    """All orders; of the first two streams, which are alike, the one that stands first is first. Where conditions lead
    from stream to stream, only orders along them, which the second value says."""
    count = len(query.streams)
    reads = [streams_of(condition) for condition in query.conditions]
    if count <= ALL_ORDERS_OF:
        orders = [order for order in permutations(range(count)) if order[0] < order[1]]
    else:
        orders = list(dict.fromkeys(_rising(first, rates, reads) for first in range(count)))
    along = [order for order in orders if all(_leads(reads, order[:at], order[at]) for at in range(1, count))]
    return (along, len(along) < len(orders)) if along else (orders, False)


def _rising(first: int, rates: list[float], reads: Reads) -> tuple[int, ...]:
    """From one stream on always the slowest that a condition leads to, or the slowest of all."""
    order = [first]
    while rest := [one for one in range(len(rates)) if one not in order]:
        led_to = [one for one in rest if _leads(reads, order, one)]
        order.append(min(led_to or rest, key=lambda one: rates[one]))
    return (*sorted(order[:2]), *order[2:])


def _leads(reads: Reads, done: Sequence[int], one: int) -> bool:
    """Whether a condition can be asked of a stream and of those joined before."""
    return any(one in read <= {*done, one} for read in reads)
