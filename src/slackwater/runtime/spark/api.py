"""Queries on ordinary streaming DataFrames, returning ordinary streaming DataFrames."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Literal

from pyspark.sql import DataFrame, SparkSession

from slackwater.model.quality import Complete, Delay, NoWait, Quality, Recall, RelativeError
from slackwater.model.time import parse_duration
from slackwater.runtime.spark.planned import planned_over
from slackwater.runtime.spark.query import aside, emitted, results

Give = Literal["results", "aside"]


def sql(
    spark: SparkSession,
    query: str,
    /,
    *,
    time: str = "ts",
    time_unit: str = "ms",
    shards: int | None = None,
    give: Give = "results",
    **streams: DataFrame,
) -> DataFrame:
    """A query in the language, over named streams.

    `give="aside"` gives, in place of the results, the tuples that came late or were rejected, with the reason.
    """
    return _over(spark, query, streams, time, time_unit, shards, give)


def _over(
    spark: SparkSession,
    query: str,
    streams: Mapping[str, DataFrame],
    time: str,
    time_unit: str,
    shards: int | None,
    give: Give,
) -> DataFrame:
    _, plan, count = planned_over(spark, query, streams, time, shards, stacklevel=3)
    out = emitted(spark, plan, streams, count, time_unit, live=True)
    return aside(out) if give == "aside" else results(out, plan)


def join(
    streams: Mapping[str, DataFrame],
    *,
    time: str,
    within: str | Mapping[str, str],
    where: str,
    select: str = "*",
    quality: Quality | None = None,
    options: Mapping[str, str] | None = None,
    time_unit: str = "ms",
    shards: int | None = None,
    give: Give = "results",
) -> DataFrame:
    """A window join; `within` is one duration, or one a stream.

    `options` are those of the language, such as `{"idle_timeout": "30 seconds"}`.
    """
    sizes = {name: within if isinstance(within, str) else within[name] for name in streams}
    sources = ", ".join(f'"{name}" [RANGE {_micros(size)}]' for name, size in sizes.items())
    # Query text of ours, for our own parser: it reads names and expressions from an allow-list and runs nothing else.
    text = f"SELECT {select} FROM {sources} WHERE {where} {_waiting(quality, options)}"  # noqa: S608
    spark = next(iter(streams.values())).sparkSession
    return _over(spark, text, streams, time, time_unit, shards, give)


def aggregate(
    stream: DataFrame,
    *,
    time: str,
    window: str,
    slide: str | None = None,
    by: Sequence[str] = (),
    select: Mapping[str, str],
    where: str | None = None,
    quality: Quality | None = None,
    options: Mapping[str, str] | None = None,
    time_unit: str = "ms",
    shards: int | None = None,
    give: Give = "results",
) -> DataFrame:
    """Window aggregates; `select` maps output names to aggregate calls such as `SUM(load)`."""
    keys = ", ".join(f'"{name}"' for name in by)
    items = ", ".join([*([keys] if keys else []), *(f'{call} AS "{name}"' for name, call in select.items())])
    slides = f" SLIDE {_micros(slide)}" if slide else ""
    text = f"SELECT {items} FROM s [RANGE {_micros(window)}{slides}]"  # noqa: S608
    text += f" WHERE {where}" if where else ""
    text += f" GROUP BY {keys}" if keys else ""
    text += f" {_waiting(quality, options)}"
    return _over(stream.sparkSession, text, {"s": stream}, time, time_unit, shards, give)


def _micros(text: str) -> str:
    return f"{parse_duration(text)} MICROSECONDS"


def _waiting(quality: Quality | None, options: Mapping[str, str] | None) -> str:
    waiting = str(quality or Complete())
    if isinstance(quality, Delay):
        waiting = f"DELAY {quality.slack} MICROSECONDS"
    elif isinstance(quality, Recall):
        waiting = f"RECALL {quality.target!r} OVER {quality.over} MICROSECONDS"
    elif isinstance(quality, RelativeError):
        waiting = f"ERROR {quality.bound!r} CONFIDENCE {quality.confidence!r}"
    if not options:
        return f"WITH {waiting}"
    quoted = (f"{name} = '{value.replace(chr(39), chr(39) * 2)}'" for name, value in options.items())
    return f"WITH {waiting} OPTIONS ({', '.join(quoted)})"


def complete() -> Complete:
    """Never let out early."""
    return Complete()


def no_wait() -> NoWait:
    """Wait for the slowest stream only."""
    return NoWait()


def delay(duration: str) -> Delay:
    """Wait so long.

    >>> delay("2 seconds").slack
    2000000
    """
    return Delay(parse_duration(duration))


def recall(target: float, over: str = "1 minute") -> Recall:
    """At least this share of a join's results, measured over the last so long.

    >>> recall(0.99, over="30 seconds").over
    30000000
    """
    return Recall(target, parse_duration(over))


def relative_error(bound: float, confidence: float = 0.95) -> RelativeError:
    """An aggregate off by at most this share of its value, in this share of the windows.

    >>> relative_error(0.01).confidence
    0.95
    """
    return RelativeError(bound, confidence)
