"""`slackwater.advise`: the advice on a query over tables, files, or DataFrames that are watched for a while."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from slackwater.advice.answer import Advice
from slackwater.advice.over import AdviceRequest, advise_over
from slackwater.core.errors import QueryError, UsageError
from slackwater.core.time import parse_duration
from slackwater.operators.pipeline import Epochs, check_epochs
from slackwater.sources.binding import bind_to_tables
from slackwater.sources.tabular import as_tables, check_unit


def advise(
    *given: Any,
    epochs: Epochs | None = None,
    slacks: Sequence[str] = (),
    error: float | None = None,
    for_spark: bool = False,
    watch: str | None = None,
    time: str = "ts",
    time_unit: str = "ms",
    arrival_time: str | None = None,
    **named: Any,
) -> Advice:
    """Which slack would have lost what, and what each would have cost.

    Streams are what `replay` takes, by name, `sw.advise(text, a=rows, b="b.parquet")`, or one mapping after the text.
    `slacks` are looked at beside those that suggest themselves. `error` is how far off a window of an aggregate may be.
    `for_spark` adds the `withWatermark` of Spark's own operators. Streaming DataFrames are watched for a while:
    `sw.advise(spark, text, a=df, watch="1 minute")`.

    >>> import pyarrow as pa
    >>> ticks = pa.table({"ts": [1000, 3000, 2000, 9000], "v": [1, 1, 1, 1]})
    >>> advice = advise("SELECT SUM(v) AS total FROM s [RANGE 1 SECOND]", s=ticks)
    >>> advice.curve.at(0), advice.curve.least(0.99)
    (0.75, 1000)
    """
    check_unit(time_unit)
    check_epochs(epochs)
    query, streams = _told(given, named)
    asked = AdviceRequest(
        epochs or Epochs(each_tuple=True), tuple(_micros("slacks", one) for one in slacks), error, for_spark
    )  # fmt: skip
    if error is not None and not 0 <= error < 1:
        raise UsageError(f"error {error:g}: it is a share, at least 0 and below 1")
    if not (asked.epochs.each_tuple or asked.epochs.tuples or asked.epochs.span):
        raise UsageError("epochs: say how long they are, as in slackwater.Epochs(tuples=1000)")
    ranks = None
    if any(hasattr(one, "sparkSession") for one in streams.values()):
        from slackwater.runtime.spark.watching import watched

        tables, ranks = watched(streams, None if watch is None else _micros("watch", watch))
    elif watch is not None:
        raise UsageError("watch is for streaming DataFrames; tables and files are read as they are")
    else:
        tables = as_tables(streams)
    bound = bind_to_tables(query, tables, time)
    if bound.explain:
        raise QueryError("EXPLAIN has no results to lose; leave it out")
    return advise_over(bound.query, tables, time_unit, asked, arrival_time, ranks)


def _told(given: tuple[Any, ...], named: Mapping[str, Any]) -> tuple[str, dict[str, Any]]:
    """The query and its streams; a session in front of them is not needed, and may be there."""
    rest = given[1:] if given and not isinstance(given[0], str) else given
    if not rest or not isinstance(rest[0], str) or len(rest) > 2:
        raise UsageError("say the query and its streams, as in sw.advise('SELECT ...', a=rows)")
    if len(rest) == 2 and not isinstance(rest[1], Mapping):
        raise UsageError("streams are given by name, as in sw.advise('SELECT ...', a=rows)")
    return rest[0], {**(rest[1] if len(rest) == 2 else {}), **named}


def _micros(name: str, text: str) -> int:
    try:
        return parse_duration(text)
    except ValueError as error:
        raise UsageError(f"{name}: {error}") from None
