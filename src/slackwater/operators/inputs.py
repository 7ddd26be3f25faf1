"""What a node of a graph reads: a raw stream, or what another node makes.

Either is one number, so that a graph is plain data: a raw stream is its own number, a node is what `from_node` says.
This module owns the difference.

Invariant: `node_of(from_node(n)) == n`, and no stream is a node.
"""

from __future__ import annotations

from collections.abc import Sequence

BELOW = -1
"""In place of a raw stream, where it does not matter which node an input comes from."""


def from_node(number: int) -> int:
    """The input that is what this node makes, counted from 0.

    >>> reads_node(from_node(0)), reads_node(0), node_of(from_node(3))
    (True, False, 3)
    """
    return ~number


def reads_node(one: int) -> bool:
    """Whether an input is what a node makes, and not a raw stream."""
    return one < 0


def node_of(one: int) -> int:
    """The number of the node that an input comes from."""
    assert reads_node(one), "a raw stream comes from no node"
    return ~one


def raw_streams(inputs: Sequence[int]) -> tuple[int, ...]:
    """The raw stream that each input is, BELOW where it is a node.

    >>> raw_streams((from_node(4), 2))
    (-1, 2)
    """
    return tuple(BELOW if reads_node(one) else one for one in inputs)
