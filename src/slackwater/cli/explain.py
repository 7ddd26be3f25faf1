"""The plan of a query over files: printed as a tree or as JSON, and drawn where that is asked for.

Invariant: what is printed, as JSON too, and what is drawn is one graph; nothing is run.
"""

from __future__ import annotations

from pathlib import Path

from slackwater.cli.prepare import Prepared
from slackwater.plan.explain import JSON, as_json, as_tree
from slackwater.plan.graph_of_plan import graph_of


def explain_query(prepared: Prepared, count_only: bool, as_data: bool = False, figure: Path | None = None) -> None:
    """Print the plan in the form that the text of the query names, or as data; draw it into a file."""
    bound = prepared.bound
    physical = prepared.plan(count_only)
    graph = graph_of(physical, bound.quality_stated)
    print(as_json(graph) if as_data or bound.explain == JSON else as_tree(graph))
    if figure is not None:
        # Drawing takes a while to import, and most plans are only printed.
        from slackwater.figures.plan import draw_plan

        draw_plan(graph, figure)
