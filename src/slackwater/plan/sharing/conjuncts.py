"""The filters of a query on one stream as conjuncts that can be compared with those of another query.

A filter passes a tuple only where it is TRUE. So it falls apart into conjuncts, of which all must be TRUE, and at the
top of a conjunct NULL is as good as FALSE: `x IN (1, NULL)` passes what `x = 1` passes, and `c IS TRUE` what `c` does.

Invariant: the conjuncts of filters are all TRUE for exactly the tuples that pass the filters. Two conjuncts are equal
only if they are TRUE for the same tuples.

References: 004 §5.1, common selection predicates.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, field
from functools import cached_property

from slackwater.expressions.functions import has_text_call
from slackwater.expressions.tree import Call, Column, Expr, Literal
from slackwater.plan.sharing.normal_form import FALSE, TRUE, UNKNOWN, can_fail, key_of, logic, membership, normal_form


@dataclass(frozen=True)
class Conjunct:
    """One condition in normal form. Two are equal when their keys are, however they were written."""

    key: str
    expr: Expr = field(compare=False)

    def __hash__(self) -> int:
        # Hundreds of queries look each other's conjuncts up all the time.
        return hash(self.key)

    @cached_property
    def can_fail(self) -> bool:
        """Whether there may be tuples for which it is neither true nor false nor null."""
        return can_fail(self.expr)

    @cached_property
    def reads_text(self) -> bool:
        """Whether it looks into text, which costs far more than anything else."""
        return has_text_call(self.expr)


NEVER = Conjunct(key_of(FALSE), FALSE)
"""Passes nothing."""


def conjuncts_of(filters: Iterable[Expr]) -> tuple[Conjunct, ...]:
    """What must all be true of a tuple of one stream, in the order of the filters, each once.

    >>> from slackwater.core.schema import Kind
    >>> x, five = Column(1, "x", Kind.INT), Literal(5, Kind.INT)
    >>> turned, negated = Call("<", (five, x), Kind.BOOL), Call("not", (Call("<=", (x, five), Kind.BOOL),), Kind.BOOL)
    >>> conjuncts_of([turned]) == conjuncts_of([negated]), len(conjuncts_of([turned, negated]))
    (True, 1)
    """
    found: dict[str, Conjunct] = {}
    for one in filters:
        # Its parts are put in order where an AND is compared as a whole; here they stay as they were written.
        parts = one.args if isinstance(one, Call) and one.op == "and" else (one,)
        for expr in (expr for part in parts for expr in _all_true(normal_form(part))):
            key = key_of(expr)
            found.setdefault(key, Conjunct(key, expr))
    return (NEVER,) if NEVER.key in found else tuple(found.values())


def _all_true(expr: Expr) -> list[Expr]:
    """The conjuncts of an expression in normal form, where TRUE alone counts."""
    if isinstance(expr, Literal):
        return [] if expr == TRUE else [FALSE]
    if isinstance(expr, Column):
        return [expr]
    if expr.op == "and":
        return [part for arg in expr.args for part in _all_true(arg)]
    if expr.op == "coalesce" and len(expr.args) == 2 and expr.args[1] in (FALSE, UNKNOWN):
        return _all_true(expr.args[0])
    if expr.op == "or":
        either = logic("or", [logic("and", _all_true(arg)) for arg in expr.args])
        return [either] if isinstance(either, Call) and either.op == "or" else _all_true(either)
    if expr.op == "in" and any(map(_is_null, expr.args)):
        known = [choice for choice in expr.args[1:] if not _is_null(choice)]
        return [membership(expr.args[0], known)] if known else [FALSE]
    inside = expr.args[0] if expr.op == "not" else None
    if isinstance(inside, Call) and inside.op == "in" and any(map(_is_null, inside.args)) and not can_fail(inside):
        # What is none of the others may still be the one that is not known.
        return [FALSE]
    return [expr]


def _is_null(expr: Expr) -> bool:
    return isinstance(expr, Literal) and expr.value is None
