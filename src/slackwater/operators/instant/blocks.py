"""Blocks of rows, and what is computed from a block: new columns, and which rows a condition keeps.

Invariant: `words` has one line a column of the relation, in its order, and is contiguous; only its first `n` columns
are rows. So a block may lie in a window without being copied, and may have rows without having columns.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import NamedTuple

import numpy as np

from slackwater.core.batch import Flags, Words
from slackwater.core.schema import Field, Kind
from slackwater.expressions.compile import compile_filter, compile_maps
from slackwater.expressions.computed import Computed, as_words
from slackwater.expressions.lower import EncodeText, Layout
from slackwater.expressions.tree import Column, Expr, conjuncts

GROUP_KEY, JOIN_KEY, VALUE = "group key", "join key", "argument"
"""What a column is computed for, which says how its nulls and zeros are written."""


class Block(NamedTuple):
    """Some rows of a relation."""

    words: Words
    n: int

    @property
    def rows(self) -> Words:
        """The rows alone."""
        return self.words[:, : self.n]

    def taken(self, at: Words | Flags) -> Block:
        """The rows at these places."""
        return block(np.ascontiguousarray(self.words[:, : self.n][:, at]), _count(at))


def _count(at: Words | Flags) -> int:
    return int(np.count_nonzero(at)) if at.dtype == np.bool_ else len(at)


def block(words: Words, n: int | None = None) -> Block:
    """All of these words as rows."""
    return Block(words, words.shape[1] if n is None else n)


def empty(columns: int) -> Block:
    """No rows."""
    return Block(np.zeros((columns, 0), np.int64), 0)


def gathered(blocks: Iterable[Block], columns: int) -> Block:
    """All blocks as one."""
    some = [one for one in blocks if one.n]
    if len(some) == 1 and some[0].words.shape[1] == some[0].n:
        return some[0]
    if not some:
        return empty(columns)
    return Block(np.concatenate([one.rows for one in some], axis=1), sum(one.n for one in some))


def places_of(columns: Sequence[Field]) -> Layout:
    """Where the columns of one relation stand in its blocks."""
    places = {column.name: at for at, column in enumerate(columns)}
    return lambda stream, column: places[column]


def places_of_pair(left: Sequence[Field], right: Sequence[Field]) -> dict[tuple[int, str], int]:
    """Where the columns of two relations stand when rows of both stand side by side."""
    both = {(0, column.name): at for at, column in enumerate(left)}
    return both | {(1, column.name): len(left) + at for at, column in enumerate(right)}


class Mapper:
    """Computes columns from the columns of a block."""

    def __init__(self, exprs: Sequence[Expr], role: str, columns: Sequence[Field], encode_text: EncodeText) -> None:
        layout = places_of(columns)
        # A bare column is passed on as it is: only there a NaN still differs from a null.
        self._bare = {
            at: layout(0, expr.name)
            for at, expr in enumerate(exprs)
            if isinstance(expr, Column) and (expr.kind is not Kind.FLOAT or role == VALUE)
        }
        self._count = len(exprs)
        self._computed = [Computed(expr, at, role) for at, expr in enumerate(exprs) if at not in self._bare]
        self._maps = compile_maps([computed.expr for computed in self._computed], layout, encode_text)

    def __call__(self, given: Block) -> Block:
        if not self._maps and list(self._bare.values()) == list(range(given.words.shape[0])):
            return given
        words = np.empty((self._count, given.n), np.int64)
        for at, line in self._bare.items():
            words[at] = given.words[line, : given.n]
        floats = given.words.view(np.float64)
        for computed, evaluate in zip(self._computed, self._maps, strict=True):
            words[computed.row] = as_words(computed, evaluate(given.words, floats, given.n))
        return Block(words, given.n)


class Sieve:
    """Says which rows of a block a condition keeps."""

    def __init__(self, condition: Expr, layout: Layout, encode_text: EncodeText) -> None:
        self._keeps = compile_filter(conjuncts(condition), layout, encode_text)

    def __call__(self, given: Block) -> Flags:
        return self._keeps(given.words, given.words.view(np.float64), given.n)
