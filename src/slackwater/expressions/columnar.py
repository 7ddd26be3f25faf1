"""Text inside expressions: calls that make text or look into it, computed column by column.

Text is a code in compiled code, which can say whether two texts are equal and nothing else. So a call of a text
function is computed before the rest: its value becomes one more row, which the compiled rest reads like a column.

Invariant: a function is asked once for each distinct combination of its arguments. Its arguments are computed for
every tuple there is; a CASE around it chooses among values that are all there.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Any, Protocol

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from slackwater.core.batch import Words
from slackwater.core.errors import UsageError
from slackwater.core.schema import NULL_WORD, Kind
from slackwater.expressions.functions import is_text_call
from slackwater.expressions.lower import EncodeText, Layout
from slackwater.expressions.textual import OF_NULLS, text_function
from slackwater.expressions.tree import Call, Column, Expr, Literal, columns_of

Map = Callable[[Words, npt.NDArray[np.float64], int], npt.NDArray[Any]]
CompileMap = Callable[[Expr, Layout, EncodeText], Map]

_NAN = int(np.array(np.nan).view(np.int64))


class Book(Protocol):
    """What turns text into codes and back."""

    def code(self, text: str) -> int: ...

    def encode(self, values: Any) -> Words: ...

    def decode(self, codes: Words) -> pa.Array: ...


@dataclass(frozen=True)
class Coding:
    """The codes of a query's text, in both directions; called, it gives the code of one text."""

    book: Book

    def __call__(self, text: str) -> int:
        return self.book.code(text)


def with_text(expr: Expr, layout: Layout, encode_text: EncodeText, compile_map: CompileMap) -> Map:
    """What computes an expression with text calls in it, over aligned rows."""
    calls: dict[Call, Column] = {}
    rest = _without_text(expr, calls)
    makers = [_maker(call, layout, encode_text, compile_map) for call in calls]
    own = [column.name for column in calls.values()]
    read = sorted(pair for pair in columns_of(rest) if pair[1] not in own)
    rows = {(0, name): at for at, name in enumerate(own)}
    rows |= {pair: len(own) + at for at, pair in enumerate(read)}
    places = [layout(*pair) for pair in read]
    compiled = compile_map(rest, lambda stream, name: rows[stream, name], encode_text)

    def computed(words: Words, floats: npt.NDArray[np.float64], n: int) -> npt.NDArray[Any]:
        made = np.stack([*(make(words, floats, n) for make in makers), *(words[row, :n] for row in places)])
        return compiled(made, made.view(np.float64), n)

    return computed


def _without_text(expr: Expr, calls: dict[Call, Column]) -> Expr:
    """The expression with a column in the place of each outermost text call."""
    if not isinstance(expr, Call):
        return expr
    if is_text_call(expr):
        # No query can spell such a name.
        return calls.setdefault(expr, Column(0, f"\0text{len(calls)}", expr.kind))
    return replace(expr, args=tuple(_without_text(arg, calls) for arg in expr.args))


def _maker(
    call: Call, layout: Layout, encode_text: EncodeText, compile_map: CompileMap
) -> Callable[[Words, npt.NDArray[np.float64], int], Words]:
    """What computes a text call: its words, one a tuple."""
    if not isinstance(encode_text, Coding):
        raise UsageError(f"'{call.op}' needs the texts of the query, and here are only their codes")
    book, function, kind = encode_text.book, text_function(call), call.kind
    strict = call.op not in OF_NULLS
    constants = {at: arg.value for at, arg in enumerate(call.args) if isinstance(arg, Literal)}
    varying = [(at, arg.kind, compile_map(arg, layout, encode_text)) for at, arg in enumerate(call.args)
               if at not in constants]  # fmt: skip

    def values_of(columns: list[list[Any]]) -> list[Any]:
        given: list[Any] = [constants.get(at) for at in range(len(call.args))]
        found = []
        for some in zip(*columns, strict=True):
            for (at, _, _), value in zip(varying, some, strict=True):
                given[at] = value
            found.append(None if strict and None in given else function(*given))
        return found

    def computed(words: Words, floats: npt.NDArray[np.float64], n: int) -> Words:
        if not varying:
            one = None if None in constants.values() else function(*constants.values())
            return np.full(n, worded([one], kind, book)[0], np.int64)
        columns = [np.ascontiguousarray(compute(words, floats, n)).view(np.int64) for _, _, compute in varying]
        first, place = _distinct(columns)
        distinct = [_values(column[first], of, book) for column, (_, of, _) in zip(columns, varying, strict=True)]
        return np.asarray(worded(values_of(distinct), kind, book)[place], np.int64)

    return computed


def _distinct(columns: list[Words]) -> tuple[npt.NDArray[np.intp], npt.NDArray[np.intp]]:
    """Where each distinct combination stands first, and which one every tuple has."""
    _, first, place = np.unique(columns[0], return_index=True, return_inverse=True)
    for column in columns[1:]:
        values, own = np.unique(column, return_inverse=True)
        _, first, place = np.unique(place * max(len(values), 1) + own, return_index=True, return_inverse=True)
    return first, place


def _values(words: Words, kind: Kind, book: Book) -> list[Any]:
    """Words as Python values, None for null."""
    if kind is Kind.TEXT:
        return list(book.decode(words).to_pylist())
    if kind is Kind.FLOAT:
        floats = words.view(np.float64)
        return [None if missing else value for value, missing in zip(floats.tolist(), np.isnan(floats), strict=True)]
    values = words.astype(np.bool_) if kind is Kind.BOOL else words
    return [None if missing else value for value, missing in zip(values.tolist(), words == NULL_WORD, strict=True)]


def worded(values: list[Any], kind: Kind, book: Book) -> Words:
    """Python values as words; a null float is a NaN, as compiled code has it."""
    if kind is Kind.TEXT:
        return book.encode(pa.array(values, pa.large_string()))
    if kind is Kind.FLOAT:
        return np.array([np.nan if value is None else value for value in values], np.float64).view(np.int64)
    return np.array([NULL_WORD if value is None else int(value) for value in values], np.int64)
