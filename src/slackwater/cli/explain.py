"""The plan of a query, or of a file of queries, over files: printed as a tree or as JSON, and drawn where asked for.

Invariant: what is printed, as JSON too, and what is drawn is one graph; nothing is run.
"""

from __future__ import annotations

from pathlib import Path

from slackwater.cli.prepare import Prepared, PreparedFile
from slackwater.plan.explain import JSON, as_json, as_tree
from slackwater.plan.graph_of_plan import graph_of
from slackwater.plan.sharing.graph_of_queries import graph_of_queries


def explain_query(
    prepared: Prepared | PreparedFile, count_only: bool, as_data: bool = False, figure: Path | None = None
) -> None:
    """Print the plan in the form that the text of the query names, or as data; draw it into a file."""
    if isinstance(prepared, PreparedFile):
        stated = {name: one.bound.quality_stated for name, one in prepared.queries.items()}
        graph = graph_of_queries(prepared.plans(count_only), stated)
    else:
        graph = graph_of(prepared.plan(count_only), prepared.bound.quality_stated)
        as_data = as_data or prepared.bound.explain == JSON
    print(as_json(graph) if as_data else as_tree(graph))
    if figure is not None:
        # Drawing takes a while to import, and most plans are only printed.
        from slackwater.figures.plan import draw_plan

        draw_plan(graph, figure)
