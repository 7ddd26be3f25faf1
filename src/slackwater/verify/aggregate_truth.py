"""The true aggregates of every window and group, and those a run could give with its late rows, in one pass of SQL.

Invariant: a row belongs to the windows [s, s + range) with s a multiple of the slide and s <= ts < s + range. The
truth has all of a window's rows; the expected answer those that were in time or met a watermark before the window's
end.

Each aggregate `n` gives four columns: `t<n>` (truth), `e<n>` (expected) and the rounding `a<n>` and `b<n>` that any
correct way of computing them may show beyond 1e-9 of their value. A float sum may cancel, so it cannot be asked for
1e-9 of itself; adding m numbers in any order errs by at most (m - 1) u * sum|x| (Higham 2002, section 4.2), and that
is what it is allowed.
"""

# ruff: noqa: S608 (every name and number put into the SQL is made in this package)

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from slackwater.core.errors import UsageError
from slackwater.core.schema import Kind
from slackwater.expressions.aggregates import FUNCTIONS
from slackwater.expressions.tree import Expr
from slackwater.language.bound import Aggregate, AggregateQuery, FillingWindow, StreamRef

_UNIT = "2.220446049250313e-16::DOUBLE"
_SMALL, _LARGE = f"{2.0**-600!r}::DOUBLE", f"{2.0**600!r}::DOUBLE"
_SUMS = {"SUM": "sum", "AVG": "avg"}
_SPREADS = {"VAR": "var_samp", "STDDEV": "stddev_samp"}
_EXTREMES = {"MIN": "min", "MAX": "max"}
_CHOSEN = {"FIRST": "", "LAST": " DESC", "MIN_BY": "", "MAX_BY": " DESC"}


def make_truth(
    connection: Any,
    query: AggregateQuery,
    keys: Sequence[str],
    arguments: Sequence[str],
    source: str = "s0",
    table: str = "truth",
) -> None:
    """A table of the true rows over those of a source: window_start, window_end, k0.., present (rows expected in the
    window), and the columns of aggregates.

    `keys` and `arguments` are the SQL of each GROUP BY key and of what each aggregate reads.
    """
    groups = "".join(f", {key} AS k{n}" for n, key in enumerate(keys))
    values = "".join(f", {argument} AS x{n}" for n, argument in enumerate(arguments))
    rows = _rows_in_windows(query.stream, f"ts_0, met_0{groups}{values}", source)
    columns = "".join(_columns(n, aggregate) for n, aggregate in enumerate(query.aggregates))
    names = ", ".join(["window_start", "window_end", *(f"k{n}" for n in range(len(keys)))])
    connection.execute(
        f"CREATE TABLE {table} AS SELECT {names}, count(*) FILTER (met_0 < window_end) AS present{columns}"
        f" FROM ({rows}) GROUP BY {names}"
    )


def _rows_in_windows(stream: StreamRef, columns: str, source: str) -> str:
    """A SELECT of rows, once for each window that they are in, with window_start and window_end."""
    if isinstance(stream.window, FillingWindow):
        whole, step = stream.window.range, stream.window.step
        start = f"sw_floor(ts_0, {whole})"
        ends = f"range(sw_floor(ts_0, {step}) + {step}, {start} + {whole} + 1, {step})"
        return f"SELECT {columns}, {start} AS window_start, unnest({ends}) AS window_end FROM {source}"
    size = stream.range
    if size is None:
        raise UsageError(f"stream {stream.alias} has no window to aggregate over")
    slide = stream.slide or size
    starts = f"range(sw_floor(ts_0, {slide}) - {(size - 1) // slide * slide}, sw_floor(ts_0, {slide}) + 1, {slide})"
    return (
        f"SELECT *, window_start + {size} AS window_end FROM"
        f" (SELECT {columns}, unnest({starts}) AS window_start FROM {source}) WHERE ts_0 < window_start + {size}"
    )


def read_sql(aggregate: Aggregate, render: Callable[[Expr], str]) -> str:
    """The SQL of what an aggregate reads of a row: its argument, with what it is chosen by."""
    if aggregate.argument is None:
        return "1"
    if aggregate.by is None:
        return render(aggregate.argument)
    return f"struct_pack(chosen := {render(aggregate.argument)}, chosen_by := {render(aggregate.by)})"


def _columns(number: int, aggregate: Aggregate) -> str:
    text = ""
    for value, rounding, which in (("t", "a", ""), ("e", "b", " FILTER (met_0 < window_end)")):
        text += f", {value_of(aggregate, f'x{number}', which)} AS {value}{number}"
        text += f", {rounding_of(aggregate, f'x{number}', which)} AS {rounding}{number}"
    return text


def value_of(aggregate: Aggregate, x: str, which: str) -> str:
    """The SQL of an aggregate over column x, of the rows that `which` filters."""
    function, argument = aggregate.function, aggregate.argument
    if argument is None:
        return f"count(*){which}"
    if function == "COUNT":
        return f"count({x}){which}"
    if function in ("COUNT_DISTINCT", "APPROX_COUNT_DISTINCT"):
        return f"count(DISTINCT {x}){which}"
    different = FUNCTIONS[function].of_different
    function, each = different or function, "" if different is None else "DISTINCT "
    if function in _EXTREMES:
        return f"{_EXTREMES[function]}({x}){which}"
    if function in _CHOSEN:
        # Of equals the least value is the first, and the greatest the last.
        by, value, direction = "ts_0", x, _CHOSEN[function]
        if aggregate.by is not None:
            by, value = f"{x}.chosen_by", f"{x}.chosen"
        there = f"{by} IS NOT NULL AND {value} IS NOT NULL"
        present = f"{which[:-1]} AND {there})" if which else f" FILTER ({there})"
        return f"first({value} ORDER BY {by}{direction}, {value}{direction}){present}"
    if function == "AVG" and argument.kind is Kind.DECIMAL:
        # Four digits more, halves away from zero.
        total, count = f"sum({each}{x}){which}", f"nullif(count({each}{x}){which}, 0)"
        return f"TRY_CAST(sign({total}) * ((abs({total}) * 20000 + {count}) // (2 * {count})) AS BIGINT)"
    if function in _SUMS:
        return _sum(_SUMS[function], argument, x, which, each)
    if function in _SPREADS:
        # DuckDB refuses to square what is not finite; with such a value any spread is NaN, of one row alone it is null.
        # Nor does it square what is too large for that: there the deviation is found in smaller units.
        endless = f"coalesce(bool_or(NOT isfinite(CAST({x} AS DOUBLE))){which}, false)"
        far = f"(stddev_samp(CASE WHEN isfinite(CAST({x} AS DOUBLE)) THEN CAST({x} AS DOUBLE) * {_SMALL} END){which}"
        far += f" * {_LARGE})"
        return (
            f"CASE WHEN count({x}){which} < 2 THEN NULL WHEN {endless} THEN CAST('NaN' AS DOUBLE)"
            f" WHEN {_wild(x, which)} THEN {far if function == 'STDDEV' else f'{far} * {far}'}"
            f" ELSE {_SPREADS[function]}({_tame(x)}){which} END"
        )
    if function in ("MEDIAN", "QUANTILE"):
        p = 0.5 if aggregate.parameter is None else aggregate.parameter
        return f"quantile_cont(CAST({x} AS DOUBLE), {p!r}){which}"
    raise UsageError(f"verify cannot compute {function}")


def _sum(function: str, argument: Expr, x: str, which: str, each: str) -> str:
    """`each`: of every value, or of different ones."""
    if argument.kind is not Kind.FLOAT:
        return f"{function}({each}{x}){which}"
    # Kahan's summation turns an infinity into NaN; plain addition keeps both as IEEE has them.
    wild, tame = f"{function}({each}{x}){which}", f"f{function}({each}{_tame(x)}){which}"
    return f"CASE WHEN {_wild(x, which)} THEN {wild} ELSE {tame} END"


def rounding_of(aggregate: Aggregate, x: str, which: str) -> str:
    """The error, beyond a share of the value, that rounding alone may cause."""
    function, argument = aggregate.function, aggregate.argument
    function = FUNCTIONS[function].of_different or function
    if function == "APPROX_COUNT_DISTINCT":
        # Six standard errors; of few values a collision or two.
        return f"{6 * (aggregate.parameter or 0.0)!r} * count(DISTINCT {x}){which} + 2"
    if argument is None or not argument.kind.numeric or aggregate.by is not None:
        return "CAST(0 AS DOUBLE)"
    count = f"count({x}){which}"
    if function == "SUM" and argument.kind is Kind.FLOAT:
        return f"{_UNIT} * {count} * sum(abs({_tame(x)})){which}"
    if function == "AVG":
        return f"{_UNIT} * sum(abs({_tame(x)})){which}"
    if function in _SPREADS:
        noise = f"({_UNIT} * {count} * sqrt(avg({_tame(x)} * {_tame(x)}){which}))"
        return noise if function == "STDDEV" else f"{noise} * ({noise} + stddev_samp({_tame(x)}){which})"
    if function in ("MEDIAN", "QUANTILE"):
        return f"4 * {_UNIT} * max(abs({_tame(x)})){which}"
    return "CAST(0 AS DOUBLE)"


def _tame(x: str) -> str:
    """Only the finite values, not so large that a square overflows."""
    return f"CASE WHEN abs(CAST({x} AS DOUBLE)) < 1e150 THEN CAST({x} AS DOUBLE) END"


def _wild(x: str, which: str) -> str:
    return f"coalesce(bool_or(NOT (abs(CAST({x} AS DOUBLE)) < 1e150)){which}, false)"
