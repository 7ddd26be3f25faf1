"""Expressions with their names resolved and their types checked.

Invariant: a bound expression is made of columns, literals and calls of the allow-list only; IN, BETWEEN, simple CASE,
IS TRUE and the forms of `forms.py` have become those. A node with a part that is not understood is refused, never bound
without it.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass

from sqlglot import exp

from slackwater.core.errors import QueryError
from slackwater.core.schema import Kind
from slackwater.expressions.aggregates import BY_CALL
from slackwater.expressions.functions import ExpressionTypeError, function_names, is_text_call, typed_call
from slackwater.expressions.tree import Call, Column, Expr, Literal, streams_of
from slackwater.language import unsupported
from slackwater.language.forms import (
    Span,
    aggregate_function,
    cast_operator,
    extracted_part,
    flattened,
    number,
    shifted,
    span,
    timestamp_literal,
    unwrapped,
)
from slackwater.language.nodes import ColonCast, Select, name_place
from slackwater.language.scope import Scope, unknown_function

_COMPARISONS: dict[type[exp.Expr], str] = {
    exp.EQ: "=",
    exp.NEQ: "<>",
    exp.LT: "<",
    exp.LTE: "<=",
    exp.GT: ">",
    exp.GTE: ">=",
}
_ARITHMETIC: dict[type[exp.Expr], str] = {exp.Add: "+", exp.Sub: "-", exp.Mul: "*", exp.Div: "/", exp.Mod: "%"}
MANY = 9
"""From so many operands on a chain of ORs is looked at for constants."""
_LOGIC: dict[type[exp.Expr], str] = {exp.And: "and", exp.Or: "or"}
_LIKENING = frozenset(
    ("=", "<>", "<", "<=", ">", ">=", "coalesce", "nullif", "least", "greatest", "min", "max", "case")
)
_TIME_TYPES = frozenset(("TIMESTAMP", "TIMESTAMPTZ", "DATETIME", "DATE"))
_PARTS: dict[type[exp.Expr], frozenset[str]] = {
    exp.Case: frozenset(("this", "ifs", "default")),
    exp.In: frozenset(("this", "expressions")),
    exp.Between: frozenset(("this", "low", "high")),
    exp.Anonymous: frozenset(("this", "expressions")),
    exp.Literal: frozenset(("this", "is_string")),
    exp.Cast: frozenset(("this", "to")),
    ColonCast: frozenset(("this", "to")),
    exp.TryCast: frozenset(("this", "to")),
    exp.Like: frozenset(("this", "expression", "negate")),
    exp.ILike: frozenset(("this", "expression", "negate")),
    exp.Interval: frozenset(("this", "unit")),
    exp.Column: frozenset(("this", "table", "db", "catalog")),
}
_OPERANDS = frozenset(("this", "expression"))
_REFUSED: dict[type[exp.Expr], str] = {
    exp.Bracket: "[",
    exp.Exists: "EXISTS",
    exp.NullSafeEQ: "DISTINCT",
    exp.NullSafeNEQ: "DISTINCT",
    exp.Placeholder: "?",
    exp.Parameter: "?",
}
_DIALECT_MARKS = frozenset(("typed", "safe"))
"""What sqlglot notes on a division about the dialect it came from; it is not in the text."""


@dataclass(frozen=True)
class Scalars:
    """Binds the expressions of one clause; `clause` is how messages call it."""

    scope: Scope
    clause: str

    def bind(self, node: exp.Expr) -> Expr:
        """The typed tree of an expression."""
        kind = type(node)
        if kind in _COMPARISONS:
            self._whole(node)
            return self._compare(_COMPARISONS[kind], node.this, node.args["expression"], node)
        if kind in _ARITHMETIC:
            self._whole(node)
            apart = shifted(node, self.scope)
            if apart is not None:
                return self._shift(self._as_time(self.bind(apart[0]), apart[0]), apart[1], apart[0])
            return self._call(_ARITHMETIC[kind], [node.this, node.args["expression"]], node)
        if kind is exp.Or:
            return self._either(node)
        if kind in _LOGIC:
            return self._call(_LOGIC[kind], flattened(node), node)
        bound = _BINDERS.get(kind)
        if bound is None:
            raise self.scope.fail(self._not_offered(node), node)
        self._whole(node)
        return bound(self, node)

    def _either(self, node: exp.Expr) -> Expr:
        """A long chain of equalities of one value and constants is an IN, and looked up as such."""
        nodes = flattened(node)
        if len(nodes) < MANY:
            return self._call("or", nodes, node)
        operands = [self.bind(one) for one in nodes]
        either = _gathered(operands)
        if len(either) == 1:
            return either[0]
        return self._typed("or", either, nodes[: len(either)], node)

    def condition(self, node: exp.Expr) -> Expr:
        """An expression that must be true or false."""
        bound = self.bind(node)
        if isinstance(bound, Literal) and bound.value is None:
            return Literal(None, Kind.BOOL)
        if bound.kind is not Kind.BOOL:
            raise self.scope.fail(f"{self.clause} needs a condition, not a value of kind {bound.kind.value}", node)
        return bound

    def _whole(self, node: exp.Expr) -> None:
        """Refuse a node that carries more than this binder reads."""
        known = _PARTS.get(type(node), _OPERANDS)
        for part, value in node.args.items():
            if value and part not in known and part not in _DIALECT_MARKS:
                if isinstance(value, exp.Expr):
                    raise self.scope.fail(self._not_offered(value), node)
                raise self.scope.fail(f"this form of {type(node).key.upper()} is not offered", node)

    def _not_offered(self, node: exp.Expr) -> str:
        if isinstance(node, Select):
            return unsupported.INSIDE["SELECT"]
        if isinstance(node, exp.Star):
            return f"'*' cannot stand in {self.clause}"
        return unsupported.INSIDE.get(_REFUSED.get(type(node), "")) or "this is not offered in an expression"

    def _call(self, op: str, nodes: Sequence[exp.Expr], whole: exp.Expr) -> Expr:
        return self._typed(op, [self.bind(node) for node in nodes], nodes, whole)

    def _typed(self, op: str, args: Sequence[Expr], nodes: Sequence[exp.Expr], whole: exp.Expr) -> Expr:
        if op in _LIKENING and any(arg.kind is Kind.TIME for arg in args):
            args = [self._as_time(arg, node) for arg, node in zip(args, nodes, strict=True)]
        try:
            made = typed_call(op, tuple(args))
        except ExpressionTypeError as error:
            blamed = whole if error.argument is None else nodes[error.argument]
            raise self.scope.fail(error.message, blamed) from None
        if self.clause == "WHERE" and is_text_call(made) and len(streams_of(made)) > 1:
            raise self.scope.fail(_MIXED, whole)
        return made

    def _shift(self, moment: Expr, size: Span, node: exp.Expr) -> Expr:
        """A time, later by an interval: by its months first, as Spark has it."""
        if moment.kind is not Kind.TIME:
            raise self.scope.fail("an interval can only be added to a timestamp", node)
        for op, by in (("shift_months", size.months), ("shift", size.micros)):
            if by:
                moment = self._typed(op, [moment, Literal(by, Kind.INT)], [node, node], node)
        return moment

    def _as_time(self, arg: Expr, node: exp.Expr) -> Expr:
        if isinstance(arg, Literal) and isinstance(arg.value, str):
            return timestamp_literal(node, arg.value, self.scope)
        return arg

    def _compare(self, op: str, left: exp.Expr, right: exp.Expr, whole: exp.Expr) -> Expr:
        """x + I < y + J for timestamps becomes x - y < J - I, and a bare interval is compared as microseconds."""
        (left_rest, left_shift), (right_rest, right_shift) = self._shifted(left), self._shifted(right)
        if left_shift is None and right_shift is None:
            return self._call(op, [left, right], whole)
        shift = Literal((right_shift or 0) - (left_shift or 0), Kind.INT)
        rests = [rest for rest in (left_rest, right_rest) if rest is not None]
        if len(rests) == 2:
            bound = [self.bind(rest) for rest in rests]
            if Kind.TIME in (bound[0].kind, bound[1].kind):
                bound = [self._as_time(arg, rest) for arg, rest in zip(bound, rests, strict=True)]
            for arg, rest in zip(bound, rests, strict=True):
                if arg.kind is not Kind.TIME:
                    raise self.scope.fail("an interval can only be added to a timestamp", rest)
            return self._typed(op, [self._typed("-", bound, rests, whole), shift], [whole, whole], whole)
        if not rests or not _is_time_difference(difference := self.bind(rests[0])):
            raise self.scope.fail(_INTERVAL, whole)
        args = [difference, shift] if left_rest is not None else [Literal(-int(shift.value or 0), Kind.INT), difference]
        return self._typed(op, args, [left, right], whole)

    def _shifted(self, node: exp.Expr) -> tuple[exp.Expr | None, int | None]:
        """A side of a comparison as what is left of it without its interval, and that interval. One with months stays
        where it is, for how long they are depends on the time they are added to."""
        node = unwrapped(node)
        inner = unwrapped(node.this) if isinstance(node, exp.Neg) else node
        if isinstance(inner, exp.Interval):
            size = span(inner, self.scope)
            if size.months:
                raise self.scope.fail("months differ in length, so a difference has none; write days", node)
            return None, size.micros if inner is node else -size.micros
        apart = shifted(node, self.scope)
        return (node, None) if apart is None or apart[1].months else (apart[0], apart[1].micros)

    def _column(self, node: exp.Expr) -> Expr:
        if not isinstance(node, (exp.Column, exp.Dot)) or isinstance(node.this, exp.Star):
            raise self.scope.fail(f"'*' cannot stand in {self.clause}", node)
        return self.scope.column(node)

    def _literal(self, node: exp.Expr) -> Expr:
        if not isinstance(node, exp.Literal):
            raise self.scope.fail("expected a constant", node)
        return Literal(str(node.this), Kind.TEXT) if node.is_string else number(node, self.scope)

    def _negative(self, node: exp.Expr) -> Expr:
        inner = unwrapped(node.this)
        if isinstance(inner, exp.Literal) and not inner.is_string:
            return number(inner, self.scope, negative=True)
        return self._call("neg", [node.this], node)

    def _is(self, node: exp.Expr) -> Expr:
        expected = node.args["expression"]
        if isinstance(expected, exp.Null):
            return self._call("is_null", [node.this], node)
        if not isinstance(expected, exp.Boolean):
            raise self.scope.fail("IS takes NULL, TRUE or FALSE", expected)
        value = self.bind(node.this)
        if not expected.this:
            value = self._typed("not", [value], [node.this], node)
        return self._typed("coalesce", [value, Literal(False, Kind.BOOL)], [node.this, node], node)

    def _in(self, node: exp.Expr) -> Expr:
        choices = node.args.get("expressions") or []
        if not choices:
            raise self.scope.fail("IN needs a list of values, as in k IN (1, 2)", node)
        equal = [self._compare("=", node.this, choice, choice) for choice in choices]
        either = _gathered(equal)
        return either[0] if len(either) == 1 else self._typed("or", either, [node] * len(either), node)

    def _between(self, node: exp.Expr) -> Expr:
        low, high = node.args["low"], node.args["high"]
        ends = [self._compare(">=", node.this, low, node), self._compare("<=", node.this, high, node)]
        return self._typed("and", ends, [low, high], node)

    def _case(self, node: exp.Expr) -> Expr:
        args: list[Expr] = []
        nodes: list[exp.Expr] = []
        operand, default = node.args.get("this"), node.args.get("default")
        if not node.args["ifs"]:
            raise self.scope.fail("CASE needs at least one WHEN", node)
        for branch in node.args["ifs"]:
            test, value = branch.this, branch.args["true"]
            args.append(self.bind(test) if operand is None else self._compare("=", operand, test, test))
            args.append(self.bind(value))
            nodes += [test, value]
        args.append(Literal(None, Kind.INT) if default is None else self.bind(default))
        nodes.append(node if default is None else default)
        return self._typed("case", args, nodes, node)

    def _cast(self, node: exp.Expr) -> Expr:
        written, target = node.this, node.args["to"]
        typed = isinstance(target, exp.DataType) or (isinstance(node, ColonCast) and target.name.upper() in _TIME_TYPES)
        if typed and isinstance(written, exp.Literal) and written.is_string:
            return timestamp_literal(node, str(written.this), self.scope)
        return self._call(cast_operator(node, self.scope), [written], node)

    def _like(self, node: exp.Expr) -> Expr:
        matching = node.this if isinstance(node, exp.Escape) else node
        if not isinstance(matching, (exp.Like, exp.ILike)):
            raise self.scope.fail("ESCAPE belongs to LIKE", node)
        self._whole(matching)
        parts = [matching.this, matching.args["expression"]]
        if isinstance(node, exp.Escape):
            if node.args.get("expression") is None:
                raise self.scope.fail("ESCAPE takes one character", node)
            parts.append(node.args["expression"])
        found = self._call("like" if isinstance(matching, exp.Like) else "ilike", parts, node)
        return self._typed("not", [found], [node], node) if matching.args.get("negate") else found

    def _function(self, node: exp.Expr) -> Expr:
        name = node.name.lower()
        if aggregate_function(node) is not None:
            raise self._at_name(f"{name.upper()} is an aggregate and cannot stand in {self.clause}", node)
        known_as = _OTHER_NAMES.get(name, {}).get(len(node.expressions))
        if known_as is not None:
            return self._call(known_as, node.expressions, node)
        names = function_names()
        if name in _OTHER_NAMES:
            (wanted,) = _OTHER_NAMES[name]
            raise self.scope.fail(f"{name} takes {wanted} values", node)
        if name not in names:
            raise self._at_name(
                unsupported.FUNCTIONS.get(name) or unknown_function(node.name, (*names, *BY_CALL)), node
            )
        return self._call(name, node.expressions, node)

    def _at_name(self, message: str, node: exp.Expr) -> QueryError:
        return QueryError(message, self.scope.text, *name_place(node))

    def _filter(self, node: exp.Expr) -> Expr:
        if aggregate_function(node) is None:
            raise self.scope.fail("FILTER stands behind an aggregate, as in SUM(v) FILTER (WHERE v > 0)", node)
        return self.bind(node.this)

    def _interval(self, node: exp.Expr) -> Expr:
        raise self.scope.fail(_INTERVAL, node)


_OTHER_NAMES = {"if": {3: "case"}, "ifnull": {2: "coalesce"}, "nvl": {2: "coalesce"}}
"""Functions of Spark that are called otherwise here, by how many values they take."""
_INTERVAL = "an interval can only be added to a timestamp, or compared with the difference of two timestamps"
_MIXED = (
    "a condition cannot put text of two streams together, or look into one by the other; compare what is made of each,"
    " as in upper(a.x) = upper(b.x)"
)
_BINDERS: dict[type[exp.Expr], Callable[[Scalars, exp.Expr], Expr]] = {
    exp.Column: Scalars._column,
    exp.Dot: Scalars._column,
    exp.Literal: Scalars._literal,
    exp.Null: lambda self, node: Literal(None, Kind.INT),
    exp.Boolean: lambda self, node: Literal(bool(node.this), Kind.BOOL),
    exp.Paren: lambda self, node: self.bind(node.this),
    exp.Neg: Scalars._negative,
    exp.Not: lambda self, node: self._call("not", [node.this], node),
    exp.Is: Scalars._is,
    exp.In: Scalars._in,
    exp.Between: Scalars._between,
    exp.Case: Scalars._case,
    exp.Cast: Scalars._cast,
    ColonCast: Scalars._cast,
    exp.TryCast: Scalars._cast,
    exp.Like: Scalars._like,
    exp.ILike: Scalars._like,
    exp.Escape: Scalars._like,
    exp.DPipe: lambda self, node: self._call("concat", flattened(node), node),
    exp.Extract: lambda self, node: self._call(extracted_part(node, self.scope), [node.args["expression"]], node),
    exp.Interval: Scalars._interval,
    exp.Filter: Scalars._filter,
    exp.Anonymous: Scalars._function,
}


def _gathered(equalities: Sequence[Expr]) -> list[Expr]:
    """Equalities of one value and constants as one IN; where a number meets integers and floats there are two."""
    constants: dict[Expr, list[Expr]] = {}
    others: list[Expr] = []
    for one in equalities:
        if isinstance(one, Call) and one.op == "=" and isinstance(one.args[1], Literal):
            constants.setdefault(one.args[0], []).append(one.args[1])
        else:
            others.append(one)
    either = [typed_call("=" if len(choices) == 1 else "in", (value, *choices)) for value, choices in constants.items()]
    return either + others


def _is_time_difference(expr: Expr) -> bool:
    if isinstance(expr, (Column, Literal)):
        return False
    if expr.op == "-":
        return all(arg.kind is Kind.TIME for arg in expr.args)
    return expr.op in ("abs", "neg") and _is_time_difference(expr.args[0])
