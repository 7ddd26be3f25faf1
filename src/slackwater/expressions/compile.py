"""Expressions as machine code: conditions for joins, filters and columns for aligned rows.

Invariant: whatever the query, a compiled condition has the same two signatures, so the join that calls it is compiled
once and for all. Nothing raises inside compiled code: failure comes back as a number and is worded here.

All columns of all streams are rows of one array, seen as integers (`words`) and as floats (`floats`); a position in it
is a tuple. Row 0 is the event time.

Conditions are handed to compiled code by their addresses. Numba can pass a function itself, but then asks Python for
its type and its address at every call, which takes longer than joining a few hundred tuples. An address is a plain
number, and lives as long as the `Condition` that its function belongs to.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import cache, partial
from itertools import groupby
from typing import Any, cast

import numpy as np
from numba import cfunc, types
from numba.core import cgutils
from numba.extending import intrinsic
from numpy.typing import NDArray

from slackwater.core.closures import callback, closure
from slackwater.core.errors import DataError, UsageError
from slackwater.core.schema import Kind
from slackwater.expressions.columnar import with_text
from slackwater.expressions.emit import evaluator
from slackwater.expressions.filling import Fill, fillers
from slackwater.expressions.functions import has_text_call
from slackwater.expressions.lower import EncodeText, Layout, Node, constant, lower
from slackwater.expressions.render import render
from slackwater.expressions.shapes import Constants, Shape, made_of, shaped_together
from slackwater.expressions.tree import Call, Column, Expr, Literal, walk


def function_at(signature: Any) -> Callable[[int], Callable[..., int]]:
    """For compiled code: what makes a callable of this signature out of the address of a C function."""
    kind = types.FunctionType(signature)

    def at(typing: Any, address: Any) -> Any:
        def generate(context: Any, builder: Any, _: Any, args: Any) -> Any:
            struct: Any = cgutils.create_struct_proxy
            function = struct(kind)(context, builder)
            function.c_addr = builder.inttoptr(args[0], context.get_value_type(types.voidptr))
            return function._getvalue()

        return kind(types.int64), generate

    return cast("Callable[[int], Callable[..., int]]", intrinsic(at))


IntWords = NDArray[np.int64]
FloatWords = NDArray[np.float64]
Map = Callable[[IntWords, FloatWords, int], NDArray[Any]]
Filter = Callable[[IntWords, FloatWords, int], NDArray[np.bool_]]

_INT = types.int64
_WORDS = types.Array(types.int64, 2, "C")
_FLOATS = types.Array(types.float64, 2, "C")
_LIST = types.Array(types.int64, 1, "C")

REFINE_SIGNATURE = _INT(_INT, _INT, _WORDS, _FLOATS, _LIST, _INT, _INT, _INT, _LIST)
"""(conjunct, candidate_stream, words, floats, slots, lo, hi, horizon, out) -> how many were kept, -1 on overflow."""
REFINE_LISTED_SIGNATURE = _INT(_INT, _INT, _WORDS, _FLOATS, _LIST, _LIST, _INT, _LIST)
"""(conjunct, candidate_stream, words, floats, slots, candidates, n, out) -> how many were kept, -1 on overflow."""
refine_at, refine_listed_at = function_at(REFINE_SIGNATURE), function_at(REFINE_LISTED_SIGNATURE)


@dataclass(frozen=True)
class Condition:
    """Compiled conjuncts: two C functions, which compiled code is given by their addresses.

    `out` must have room for every candidate, for a candidate is written down before it is known to stay. A conjunct
    number out of range keeps every candidate.
    """

    refine: Any
    refine_listed: Any
    conjuncts: tuple[Expr, ...]

    @property
    def addresses(self) -> tuple[int, int]:
        """Where `refine` and `refine_listed` are; for `refine_at` and `refine_listed_at`."""
        return self.refine.address, self.refine_listed.address

    def failure(self) -> DataError:
        """What to raise when a conjunct has returned -1."""
        return _failure(Call("and", self.conjuncts, Kind.BOOL) if len(self.conjuncts) > 1 else self.conjuncts[0])


def compile_condition(conjuncts: Sequence[Expr], layout: Layout, encode_text: EncodeText) -> Condition:
    """The conjuncts of a join as one pair of functions that narrow candidates down."""
    if not conjuncts:
        return no_condition()
    for conjunct in conjuncts:
        if has_text_call(conjunct):
            raise UsageError(f"{render(conjunct)} looks into text, which is to be done when tuples are taken in")
    nodes = tuple(lower(conjunct, layout, encode_text) for conjunct in conjuncts)
    return Condition(*_refiners(nodes), tuple(conjuncts))


@cache
def no_condition() -> Condition:
    """The condition of a join without any: every candidate inside the horizon stays."""
    # Apart from the others because a function without a query in it can be kept on disk.
    refine = cfunc(REFINE_SIGNATURE, cache=True)(_keep_inside)
    return Condition(refine, cfunc(REFINE_LISTED_SIGNATURE, cache=True)(_keep_listed), ())


def compile_map(expr: Expr, layout: Layout, encode_text: EncodeText) -> Map:
    """The expression over rows 0..n-1, where position i of every stream is row i.

    >>> from slackwater.expressions.functions import typed_call
    >>> double = typed_call("*", (Column(0, "v", Kind.INT), Literal(2, Kind.INT)))
    >>> words = np.array([[0, 0, 0], [1, 2, 3]])
    >>> compile_map(double, lambda stream, column: 1, len)(words, words.view(np.float64), 3).tolist()
    [2, 4, 6]
    """
    return compile_maps([expr], layout, encode_text)[0]


def compile_maps(exprs: Sequence[Expr], layout: Layout, encode_text: EncodeText) -> list[Map]:
    """As `compile_map`, for many expressions: those of equal shape share code, and what is new is compiled together."""
    texts = {at: expr for at, expr in enumerate(exprs) if has_text_call(expr)}
    computed = {at: expr for at, expr in enumerate(exprs) if isinstance(expr, Call) and at not in texts}
    fills = fillers([lower(expr, layout, encode_text) for expr in computed.values()])
    made = {at: _filled(expr, fill) for (at, expr), fill in zip(computed.items(), fills, strict=True)}
    made |= {at: with_text(expr, layout, encode_text, compile_map) for at, expr in texts.items()}
    return [made[at] if at in made else _read(expr, layout, encode_text) for at, expr in enumerate(exprs)]


def _filled(expr: Expr, fill: Fill) -> Map:
    dtype = np.float64 if expr.kind is Kind.FLOAT else np.int64

    def computed(words: IntWords, floats: FloatWords, n: int) -> NDArray[Any]:
        out = np.empty(n, np.int64)
        if fill(words, floats, n, out):
            raise _failure(expr)
        return out.view(dtype)

    return computed


def _read(expr: Expr, layout: Layout, encode_text: EncodeText) -> Map:
    """A bare column or a constant: nothing to compile."""
    is_float = expr.kind is Kind.FLOAT
    if isinstance(expr, Column):
        row = layout(expr.stream, expr.name)
        return lambda words, floats, n: (floats if is_float else words)[row, :n].copy()
    assert isinstance(expr, Literal)
    word = constant(expr, encode_text)
    return lambda words, floats, n: np.full(n, word.number) if is_float else np.full(n, word.bits, np.int64)


def compile_filter(conjuncts: Sequence[Expr], layout: Layout, encode_text: EncodeText) -> Filter:
    """Which of the rows 0..n-1 satisfy every conjunct; a later one is not asked about rows an earlier one dropped."""
    if not conjuncts:
        return lambda words, floats, n: np.ones(n, np.bool_)
    if any(map(has_text_call, conjuncts)):
        runs = groupby(conjuncts, has_text_call)
        return _one_by_one([_asked_alone(list(run), text, layout, encode_text) for text, run in runs])
    # Filters that compare the same way with other numbers share code: many queries may be compiled at once.
    nodes = [lower(conjunct, layout, encode_text) for conjunct in conjuncts]
    shapes, parameters = shaped_together(nodes, Constants.COMPARED)
    sift = _sifter(shapes)

    def sifted(words: IntWords, floats: FloatWords, n: int) -> NDArray[np.bool_]:
        keep = np.ones(n, np.bool_)
        failed = sift(words, floats, n, keep, parameters)
        if failed >= 0:
            raise _failure(conjuncts[failed])
        return keep

    # Parameters say where tables are; these live in the nodes.
    sifted.nodes = nodes  # type: ignore[attr-defined]
    return sifted


def _asked_alone(conjuncts: Sequence[Expr], text: bool, layout: Layout, encode_text: EncodeText) -> Filter:
    """A run of conjuncts that all have text calls, or none of which has any."""
    if not text:
        return compile_filter(conjuncts, layout, encode_text)
    truths = [compile_map(conjunct, layout, encode_text) for conjunct in conjuncts]
    return _one_by_one([partial(_is_true, truth) for truth in truths])


def _is_true(truth: Map, words: IntWords, floats: FloatWords, n: int) -> NDArray[np.bool_]:
    return truth(words, floats, n) == 1


def _one_by_one(filters: Sequence[Filter]) -> Filter:
    """Each filter over what those before it have left: text is looked at where it has to be."""

    def sifted(words: IntWords, floats: FloatWords, n: int) -> NDArray[np.bool_]:
        left = np.arange(n)
        some = words
        for keeps in filters:
            kept = keeps(some, some.view(np.float64), len(left))
            if not kept.all():
                left = left[kept]
                some = np.ascontiguousarray(words[:, left])
        keep = np.zeros(n, np.bool_)
        keep[left] = True
        return keep

    return sifted


def _failure(expr: Expr) -> DataError:
    calls_user = any(getattr(node, "op", "").startswith("user:") for node in walk(expr))
    exact = any(node.kind is Kind.DECIMAL for node in walk(expr))
    remedy = "; a decimal has 64 bits with all its digits behind the point, so write to_float(x)" if exact else ""
    return DataError(f"integer overflow{' or a failing function' if calls_user else ''} in {render(expr)}{remedy}")


def _keep_inside(
    conjunct: Any, stream: Any, words: Any, floats: Any, slots: Any, lo: Any, hi: Any, horizon: Any, out: Any
) -> Any:
    kept = 0
    for c in range(lo, hi):
        out[kept] = c
        kept += int(words[0, c] >= horizon)
    return kept


def _keep_listed(
    conjunct: Any, stream: Any, words: Any, floats: Any, slots: Any, candidates: Any, n: Any, out: Any
) -> Any:
    for i in range(n):
        out[i] = candidates[i]
    return n


@cache
def _refiners(nodes: tuple[Node, ...]) -> tuple[Any, Any]:
    holds = evaluator(nodes)

    # The choice of conjunct stays inside the loop: it never changes there, so it costs nothing, and compiling one loop
    # for all conjuncts takes a fraction of the time of a loop each.
    def refine(
        conjunct: Any, stream: Any, words: Any, floats: Any, slots: Any, lo: Any, hi: Any, horizon: Any, out: Any
    ) -> Any:
        others = (slots[0], slots[1], slots[2], slots[3], slots[4], slots[5], slots[6], slots[7])
        kept = failed = 0
        for c in range(lo, hi):
            true, state = holds(conjunct, words, floats, stream, c, others, ())
            inside = np.int64(words[0, c] >= horizon)
            out[kept] = c
            kept += inside & true & state
            failed |= inside & (state >> 1)
        return -1 if failed else kept

    def refine_listed(
        conjunct: Any, stream: Any, words: Any, floats: Any, slots: Any, candidates: Any, n: Any, out: Any
    ) -> Any:
        others = (slots[0], slots[1], slots[2], slots[3], slots[4], slots[5], slots[6], slots[7])
        kept = failed = 0
        for i in range(n):
            c = candidates[i]
            true, state = holds(conjunct, words, floats, stream, c, others, ())
            out[kept] = c
            kept += true & state
            failed |= state >> 1
        return -1 if failed else kept

    whole = made_of(nodes)
    return callback(REFINE_SIGNATURE, refine, whole), callback(REFINE_LISTED_SIGNATURE, refine_listed, whole)


@cache
def _sifter(
    shapes: tuple[Shape, ...],
) -> Callable[[IntWords, FloatWords, int, NDArray[np.bool_], tuple[int, ...]], int]:
    holds = evaluator(shapes)
    conjuncts = len(shapes)

    def sift(words: Any, floats: Any, n: Any, keep: Any, parameters: Any) -> Any:
        for conjunct in range(conjuncts):
            failed = 0
            for i in range(n):
                true, state = holds(conjunct, words, floats, 0, i, (i, i, i, i, i, i, i, i), parameters)
                asked = np.int64(keep[i])
                failed |= asked & (state >> 1)
                keep[i] = asked & true & state
            if failed:
                return conjunct
        return -1

    return closure(sift, made_of(shapes))
