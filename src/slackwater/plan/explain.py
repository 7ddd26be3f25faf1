"""EXPLAIN: the graph of a plan as text, a tree with the output on top and sources at its leaves, or as JSON.

Invariant: both forms tell all nodes and everything that is said of them. Under a node come first its details, each
behind a dot, then the nodes it reads. A node that several others read is told where it comes first, and named after.
"""

from __future__ import annotations

import json
from collections.abc import Mapping

from slackwater.language.nodes import EXPLAIN_AS
from slackwater.operators.description import Detail
from slackwater.plan.graph import ROW, PlanGraph, PlanNode
from slackwater.plan.graph_of_plan import graph_of
from slackwater.plan.physical import PhysicalPlan
from slackwater.plan.sharing.graph_of_queries import graph_of_queries

TEXT, JSON = EXPLAIN_AS


def explain(plan: PhysicalPlan, quality_stated: bool = True, form: str = TEXT) -> str:
    """The plan of a query, as a tree of nodes or as JSON."""
    graph = graph_of(plan, quality_stated)
    return as_json(graph) if form == JSON else as_tree(graph)


def explain_queries(
    plans: Mapping[str, PhysicalPlan], qualities_stated: Mapping[str, bool] | None = None, form: str = TEXT
) -> str:
    """The plan of several queries that run together, as a tree under the output of each, or as JSON."""
    graph = graph_of_queries(plans, qualities_stated)
    return as_json(graph) if form == JSON else as_tree(graph)


def as_json(graph: PlanGraph) -> str:
    """The graph as data. Its keys are those of `PlanGraph.as_json`, and are stable."""
    return json.dumps(graph.as_json(), indent=2, ensure_ascii=False)


def as_tree(graph: PlanGraph) -> str:
    """The graph as a tree under each of its outputs, and behind them what belongs to no node.

    >>> from slackwater.plan.graph import NodeKind
    >>> source = PlanNode("source.s", NodeKind.SOURCE, "source s", details=(Detail("ships ts, v"),))
    >>> print(as_tree(PlanGraph((source, PlanNode("output", NodeKind.OUTPUT, "output: v", ("source.s",))))))
    output: v
    └─ source s
       · ships ts, v
    """
    printed: set[str] = set()
    lines = [line for output in graph.outputs for line in _node(graph, output, printed)]
    for note in graph.notes:
        lines += [note.text, *(line for detail in note.under for line in _detail(detail))]
    return "\n".join(lines)


def _node(graph: PlanGraph, node: PlanNode, printed: set[str]) -> list[str]:
    """A node, its details, and what it reads."""
    head = node.label if node.engine == ROW else f"{node.label} [{node.engine} engine]"
    if node.id in printed:
        return [f"{head} (shared, shown above)"]
    printed.add(node.id)
    below = graph.inputs_of(node)
    bar = "│  " if below else ""
    lines = [head, *(f"{bar}{line}" for detail in node.details for line in _detail(detail))]
    for position, child in enumerate(below):
        last = position == len(below) - 1
        first, *rest = _node(graph, child, printed)
        lines.append(("└─ " if last else "├─ ") + first)
        lines += [("   " if last else "│  ") + line for line in rest]
    return lines


def _detail(detail: Detail) -> list[str]:
    return [f"· {detail.text}", *(f"  {line}" for under in detail.under for line in _detail(under))]
