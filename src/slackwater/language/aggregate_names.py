"""Which calls are aggregates. Invariant: MIN and MAX of two values or more are functions of a tuple, not aggregates."""

from __future__ import annotations

from sqlglot import exp

AGGREGATES = {
    "count": "COUNT",
    "sum": "SUM",
    "avg": "AVG",
    "min": "MIN",
    "max": "MAX",
    "var": "VAR",
    "variance": "VAR",
    "var_samp": "VAR",
    "stddev": "STDDEV",
    "stddev_samp": "STDDEV",
    "median": "MEDIAN",
    "quantile": "QUANTILE",
}
"""Every name an aggregate can be called by, and the aggregate."""


def aggregate_function(node: exp.Expr) -> str | None:
    """The aggregate a node calls, or None if it calls none."""
    if not isinstance(node, exp.Anonymous):
        return None
    function = AGGREGATES.get(node.name.lower())
    return None if function in ("MIN", "MAX") and len(node.expressions) > 1 else function


def first_aggregate(node: exp.Expr) -> exp.Expr | None:
    """An aggregate call in an expression, or None."""
    return next((call for call in node.find_all(exp.Anonymous) if aggregate_function(call)), None)
