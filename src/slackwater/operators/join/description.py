"""How a join describes itself to EXPLAIN: as one operator, as a selection, as the nodes of a tree.

Invariant: whatever is decided about a join before it runs is told of it: its windows, what it compares, by which
algorithm and in which order it probes.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from slackwater.expressions.render import render
from slackwater.operators.description import Described, Detail, Shown
from slackwater.operators.join.cells import ANY_KEY, HashIndex
from slackwater.operators.join.choice import choice_of
from slackwater.operators.join.probing import (
    COND_BEGIN,
    COND_END,
    FROM_STREAM,
    INDEX,
    SCAN,
    STREAM,
    ProbePlan,
)

if TYPE_CHECKING:
    from slackwater.operators.join.operator import WindowJoin
    from slackwater.operators.join.tree import JoinTree

LATER = "this is the order at first; later it is that which costs least by what probes find"


def describe_selection(join: WindowJoin, shown: Shown) -> Described:
    """A join of one stream."""
    attributes = {"operator": "selection", "streams": list(shown.aliases), "needs_order": join.needs_order}
    order = "as tuples arrive" if join.at_once else "in event-time order"
    return Described(f"selection from {shown.aliases[0]}, {order}", attributes, shown.windows)


def describe_join(join: WindowJoin, shown: Shown) -> Described:
    """A join of all its streams by one operator."""
    aliases = shown.aliases
    shape = " (multiway: one operator for all)" if join.streams > 2 else ""
    choice = choice_of(join, aliases)
    details = [*shown.windows, Detail(f"joined {choice}")]
    attributes = _of_join(join, shown) | {"shape": "multiway", "algorithm": choice.way, "because": choice.why}
    if join.algorithm_asked_for is not None:
        details += [Detail(line) for line in join.explain(aliases)]
        details.append(Detail(_joined_where(join, shown)))
    else:
        probes = join.probes()
        orders = {
            alias: [_step(join, shown, probes, root, d) for d in range(join.streams - 1)]
            for root, alias in enumerate(aliases)
        }
        attributes["probe_order"] = orders
        details += [Detail.headed(f"a tuple of {alias} probes", steps) for alias, steps in orders.items()]
        details += [Detail(text) for text in _taken(join)]
    label = f"window join of {join.streams} streams: {', '.join(aliases)}{shape}"
    return Described(label, attributes, tuple(details))


def describe_node(tree: JoinTree, shown: Shown, number: int) -> Described:
    """A join of two in a left-deep tree, counted from 0; the last one speaks for the whole."""
    aliases = shown.aliases
    name = joined_name(aliases, number)
    lines = [Detail(text) for text in _tree_node(tree, shown, number)]
    attributes: dict[str, Any] = {
        "operator": "join",
        "streams": list(aliases[: number + 2]),
        "shape": "binary",
        "equalities": [shown.equality(left, right) for left, right in tree.keys_of(number)],
        "conditions": [render(condition, aliases) for condition in tree.conditions_of(number)],
        "counted": tree.nodes[number].count_only,
        "needs_order": True,
    }
    if number + 1 < len(tree.nodes):
        return Described(f"node {name}", attributes, tuple(lines))
    label = f"window join of {tree.streams} streams as a tree of binary joins: {name}"
    windows = {"windows": _window_attributes(tree.windows, shown), "between": list(map(list, shown.between))}
    return Described(label, attributes | windows, (*shown.windows, *lines))


def joined_name(aliases: tuple[str, ...], number: int) -> str:
    """What a node of a left-deep tree, counted from 0, gives; before the first one, the first stream.

    >>> joined_name(("a", "b", "c"), 1), joined_name(("a", "b"), -1)
    ('((a ⨝ b) ⨝ c)', 'a')
    """
    name = aliases[0]
    for alias in aliases[1 : number + 2]:
        name = f"({name} ⨝ {alias})"
    return name


def _taken(join: WindowJoin) -> list[str]:
    """Which tuples probe, and whether their order of probing is for good."""
    if join.leaving.in_turn:
        return [LATER] if join.streams > 2 else []
    if join.leaving.on_arrival:
        return ["a tuple is joined when it arrives, with all that came before it"]
    return ["a late tuple probes, too: what it completes are corrections"]


def _of_join(join: WindowJoin, shown: Shown) -> dict[str, Any]:
    return {
        "operator": "join",
        "streams": list(shown.aliases),
        "windows": _window_attributes(join.windows, shown),
        "between": list(map(list, shown.between)),
        "equalities": [shown.equality((e.left, e.left_row), (e.right, e.right_row)) for e in join.equalities],
        "conditions": [render(condition, shown.aliases) for condition in join.conditions],
        "counted": join.count_only,
        "needs_order": join.needs_order,
    }


def _window_attributes(sizes: tuple[int, ...], shown: Shown) -> dict[str, Any]:
    """Of windows between streams, the largest that each stream has."""
    return {
        alias: stated or {"range_us": size}
        for alias, stated, size in zip(shown.aliases, shown.window_attributes, sizes, strict=True)
    }


def _joined_where(join: WindowJoin, shown: Shown) -> str:
    asked = [shown.equality((e.left, e.left_row), (e.right, e.right_row)) for e in join.equalities]
    asked += [render(condition, shown.aliases) for condition in join.conditions]
    return "where " + " and ".join(asked) if asked else "every combination"


def _tree_node(tree: JoinTree, shown: Shown, number: int) -> list[str]:
    keys = [shown.equality(left, right) for left, right in tree.keys_of(number)]
    by_band = "by cells" if tree.nodes[number].bands else "by scanning the other window"
    lines = [f"by hash on {keys[0]}" if keys else by_band]
    rest = keys[1:] + [render(condition, shown.aliases) for condition in tree.conditions_of(number)]
    if rest:
        lines.append("where " + " and ".join(rest))
    if number > 0:
        own = "its own window of the newest" if tree.whole.graph is None else "the windows between it and the newest"
        lines.append(f"every member inside {own}")
    if tree.nodes[number].count_only:
        lines.append("results are counted")
    return lines


def _step(join: WindowJoin, shown: Shown, probes: ProbePlan, root: int, d: int) -> str:
    step = probes.steps[root, d]
    aliases = shown.aliases
    alias, index = aliases[step[STREAM]], int(step[INDEX])
    row = probes.indexes[index].row if index != SCAN else SCAN
    if index == SCAN:
        how = f"{alias} by scanning its window"
    elif probes.indexes[index].cells:
        how = f"{alias} by {_cells(shown, probes.indexes[index])}, around {aliases[step[FROM_STREAM]]}"
    elif row == ANY_KEY:
        how = f"{alias} as a whole"
    else:
        how = f"{alias} by hash on {shown.name(int(step[STREAM]), row)}, from {aliases[step[FROM_STREAM]]}"
    conditions = [
        render(join.conditions[c], aliases) if c < len(join.conditions) else "one of the windows is kept in whole"
        for c in probes.conditions[step[COND_BEGIN] : step[COND_END]]
    ]
    if conditions:
        how += ", where " + " and ".join(conditions)
    if d >= probes.leaves[root] and join.count_only:
        how += ", as a factor of the count"
    return how


def _cells(shown: Shown, index: HashIndex) -> str:
    """The cells that tuples of a stream are found by: one width where all have it, else one for each column."""
    named = [(shown.name(index.stream, axis.row), f"{axis.width:.6g}") for axis in index.cells]
    if len({width for _, width in named}) == 1:
        return f"cells of {named[0][1]} on {', '.join(name for name, _ in named)}"
    return "cells of " + " and ".join(f"{width} on {name}" for name, width in named)
