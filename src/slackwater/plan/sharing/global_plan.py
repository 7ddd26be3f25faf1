"""The global plan of many queries: per source one tree of filters, in which what queries have in common is tested once.

The root of a tree is the source, and passes everything. Every other node is a filter that tests some conjuncts in
addition to what the nodes above it have tested. A reader is one input of one query; it hangs at the node where all of
its filter has been tested. Windows, slack and operators belong to readers, so they are leaves. A node with several
filters or readers under it is a branch operator; filters that nothing branches off from are fused with the one below.

How the tree is chosen. Which tree tests least is hard to say without knowing how much each conjunct passes, so a greedy
rule goes by what is known: of the readers at a node, take the conjunct that most of them have or imply, make it a node
for all these, go on below it, and do the same with the readers that are left. Between conjuncts of as many readers the
one that more of them have themselves goes first, then one that does not look into text, then the one that comes first.
So a stronger filter comes to stand below a weaker one that it implies, and is asked about fewer tuples. A conjunct that
can fail is asked where all that cannot have been, so no tuple fails a query in the tree that does not fail it alone.

Invariant: what the path to a reader tests is true for exactly the tuples that its filter passes. No conjunct is twice
on a path, none on a path follows from one above it, and every node but the root has something to test.

References: 004 §5.1, Figure 5.1.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from typing import NamedTuple

from slackwater.plan.physical import PhysicalPlan
from slackwater.plan.sharing.conjuncts import Conjunct, conjuncts_of
from slackwater.plan.sharing.implication import all_implied, reduced

ROOT = 0


class Reader(NamedTuple):
    """One input of one query."""

    query: str
    position: int
    """Which of the plan's inputs it is."""


@dataclass(frozen=True)
class FilterNode:
    """A node of the tree: the source, or a filter that is evaluated once for all readers below it."""

    number: int
    parent: int | None
    """None for the source."""
    predicate: tuple[Conjunct, ...]
    """What is tested in addition to what the parents test; nothing at the source."""
    readers: tuple[Reader, ...]
    """The readers for which no more is tested."""


@dataclass(frozen=True)
class FilterTree:
    """The filters of all readers of one source; parents come before their children."""

    source: str
    nodes: tuple[FilterNode, ...]

    def children(self, number: int) -> tuple[FilterNode, ...]:
        """The filters right below a node."""
        return tuple(node for node in self.nodes if node.parent == number)

    def below(self, number: int) -> tuple[Reader, ...]:
        """All readers of a node, those at it first."""
        inside = (reader for child in self.children(number) for reader in self.below(child.number))
        return (*self.nodes[number].readers, *inside)

    def branches(self, number: int) -> bool:
        """Whether a node is a branch operator: several filters or readers take what it passes."""
        return len(self.children(number)) + len(self.nodes[number].readers) > 1

    def path(self, number: int) -> tuple[FilterNode, ...]:
        """The filters that a tuple passes on its way to what stands under a node, the first one first."""
        node = self.nodes[number]
        return () if node.parent is None else (*self.path(node.parent), node)

    @cached_property
    def node_of(self) -> dict[Reader, int]:
        """Where every reader hangs."""
        return {reader: node.number for node in self.nodes for reader in node.readers}

    @property
    def tests(self) -> int:
        """How many conjuncts are tested in all."""
        return sum(len(node.predicate) for node in self.nodes)


@dataclass(frozen=True)
class GlobalPlan:
    """The trees of all sources, in the order in which queries name them first."""

    trees: tuple[FilterTree, ...]

    def __getitem__(self, source: str) -> FilterTree:
        return next(tree for tree in self.trees if tree.source == source)


def global_plan(plans: Mapping[str, PhysicalPlan]) -> GlobalPlan:
    """The global plan of queries, by name."""
    filters: dict[str, dict[Reader, tuple[Conjunct, ...]]] = {}
    for query, plan in plans.items():
        for position, one in enumerate(plan.inputs):
            own = filters.setdefault(one.stream.source, {})
            own[Reader(query, position)] = conjuncts_of(one.stream.filters)
    return GlobalPlan(tuple(filter_tree(source, own) for source, own in filters.items()))


def filter_tree(source: str, filters: Mapping[Reader, Sequence[Conjunct]]) -> FilterTree:
    """The tree of the filters of all readers of a source."""
    every: dict[Conjunct, Conjunct] = {}
    shortest = {
        # One object for what is equal: it is looked up all the time.
        reader: tuple(every.setdefault(one, one) for one in reduced(own))
        for reader, own in filters.items()
    }
    takers = dict.fromkeys(every, 0)
    wanted = []
    for number, (reader, own) in enumerate(shortest.items()):
        wanted.append(_Wanted(reader, own, 1 << number))
        for one in _consequences(own, every):
            takers[one] |= 1 << number
    builder = _Builder(takers)
    builder.add(None, (), wanted)
    return FilterTree(source, tuple(builder.nodes))


def _consequences(own: Sequence[Conjunct], every: Iterable[Conjunct]) -> list[Conjunct]:
    """Which of all conjuncts a filter has or implies; a filter by them drops nothing that it passes."""
    return [one for one in all_implied(own, every) if not one.can_fail or one in own]


@dataclass(frozen=True)
class _Wanted:
    """A reader, and what is still to be tested for it."""

    reader: Reader
    conjuncts: tuple[Conjunct, ...]
    bit: int
    """Stands for the reader in a set of readers; hundreds of them are counted again and again."""

    @cached_property
    def ready(self) -> Sequence[Conjunct]:
        """What may be tested next: all that cannot fail; of what can, the first, when nothing else is left."""
        return [one for one in self.conjuncts if not one.can_fail] or self.conjuncts[:1]


class _Builder:
    """Adds nodes from the source on down."""

    def __init__(self, takers: Mapping[Conjunct, int]) -> None:
        """`takers` says for each conjunct which readers have or imply it."""
        self.nodes: list[FilterNode] = []
        self._takers = takers

    def add(self, parent: int | None, path: tuple[Conjunct, ...], wanted: list[_Wanted]) -> None:
        """A node that has tested `path`, for readers that all take it, and everything below it."""
        above = [one for node in self._path(parent) for one in node.predicate]
        left = _below(path, wanted)
        if parent is not None:
            path, left = self._fused(path, left)
        own = tuple(one for one in path if one not in above)
        number = len(self.nodes)
        done = tuple(one.reader for one in left if not one.conjuncts)
        self.nodes.append(FilterNode(number, parent, _in_turn(own), done))
        left = [one for one in left if one.conjuncts]
        while (chosen := self._most_wanted(left)) is not None:
            inside = [one for one in left if self._takes(one, chosen)]
            left = [one for one in left if not self._takes(one, chosen)]
            self.add(number, (*path, chosen), inside)
        for one in left:
            self.nodes.append(FilterNode(len(self.nodes), number, _in_turn(one.conjuncts), (one.reader,)))

    def _path(self, number: int | None) -> list[FilterNode]:
        found = []
        while number is not None:
            found.append(self.nodes[number])
            number = self.nodes[number].parent
        return found

    def _takes(self, one: _Wanted, conjunct: Conjunct) -> bool:
        """Whether a reader may stand below a filter by this conjunct."""
        return conjunct in one.ready if conjunct.can_fail else bool(self._takers[conjunct] & one.bit)

    def _fused(self, path: tuple[Conjunct, ...], left: list[_Wanted]) -> tuple[tuple[Conjunct, ...], list[_Wanted]]:
        """More that all readers of a node have in common, so that no filter follows on one that does not branch."""
        while all(one.conjuncts for one in left):
            chosen = self._most_wanted(left)
            if chosen is None or not all(self._takes(one, chosen) for one in left):
                break
            path = (*path, chosen)
            left = _below(path, left)
        return path, left

    def _most_wanted(self, left: Sequence[_Wanted]) -> Conjunct | None:
        """The conjunct that most readers can stand below; None where no two have one in common."""
        have = Counter(conjunct for one in left for conjunct in one.ready)
        readers = sum(one.bit for one in left)
        best, most = None, (1, 0, False)
        for conjunct, count in have.items():
            takes = count if conjunct.can_fail else (self._takers[conjunct] & readers).bit_count()
            rank = (takes, count, not conjunct.reads_text)
            if rank[0] > 1 and rank > most:
                best, most = conjunct, rank
        return best


def _below(path: Sequence[Conjunct], wanted: Sequence[_Wanted]) -> list[_Wanted]:
    """What is left to be tested for readers under a path."""
    every = {conjunct for one in wanted for conjunct in one.conjuncts}
    tested = set(all_implied(path, every))
    if not tested:
        return list(wanted)
    return [replace(one, conjuncts=tuple(c for c in one.conjuncts if c not in tested)) for one in wanted]


def _in_turn(conjuncts: Sequence[Conjunct]) -> tuple[Conjunct, ...]:
    """The conjuncts of one filter in the order in which they are asked: text after numbers, what can fail at last."""
    return tuple(sorted(conjuncts, key=lambda one: (one.can_fail, one.reads_text)))
