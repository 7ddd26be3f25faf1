"""Placements of shared slack: the paper's examples, and random plans against trying everything."""

from __future__ import annotations

import random
from fractions import Fraction

import pytest

from papers.chains.configuration import (
    Configuration,
    buffers,
    candidate_extents,
    chains,
    keeps_latency,
    memory,
    with_extents,
)
from papers.chains.placement import (
    PLACEMENTS,
    candidates,
    greedy,
    local_extent,
    naive,
    opt,
    opt_as_printed,
    unshared,
)
from papers.chains.subplan import Demand, Number, Subplan
from papers.oracles.configurations import Filter, Leaf, oracle_least_memory, oracle_unshared_memory

PLANS = 10_000
FIG_5_4 = Subplan.of({"v": ("F1", "F2", "F3"), "F1": ("Q1",), "F2": ("Q2",), "F3": ("Q3",)}, "v")
FIG_5_5 = Subplan.of({"S3": ("F6", "F7"), "F6": ("Q3",), "F7": ("F8", "F9"), "F8": ("Q4",), "F9": ("Q5",)}, "S3")


def tenths(number: int) -> Fraction:
    return Fraction(number, 10)


def made(plan: Subplan, kappa: list[Number] | tuple[Number, ...], extents: dict[str, Number]) -> Configuration:
    return with_extents(plan, plan.sharable(kappa), [extents.get(name, 10**9) for name in plan.names])


def test_a_chain_serves_queries_of_different_needs_as_in_figure_5_3() -> None:
    plan = Subplan.of({"S1": ("A1", "A2", "A3")}, "S1")
    demand = plan.demand({}, {"A1": 5, "A2": 9, "A3": 2})
    chain = chains(plan, opt(plan, demand), 0)[0]
    assert [(b.size, [plan.names[t] for t in b.targets]) for b in chain] == [(2, ["A3"]), (3, ["A1"]), (4, ["A2"])]
    assert memory(plan, opt(plan, demand), demand.selectivity) == 9
    assert memory(plan, unshared(plan, demand), demand.selectivity) == 5 + 9 + 2
    assert keeps_latency(plan, opt(plan, demand), demand.kappa)
    assert candidate_extents(plan, demand.kappa, 0) == [9], "a query without a filter keeps the whole chain up"


def test_the_four_candidates_of_figure_5_4_cost_what_the_equations_say() -> None:
    k1, k2, k3 = 50, 90, 20
    f1, f2, f3 = tenths(3), tenths(6), tenths(2)
    demand = FIG_5_4.demand({"F1": f1, "F2": f2, "F3": f3}, {"Q1": k1, "Q2": k2, "Q3": k3})
    found = [memory(FIG_5_4, one, demand.selectivity) for one in candidates(FIG_5_4, demand.kappa)]
    assert found == [
        k2,
        k1 + f2 * (k2 - k1),
        k3 + f1 * (k1 - k3) + f2 * (k2 - k3),
        f1 * k1 + f2 * k2 + f3 * k3,
    ]
    assert found[1] == found[0] + (f2 - 1) * (k2 - k1)
    assert found[2] == found[1] + (f2 + f1 - 1) * (k1 - k3)
    assert found[3] == found[2] + (f2 + f1 + f3 - 1) * k3


@pytest.mark.parametrize(
    ("f1", "f2", "f3", "extent"),
    [(3, 10, 2, 90), (4, 6, 2, 50), (5, 6, 2, 50), (3, 6, 1, 20), (3, 6, 2, 20), (2, 3, 4, 0)],
)
def test_the_local_optimum_follows_the_sum_of_selectivities(f1: int, f2: int, f3: int, extent: int) -> None:
    assert local_extent([50, 90, 20], [tenths(f1), tenths(f2), tenths(f3)])[0] == extent
    demand = FIG_5_4.demand({"F1": tenths(f1), "F2": tenths(f2), "F3": tenths(f3)}, {"Q1": 50, "Q2": 90, "Q3": 20})
    for placement in (greedy, opt, opt_as_printed):
        assert placement(FIG_5_4, demand) == made(FIG_5_4, list(demand.kappa), {"v": extent})


def test_a_sum_of_exactly_one_costs_the_same_either_way() -> None:
    demand = FIG_5_4.demand({"F1": tenths(4), "F2": tenths(6), "F3": tenths(2)}, {"Q1": 50, "Q2": 90, "Q3": 20})
    stays, goes = (made(FIG_5_4, list(demand.kappa), {"v": extent}) for extent in (50, 20))
    assert memory(FIG_5_4, stays, demand.selectivity) == memory(FIG_5_4, goes, demand.selectivity)


def test_the_nine_candidates_of_figure_5_5_relate_as_the_equations_say() -> None:
    k3, k4, k5 = 50, 90, 20
    f6, f7, f8, f9 = tenths(3), tenths(7), tenths(4), tenths(5)
    demand = FIG_5_5.demand({"F6": f6, "F7": f7, "F8": f8, "F9": f9}, {"Q3": k3, "Q4": k4, "Q5": k5})
    assert len(list(candidates(FIG_5_5, demand.kappa))) == 9
    cost: dict[int, Number] = {}
    for row, of_f7 in enumerate((k4, k5, 0)):
        for column, of_source in enumerate((k3, k5, 0)):
            one = made(FIG_5_5, list(demand.kappa), {"S3": of_source, "F7": of_f7})
            assert keeps_latency(FIG_5_5, one, demand.kappa)
            cost[3 * row + column + 1] = memory(FIG_5_5, one, demand.selectivity)
    assert cost[7] == cost[4], "the source's chain already covers what F7's would: kappa_5 - kappa_5"
    assert cost[8] == cost[5]
    assert cost[9] == cost[6] + f7 * (f8 + f9 - 1) * k5
    for above, below in ((1, 4), (2, 5), (3, 6)):
        assert cost[below] == cost[above] + f7 * (f8 - 1) * (k4 - k5)
    for left, middle, right in ((1, 2, 3), (4, 5, 6)):
        assert cost[middle] == cost[left] + (f6 - 1) * (k3 - k5)
        assert cost[right] == cost[middle] + (f6 + f7 - 1) * k5
    assert cost[8] == cost[7] + (f6 - 1) * (k3 - k5)
    assert cost[9] == cost[8] + (f6 + f7 * (f8 + f9) - 1) * k5


def test_greedy_misses_the_optimum_where_the_paper_says_so() -> None:
    demand = FIG_5_5.demand(
        {"F6": tenths(3), "F7": tenths(8), "F8": tenths(4), "F9": tenths(4)}, {"Q3": 50, "Q4": 90, "Q5": 20}
    )
    by_greedy, by_opt = (memory(FIG_5_5, one(FIG_5_5, demand), demand.selectivity) for one in (greedy, opt))
    assert greedy(FIG_5_5, demand) == made(FIG_5_5, list(demand.kappa), {"S3": 20, "F7": 0})
    assert opt(FIG_5_5, demand) == made(FIG_5_5, list(demand.kappa), {"S3": 0, "F7": 0})
    assert by_opt < by_greedy


def test_opt_as_printed_is_not_optimal_where_a_filter_stands_alone_above_another() -> None:
    tree = {"S": ("F1", "F3"), "F1": ("F2",), "F2": ("Q1",), "F3": ("F4",), "F4": ("Q2",)}
    plan = Subplan.of(tree, "S")
    assert not plan.fused
    demand = plan.demand({"F1": tenths(9), "F2": tenths(1), "F3": tenths(9), "F4": tenths(1)}, {"Q1": 10, "Q2": 10})
    printed, mended, best = (
        memory(plan, one(plan, demand), demand.selectivity) for one in (opt_as_printed, opt, naive)
    )
    assert (printed, mended, best) == (10, tenths(18), tenths(18))


def random_plan(chance: random.Random, fused: bool) -> tuple[Subplan, Demand, Filter]:
    """A small plan, what is asked of it, and the same as a tree for the oracle.

    Selectivities are eighths, so that floats and their products are exact, and sums of exactly 1 occur.
    """
    parents, names = [-1], ["S"]
    selectivity: list[Number] = [1]
    kappa: list[Number] = [0]

    def leaf(parent: int) -> Leaf:
        need = chance.randint(0, 4)
        parents.append(parent)
        names.append(f"Q{len(names)}")
        selectivity.append(1)
        kappa.append(need)
        return need

    def below(parent: int, depth: int) -> tuple[Filter | Leaf, ...]:
        found: list[Filter | Leaf] = []
        for _ in range(chance.choice((1, 2, 2, 3) if depth == 0 else (1, 2, 2))):
            if depth == 2 or len(names) > 8 or chance.random() < 0.25:
                found.append(leaf(parent))
                continue
            v = len(names)
            share = chance.randint(0, 8) / 8
            parents.append(parent)
            names.append(f"F{v}")
            selectivity.append(share)
            kappa.append(0)
            found.append((Fraction(share), below(v, depth + 1)))
        return tuple(found)

    while True:
        tree = below(0, 0)
        plan = Subplan(tuple(parents), tuple(names))
        if not fused or plan.fused:
            return plan, Demand(selectivity, kappa), (Fraction(1), tree)
        del parents[1:], names[1:], selectivity[1:], kappa[1:]


def test_opt_is_as_good_as_trying_everything_and_greedy_never_better() -> None:
    chance = random.Random(5)
    worse = printed_worse = 0
    for number in range(PLANS):
        fused = number % 2 == 0
        plan, demand, tree = random_plan(chance, fused)
        cost = {}
        for name, placement in (*PLACEMENTS.items(), ("printed", opt_as_printed)):
            found = placement(plan, demand)
            assert keeps_latency(plan, found, demand.kappa), (name, plan, demand)
            cost[name] = memory(plan, found, demand.selectivity)
        assert cost["OPT"] == cost["NAIVE"], (plan, demand)
        assert min(cost["GREEDY"], cost["UNSHARED"]) >= cost["OPT"], (plan, demand)
        if fused:
            assert cost["printed"] == cost["NAIVE"], (plan, demand)
        if number % 50 == 0:
            assert cost["OPT"] == oracle_least_memory(tree), (plan, demand)
        assert cost["UNSHARED"] == oracle_unshared_memory(tree)
        worse += cost["GREEDY"] > cost["OPT"]
        printed_worse += cost["printed"] > cost["OPT"]
    assert worse > 100, "plans on which greedy is beaten are among them"
    assert printed_worse > 100


def test_only_a_configuration_that_gives_every_query_its_slack_keeps_latency() -> None:
    demand = FIG_5_5.demand({}, {"Q3": 50, "Q4": 90, "Q5": 20})
    best = opt(FIG_5_5, demand)
    assert keeps_latency(FIG_5_5, best, demand.kappa)
    for v in range(len(FIG_5_5.parents)):
        other = list(best.accumulated)
        other[v] += 100
        assert not keeps_latency(FIG_5_5, Configuration(tuple(other)), demand.kappa)
    private = buffers(FIG_5_5, unshared(FIG_5_5, demand))
    assert [(FIG_5_5.names[b.below], b.size) for b in private] == [("F6", 50), ("F8", 90), ("F9", 20)]


@pytest.mark.parametrize(
    ("parents", "names"), [((), ()), ((-1,), ("S",)), ((-1, 2, 0), ("S", "Q", "F")), ((-1, 0), ("S",))]
)
def test_a_tree_that_is_none_is_refused(parents: tuple[int, ...], names: tuple[str, ...]) -> None:
    with pytest.raises(ValueError, match=r"operator|parent|query"):
        Subplan(parents, names)
