"""What expressions have in common: the operators and kinds, without the rows they read and most of their constants.

Invariant: an expression is its shape and its parameters, and one piece of machine code serves all expressions of a
shape. A shape of aligned rows knows no streams, for position i of every stream is row i there.
"""

from __future__ import annotations

from dataclasses import dataclass

from slackwater.core.schema import Kind
from slackwater.expressions.kernels import KERNELS, Kernel
from slackwater.expressions.lower import Address, Cell, Count, Node, Step, Word

PINNED: tuple[Kernel, ...] = (KERNELS["%"], KERNELS["pow"])
"""Kernels whose constants stay in the code: the remainder by a known number needs no division, a square no power."""


@dataclass(frozen=True)
class Given:
    """A word that is parameter number `at`."""

    at: int
    kind: Kind


@dataclass(frozen=True)
class GivenRow:
    """The word at the current position of the row that is parameter number `at`."""

    at: int
    kind: Kind


@dataclass(frozen=True)
class ShapeStep:
    """A kernel applied to its arguments."""

    kernel: Kernel
    args: tuple[Shape, ...]
    kind: Kind


Shape = Given | GivenRow | Word | ShapeStep


@dataclass(frozen=True)
class Shaped:
    """A shape and the parameters that make an expression of it."""

    shape: Shape
    parameters: tuple[int, ...]
    node: Node
    """The expression itself; its tables live as long as this does, for parameters say where they are."""


def shaped(node: Node, constants: bool = True) -> Shaped:
    """Tell the shape of an expression from its parameters; without `constants`, these are part of the shape.

    >>> add = KERNELS["+"]
    >>> one = shaped(Step(add, (Cell(0, 5, Kind.INT), Word(7, Kind.INT)), Kind.INT))
    >>> other = shaped(Step(add, (Cell(1, 6, Kind.INT), Word(8, Kind.INT)), Kind.INT))
    >>> one.shape == other.shape, one.parameters, other.parameters
    (True, (5, 7), (6, 8))
    """
    parameters: list[int] = []
    return Shaped(_shape(node, parameters, constants, free=constants), tuple(parameters), node)


def parameters_of(shape: Shape) -> int:
    """How many parameters a shape takes."""
    if isinstance(shape, ShapeStep):
        return max((parameters_of(arg) for arg in shape.args), default=0)
    return 0 if isinstance(shape, Word) else shape.at + 1


def _shape(node: Node, parameters: list[int], constants: bool, free: bool) -> Shape:
    at = len(parameters)
    match node:
        case Step():
            free = constants and node.kernel not in PINNED
            args = tuple(_shape(arg, parameters, constants, free) for arg in node.args)
            return ShapeStep(node.kernel, args, node.kind)
        case Cell():
            parameters.append(node.row)
            return GivenRow(at, node.kind)
        case Word() if not free:
            return node
        case Word() | Address() | Count():
            parameters.append(node.bits)
            return Given(at, node.kind)
