"""What expressions have in common: the operators and kinds, without the rows they read and most of their constants.

Invariant: an expression is its shape and its parameters, and one piece of machine code serves all expressions of a
shape. A shape of aligned rows knows no streams, for position i of every stream is row i there.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from enum import Enum, auto

from slackwater.core.schema import Kind
from slackwater.expressions.kernels import KERNELS, Checked, Kernel, Lazy, Strict
from slackwater.expressions.lower import Address, Cell, Count, Node, Step, Word
from slackwater.expressions.user import UserFunction

PINNED: tuple[Kernel, ...] = (KERNELS["%"], KERNELS["pow"])
"""Kernels whose constants stay in the code: the remainder by a known number needs no division, a square no power."""

COMPARISONS: tuple[Kernel, ...] = tuple(KERNELS[name] for name in ("=", "<>", "<", "<="))
"""Kernels whose constants are as fast beside the code as in it."""


class Constants(Enum):
    """Which constants of an expression are parameters."""

    MOST = auto()
    COMPARED = auto()
    """Those that a comparison has as its argument."""
    NONE = auto()

    def are_free(self, kernel: Kernel) -> bool:
        """Whether those that a kernel has as its arguments are."""
        return (self is Constants.MOST and kernel not in PINNED) or (
            self is Constants.COMPARED and kernel in COMPARISONS
        )


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


def shaped(node: Node, constants: Constants = Constants.MOST) -> Shaped:
    """Split an expression into its shape and its parameters; constants that are none of them are part of the shape.

    >>> add = KERNELS["+"]
    >>> one = shaped(Step(add, (Cell(0, 5, Kind.INT), Word(7, Kind.INT)), Kind.INT))
    >>> other = shaped(Step(add, (Cell(1, 6, Kind.INT), Word(8, Kind.INT)), Kind.INT))
    >>> one.shape == other.shape, one.parameters, other.parameters
    (True, (5, 7), (6, 8))
    """
    parameters: list[int] = []
    return Shaped(_shape(node, parameters, constants, free=constants is Constants.MOST), tuple(parameters), node)


def shaped_together(nodes: Sequence[Node], constants: Constants) -> tuple[tuple[Shape, ...], tuple[int, ...]]:
    """The shapes of expressions that take their parameters from one list."""
    parameters: list[int] = []
    return tuple(_shape(node, parameters, constants, free=False) for node in nodes), tuple(parameters)


def parameters_of(shape: Shape) -> int:
    """How many parameters a shape takes."""
    if isinstance(shape, ShapeStep):
        return max((parameters_of(arg) for arg in shape.args), default=0)
    return 0 if isinstance(shape, Word) else shape.at + 1


def made_of(nodes: Sequence[Node | Shape]) -> str | None:
    """All that the code of these is made of, the same text in every process; None where a process has it alone.

    >>> one = Step(KERNELS["abs"], (Cell(0, 5, Kind.INT),), Kind.INT)
    >>> made_of([one]) == made_of([one]) != made_of([Step(KERNELS["sign"], one.args, Kind.INT)])
    True
    """
    texts = [_made_of(node) for node in nodes]
    return None if None in texts else "; ".join(map(str, texts))


def _made_of(node: Node | Shape) -> str | None:
    if isinstance(node, Address | Count):
        return None
    if not isinstance(node, Step | ShapeStep):
        return repr(node)
    match node.kernel:
        case Checked(instruction):
            kernel = instruction
        case Strict(function) | Lazy(function):
            kernel = f"{function.__module__}.{function.__qualname__}"
        case UserFunction():
            return None
    args = made_of(node.args)
    return None if args is None else f"{kernel}({args}) as {node.kind}"


def _shape(node: Node, parameters: list[int], constants: Constants, free: bool) -> Shape:
    at = len(parameters)
    match node:
        case Step():
            free = constants.are_free(node.kernel)
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
