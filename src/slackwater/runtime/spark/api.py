"""Queries on ordinary DataFrames of Spark, returning ordinary DataFrames of Spark."""

from __future__ import annotations

import os
import warnings
from collections.abc import Mapping, Sequence
from typing import Any, Literal, overload

from pyspark.sql import DataFrame, SparkSession

from slackwater.core.errors import UsageError
from slackwater.core.quality import Complete, Quality, clause
from slackwater.runtime.spark import output_schema
from slackwater.runtime.spark.in_front import computed_in_front
from slackwater.runtime.spark.progress import watch_rejections
from slackwater.runtime.spark.queries import Outputs, alone
from slackwater.runtime.spark.query import planned_over, read_by
from slackwater.runtime.spark.relations import with_lookups
from slackwater.runtime.targets import capped, micros

Give = Literal["results", "outputs", "late", "rejected"]
State = str | os.PathLike[str] | None


@overload
def sql(
    spark: SparkSession, query: str, /, *, give: Literal["outputs"], time: str = ..., time_unit: str = ...,
    shards: int | None = ..., state: State = ..., **streams: DataFrame,
) -> Outputs: ...  # fmt: skip
@overload
def sql(
    spark: SparkSession, query: str, /, *, give: Literal["results", "late", "rejected"] = ..., time: str = ...,
    time_unit: str = ...,
    shards: int | None = ..., state: State = ..., **streams: DataFrame,
) -> DataFrame: ...  # fmt: skip
def sql(
    spark: SparkSession,
    query: str,
    /,
    *,
    time: str = "ts",
    time_unit: str = "ms",
    shards: int | None = None,
    state: State = None,
    give: Give = "results",
    **streams: DataFrame,
) -> DataFrame | Outputs:
    """A query in the language, over named streams.

    `time` names the event-time column, a timestamp or a number of `time_unit`s ("s", "ms", "us" or "ns"). With
    `give="outputs"`, results, late rows, rejected rows and progress are all to be had from one run:

        outputs = sw.sql(spark, "SELECT ... WITH RECALL 0.99 OVER 1 MINUTE", give="outputs", o=orders, p=payments)
        outputs.start(results="out/pairs", late="out/late", rejected="out/rejected", checkpoint="out/checkpoint")

    What is started with `writeStream` keeps its state in a folder that all machines share: `state`, else the session's
    setting `spark.slackwater.state`, else a folder beside `spark.sql.streaming.checkpointLocation`.

    Batch DataFrames are complete, so their answer is.
    """
    return _over(spark, query, streams, time, time_unit, shards, state, give, changing=False)


def changes(
    spark: SparkSession,
    query: str,
    /,
    *,
    time: str = "ts",
    time_unit: str = "ms",
    shards: int | None = None,
    state: State = None,
    **streams: DataFrame,
) -> DataFrame:
    """What a query changes, row by row, as `sw.sql` gives the rows of a query that changes nothing.

        rows = sw.changes(spark, "SELECT ... EMIT IN ORDER WITH CORRECTIONS FOR 1 HOUR", o=orders, p=payments)

    Two columns come behind those of the query: `_change` is insert, update or delete, and `_version` counts the changes
    of one key from 0 on. The row with the highest version is true; one that is deleted is not there. A sink that does
    this is `sw.upsert`.
    """
    return _over(spark, query, streams, time, time_unit, shards, state, "results", changing=True)  # type: ignore[return-value]


def join(
    streams: Mapping[str, DataFrame],
    *,
    time: str,
    within: str | Mapping[str, str],
    where: str,
    select: str = "*",
    quality: Quality | str | None = None,
    at_most: str | None = None,
    emit: str | None = None,
    options: Mapping[str, object] | None = None,
    shards: int | None = None,
    state: State = None,
    time_unit: str = "ms",
    give: Give = "results",
) -> Any:
    """A window join: rows of all streams that lie within a duration of each other and satisfy a condition.

        clicked = sw.join(
            {"i": impressions, "c": clicks},
            time="ts",
            within="30 seconds",
            where="i.ad = c.ad",
            quality=sw.recall(0.99, over="1 minute"),
        )

    `within` is one duration, or one a stream. `quality` is a target such as `sw.recall(0.99)`, or its text, such as
    "RECALL 0.99 OVER 1 MINUTE"; `at_most` bounds the slack that is chosen for it, as in "10 minutes". `emit` is what
    the language has behind EMIT, such as "ON ARRIVAL". `options` are those of the language, such as
    `{"idle_timeout": "30 seconds", "clock_by": ["host", "channel"]}`.
    """
    if not isinstance(streams, Mapping):
        raise UsageError(
            'name the streams: sw.join({"a": a, "b": b}, ...); the condition speaks of them by these names'
        )
    missing = [name for name in streams if not isinstance(within, str) and name not in within]
    if missing:
        raise UsageError(f"within says nothing of stream {missing[0]}; give it a duration, or give one for all")
    sizes = {name: within if isinstance(within, str) else within[name] for name in streams}
    sources = ", ".join(
        f"{_quoted(name)} [RANGE {micros(size, 'within')} MICROSECONDS]" for name, size in sizes.items()
    )
    # Query text of ours, for our own parser: it reads names and expressions from an allow-list and runs nothing else.
    text = f"SELECT {select} FROM {sources} WHERE {where}"  # noqa: S608
    text += _leaving(emit) + _waiting(capped(quality, at_most), options)
    return _over(_session_of(streams), text, streams, time, time_unit, shards, state, give)


def aggregate(
    stream: DataFrame,
    *,
    time: str,
    window: str,
    slide: str | None = None,
    by: str | Sequence[str] = (),
    select: Mapping[str, str],
    where: str | None = None,
    quality: Quality | str | None = None,
    at_most: str | None = None,
    emit: str | None = None,
    options: Mapping[str, object] | None = None,
    shards: int | None = None,
    state: State = None,
    time_unit: str = "ms",
    give: Give = "results",
) -> Any:
    """Aggregates over windows of event time, as `groupBy(window(...))` has them.

        totals = sw.aggregate(
            readings,
            time="ts",
            window="1 minute",
            slide="10 seconds",
            by="house",
            select={"total": "SUM(load)", "peak": "MAX(load)"},
            quality=sw.relative_error("1%"),
        )

    `select` maps names of output columns to aggregate calls, `by` is a column or several. `quality`, `at_most`, `emit`
    and `options` are as for `join`.
    """
    if not isinstance(select, Mapping):
        raise UsageError('name the aggregates: select={"total": "SUM(load)"}')
    keys = ", ".join(_quoted(name) for name in ([by] if isinstance(by, str) else by))
    items = ", ".join([*([keys] if keys else []), *(f"{call} AS {_quoted(name)}" for name, call in select.items())])
    slides = f" SLIDE {micros(slide, 'slide')} MICROSECONDS" if slide else ""
    text = f"SELECT {items} FROM s [RANGE {micros(window, 'window')} MICROSECONDS{slides}]"  # noqa: S608
    text += f" WHERE {where}" if where else ""
    text += f" GROUP BY {keys}" if keys else ""
    text += _leaving(emit) + _waiting(capped(quality, at_most), options)
    return _over(_session_of({"stream": stream}), text, {"s": stream}, time, time_unit, shards, state, give)


def _over(
    spark: SparkSession,
    query: str,
    streams: Mapping[str, DataFrame],
    time: str,
    time_unit: str,
    shards: int | None,
    state: State,
    give: Give,
    changing: bool | None = None,
) -> DataFrame | Outputs:
    """A query over streams; where it is said whether its rows change what has left, another one is refused."""
    if give not in Give.__args__:  # type: ignore[attr-defined]
        raise UsageError(f"give={give!r}; it is one of results, outputs, late, rejected")
    query, streams = with_lookups(spark, query, streams)
    query, streams = computed_in_front(query, streams)
    _, plan = planned_over(query, streams, time, time_unit, stacklevel=3)
    if changing is False and plan.emit.changes and give == "results":
        raise UsageError(
            f"rows of EMIT {plan.emit} change what has left: slackwater.changes(spark, query, ...) gives them as a"
            " DataFrame with _change and _version, and slackwater.upsert(...) applies them"
        )
    if changing and not plan.emit.changes:
        raise UsageError(
            "rows of this query change nothing; slackwater.sql gives them, or write EMIT IN ORDER WITH CORRECTIONS, or"
            " EMIT EARLY"
        )
    one = alone(spark, plan, query, read_by(plan, streams), time, time_unit, shards, state)
    watch_rejections(spark)
    if give == "outputs":
        return Outputs(one)
    program = one.by_hand(stacklevel=3)
    if give == "results":
        return program.results()
    warnings.warn(
        f"give={give!r} is a query of its own, with micro-batches and a slack of its own; rows of the same run as the"
        ' results come with give="outputs"',
        stacklevel=3,
    )
    out = program.emitted()
    return output_schema.late(out) if give == "late" else output_schema.rejected(out)


def _session_of(streams: Mapping[str, Any]) -> SparkSession:
    sessions: list[SparkSession] = [one.sparkSession for one in streams.values() if hasattr(one, "sparkSession")]
    if not sessions:
        raise UsageError("there is no DataFrame of Spark among the streams; `sw.replay` takes tables")
    return sessions[0]


def _quoted(name: str) -> str:
    return '"' + name.replace('"', '""') + '"'


def _leaving(emit: str | None) -> str:
    return " " if emit is None else f" EMIT {emit} "


def _waiting(quality: Quality | None, options: Mapping[str, object] | None) -> str:
    waiting = clause(quality or Complete())
    stated = {name: value for name, value in (options or {}).items() if value is not None}
    if not stated:
        return f"WITH {waiting}"
    return f"WITH {waiting} OPTIONS ({', '.join(f'{name} = {_option(value)}' for name, value in stated.items())})"


def _option(value: object) -> str:
    """A value as the language writes it: numbers and truth values bare, everything else in quotes; names in a list have
    commas between them."""
    if isinstance(value, list | tuple):
        return _option(", ".join(map(str, value)))
    if isinstance(value, bool | int | float):
        return str(value).upper()
    return "'" + str(value).replace("'", "''") + "'"
