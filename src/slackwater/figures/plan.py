"""A plan as a picture: nodes as boxes, tuples going up from the sources at the bottom to the outputs on top.

Invariant: every node is drawn once and every edge is an arrow to the one that reads; no two boxes overlap. What belongs
to no node is written below.
"""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from textwrap import wrap

from matplotlib.figure import Figure
from matplotlib.patches import FancyBboxPatch

from slackwater.operators.description import Detail
from slackwater.plan.graph import ROW, NodeKind, PlanGraph, PlanNode

COLOURS = {
    NodeKind.SOURCE: "#dfe7f3",
    NodeKind.FILTER: "#f3ecdf",
    NodeKind.SLACK: "#d9efe6",
    NodeKind.SYNCHRONIZER: "#c9e4d8",
    NodeKind.OPERATOR: "#f6dcc4",
    NodeKind.RELATION_TO_STREAM: "#eadff0",
    NodeKind.OUTPUT: "#e6e6e6",
}
LETTERS = 38
"""A line of a box has so many at most."""
MOST_LINES = 12
"""A box has so many lines at most; the tree in text has all of them."""
LINE, BOX, GAP = 0.17, 2.75, 0.35
"""In inches: the height of a line, the width of a box, what lies between two boxes."""


@dataclass(frozen=True)
class DrawnNode:
    """A node in the picture: its middle, in boxes from the left, and how many nodes are above it at most."""

    node: PlanNode
    x: float
    depth: int


def placed(graph: PlanGraph) -> dict[str, DrawnNode]:
    """Where nodes are drawn: leaves side by side, every other node above the middle of what only it has brought in.

    >>> a, b = (PlanNode(name, NodeKind.SOURCE, name) for name in "ab")
    >>> both = PlanNode("both", NodeKind.OUTPUT, "both", ("a", "b"))
    >>> [(one.x, one.depth) for one in placed(PlanGraph((a, b, both))).values()]
    [(0.0, 1), (1.0, 1), (0.5, 0)]
    """
    depth: dict[str, int] = {}
    for node in reversed(graph.nodes):
        depth[node.id] = max((depth[reader.id] + 1 for reader in graph.readers(node.id)), default=0)
    x: dict[str, float] = {}
    leaves = 0

    def put(node: PlanNode) -> None:
        nonlocal leaves
        own = [one for one in dict.fromkeys(node.inputs) if one not in x]
        for one in own:
            if one not in x:
                put(graph[one])
        if own:
            x[node.id] = (x[own[0]] + x[own[-1]]) / 2
        else:
            x[node.id], leaves = float(leaves), leaves + 1

    for output in graph.outputs:
        put(output)
    return {node.id: DrawnNode(node, x[node.id], depth[node.id]) for node in graph.nodes}


def lines_of(node: PlanNode) -> list[str]:
    """The text in the box of a node: its label, and as much of its details as there is room for."""
    label = node.label if node.engine == ROW else f"{node.label} [{node.engine} engine]"
    lines = wrap(label, LETTERS)
    for detail in node.details:
        lines += _wrapped(detail, "")
    shown = lines if len(lines) <= MOST_LINES else [*lines[: MOST_LINES - 1], "…"]
    return [_drawable(line) for line in shown]


def draw_plan(graph: PlanGraph, path: Path) -> None:
    """Draw a plan into a file."""
    drawn = placed(graph)
    texts = {id_: lines_of(one.node) for id_, one in drawn.items()}
    levels = 1 + max(one.depth for one in drawn.values())
    heights = [
        max(len(texts[id_]) for id_, one in drawn.items() if one.depth == depth) * LINE + 0.16
        for depth in range(levels)
    ]
    tops = [sum(heights[:depth]) + GAP * depth for depth in range(levels)]
    wide = (1 + max(one.x for one in drawn.values())) * (BOX + GAP) + GAP
    letters = int(LETTERS * (wide - 2 * GAP) / BOX)
    notes = [line for note in graph.notes for line in wrap(_drawable(note.text), letters)]
    high = tops[-1] + heights[-1] + LINE * len(notes) + 3 * GAP
    figure = Figure(figsize=(wide, high))
    axes = figure.add_axes((0, 0, 1, 1))
    axes.set_xlim(0, wide)
    axes.set_ylim(high, 0)
    axes.axis("off")
    middle = {id_: GAP + one.x * (BOX + GAP) + BOX / 2 for id_, one in drawn.items()}
    upper = {id_: GAP + tops[one.depth] for id_, one in drawn.items()}
    lower = {id_: upper[id_] + len(texts[id_]) * LINE + 0.16 for id_ in drawn}
    for id_, one in drawn.items():
        box = FancyBboxPatch(
            (middle[id_] - BOX / 2, upper[id_]), BOX, lower[id_] - upper[id_],
            boxstyle="round,pad=0,rounding_size=0.06", facecolor=COLOURS[one.node.kind], edgecolor="#555555",
        )  # fmt: skip
        axes.add_patch(box)
        for number, line in enumerate(texts[id_]):
            heavy = "bold" if number < len(wrap(one.node.label, LETTERS)) else "normal"
            axes.text(middle[id_] - BOX / 2 + 0.08, upper[id_] + 0.08 + LINE * (number + 0.5), line, fontsize=7.5,
                      va="center", fontweight=heavy, parse_math=False)  # fmt: skip
        for read in one.node.inputs:
            axes.annotate("", (middle[id_], lower[id_]), (middle[read], upper[read]),
                          arrowprops={"arrowstyle": "-|>", "color": "#555555", "linewidth": 1})  # fmt: skip
    below = GAP + tops[-1] + heights[-1] + GAP
    for number, line in enumerate(notes):
        axes.text(GAP, below + LINE * number, line, fontsize=8, va="top", parse_math=False)
    figure.savefig(path, dpi=130)


def _drawable(text: str) -> str:
    """The sign of a join that the text has is in few fonts."""
    return text.replace("⨝", "⋈")


def _wrapped(detail: Detail, margin: str) -> list[str]:
    lines = wrap(detail.text, LETTERS, initial_indent=f"{margin}· ", subsequent_indent=f"{margin}  ")
    return lines + [line for under in detail.under for line in _wrapped(under, f"{margin}  ")]
