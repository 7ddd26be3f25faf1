"""Rows that are computed from others when a tuple is taken in, and which tuples are taken in at all.

Invariant: what is computed has the words that a column of its kind has; a tuple that a filter drops fails no query by
what would have been computed from it.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt

from slackwater.core.batch import Flags, Words
from slackwater.core.schema import NULL_FLOAT, NULL_WORD, Kind
from slackwater.expressions.compile import compile_filter, compile_maps
from slackwater.expressions.lower import EncodeText, Layout
from slackwater.expressions.tree import Column, Expr

Evaluate = Callable[[Words, npt.NDArray[np.float64], int], npt.NDArray[Any]]
PARTITION = "partition"
"""The role of what names the partition of a tuple: it is computed for all tuples, since all of them move clocks."""
_NAN = int(np.array(np.nan).view(np.int64))


@dataclass(frozen=True)
class Computed:
    """A row that is computed when a tuple is taken in: a key, a group or an argument.

    A join key never matches when it is null or NaN; a group key does form a group then. Both fold -0.0 into 0.0.
    """

    expr: Expr
    row: int
    role: str
    """"join key", "group key", "argument", "landmark" or PARTITION."""


class Taking:
    """Judges filters and computes rows, over the words of some tuples.

    >>> from slackwater.expressions.functions import typed_call
    >>> from slackwater.expressions.tree import Literal
    >>> k = Column(0, "k", Kind.INT)
    >>> odd = typed_call("<>", (k, Literal(2, Kind.INT)))
    >>> taking = Taking([odd], [Computed(typed_call("+", (k, k)), 2, "group key")], lambda stream, name: 1, len)
    >>> words = np.array([[0, 0], [2, 3], [0, 0]])
    >>> taking.take(words, np.ones(2, np.bool_)).tolist(), words[2].tolist()
    ([False, True], [0, 6])
    """

    def __init__(
        self, filters: Sequence[Expr], computed: Sequence[Computed], layout: Layout, encode_text: EncodeText
    ) -> None:
        self._keep = compile_filter(filters, layout, encode_text) if filters else None
        maps = compile_maps([one.expr for one in computed], layout, encode_text)
        self._rows = [
            (one.row, one.role == PARTITION, _worded(one, evaluate))
            for one, evaluate in zip(computed, maps, strict=True)
        ]

    def take(self, words: Words, wanted: Flags) -> Flags:
        """Write the computed rows of those of the wanted tuples that pass the filters; says which these are."""
        passes = wanted if self._keep is None else _spread(words, wanted, self._keep, np.bool_)
        for row, of_all, evaluate in self._rows:
            words[row] = _spread(words, wanted if of_all else passes, evaluate, np.int64)
        return passes


def nulls_marked(values: npt.NDArray[np.float64]) -> Words:
    """Floats that an expression has made, as words: inside an expression a NaN is a null."""
    return np.where(np.isnan(values), NULL_FLOAT, np.ascontiguousarray(values).view(np.int64))


def _spread(words: Words, rows: Flags, evaluate: Evaluate, dtype: type[np.generic]) -> npt.NDArray[Any]:
    """Evaluate over some of the tuples; the others get zero."""
    if rows.all():
        return evaluate(words, words.view(np.float64), words.shape[1])
    some = np.ascontiguousarray(words[:, rows])
    spread = np.zeros(words.shape[1], dtype)
    spread[rows] = evaluate(some, some.view(np.float64), some.shape[1])
    return spread


def _worded(computed: Computed, evaluate: Evaluate) -> Evaluate:
    return lambda ints, floats, count: as_words(computed, evaluate(ints, floats, count))


def as_words(computed: Computed, values: npt.NDArray[Any]) -> Words:
    """Values as words. Inside an expression a NaN is a null; only a bare column still tells the two apart."""
    if computed.expr.kind is not Kind.FLOAT:
        return values.astype(np.int64, copy=False)
    if computed.role == "argument":
        return nulls_marked(values)
    bits = np.ascontiguousarray(values).view(np.int64)
    folded = (values + 0.0).view(np.int64)
    if computed.role == "join key":
        return np.where(np.isnan(values), NULL_WORD, folded)
    if not isinstance(computed.expr, Column):
        return np.where(np.isnan(values), NULL_FLOAT, folded)
    return np.where(bits == NULL_FLOAT, NULL_FLOAT, np.where(np.isnan(values), _NAN, folded))
