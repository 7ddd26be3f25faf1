"""Which aggregates read one pane store: those over one stream with the same keys and the same accumulators.

Windows and targets may differ. Filters may differ where they are all conditions on one and the same value: n of them
cut its values into at most 2n + 1 segments, so a pane has few fragments, whatever the tuples. Of filters on several
values there may be as many combinations as tuples, and then a query would have to look at them one by one; such queries
share with those of equal filters.

Invariant: what a query shares, and under which name its panes are persisted, follows from the query alone, whoever else
there is. So queries may come and go without any state being moved.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from hashlib import sha256
from math import gcd

from slackwater.core.batch import TS
from slackwater.operators.aggregate.algebra import AggregateSpec, Layout
from slackwater.operators.aggregate.shared.store import SharedSpec
from slackwater.operators.query_set.places import PanesPlace, QueryPlace
from slackwater.plan.physical import InputPlan, PhysicalPlan
from slackwater.plan.sharing.conjuncts import conjuncts_of
from slackwater.plan.sharing.implication import value_compared
from slackwater.plan.sharing.normal_form import key_of

MOST_PANES = 16
"""A window of more panes is made more cheaply by who slides alone: a reader combines all panes of every window."""


def why_alone(plan: PhysicalPlan) -> str | None:
    """Why an aggregate keeps its panes for itself; None where it shares them, or is no aggregate of one stream.

    The text ends the sentence "has panes of its own: ".
    """
    spec = plan.operator.as_panes
    if spec is None:
        return None
    kept = [one.function for one in spec.aggregates if one.holistic]
    if kept:
        return f"{kept[0]} keeps all values of a window"
    if spec.pane_partials is None:
        return "MIN and MAX of text look texts up"
    count = spec.range // gcd(spec.range, spec.grid.slide)
    if count > MOST_PANES:
        return f"a window has {count} panes, and more than {MOST_PANES} are combined more cheaply alone"
    return None


def shared_panes(plan: PhysicalPlan, row_of: Callable[[int], int]) -> PanesPlace | None:
    """What a query reads of a pane store, given the row of its domain for each of its own; None where it reads none."""
    spec = plan.operator.as_panes
    if spec is None or why_alone(plan) is not None:
        return None
    common = InCommon.of(plan)

    def moved(aggregate: AggregateSpec) -> AggregateSpec:
        row = aggregate.row if aggregate.row < 0 else row_of(aggregate.row)
        return replace(aggregate, row=row, by=row_of(aggregate.by))

    aggregates = tuple(map(moved, spec.aggregates))
    shared = SharedSpec(tuple(map(row_of, spec.keys)), Layout.of(aggregates))
    return PanesPlace(common.key, shared, aggregates, spec.range, spec.grid.slide)


@dataclass(frozen=True)
class InCommon:
    """What the aggregates of one pane store have in common, beside the stream and its clocks."""

    groups: list[str]
    accumulators: list[tuple[int, str, bool, str, int]]
    filters: tuple[str, ...]

    @classmethod
    def of(cls, plan: PhysicalPlan) -> InCommon:
        (one,), spec, named = plan.inputs, plan.operator.as_panes, _names(plan.inputs[0])
        assert spec is not None, "others have no panes"
        parts = spec.layout.components
        accumulators = [
            (
                int(c.op),
                "" if c.row < 0 else named[c.row],
                c.float_argument,
                "" if c.tie is None else named[c.by],
                c.bits,
            )
            for c in parts
        ]
        return cls([named[row] for row in spec.keys], accumulators, _filtered_by(one))

    @property
    def key(self) -> str:
        """A name for it, the same in every run."""
        return sha256(repr((self.groups, self.accumulators, self.filters)).encode()).hexdigest()[:16]

    def differs_in(self, other: InCommon) -> list[str]:
        """What keeps two aggregates from reading one store, in words."""
        parts = {
            "other groups": self.groups != other.groups,
            "other accumulators": self.accumulators != other.accumulators,
            "filters on other values": self.filters != other.filters,
        }
        return [name for name, differs in parts.items() if differs]


@dataclass(frozen=True)
class PanesOf:
    """Whose panes an aggregate of a set reads: those that it shares `with_queries`, or its own, and why."""

    with_queries: tuple[str, ...]
    own_because: str | None

    def __str__(self) -> str:
        if self.with_queries:
            return f"reads one pane store with {', '.join(self.with_queries)}"
        return f"has panes of its own: {self.own_because}"


def panes_of(plans: Mapping[str, PhysicalPlan], places: Mapping[str, QueryPlace]) -> dict[str, PanesOf]:
    """Whose panes each aggregate of a set reads, where there is another one over its stream."""
    by_source: dict[str, list[str]] = {}
    for name, plan in plans.items():
        if plan.operator.as_panes is not None:
            by_source.setdefault(plan.inputs[0].stream.source, []).append(name)
    of_all: dict[str, PanesOf] = {}
    for names in by_source.values():
        store_of = {n: (places[n].domain, panes.key) for n in names if (panes := places[n].panes) is not None}
        common = {n: InCommon.of(plans[n]) for n in store_of}
        for name in names if len(names) > 1 else []:
            others = [n for n in store_of if n != name]
            with_it = tuple(n for n in others if name in store_of and store_of[n] == store_of[name])
            if with_it or name not in store_of:
                of_all[name] = PanesOf(with_it, why_alone(plans[name]))
                continue
            apart = {n: common[name].differs_in(common[n]) for n in others}
            for n in others:
                apart[n] += ["other terms of clocks"] if store_of[n][0] != store_of[name][0] else []
            of_all[name] = PanesOf((), _what_parts_it(apart))
    return of_all


def _what_parts_it(apart: Mapping[str, list[str]]) -> str:
    """What parts an aggregate from the one that has most in common with it."""
    if not apart:
        return "no other aggregate of its stream shares panes"
    nearest = min(apart, key=lambda name: len(apart[name]))
    among = "" if len(apart) == 1 else ", the most similar,"
    return f"{nearest}{among} has {' and '.join(apart[nearest])}"


def _names(one: InputPlan) -> dict[int, str]:
    """What stands in each row of a stream, whatever its alias is."""
    names = {TS: "event time"} | {row: f"column {name}" for name, _, row in one.columns}
    return names | {each.row: f"{each.role} {key_of(each.expr)}" for each in one.computed}


def _filtered_by(one: InputPlan) -> tuple[str, ...]:
    """What the filters of queries must have in common: the one value that they compare, or else everything."""
    conjuncts = conjuncts_of(one.stream.filters)
    values = {value_compared(each) for each in conjuncts}
    if len(values) == 1 and None not in values:
        return ("on", *(value for value in values if value is not None))
    return tuple(sorted(each.key for each in conjuncts))
