"""The subplan of a source as the planner of many queries finds it."""

from __future__ import annotations

from papers.chains.subplan import Subplan
from tests.plan.sharing.conditions import T, X, Y
from tests.plan.sharing.test_conjuncts import said
from tests.plan.sharing.test_global_plan import drawn, tree_of


def test_filters_are_numbered_parents_first_with_queries_as_leaves() -> None:
    """The part of Figure 5.1 below its third source: F6 for Q3, F7 for Q4 and Q5, each with a filter of its own."""
    f6, f7 = said("=", T, "b"), said("=", T, "a")
    tree = tree_of([f6], [f7, said(">", X, 2)], [f7, said("<", Y, 2)])
    assert drawn(tree) == ["s", "  t = 'a'", "    x > 2 >q1", "    y < 2 >q2", "  t = 'b' >q0"]
    made = Subplan.of_filters(tree)
    assert made.names == ("s", "F1", "F2", "F3", "F4", "q1.0", "q2.0", "q0.0")
    assert made.parents == (-1, 0, 1, 1, 0, 2, 3, 4)
    assert made.fused
    assert [made.names[leaf] for leaf in made.leaves] == ["q1.0", "q2.0", "q0.0"]
    assert [made.names[v] for v in made.inner if made.is_branch(v)] == ["s", "F1"]
