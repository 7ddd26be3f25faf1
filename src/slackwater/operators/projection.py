"""An inlet: the results of a node as tuples of an input of the node above.

Invariant: a result becomes the tuple that a source would have sent for it: its columns in the rows the node above gave
them, what it computes from them in rows of their own, and no tuple at all where its filters say so.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np

from slackwater.core.batch import TS, Words
from slackwater.core.schema import Kind
from slackwater.expressions.compile import compile_maps
from slackwater.expressions.computed import Computed, Taking, nulls_marked
from slackwater.expressions.tree import Expr


@dataclass(frozen=True)
class Carried:
    """A column that is read above: the row it gets there, and where it comes from: a kernel column, or an expression
    over kernel columns."""

    name: str
    row: int
    source: int | None
    expr: Expr | None = None


@dataclass(frozen=True)
class Projection:
    """Spec of an inlet."""

    emitted: tuple[tuple[int, str], ...]
    """Where the node below is a join: the (stream, column) that each of its kernel columns holds."""
    time: str
    """What the event time of a result is called above."""
    carried: tuple[Carried, ...]
    filters: tuple[Expr, ...]
    computed: tuple[Computed, ...]
    rows: int
    """Rows that a tuple has for the operator above; what only filters read lies behind them."""
    all_rows: int

    def build(self, encode_text: Callable[[str], int]) -> ProjectionMaker:
        return ProjectionMaker(self, encode_text)


class ProjectionMaker:
    """Makes tuples of results.

    >>> projection = Projection((), "_ts", (Carried("n", 3, 2),), (), (), 4, 4)
    >>> columns = [np.array([0]), np.array([10]), np.array([7])]
    >>> words, kept = projection.build(len).take(np.array([9]), columns)
    >>> words[:, 0].tolist(), kept.tolist()
    ([9, 0, 0, 7], [0])
    """

    def __init__(self, spec: Projection, encode_text: Callable[[str], int]) -> None:
        self._spec = spec
        below = {pair: at for at, pair in enumerate(spec.emitted)}
        computed = {one.row: one.expr for one in spec.carried if one.expr is not None}
        maps = compile_maps(list(computed.values()), lambda stream, name: below[stream, name], encode_text)
        self._maps = dict(zip(computed, maps, strict=True))
        places = {one.name: one.row for one in spec.carried} | {spec.time: TS}
        self._taking = Taking(spec.filters, spec.computed, lambda stream, name: places[name], encode_text)

    def take(self, ts: Words, columns: list[Words]) -> tuple[Words, Words]:
        """The tuples of some results, and the places of the results they were made of."""
        words = np.zeros((self._spec.all_rows, len(ts)), np.int64)
        words[TS] = ts
        # Event times stand in where every expression is a constant, which reads no column.
        made = np.stack(columns or [ts]) if self._maps else words
        for one in self._spec.carried:
            if one.source is not None:
                words[one.row] = columns[one.source]
            elif one.expr is not None:
                values = self._maps[one.row](made, made.view(np.float64), len(ts))
                is_float = one.expr.kind is Kind.FLOAT
                words[one.row] = nulls_marked(values) if is_float else values.astype(np.int64, copy=False)
        kept = np.flatnonzero(self._taking.take(words, np.ones(len(ts), np.bool_)))
        return np.ascontiguousarray(words[: self._spec.rows, kept]), kept
