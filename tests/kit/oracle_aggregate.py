"""Window aggregates, slow and obvious: every window is a list of values.

Invariant: shares no code with the aggregate kernel; sums and moments are exact fractions until the end.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable
from dataclasses import replace
from fractions import Fraction
from typing import Any

from slackwater.core.batch import Batch
from slackwater.core.schema import Kind
from slackwater.operators.aggregate.algebra import AggregateSpec
from slackwater.operators.aggregate.operator import WindowAggregate
from tests.kit import oracle_sketch
from tests.kit.evaluate import evaluate
from tests.kit.oracle_release import NEVER, Released, Tuple, tuples_of
from tests.kit.words import Value, decode

WindowKey = tuple[int, tuple[int, ...]]
"""(start of the window, the words of the group's key)."""
Answer = dict[WindowKey, tuple[Value, ...]]


def windows_of(spec: WindowAggregate, ts: int) -> list[int]:
    """The starts of all windows that contain an event time.

    >>> windows_of(WindowAggregate(10, 4, (), (), 2), -1)
    [-4, -8]
    """
    slide = spec.slide or spec.range
    start = ts // slide * slide
    starts = []
    while start + spec.range > ts:
        starts.append(start)
        start -= slide
    return starts


def oracle_aggregate(spec: WindowAggregate, batch: Batch) -> Answer:
    """The true answer on these tuples, whatever their order of arrival."""
    complete = [Released(e, NEVER, NEVER) for e in tuples_of(batch) if e.passes]
    return oracle_aggregate_processing(spec, complete)


def oracle_aggregate_processing(spec: WindowAggregate, released: Iterable[Released]) -> Answer:
    """The answer given what was late: a tuple enters every window that ends after the watermark it met.

    >>> spec = WindowAggregate(10, None, (), (AggregateSpec("COUNT"),), 2)
    >>> late = Released(Tuple(0, 3, (3, 1)), met=10, clock=12)
    >>> oracle_aggregate_processing(spec, [Released(Tuple(0, 2, (2, 0)), 0, 2), late])
    {(0, ()): (1,)}
    """
    members: dict[WindowKey, list[Tuple]] = {}
    for step in released:
        e = step.tuple
        for start in windows_of(spec, e.ts):
            if start + spec.range > step.met:
                key = tuple(e.words[row] for row in spec.keys)
                members.setdefault((start, key), []).append(e)
    answer = {
        window: tuple(aggregate_of(aggregate, inside) for aggregate in spec.aggregates)
        for window, inside in members.items()
    }
    return {window: values for window, values in answer.items() if _wanted(spec, window, values)}


def _wanted(spec: WindowAggregate, window: WindowKey, values: tuple[Value, ...]) -> bool:
    """Whether HAVING is true of a window and group."""
    if spec.having is None:
        return True
    start, key = window
    row = dict(zip(spec.having.columns, (start, start + spec.range, *key, *values), strict=True))
    return all(evaluate(condition, [row]) is True for condition in spec.having.conditions)


def aggregate_of(spec: AggregateSpec, members: list[Tuple]) -> Value:
    """One aggregate over the tuples of a window and group."""
    if spec.row < 0:
        return len(members)
    values = [decode(e.words[spec.row], spec.kind) for e in members]
    present: list[Any] = [value for value in values if value is not None]
    if spec.function == "COUNT":
        return len(present)
    if spec.function == "COUNT_DISTINCT":
        return len({"NaN" if _is_nan(value) else value for value in present})
    if spec.function == "APPROX_COUNT_DISTINCT":
        return oracle_sketch.estimate([e.words[spec.row] for e in members], spec.kind, spec.parameter or 0.05)
    if not present:
        return None
    if spec.function in ("SUM_DISTINCT", "AVG_DISTINCT"):
        present = list({"NaN" if _is_nan(value) else value: value for value in present}.values())
        spec = replace(spec, function=spec.function.removesuffix("_DISTINCT"))
    if spec.function in ("MIN_BY", "MAX_BY"):
        return _chosen_by(spec, members)
    if spec.function in ("FIRST", "LAST"):
        # Of one event time the least value is the first, and the greatest the last.
        chosen = min if spec.function == "FIRST" else max
        time = chosen(e.ts for e, value in zip(members, values, strict=True) if value is not None)
        present = [value for e, value in zip(members, values, strict=True) if value is not None and e.ts == time]
        return _FUNCTIONS["MIN" if spec.function == "FIRST" else "MAX"](present)
    if spec.function == "QUANTILE":
        return _quantile(present, spec.parameter or 0.0)
    if spec.function == "AVG" and spec.kind is Kind.DECIMAL:
        return _decimal_average(present)
    return _FUNCTIONS[spec.function](present)


def _chosen_by(spec: AggregateSpec, members: list[Tuple]) -> Value:
    """The value of the row with the least or the greatest of another, without nulls; among equals as FIRST and LAST."""
    by_kind = Kind.FLOAT if spec.float_by else Kind.INT
    pairs = [(decode(e.words[spec.by], by_kind), decode(e.words[spec.row], spec.kind)) for e in members]
    present = [(by, value) for by, value in pairs if by is not None and value is not None]
    if not present:
        return None
    end = 0 if spec.function == "MIN_BY" else -1
    chosen = _ordered([by for by, _ in present])[end]
    equal = [value for by, value in present if by == chosen or (_is_nan(by) and _is_nan(chosen))]
    return _ordered(equal)[end]


def _is_nan(value: Any) -> bool:
    return isinstance(value, float) and math.isnan(value)


def _sum(values: list[Any]) -> Any:
    if not all(map(math.isfinite, values)):
        return math.fsum(values) if len({value for value in values if math.isinf(value)}) < 2 else math.nan
    total = sum(map(Fraction, values))
    return float(total) if isinstance(values[0], float) else int(total)


def _average(values: list[Any]) -> Any:
    if not all(map(math.isfinite, values)):
        return _sum(values)
    return float(sum(map(Fraction, values)) / len(values))


def _decimal_average(values: list[int]) -> int:
    """Digits without their point: four more behind it, halves away from zero."""
    mean = Fraction(sum(values), len(values)) * 10_000
    return math.floor(mean + Fraction(1, 2)) if mean >= 0 else -math.floor(-mean + Fraction(1, 2))


def _spread(values: list[Any]) -> Fraction | float | None:
    """The sample variance, exactly; NaN where a value is not finite."""
    if len(values) < 2:
        return None
    if not all(map(math.isfinite, values)):
        return math.nan
    mean = sum(map(Fraction, values)) / len(values)
    return sum((Fraction(value) - mean) ** 2 for value in values) / (len(values) - 1)


def _variance(values: list[Any]) -> Any:
    spread = _spread(values)
    try:
        return None if spread is None else float(spread)
    except OverflowError:
        return math.inf


def _deviation(values: list[Any]) -> Any:
    spread = _spread(values)
    if spread is None or isinstance(spread, float):
        return spread
    try:
        return math.sqrt(spread)
    except OverflowError:
        return math.sqrt(spread / 4**600) * 2.0**600


def _ordered(values: list[Any]) -> list[Any]:
    """Ascending, NaN last."""
    return sorted(values, key=lambda value: (_is_nan(value), 0 if _is_nan(value) else value))


def _quantile(values: list[Any], p: float) -> Any:
    ordered = _ordered(values)
    rank = p * (len(ordered) - 1)
    below = math.floor(rank)
    if rank == below:
        return float(ordered[below])
    return ordered[below] + (ordered[below + 1] - ordered[below]) * (rank - below)


_FUNCTIONS: dict[str, Callable[[list[Any]], Any]] = {
    "SUM": _sum,
    "AVG": _average,
    "MIN": lambda values: _ordered(values)[0],
    "MAX": lambda values: _ordered(values)[-1],
    "VAR": _variance,
    "STDDEV": _deviation,
    "MEDIAN": lambda values: _quantile(values, 0.5),
}


def result_kind(spec: AggregateSpec) -> Kind:
    """The kind of an aggregate's result."""
    if spec.function in ("COUNT", "COUNT_DISTINCT", "APPROX_COUNT_DISTINCT"):
        return Kind.INT
    chosen = ("MIN", "MAX", "FIRST", "LAST", "MIN_BY", "MAX_BY")
    averages = ("AVG", "AVG_DISTINCT") if spec.kind is Kind.DECIMAL else ()
    keeping = ("SUM", "SUM_DISTINCT", *chosen, *averages)
    return spec.kind if spec.function in keeping else Kind.FLOAT
