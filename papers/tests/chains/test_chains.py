"""Shared slack at work: each query gets what a buffer of its own would give it, also while configurations change."""

from __future__ import annotations

import random
from collections.abc import Iterable

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from papers.chains.adaptation import TRIGGERS, AdaptiveSlack, LatencyPenalty, Trigger
from papers.chains.chain import CHUNK, Out, SharedSlack
from papers.chains.configuration import Configuration
from papers.chains.migration import Change
from papers.chains.placement import PLACEMENTS, candidates, opt
from papers.chains.subplan import Demand, Number, Subplan
from papers.chains.wiring import places
from papers.oracles.single_buffer import Arrival, oracle_single_buffer
from tests.effort import tried

Event = Arrival | int
FIG_5_6 = Subplan.of({"v1": ("v2", "v3", "v4")}, "v1")
PLAN_SHAPES = (
    {"S": ("Q1", "Q2", "Q3")},
    {"S": ("F1", "F2", "Q3"), "F1": ("Q1",), "F2": ("Q2",)},
    {"S": ("F6", "F7"), "F6": ("Q3",), "F7": ("F8", "F9"), "F8": ("Q4",), "F9": ("Q5",)},
    {"S": ("F1", "F2"), "F1": ("Q1", "F3"), "F3": ("Q2", "Q3"), "F2": ("F4",), "F4": ("Q4",)},
)


class Trace:
    """A random stream with its filters, and what happens beside its arrivals."""

    def __init__(self, seed: int, tuples: int = 120) -> None:
        self.chance = random.Random(seed)
        self.plan = Subplan.of(self.chance.choice(PLAN_SHAPES), "S")
        delays = [self.chance.choice((0, 0, 0, 1, 3, 8, 20)) for _ in range(tuples)]
        self.ts = np.array([i // 2 - delay for i, delay in enumerate(delays)], np.int64)
        share = {v: self.chance.random() for v in self.plan.filters}
        self.passes = np.zeros(tuples, np.int64)
        for v, chance in share.items():
            self.passes |= np.array([(self.chance.random() < chance) << v for _ in range(tuples)], np.int64)

    def wanted(self, leaf: int, i: int) -> bool:
        return all(int(self.passes[i]) >> v & 1 for v in self.plan.path(leaf)[1:-1])

    def needs(self) -> list[Number]:
        return [
            self.chance.choice((0, 1, 2, 5, 9, 14)) if self.plan.is_leaf(v) else 0 for v in range(len(self.plan.names))
        ]

    def selectivity(self) -> list[Number]:
        return [self.chance.random() if v in self.plan.filters else 1 for v in range(len(self.plan.names))]


def released(outs: Iterable[Out], leaf: int) -> list[tuple[int, int]]:
    found: list[tuple[int, int]] = []
    for out in outs:
        mine = out.leaf == leaf
        found += zip(out.position[mine].tolist(), out.at[mine].tolist(), strict=True)
    return found


@tried(90)
@given(seed=st.integers(0, 10**9), name=st.sampled_from(sorted(PLACEMENTS)))
def test_every_leaf_gets_what_a_buffer_of_its_own_would_release(seed: int, name: str) -> None:
    trace = Trace(seed)
    demand = Demand(trace.selectivity(), trace.needs())
    slack = SharedSlack(trace.plan, PLACEMENTS[name](trace.plan, demand))
    cut = trace.chance.randint(0, len(trace.ts))
    outs = [
        slack.absorb(part[0], part[1])[0]
        for part in ((trace.ts[:cut], trace.passes[:cut]), (trace.ts[cut:], trace.passes[cut:]))
    ]
    outs.append(slack.finish())
    for leaf in trace.plan.leaves:
        events: list[Event] = [(int(ts), trace.wanted(leaf, i)) for i, ts in enumerate(trace.ts)]
        assert released(outs, leaf) == oracle_single_buffer(events, int(demand.kappa[leaf]))
    assert slack.held == 0


@tried(300)
@given(
    seed=st.integers(0, 10**9),
    name=st.sampled_from(sorted(PLACEMENTS)),
    trigger=st.sampled_from(sorted(TRIGGERS)),
    smart=st.booleans(),
    penalty=st.sampled_from((0.0, 3.0)),
)
def test_while_needs_change_every_leaf_gets_every_tuple_once_and_when_it_is_due(
    seed: int, name: str, trigger: str, smart: bool, penalty: float
) -> None:
    trace = Trace(seed)
    plan = trace.plan
    demand = Demand(trace.selectivity(), trace.needs())
    adaptive = AdaptiveSlack(plan, demand, PLACEMENTS[name], Trigger(TRIGGERS[trigger]), smart)
    adaptive.penalty.learn(0, penalty)
    events: dict[int, list[Event]] = {leaf: [] for leaf in plan.leaves}
    outs: list[Out] = []
    at = 0
    while at < len(trace.ts):
        end = min(len(trace.ts), at + trace.chance.choice((1, 1, 2, 5, 9)))
        outs.append(adaptive.slack.absorb(trace.ts[at:end], trace.passes[at:end])[0])
        for leaf in plan.leaves:
            events[leaf] += [(int(trace.ts[i]), trace.wanted(leaf, i)) for i in range(at, end)]
        at = end
        for leaf in trace.chance.sample(plan.leaves, trace.chance.randint(0, len(plan.leaves))):
            if adaptive.report(leaf, trace.needs()[leaf]):
                made = adaptive.adapt(adaptive.computed(trace.selectivity()))
                if made is not None:
                    outs.append(made[0])
                    for other in plan.leaves:
                        events[other].append(int(adaptive.in_force[other]))
    outs.append(adaptive.slack.finish())
    for leaf in plan.leaves:
        assert released(outs, leaf) == oracle_single_buffer(events[leaf], int(demand.kappa[leaf]))
    assert adaptive.slack.held == 0


@tried(90)
@given(seed=st.integers(0, 10**9), smart=st.booleans())
def test_any_candidate_may_follow_any_other(seed: int, smart: bool) -> None:
    """Harder than what the algorithms choose: configurations that have nothing to do with selectivities."""
    trace = Trace(seed, tuples=60)
    plan, kappa = trace.plan, trace.needs()
    slack = SharedSlack(plan, trace.chance.choice(list(candidates(plan, kappa))))
    events: dict[int, list[Event]] = {leaf: [int(kappa[leaf])] for leaf in plan.leaves}
    outs: list[Out] = []
    for i in range(len(trace.ts)):
        outs.append(slack.absorb(trace.ts[i : i + 1], trace.passes[i : i + 1])[0])
        if trace.chance.random() < 0.3:
            kappa = trace.needs() if trace.chance.random() < 0.5 else kappa
        chosen = trace.chance.choice(list(candidates(plan, kappa)))
        outs.append(slack.adapt(chosen, smart)[0])
        for leaf in plan.leaves:
            events[leaf] += [(int(trace.ts[i]), trace.wanted(leaf, i)), int(kappa[leaf])]
    outs.append(slack.finish())
    for leaf in plan.leaves:
        assert released(outs, leaf) == oracle_single_buffer(events[leaf], 0)


def test_rows_grow_with_what_is_held() -> None:
    plan = Subplan.of({"S": ("Q1", "F"), "F": ("Q2",)}, "S")
    n = 3 * CHUNK
    slack = SharedSlack(plan, opt(plan, plan.demand({"F": 0.5}, {"Q1": n // 2, "Q2": 2 * n})))
    out, held = slack.absorb(np.arange(n, dtype=np.int64), np.full(n, 1 << plan.number("F"), np.int64))
    assert len(out.leaf) == n - n // 2
    assert held.max() == n, "half a chain at the source, and what F passes below it"
    assert held[-1] == slack.held
    assert len(slack.finish().leaf) == n + n // 2


def of_figure_5_6() -> tuple[SharedSlack, Out]:
    """Fig. 5.6a: e1 and e2 have reached v2 and v3, e1 has reached v4, B1 holds e3 and e4, B2 holds e2."""
    slack = SharedSlack(FIG_5_6, Configuration((0, 2, 2, 3)))
    out, held = slack.absorb(np.array([1, 2, 3, 4], np.int64), np.zeros(4, np.int64))
    assert held[-1] == 3
    return slack, out


def by_child(out: Out) -> dict[str, list[int]]:
    return {FIG_5_6.names[leaf]: [p + 1 for p, _ in released([out], leaf)] for leaf in FIG_5_6.leaves}


@pytest.mark.parametrize("smart", [True, False])
def test_figure_5_6_neither_releases_twice_nor_misses(smart: bool) -> None:
    slack, out = of_figure_5_6()
    assert by_child(out) == {"v2": [1, 2], "v3": [1, 2], "v4": [1]}
    # Fig. 5.6b: v3 and v4 exchange their places.
    out, moved = slack.adapt(Configuration((0, 2, 3, 2)), smart)
    assert by_child(out) == {"v2": [], "v3": [], "v4": [2]}, "e2 would be missing at v4"
    assert moved == (1 if smart else 3)
    # A new tuple of time 2 is no duplicate, though v3 has had a tuple of time 2: it came after the adaptation.
    out, _ = slack.absorb(np.array([2, 5], np.int64), np.zeros(2, np.int64))
    assert by_child(out) == {"v2": [5, 3], "v3": [5], "v4": [5, 3]}, "the fifth tuple; e2 would come twice to v3"


def test_the_condition_for_smart_reuse() -> None:
    before = Configuration((0, 2, 2, 3))
    for after, holds in (
        (Configuration((0, 2, 3, 2)), True),
        (Configuration((0, 2, 3, 4)), True),
        (Configuration((0, 2, 5, 4)), True),
        (Configuration((0, 5, 5, 4)), False),
    ):
        change = Change(FIG_5_6, before, after, places(FIG_5_6, before), places(FIG_5_6, after))
        assert change.smart_at(0) == holds, after


@pytest.mark.parametrize("smart", [True, False])
def test_what_a_child_lacks_is_not_sent_before_it_is_due(smart: bool) -> None:
    """The printed method sends all of the second buffer at once; of 1 to 8 only 1 and 2 are due after the change."""
    plan = Subplan.of({"v": ("c", "d")}, "v")
    slack = SharedSlack(plan, Configuration((0, 10, 2)))
    slack.absorb(np.arange(1, 11, dtype=np.int64), np.zeros(10, np.int64))
    after = Configuration((0, 8, 8))
    assert Change(plan, slack.configuration, after, (0, 2, 1), places(plan, after)).smart_at(0)
    out, _ = slack.adapt(after, smart)
    assert [p + 1 for p, _ in released([out], plan.number("c"))] == [1, 2]


def test_the_largest_time_a_child_has_had_does_not_tell_duplicates() -> None:
    """With T(v_c) alone, as printed, the second tuple would be taken for one that came before, and be lost."""
    plan = Subplan.of({"v": ("c", "d")}, "v")
    c = plan.number("c")
    slack = SharedSlack(plan, Configuration((0, 0, 60)))
    first = slack.absorb(np.array([100], np.int64), np.zeros(1, np.int64))[0]
    largest_had = 100
    slack.adapt(Configuration((0, 50, 60)))
    slack.absorb(np.array([80], np.int64), np.zeros(1, np.int64))
    slack.adapt(Configuration((0, 60, 50)))
    assert largest_had >= 80, "and it came before the last adaptation: a duplicate, by the printed check"
    later = slack.absorb(np.array([200], np.int64), np.zeros(1, np.int64))[0]
    assert released([first, later], c) == [(0, 0), (1, 2)]


def test_moving_slack_up_the_tree_lets_nothing_go_early() -> None:
    """The sizes below F shrink, but what waits there has not had the slack that now lies above."""
    plan = Subplan.of({"S": ("F", "Q2"), "F": ("Q1",)}, "S")
    slack = SharedSlack(plan, Configuration((0, 0, 10, 0)))
    one = np.full(1, 1 << plan.number("F"), np.int64)
    slack.absorb(np.array([100], np.int64), one)
    out, _ = slack.adapt(Configuration((0, 10, 10, 0)))
    assert len(out.leaf) == 0
    outs = [slack.absorb(np.array([ts], np.int64), one)[0] for ts in (99, 110)]
    assert released(outs, plan.number("Q1")) == [(1, 2), (0, 2)]


def test_triggers_count_reports() -> None:
    eager, lazy, half = (Trigger(share) for share in TRIGGERS.values())
    assert [eager.fires(1, differs, 3) for differs in (True, False)] == [True, False]
    assert [lazy.fires(leaf, True, 3) for leaf in (1, 2, 2, 3, 1)] == [False, False, False, True, False]
    assert [half.fires(leaf, True, 3) for leaf in (1, 2, 2, 3, 1)] == [False, True, False, True, False]


def test_an_adaptation_that_costs_more_than_it_saves_is_left_out() -> None:
    demand = FIG_5_6.demand({}, {"v2": 20, "v3": 20, "v4": 30})
    adaptive = AdaptiveSlack(FIG_5_6, demand)
    adaptive.penalty.learn(0, 5.0)
    leaf = FIG_5_6.number("v4")
    assert adaptive.report(leaf, 26)
    assert adaptive.adapt(adaptive.computed(demand.selectivity)) is None
    assert adaptive.in_force[leaf] == 30
    assert adaptive.report(leaf, 24)
    assert adaptive.adapt(adaptive.computed(demand.selectivity)) is not None
    assert adaptive.report(leaf, 25), "slack that is given is given for quality"
    assert adaptive.adapt(adaptive.computed(demand.selectivity)) is not None
    assert (adaptive.adaptations, adaptive.suppressed) == (2, 1)


def test_the_penalty_grows_with_what_is_moved() -> None:
    penalty = LatencyPenalty()
    assert penalty.of(50) == 0
    penalty.learn(10, 4.0)
    assert penalty.of(50) == 4.0
    penalty.learn(20, 6.0)
    assert penalty.of(50) == pytest.approx(12.0)
