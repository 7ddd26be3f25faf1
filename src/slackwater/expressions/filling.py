"""Machine code that fills columns, shared by all expressions of one shape.

Invariant: a shape is compiled at most once a process, however many columns and queries have it; shapes that are asked
for together are compiled together, for most of the time to compile a function does not depend on what is in it.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from slackwater.core.closures import closure
from slackwater.expressions.emit import filler
from slackwater.expressions.lower import Node
from slackwater.expressions.shapes import Constants, Shape, Shaped, made_of, shaped

Words = NDArray[np.int64]
Floats = NDArray[np.float64]
Fill = Callable[[Words, Floats, int, Words], bool]
"""(words, floats, n, out) -> whether a value failed."""

TOGETHER = 16
"""How many shapes at most become one function: the compiler takes more than twice as long for twice as much."""

MANY = 4
"""From so many expressions of one shape on, their constants are parameters. Fewer keep them in their code: the check of
a multiplication by a known number, say, is several times faster."""

_code: dict[Shape, tuple[Callable[..., int], int]] = {}
"""For each shape the function that has it, and its number there."""


def fillers(nodes: Sequence[Node]) -> list[Fill]:
    """What fills a column with each of these expressions; nothing is compiled before the first is filled."""
    alike = [shaped(node) for node in nodes]
    frequency = Counter(one.shape for one in alike)
    expressions = [one if frequency[one.shape] >= MANY else shaped(one.node, Constants.NONE) for one in alike]
    new = [shape for shape in dict.fromkeys(one.shape for one in expressions) if shape not in _code]
    for begin in range(0, len(new), TOGETHER):
        together = tuple(new[begin : begin + TOGETHER])
        function = _compiled(together)
        for number, shape in enumerate(together):
            # Of threads that come at once the first wins; nothing is compiled yet, so the others have lost nothing.
            _code.setdefault(shape, (function, number))
    return [_bound(one, *_code[one.shape]) for one in expressions]


def shapes_known() -> int:
    """How many shapes have code in this process."""
    return len(_code)


def _bound(expression: Shaped, function: Callable[..., int], number: int) -> Fill:
    parameters = np.array(expression.parameters, np.int64)

    def fill(words: Words, floats: Floats, n: int, out: Words) -> bool:
        return bool(function(number, words, floats, parameters, n, out))

    # The parameters say where tables are; these live in the expression.
    fill.expression = expression  # type: ignore[attr-defined]
    return fill


def _compiled(shapes: tuple[Shape, ...]) -> Callable[..., int]:
    fill_with = filler(shapes)

    def fill(which: Any, words: Any, floats: Any, parameters: Any, n: Any, out: Any) -> Any:
        return fill_with(which, words, floats, parameters, n, out)

    return closure(fill, made_of(shapes))
