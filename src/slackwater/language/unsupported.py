"""What the language knows but does not offer. Invariant: it is refused with one clear sentence, never ignored."""

from __future__ import annotations

_SUBQUERY = (
    "a query inside an expression is not offered; a sub-query stands in FROM, as in FROM (SELECT v FROM s) j, or in"
    " WHERE behind IN and EXISTS"
)
_JOINED = "write JOIN ... ON, or a comma and WHERE"
_OUTER = "write LEFT JOIN, RIGHT JOIN, FULL JOIN, LEFT SEMI JOIN or LEFT ANTI JOIN, and ON"
_SET = "queries cannot be combined with EXCEPT or INTERSECT; of streams only UNION ALL is offered"
_UNION = "UNION would have to remember every row for ever to leave out the second of two; write UNION ALL"
_OVER = "functions over a window are not offered; put the window in FROM, as in s [RANGE 1 MINUTE SLIDE 10 SECONDS]"
_LIMIT = "a stream has no end to count from, so LIMIT, OFFSET and FETCH are not offered"

CLAUSES = {
    "ORDER": "ORDER BY is not offered; results always leave in the order of time",
    "SORT": "SORT BY is not offered; results always leave in the order of time",
    "LIMIT": _LIMIT,
    "OFFSET": _LIMIT,
    "FETCH": _LIMIT,
    "TOP": _LIMIT,
    "DISTINCT": "DISTINCT stands right behind SELECT, or in COUNT(DISTINCT x)",
    "UNION": _UNION,
    "EXCEPT": _SET,
    "INTERSECT": _SET,
    "MINUS": _SET,
    "QUALIFY": "QUALIFY is not offered; filter the results where they are read",
    "EMIT": "EMIT stands once, at the end of the whole query",
    "LEFT": _OUTER,
    "RIGHT": _OUTER,
    "FULL": _OUTER,
    "OUTER": _OUTER,
    "SEMI": _OUTER,
    "ANTI": _OUTER,
    "ASOF": "write a ASOF JOIN b MATCH_CONDITION (a.ts >= b.ts) ON a.key = b.key",
    "NATURAL": "NATURAL JOIN is not offered; name the columns, as in ON a.key = b.key",
    "USING": "USING stands behind the stream of a JOIN, as in a JOIN b USING (key)",
    "LATERAL": "LATERAL is not offered; " + _JOINED,
    "TABLESAMPLE": "samples of a stream are not offered",
    "PIVOT": "PIVOT is not offered",
    "SELECT": _SUBQUERY,
    "EXISTS": "EXISTS with a query stands in WHERE, by itself between ANDs",
}
"""Why a clause is refused, by the word that it begins with."""

INSIDE = {
    "OVER": _OVER,
    "FILTER": "FILTER stands behind an aggregate, as in SUM(v) FILTER (WHERE v > 0)",
    "WITHIN": "WITHIN GROUP is not offered; write QUANTILE(v, 0.5)",
    "SELECT": _SUBQUERY,
    "RLIKE": "regular expressions are not offered; write LIKE, contains, startswith or endswith",
    "REGEXP": "regular expressions are not offered; write LIKE, contains, startswith or endswith",
    "DISTINCT": "IS DISTINCT FROM is not offered; compare with = and IS NULL",
    "?": "a query takes no parameters; write the value itself",
    "[": "a value has no elements here; a window in brackets stands in FROM, after the stream",
    "GROUPING": "GROUPING SETS, ROLLUP and CUBE are not offered; run one query per grouping",
    "ORDER": "ORDER BY inside an aggregate is not offered",
    "EXISTS": "EXISTS with a query stands in WHERE, by itself between ANDs",
}
"""Why an expression may not go on, by the word it would go on with."""

_GROUPING = "GROUPING SETS, ROLLUP and CUBE are not offered; run one query per grouping"
_WINDOW_FUNCTION = "window functions are not offered; put the window in FROM, as in s [RANGE 1 MINUTE SLIDE 10 SECONDS]"
FUNCTIONS = {
    "rollup": _GROUPING,
    "cube": _GROUPING,
    "tumble": _WINDOW_FUNCTION,
    "hop": _WINDOW_FUNCTION,
    "session": _WINDOW_FUNCTION,
    "window": _WINDOW_FUNCTION,
    "percentile_cont": "write QUANTILE(v, 0.5) for a percentile; it interpolates",
    "var_pop": "VAR is the sample variance; the population's is not offered",
    "stddev_pop": "STDDEV is the sample deviation; the population's is not offered",
    "row_number": _OVER,
    "rank": _OVER,
    "lag": _OVER,
    "lead": _OVER,
}
"""Why a function of SQL has no place here, with what to write in its stead."""

WINDOWS = {
    "UNBOUNDED": "a window must end; write RANGE and a duration, as in [RANGE 5 SECONDS]",
    "NOW": "write [RANGE 0 SECONDS] for tuples of one and the same time",
    "PARTITION": "PARTITION BY is not offered in a window; use GROUP BY",
}
"""Why a window in brackets is refused, by the word that it begins with."""


CLAUSE_WORDS = frozenset(CLAUSES) - {"SELECT", "EXISTS", "DISTINCT", "TOP"}
"""Words after which an expression is over, even though what they begin is refused."""
