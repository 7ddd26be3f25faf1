"""Equations 6.1 to 6.6 on worked examples, Definition 6.1, and the file of measured costs."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

from slackwater.core.errors import UsageError
from slackwater.core.schema import Kind
from slackwater.expressions.relational import Aggregate, Relation
from slackwater.expressions.tree import Call, Column, Literal
from slackwater.plan.placement.costs import CONSTANTS, FILE, VERSION, Costs, costs_file, load_costs, save_costs
from slackwater.plan.placement.engine_search import pure_costs
from slackwater.plan.placement.plan_cost import Cost, Objective, cost_of, parts_of
from slackwater.plan.placement.sizes import numbered, sizes_of
from slackwater.plan.placement.statistics import EQUAL, RANGE, Statistics
from tests.plan.placement.trees import (
    KEY,
    MINUTE,
    SECOND,
    VALUE,
    above,
    aggregate,
    costed,
    integer,
    joined,
    projected,
    window,
)  # fmt: skip

RATE, MINUTES = 100.0, 60.0
KEYS = {(stream, "k"): 50.0 for stream in range(4)}


def last_size(tree: Relation, statistics: Statistics) -> tuple[float, float]:
    size = sizes_of(numbered(tree), statistics)[-1]
    return size.rate, size.rows


@pytest.mark.parametrize(
    ("tree", "rate", "rows"),
    [
        (window(0), 100, 6000),
        (above(window(0)), 25, 1500),  # Eq. 6.1
        (projected(window(0)), 100, 6000),
        # Eq. 6.2: both arrive 100 times a second, and find a fiftieth of 6000 and of 12,000.
        (joined(window(0), window(1, 2 * MINUTE)), 100 * 12_000 / 50 + 100 * 6000 / 50, 6000 * 12_000 / 50),
        (aggregate(window(0)), 10 * 50, 50),  # Eq. 6.3: ten slides a second
        (aggregate(window(0, SECOND // 10)), 10 * 10, 10),
        (joined(aggregate(window(0)), aggregate(window(1))), 500 + 500, 50),
        (joined(window(0), aggregate(above(window(1))), "semi"), 100, 6000),
        (joined(window(0), aggregate(above(window(1))), "anti"), 0, 0),
    ],
)  # fmt: skip
def test_sizes_follow_the_equations(tree: Relation, rate: float, rows: float) -> None:
    above_0 = {Call(">", (Column(n, "v", Kind.INT), Literal(0, Kind.INT)), Kind.BOOL): 0.25 for n in range(2)}
    statistics = Statistics(SECOND // 10, {0: RATE, 1: RATE}, KEYS, above_0)
    assert last_size(tree, statistics) == pytest.approx((rate, rows))


def test_sizes_of_a_join_do_not_depend_on_its_order() -> None:
    distinct = {(0, "k"): 10.0, (1, "k"): 400.0, (2, "k"): 35.0, (3, "k"): 90.0}
    statistics = Statistics(SECOND, {0: 5.0, 1: 70.0, 2: 11.0, 3: 3.0}, distinct)
    a, b, c, d = map(window, range(4))
    orders = [
        joined(joined(joined(a, b), c), d), joined(joined(joined(d, c), b), a), joined(joined(b, d), joined(a, c)),
        joined(c, joined(joined(a, d), b)),
    ]  # fmt: skip
    found = {tuple(np.round(last_size(tree, statistics), 6)) for tree in orders}
    assert len(found) == 1


def test_what_is_not_known_has_a_default() -> None:
    x, y, one = Column(0, "x", Kind.INT), Column(0, "y", Kind.INT), Literal(1, Kind.INT)
    less, same = Call("<", (x, one), Kind.BOOL), Call("=", (y, one), Kind.BOOL)
    nothing = Statistics(SECOND)
    assert nothing.selectivity(less) == RANGE
    assert nothing.selectivity(Call("and", (less, same), Kind.BOOL)) == pytest.approx(RANGE * EQUAL)
    assert nothing.selectivity(Call("or", (less, same), Kind.BOOL)) == pytest.approx(1 - (1 - RANGE) * (1 - EQUAL))
    assert nothing.selectivity(Call("<>", (y, one), Kind.BOOL)) == pytest.approx(1 - EQUAL)
    assert 0 < nothing.selectivity(Call("in", (y, one, one), Kind.BOOL)) < 1


def test_keys_that_go_together_are_counted_together() -> None:
    """Two keys of which one follows from the other have as many combinations as the finer one."""
    relation = Aggregate(window(0), (KEY, VALUE), (integer("k"), integer("v")), ())
    both = frozenset((Column(0, "k", Kind.INT), Column(0, "v", Kind.INT)))
    known = Statistics(SECOND, {0: 1000.0}, {(0, "k"): 10, (0, "v"): 100}, groups={both: 100.0})
    assert sizes_of(numbered(relation), replace(known, groups={}))[-1].rows == 1000
    assert sizes_of(numbered(relation), known)[-1].rows == 100
    by_both = ((KEY, KEY), (VALUE, VALUE))
    join = replace(joined(relation, relation), keys=by_both)
    assert sizes_of(numbered(join), known)[-1].rows == pytest.approx(100)


ZERO = dict.fromkeys(CONSTANTS, 0.0)


def test_row_operators_cost_by_tuple_on_a_window_and_by_instant_above() -> None:
    statistics = Statistics(SECOND // 10, {0: RATE, 1: RATE}, KEYS)
    costs = Costs(**{**ZERO, "row_judge": 1.0, "row_add": 10.0, "row_total": 100.0, "row_scan": 1000.0})
    tree = above(aggregate(above(window(0))))
    parts = parts_of(costed(tree, statistics, costs), ("row",) * 3)
    third = RATE / 3
    assert [part.cost for part in parts] == pytest.approx([RATE * 1, third * 10, 10 * 50 * 1000])
    parts = parts_of(costed(tree, statistics, costs), ("column", "row", "row"))
    assert [part.operators for part in parts] == [(1,), (2,), (3,)]
    assert parts[1].cost == pytest.approx(10 * third * MINUTES * 100), "its input comes whole at every instant"


@pytest.mark.parametrize(
    ("function", "by_tuple", "by_row", "by_column"),
    [
        ("SUM", "row_add", "row_total", "column_hash"),
        ("MEDIAN", "row_rank", "row_rank_rows", "column_rank"),
        ("QUANTILE", "row_rank", "row_rank_rows", "column_rank"),
        ("COUNT_DISTINCT", "row_distinct", "row_distinct_rows", "column_distinct"),
    ],
)
def test_a_value_costs_the_same_in_a_large_group_and_in_a_small_one(
    function: str, by_tuple: str, by_row: str, by_column: str
) -> None:
    tree = aggregate(above(window(0)), function)
    for groups in (1.0, 500.0):
        statistics = Statistics(SECOND // 10, {0: RATE}, {(0, "k"): groups})
        costs = costed(tree, statistics, Costs(**{**ZERO, by_tuple: 1.0, by_row: 10.0, by_column: 100.0}))
        tuples = RATE / 3
        assert [part.cost for part in parts_of(costs, ("row", "row"))] == pytest.approx([0, tuples])
        assert parts_of(costs, ("column", "row"))[-1].cost == pytest.approx(10 * tuples * MINUTES * 10)
        assert parts_of(costs, ("row", "column"))[-1].cost == pytest.approx(10 * tuples * MINUTES * 100)


def test_groups_of_a_join_are_looked_up_unless_they_are_the_rows_that_are_met() -> None:
    statistics = Statistics(SECOND // 10, {0: RATE, 1: RATE}, KEYS)
    costs = Costs(**{**ZERO, "row_hash": 1.0})
    rows = 10 * RATE * MINUTES
    for tree, cost in (
        (aggregate(joined(window(0), aggregate(window(1)))), 0.0),
        (aggregate(joined(aggregate(window(1)), window(0))), 0.0),
        (aggregate(joined(window(0), aggregate(window(1)), "semi")), rows),
        # Each row of the larger side meets many.
        (aggregate(joined(window(0), window(1))), rows * RATE * MINUTES / 50),
        (aggregate(projected(joined(window(0), aggregate(window(1))))), rows),
    ):
        operators = costed(tree, statistics, costs)
        by_row = ("row",) * sum(one.is_operator for one in operators.tree)
        assert parts_of(operators, by_row)[-1].cost == pytest.approx(cost)


def test_a_join_holds_its_smaller_side() -> None:
    statistics = Statistics(SECOND // 10, {0: RATE, 1: RATE}, KEYS)
    costs = Costs(**{**ZERO, "row_build": 1.0, "row_probe": 100.0})
    for tree in (joined(window(0), aggregate(window(1))), joined(aggregate(window(1)), window(0))):
        cost = parts_of(costed(tree, statistics, costs), ("row", "row"))[-1].cost
        assert cost == pytest.approx(10 * (50 + 100 * RATE * MINUTES))


def test_a_fragment_costs_what_goes_in_what_it_does_and_what_comes_out() -> None:
    statistics = Statistics(SECOND, {0: RATE, 1: RATE}, KEYS)
    costs = Costs(**{
        **ZERO, "column_statement": 1e9, "column_input": 1e6, "column_value_in": 1.0, "column_value_out": 1000.0,
        "column_hash": 0.5,
    })  # fmt: skip
    tree = joined(aggregate(window(0)), aggregate(window(1)))
    (part,) = parts_of(costed(tree, statistics, costs), ("column",) * 3)
    assert part.transfer_in == pytest.approx(2 * (1e6 + RATE * 2)), "tuples go over once, two values each"
    assert part.transfer_out == pytest.approx(1e9 + 50 * 4 * 1000)
    assert part.cost - part.transfer_in - part.transfer_out == pytest.approx(2 * 0.5 * 6000)
    row, *_, top = parts_of(costed(tree, statistics, costs), ("row", "row", "column"))
    assert (row.engine, top.operators) == ("row", (4,))
    assert top.transfer_in == pytest.approx(2 * (1e6 + 50 * 2)), "groups go over at every instant"


def test_two_operators_in_one_statement_may_cost_less_than_the_first_alone() -> None:
    statistics = Statistics(SECOND, {0: RATE}, KEYS)
    costs = costed(aggregate(above(window(0))), statistics, Costs(**{**ZERO, "column_value_out": 1.0}))
    both = cost_of(parts_of(costs, ("column", "column")))
    first = cost_of(parts_of(costs, ("column", "row")))
    assert both.utilisation < first.utilisation


def test_bottleneck_and_utilisation() -> None:
    statistics = Statistics(SECOND, {0: RATE, 1: RATE}, KEYS)
    operators = costed(joined(aggregate(window(0)), above(window(1))), statistics)
    row, column = pure_costs(operators)
    each = [part.cost for part in parts_of(operators, ("row",) * 3)]
    assert row == Cost(max(each), sum(each))
    assert column.bottleneck == column.utilisation


IN_PARALLEL = Objective(one_core=False)


@pytest.mark.parametrize(
    ("better", "worse"),
    [
        (Cost(1.0, 9.0), Cost(1.1, 2.0)),  # 1: one keeps up, the other does not
        (Cost(0.9, 2.0), Cost(0.2, 2.1)),  # 2: both do; utilisation decides
        (Cost(1.5, 9.0), Cost(1.6, 2.0)),  # 3: neither does; the bottleneck decides
    ],
)
def test_definition_6_1(better: Cost, worse: Cost) -> None:
    assert IN_PARALLEL.is_better(better, worse)
    assert not IN_PARALLEL.is_better(worse, better)
    assert not IN_PARALLEL.is_better(better, better)
    many = np.array([worse.bottleneck, better.bottleneck]), np.array([worse.utilisation, better.utilisation])
    assert IN_PARALLEL.order(*many).tolist() == [1, 0]
    assert IN_PARALLEL.best(*many) == 1


def test_without_the_check_and_on_one_core_utilisation_decides() -> None:
    for objective in (Objective(False, False), Objective(True, True)):
        assert objective.is_better(Cost(1.1, 2.0), Cost(1.0, 9.0))
    assert Objective().is_feasible(Cost(0.2, 1.0))
    assert not Objective().is_feasible(Cost(0.2, 1.1))


def test_costs_are_kept_in_a_file(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv(FILE, str(tmp_path / "deep" / "costs.json"))
    assert load_costs() == Costs()
    measured = replace(Costs(), row_add=3e-8, measured="2026-11-16 on this machine")
    save_costs(measured, costs_file())
    assert load_costs() == measured
    assert [path.name for path in costs_file().parent.iterdir()] == ["costs.json"]
    monkeypatch.delenv(FILE)
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))
    assert costs_file() == tmp_path / "slackwater" / "costs.json"


@pytest.mark.parametrize(
    ("text", "says"),
    [
        ("{", "not JSON"),
        ("[]", "another version"),
        (json.dumps({"version": 0}), "another version"),
        (json.dumps({"version": VERSION, "row_add": 1.0}), "does not have the costs"),
        (json.dumps({"version": VERSION, "measured": "x", **ZERO, "row_add": -1}), "row_add is -1"),
        (json.dumps({"version": VERSION, "measured": "x", **ZERO, "row_add": "1"}), "row_add is '1'"),
        (json.dumps({"version": VERSION, "measured": "x", **ZERO, "row_add": float("nan")}), "row_add is nan"),
    ],
)
def test_a_file_that_cannot_be_used_is_refused(text: str, says: str, tmp_path: Path) -> None:
    path = tmp_path / "costs.json"
    path.write_text(text)
    with pytest.raises(UsageError, match=says) as refused:
        load_costs(path)
    assert "slackwater calibrate" in str(refused.value)
    with pytest.raises(UsageError, match="cannot be read"):
        load_costs(tmp_path)
