"""Relations as statements for the column engine.

Invariant: a statement means what the row engine computes, word for word; what SQL cannot say exactly is not said, and
`can_be_column` tells. Inside an expression a NaN is a null, as a key or a value it is itself. A statement holds no name
and no text of the query: inputs and columns are numbered, constants are numbers.

References: 004 §6.2 (a migration candidate as one SQL query).
"""

# ruff: noqa: S608 (every name and number put into a statement is made in this package)

from __future__ import annotations

import math
from collections.abc import Callable, Sequence

from slackwater.core.errors import UsageError
from slackwater.core.schema import NULL_WORD, Field, Kind
from slackwater.expressions.aggregates import FUNCTIONS
from slackwater.expressions.functions import has_text_call
from slackwater.expressions.lower import EncodeText
from slackwater.expressions.relational import (
    Aggregate,
    AggregateCall,
    Distinct,
    Given,
    Join,
    Project,
    Relation,
    Scan,
    Select,
)
from slackwater.expressions.tree import Call, Column, Expr, Literal, walk

Leaf = Callable[[Scan | Given], str]
"""The name under which the database knows a leaf."""
_NAN = "CAST('NaN' AS DOUBLE)"
_WRITTEN = {op: f"({{0}} {op} {{1}})" for op in ("+", "-", "*", "=", "<>", "<", "<=", ">", ">=")} | {
    "rescale": "({0} * {1})",
    "not": "(NOT {0})",
    "neg": "(- {0})",
    "is_null": "({0} IS NULL)",
    "to_float": "CAST({0} AS DOUBLE)",
    "/": "(CAST({0} AS DOUBLE) / nullif(CAST({1} AS DOUBLE), 0))",
    "decimal_to_float": "(CAST({0} AS DOUBLE) / nullif(CAST({1} AS DOUBLE), 0))",
    "%": "({0} % nullif({1}, 0))",
    "//": "(({0} - (({0} % {1}) + {1}) % {1}) // {1})",
}
_CALLED = ("abs", "floor", "ceil", "sign", "coalesce", "nullif", "least", "greatest")
EXPRESSIBLE = frozenset((*_WRITTEN, *_CALLED, "and", "or", "in", "case"))
"""The operators that SQL computes as compiled code does, null for null and bit for bit."""


def can_be_column(node: Relation) -> bool:
    """Whether the column engine computes an operator exactly: text is a code there, so it can be compared for equality
    and nothing else; variances and averages of decimals are rounded in their own way here."""
    return all(map(_expressible, _expressions(node))) and (
        not isinstance(node, Aggregate) or all(map(_countable, node.calls))
    )


def _expressions(node: Relation) -> list[Expr]:
    if isinstance(node, Select):
        return [node.condition]
    if isinstance(node, Project):
        return list(node.expressions)
    if isinstance(node, Aggregate):
        return [*node.keys, *(call.argument for call in node.calls if call.argument is not None)]
    if isinstance(node, Join):
        return [*(side for pair in node.keys for side in pair), *([] if node.condition is None else [node.condition])]
    return []


def _expressible(expr: Expr) -> bool:
    return not has_text_call(expr) and all(not isinstance(n, Call) or n.op in EXPRESSIBLE for n in walk(expr))


def _countable(call: AggregateCall) -> bool:
    if call.argument is None or call.function in ("COUNT", "COUNT_DISTINCT"):
        return True
    kind = call.argument.kind
    return not (
        call.function in ("VAR", "STDDEV")
        or FUNCTIONS[call.function].of_different is not None
        or (call.function in ("MIN", "MAX") and kind is Kind.TEXT)
        or (call.function == "AVG" and kind is Kind.DECIMAL)
    )


class Statement:
    """Writes a relation as one statement."""

    def __init__(self, leaf: Leaf, encode_text: EncodeText) -> None:
        self._leaf, self._encode_text = leaf, encode_text

    def of(self, relation: Relation) -> str:
        """The rows of a relation, columns named c0, c1, ... as words: booleans and sums as 64-bit numbers."""
        if isinstance(relation, Scan | Given):
            return f"SELECT * FROM {self._leaf(relation)}"
        if isinstance(relation, Join):
            return self._join(relation)
        (below,) = relation.inputs
        source, render = self._source(below, "a"), self._renderer((below.columns, "a"))
        if isinstance(relation, Select):
            return f"SELECT * FROM {source} WHERE {render(relation.condition)}"
        if isinstance(relation, Project):
            return f"SELECT {_listed([self._word(render, one) for one in relation.expressions])} FROM {source}"
        if isinstance(relation, Distinct):
            keys = [Column(0, column.name, column.kind) for column in relation.columns]
            return f"SELECT DISTINCT {_listed([self._key(render, key) for key in keys])} FROM {source}"
        assert isinstance(relation, Aggregate)
        keys_listed = [self._key(render, key) for key in relation.keys]
        items = [*keys_listed, *(self._call(render, call) for call in relation.calls)]
        grouped = f"GROUP BY {', '.join(keys_listed)}" if keys_listed else "HAVING count(*) > 0"
        return f"SELECT {_listed(items)} FROM {source} {grouped}"

    def _source(self, relation: Relation, alias: str) -> str:
        if isinstance(relation, Scan | Given):
            return f"{self._leaf(relation)} AS {alias}"
        return f"({self.of(relation)}) AS {alias}"

    def _join(self, join: Join) -> str:
        left, right = (join.left.columns, "a"), (join.right.columns, "b")
        render = self._renderer(left, right)
        mine, its = self._renderer(left), self._renderer(right)
        terms = [f"{mine(one)} = {its(other)}" for one, other in join.keys]
        if join.condition is not None:
            terms.append(render(join.condition))
        met = " AND ".join(terms) or "true"
        sources = self._source(join.left, "a"), self._source(join.right, "b")
        items = [f"a.c{at}" for at in range(len(join.left.columns))]
        if join.kind == "inner":
            items += [f"b.c{at}" for at in range(len(join.right.columns))]
            return f"SELECT {_listed(items)} FROM {sources[0]} JOIN {sources[1]} ON {met}"
        if join.keys:
            return f"SELECT {_listed(items)} FROM {sources[0]} {join.kind.upper()} JOIN {sources[1]} ON {met}"
        exists = "EXISTS" if join.kind == "semi" else "NOT EXISTS"
        return f"SELECT {_listed(items)} FROM {sources[0]} WHERE {exists} (SELECT 1 FROM {sources[1]} WHERE {met})"

    def _renderer(self, *inputs: tuple[Sequence[Field], str]) -> Renderer:
        names = {
            (stream, column.name): f"{alias}.c{at}"
            for stream, (columns, alias) in enumerate(inputs)
            for at, column in enumerate(columns)
        }
        return Renderer(names, self._encode_text)

    def _word(self, render: Renderer, expr: Expr) -> str:
        """An expression as it stands in a relation: a bare column keeps its NaN."""
        if isinstance(expr, Column):
            return render.column(expr)
        return f"CAST({render(expr)} AS BIGINT)" if expr.kind is Kind.BOOL else render(expr)

    def _key(self, render: Renderer, expr: Expr) -> str:
        """As a key of a group: two zeros are one."""
        return f"({self._word(render, expr)} + 0.0::DOUBLE)" if expr.kind is Kind.FLOAT else self._word(render, expr)

    def _call(self, render: Renderer, call: AggregateCall) -> str:
        if call.argument is None:
            return "count(*)"
        value, kind = self._word(render, call.argument), call.argument.kind
        match call.function:
            case "COUNT":
                return f"count({value})"
            case "COUNT_DISTINCT":
                return f"count(DISTINCT {self._key(render, call.argument)})"
            case "MIN" | "MAX":
                return f"{call.function.lower()}({value})"
            case "SUM":
                return _float_sum(value) if kind is Kind.FLOAT else f"CAST(sum({value}) AS BIGINT)"
            case "AVG":
                total = _float_sum(value) if kind is Kind.FLOAT else f"CAST(sum({value}) AS DOUBLE)"
                return f"({total} / count({value}))"
            case "MEDIAN" | "QUANTILE":
                share = 0.5 if call.parameter is None else call.parameter
                return f"quantile_cont(CAST({value} AS DOUBLE), {share!r})"
            case _:
                raise UsageError(f"the column engine does not compute {call.function}")


def _float_sum(value: str) -> str:
    """A compensated sum, as in compiled code; compensation makes no sense of what is not finite."""
    return f"CASE WHEN isfinite(sum({value})) THEN fsum({value}) ELSE sum({value}) END"


def _listed(items: Sequence[str]) -> str:
    # A relation may have rows without having columns.
    return ", ".join(f"{item} AS c{at}" for at, item in enumerate(items)) or "1 AS nothing"


class Renderer:
    """Writes expressions over columns with these names."""

    def __init__(self, names: dict[tuple[int, str], str], encode_text: EncodeText) -> None:
        self._names, self._encode_text = names, encode_text

    def column(self, column: Column) -> str:
        """A column as it is."""
        return self._names[column.stream, column.name]

    def __call__(self, expr: Expr) -> str:
        if isinstance(expr, Column):
            name = self.column(expr)
            return f"({name} <> 0)" if expr.kind is Kind.BOOL else _known(name, expr.kind)
        if isinstance(expr, Literal):
            return self._literal(expr)
        return _known(self._called(expr), expr.kind)

    def _literal(self, literal: Literal) -> str:
        value, kind = literal.value, literal.kind
        if value is None or (isinstance(value, float) and math.isnan(value)):
            return f"CAST(NULL AS {'DOUBLE' if kind is Kind.FLOAT else 'BOOLEAN' if kind is Kind.BOOL else 'BIGINT'})"
        if kind is Kind.FLOAT:
            return (
                _known(f"CAST('{float(value)!r}' AS DOUBLE)", kind) if value != value else f"'{float(value)!r}'::DOUBLE"
            )
        if kind is Kind.BOOL:
            return "true" if value else "false"
        word = self._encode_text(str(value)) if kind is Kind.TEXT else int(value)
        assert word != NULL_WORD, "the word of a null is no constant"
        return f"CAST({word} AS BIGINT)"

    def _called(self, call: Call) -> str:
        args = [self(arg) for arg in call.args]
        op = call.op
        if op in _WRITTEN:
            return _WRITTEN[op].format(*args)
        if op in ("and", "or"):
            return "(" + f" {op.upper()} ".join(args) + ")"
        if op == "in":
            return f"({args[0]} IN ({', '.join(args[1:])}))"
        if op == "case":
            branches = "".join(f" WHEN {args[at]} THEN {args[at + 1]}" for at in range(0, len(args) - 1, 2))
            return f"CASE{branches} ELSE {args[-1]} END"
        assert op in _CALLED, f"{op} has no meaning in SQL"
        text = f"{op}({', '.join(args)})"
        # A float beyond 64 bits has no integer.
        return f"TRY_CAST({text} AS BIGINT)" if call.kind is Kind.INT else text


def _known(text: str, kind: Kind) -> str:
    """Inside an expression a NaN is a null."""
    return f"nullif({text}, {_NAN})" if kind is Kind.FLOAT else text
