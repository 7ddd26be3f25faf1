"""What operators hold, weighed: events and bytes by window, by node and in all, what several windows share once.

An operator says what stands in each of its windows as whole arrays; the weights of its plan say which source an input
reads, and in which rows of a tuple the identity and the size of its events stand. A combination of events has a pair of
such rows for each member where the query says how large events are; else it is an event of its own.

Invariant: nothing is done for a tuple when it comes or goes. To weigh costs as much as stands in the windows.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field

import numpy as np

from slackwater.core.batch import ROW, Words
from slackwater.core.memory import WORD, Memory, Resident
from slackwater.operators.inputs import node_of, reads_node

RESULTS = -1
"""In place of an input: results that wait for their turn to leave."""
HELD_RESULTS = "held results"
LARGEST = 2**48
"""No event is so large; a size that is, or is negative or null, is taken for none."""


@dataclass(frozen=True)
class WindowContents:
    """What stands in one window of an operator."""

    input: int
    tuples: int
    words: int
    """64-bit words that they take in all."""
    of: Words | None = None
    """Words of shape (rows, some tuples), of which those at `at` are meant; None: what is kept are no tuples."""
    at: Words | None = None
    """None: all of them."""
    node: int = 0

    @classmethod
    def of_tuples(cls, number: int, of: Words, at: Words | None = None) -> WindowContents:
        """The tuples of an input that stand at these places."""
        tuples = of.shape[1] if at is None else len(at)
        return cls(number, tuples, tuples * of.shape[0], of, at)

    def row(self, number: int) -> Words:
        """One row of all tuples."""
        assert self.of is not None
        return self.of[number] if self.at is None else self.of[number, self.at]


@dataclass(frozen=True)
class Member:
    """Of what a tuple is made: an event of a source, and the rows that hold its identity and its size, if one does."""

    source: str
    row: int = ROW
    size: int | None = None
    is_float: bool = False
    words: int = 0
    """Words that are kept of such an event; 0: as many as the tuple has rows."""

    @property
    def rows(self) -> tuple[int, ...]:
        """The rows it takes."""
        return (self.row,) if self.size is None else (self.row, self.size)


@dataclass(frozen=True)
class OfInput:
    """An input of a node: what its window is called, the members of its tuples, and the words that are kept of one."""

    label: str
    members: tuple[Member, ...] = ()
    """None where they are not known: then a tuple is an event of its own."""
    words: int = 0
    """0: as many as a tuple has rows."""


@dataclass(frozen=True)
class NodeSpec:
    """The inputs of one operator."""

    label: str
    inputs: tuple[OfInput, ...]


Weights = tuple[NodeSpec, ...]


def plain_weights(nodes: Sequence[Sequence[int]]) -> Weights:
    """Weights of operators that nobody has named: raw streams by their numbers, and whatever is below by its node's.

    >>> from slackwater.operators.inputs import from_node
    >>> plain_weights([(0, 1), (from_node(0), 2)])[1].inputs[0]
    OfInput(label='node 0', members=(), words=0)
    """
    return tuple(
        NodeSpec(
            f"node {n}",
            tuple(
                OfInput(f"node {node_of(one)}") if reads_node(one) else OfInput(str(one), (Member(f"stream {one}"),))
                for one in inputs
            ),
        )
        for n, inputs in enumerate(nodes)
    )


@dataclass(frozen=True)
class _Events:
    """Different events of one source, and what each of them weighs."""

    identity: Words
    bytes: Words | int
    """A number where all weigh the same."""

    @property
    def weight(self) -> int:
        """What all of them weigh."""
        return len(self.identity) * self.bytes if isinstance(self.bytes, int) else int(self.bytes.sum())

    @property
    def each(self) -> Words:
        """What each of them weighs."""
        return np.full(len(self.identity), self.bytes, np.int64) if isinstance(self.bytes, int) else self.bytes


@dataclass
class _Place:
    """Somewhere tuples stand."""

    tuples: int = 0
    own: int = 0
    """Tuples that are events of their own."""
    own_bytes: int = 0
    events: dict[str, _Events] = field(default_factory=dict)

    def add(self, other: _Place) -> None:
        """What stands there stands here too."""
        self.tuples += other.tuples
        self.own += other.own
        self.own_bytes += other.own_bytes
        for source, events in other.events.items():
            known = self.events.get(source)
            self.events[source] = events if known is None else _distinct([known, events])

    @property
    def resident(self) -> Resident:
        events = self.own + sum(len(one.identity) for one in self.events.values())
        return Resident(self.tuples, events, self.own_bytes + sum(one.weight for one in self.events.values()))


def state_size(window_contents: Iterable[WindowContents], weights: Weights) -> Memory:
    """The memory of a query whose operators hold this.

    >>> both = np.array([[5, 6], [0, 1], [100, -1]])  # two events of one source, one of which says its size
    >>> member = Member("s", size=2)
    >>> weights = (NodeSpec("p ⨝ q", (OfInput("p", (member,)), OfInput("q", (member,)))),)
    >>> state_size([WindowContents.of_tuples(0, both), WindowContents.of_tuples(1, both[:, :1])], weights).query
    Resident(tuples=3, events=2, bytes=124)
    """
    windows: dict[str, Resident] = {}
    nodes = [_Place() for _ in weights]
    for held in window_contents:
        node = weights[held.node]
        if held.input == RESULTS:
            label, place = f"{HELD_RESULTS} of {node.label}", _kept(held)
        else:
            label, place = node.inputs[held.input].label, _standing(held, node.inputs[held.input])
        windows[label] = place.resident
        nodes[held.node].add(place)
    whole = nodes[0] if len(nodes) == 1 else _Place()
    if len(nodes) != 1:
        for one in nodes:
            whole.add(one)
    streams = whole.events.items()
    return Memory(
        whole.resident,
        {source: Resident(len(one.identity), len(one.identity), one.weight) for source, one in streams},
        {node.label: place.resident for node, place in zip(weights, nodes, strict=True)},
        windows,
    )


def _kept(held: WindowContents) -> _Place:
    return _Place(held.tuples, held.tuples, WORD * held.words)


def _standing(held: WindowContents, of: OfInput) -> _Place:
    if held.of is None:
        return _kept(held)
    words, members = of.words or len(held.of), of.members
    if not members:
        return _Place(held.tuples, held.tuples, WORD * words * held.tuples)
    place = _Place(held.tuples)
    found: dict[str, list[_Events]] = {}
    for member in members:
        sizes = _sizes(held, member, WORD * (member.words or words))
        found.setdefault(member.source, []).append(_Events(held.row(member.row), sizes))
    for source, parts in found.items():
        # A raw tuple stands in its window once; an event may be a member of many combinations.
        place.events[source] = parts[0] if len(members) == 1 and members[0].row == ROW else _distinct(parts)
    return place


def _sizes(held: WindowContents, member: Member, otherwise: int) -> Words | int:
    """What each event of a member weighs."""
    if member.size is None:
        return otherwise
    said = held.row(member.size)
    size = said.view(np.float64) if member.is_float else said
    return np.where((size >= 0) & (size < LARGEST), size, otherwise).astype(np.int64)


def _distinct(parts: Sequence[_Events]) -> _Events:
    """Events that may be the same, once each, with the most that any of the same weighs."""
    identity = np.concatenate([part.identity for part in parts])
    sizes = np.concatenate([part.each for part in parts])
    if not len(identity):
        return _Events(identity, sizes)
    order = np.argsort(identity, kind="stable")
    identity = identity[order]
    first = np.flatnonzero(np.concatenate([[True], identity[1:] != identity[:-1]]))
    return _Events(identity[first], np.maximum.reduceat(sizes[order], first))
